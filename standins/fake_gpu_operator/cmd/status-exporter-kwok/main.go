// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command status-exporter-kwok publishes the topologies of all KWOK nodes.
package main

import (
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/exporter"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
)

func main() {
	ctx := start.Start("status-exporter-kwok")
	metrics := &exporter.Metrics{}
	kwok := &exporter.Kwok{Core: kube.Client(), Namespace: start.Env("TOPOLOGY_CM_NAMESPACE"), Metrics: metrics}
	go kwok.Run(ctx)
	metrics.Serve(ctx, exporter.MetricsAddress)
}
