// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command device-plugin advertises the GPUs that the node's topology ConfigMap holds when it starts.
package main

import (
	"log"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/deviceplugin"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

func main() {
	ctx := start.Start("device-plugin")
	nodeName := start.Env("NODE_NAME")
	node, err := topology.ReadNode(ctx, kube.Client(), start.Env("TOPOLOGY_CM_NAMESPACE"), nodeName)
	if err != nil {
		log.Fatalf("Failed to get topology: %v", err)
	}
	if err := deviceplugin.Install(deviceplugin.SmiInImage, deviceplugin.SmiOnHost); err != nil {
		log.Fatalf("Failed to install nvidia-smi: %v", err)
	}
	if err := deviceplugin.New(nodeName, pluginapi.DevicePluginPath, len(node.Gpus)).Run(ctx); err != nil {
		log.Fatalf("Failed to serve devices: %v", err)
	}
}
