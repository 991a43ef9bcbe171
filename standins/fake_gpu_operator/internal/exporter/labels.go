// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package exporter publishes a node's topology as node labels and as metrics.
package exporter

import (
	"context"
	"maps"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Labels that a node with this topology gets.
func Labels(node *topology.Node) map[string]string {
	return map[string]string{
		"nvidia.com/gpu.product":  labelValue(node.GpuProduct),
		"nvidia.com/gpu.count":    strconv.Itoa(len(node.Gpus)),
		"nvidia.com/gpu.memory":   strconv.Itoa(node.GpuMemory),
		"nvidia.com/gpu.present":  "true",
		"nvidia.com/mig.strategy": node.MigStrategy,
		"run.ai/fake.gpu":         "true",
	}
}

func labelValue(text string) string {
	text = notInLabels.ReplaceAllString(text, "-")
	if len(text) > 63 {
		text = text[:63]
	}
	return strings.Trim(text, "-_.")
}

// SetLabels gets the node and puts it back, so that a change in between is a conflict.
func SetLabels(ctx context.Context, core corev1client.CoreV1Interface, name string, labels map[string]string) error {
	node, err := core.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before := maps.Clone(node.Labels)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, labels)
	if maps.Equal(before, node.Labels) {
		return nil
	}
	_, err = core.Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}
