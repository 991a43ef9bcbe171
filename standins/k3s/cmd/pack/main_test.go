// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gsb.fake_gpu_lab/standins/k3s/internal/payload"
)

func TestPack(t *testing.T) {
	dir := t.TempDir()
	launcher, folder, out := filepath.Join(dir, "launcher"), filepath.Join(dir, "folder"), filepath.Join(dir, "k3s")
	if err := os.MkdirAll(filepath.Join(folder, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(launcher, []byte("launcher"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range payload.Programs {
		if err := pack(out, launcher, folder); err == nil || !strings.Contains(err.Error(), "bin/"+name) {
			t.Errorf("%s is missing: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, "bin", name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack(out, launcher, folder); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o755 {
		t.Error(info.Mode(), err)
	}
	p, err := payload.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if left, _ := filepath.Glob(filepath.Join(dir, ".pack-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
