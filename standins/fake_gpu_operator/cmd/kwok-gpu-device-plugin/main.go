// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command kwok-gpu-device-plugin advertises GPUs on KWOK nodes.
package main

import (
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kwokplugin"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
)

func main() {
	ctx := start.Start("kwok-gpu-device-plugin")
	plugin := &kwokplugin.Plugin{Core: kube.Client(), Namespace: start.Env("TOPOLOGY_CM_NAMESPACE")}
	plugin.Run(ctx)
}
