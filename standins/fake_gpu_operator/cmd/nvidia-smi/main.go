// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command nvidia-smi prints the table of the fake GPUs that its pod has.
package main

import (
	"os"
	"time"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/smi"
)

func main() {
	call := smi.Smi{Server: smi.Server, Env: os.Getenv, Now: time.Now, Out: os.Stdout, Errors: os.Stderr}
	os.Exit(call.Run())
}
