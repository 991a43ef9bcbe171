// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"fmt"
	"os"
	"runtime"
)

var version = "v0.0.0+standin0"

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "--version" || os.Args[1] == "-v") {
		fmt.Printf("k3s version %s (standin)\ngo version %s\n", version, runtime.Version())
		return
	}
	os.Exit(2)
}
