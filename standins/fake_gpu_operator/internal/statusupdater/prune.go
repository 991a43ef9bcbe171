// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package statusupdater keeps the nodes' topology ConfigMaps.
package statusupdater

import (
	"context"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// Prune puts right, once at the start, what happened while no status-updater ran: cards of pods that are gone are freed,
// ConfigMaps of nodes that are gone are deleted. Every ConfigMap that was listed is applied in the end, one that was
// just deleted included, which brings it back: a race of the original that anybody who deletes a ConfigMap at this
// moment meets too.
func Prune(ctx context.Context, core corev1client.CoreV1Interface, namespace string) error {
	configMaps, err := core.ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: topology.NodeTopologyLabel + "=true"})
	if err != nil {
		return err
	}
	for i := range configMaps.Items {
		configMap := &configMaps.Items[i]
		if err := prune(ctx, core, namespace, configMap); err != nil {
			log.Printf("Failed to prune %s: %v", configMap.Name, err)
		}
	}
	return nil
}

func prune(ctx context.Context, core corev1client.CoreV1Interface, namespace string, configMap *corev1.ConfigMap) error {
	nodeName := configMap.Labels[topology.NodeNameLabel]
	node, err := topology.NodeFrom(configMap)
	if err != nil {
		return err
	}
	if _, err := core.Nodes().Get(ctx, nodeName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		if err := core.ConfigMaps(namespace).Delete(ctx, configMap.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		log.Printf("Deleted topology of node %s, which is gone", nodeName)
	} else if err != nil {
		return err
	}
	for i := range node.Gpus {
		holder := node.Gpus[i].Status.AllocatedBy
		if holder.Pod == "" {
			continue
		}
		pod, err := core.Pods(holder.Namespace).Get(ctx, holder.Pod, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			node.Gpus[i].Free()
		case err != nil:
			return err
		case pod.Spec.NodeName != nodeName || finished(pod):
			node.Gpus[i].Free()
		}
	}
	return topology.ApplyNode(ctx, core, namespace, nodeName, node)
}
