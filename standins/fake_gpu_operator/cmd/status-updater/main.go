// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command status-updater keeps the nodes' topology ConfigMaps and labels.
package main

import (
	"log"
	"sync"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/statusupdater"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

func main() {
	ctx := start.Start("status-updater")
	core := kube.Client()
	namespace := start.Env("TOPOLOGY_CM_NAMESPACE")
	cluster, err := topology.ReadCluster(ctx, core, namespace, start.Env("TOPOLOGY_CM_NAME"))
	if err != nil {
		log.Fatalf("Failed to get cluster topology: %v", err)
	}
	if err := statusupdater.Prune(ctx, core, namespace); err != nil {
		log.Fatalf("Failed to list node topologies: %v", err)
	}
	nodes := &statusupdater.Nodes{Core: core, Namespace: namespace, Cluster: cluster}
	pods := &statusupdater.Pods{Core: core, Namespace: namespace}
	var running sync.WaitGroup
	running.Go(func() { nodes.Run(ctx) })
	running.Go(func() { pods.Run(ctx) })
	running.Wait()
}
