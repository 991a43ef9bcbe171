// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package kwokplugin gives KWOK nodes, which have no kubelet that a device plugin could register with, their GPUs by
// writing the node's status.
package kwokplugin

import (
	"context"
	"encoding/json"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// Plugin looks at a ConfigMap when it appears, and never again: a changed count takes effect only with a new ConfigMap
// or a new process.
type Plugin struct {
	Core      corev1client.CoreV1Interface
	Namespace string
}

// Run watches the ConfigMaps until the context ends.
func (p *Plugin) Run(ctx context.Context) {
	_, controller := kube.Informer(p.Core.ConfigMaps(p.Namespace), metav1.ListOptions{LabelSelector: topology.NodeNameLabel}, &corev1.ConfigMap{}, cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			configMap := object.(*corev1.ConfigMap)
			if configMap.Annotations[topology.KwokAnnotation] != topology.KwokFake {
				return
			}
			if err := p.Add(ctx, configMap); err != nil {
				log.Printf("Failed to advertise %s: %v", configMap.Name, err)
			}
		},
	})
	controller.RunWithContext(ctx)
}

// Add writes the count of the ConfigMap into the status of its node.
func (p *Plugin) Add(ctx context.Context, configMap *corev1.ConfigMap) error {
	topologyOfNode, err := topology.NodeFrom(configMap)
	if err != nil {
		return err
	}
	patch, err := Patch(len(topologyOfNode.Gpus))
	if err != nil {
		return err
	}
	name := configMap.Labels[topology.NodeNameLabel]
	if _, err := p.Core.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	log.Printf("Node %s advertises %d %s", name, len(topologyOfNode.Gpus), topology.Resource)
	return nil
}

// Patch is a whole Node, as the original sends it: nodeInfo and the kubelet's port are in it with their zero values and
// overwrite what KWOK wrote.
func Patch(count int) ([]byte, error) {
	gpus := corev1.ResourceList{topology.Resource: *resource.NewQuantity(int64(count), resource.DecimalSI)}
	return json.Marshal(corev1.Node{Status: corev1.NodeStatus{Capacity: gpus, Allocatable: gpus}})
}
