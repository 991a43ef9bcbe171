// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command mig-faker is there for its DaemonSet, which selects no node of the lab.
package main

import (
	"log"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
)

func main() {
	ctx := start.Start("mig-faker")
	log.Print("MIG is not part of the stand-in: nothing to do but wait")
	<-ctx.Done()
}
