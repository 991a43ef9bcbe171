// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"testing"

	"github.com/coredns/caddy"
)

// A directive without its plugin would only be noticed when a Corefile uses it.
func TestEveryDirectiveHasItsPlugin(t *testing.T) {
	for _, directive := range directives {
		if _, err := caddy.DirectiveAction("dns", directive); err != nil {
			t.Errorf("%s: %v", directive, err)
		}
	}
}
