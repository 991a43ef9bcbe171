// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command status-exporter publishes the topology of the node it runs on.
package main

import (
	"time"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/exporter"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
)

func main() {
	ctx := start.Start("status-exporter")
	metrics := &exporter.Metrics{}
	node := &exporter.Node{
		Core:      kube.Client(),
		Namespace: start.Env("TOPOLOGY_CM_NAMESPACE"),
		Name:      start.Env("NODE_NAME"),
		Tick:      10 * time.Second,
		Metrics:   metrics,
	}
	go node.Run(ctx)
	metrics.Serve(ctx, exporter.MetricsAddress)
}
