// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package exporter

import (
	"context"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// Node exports the one real node that the pod runs on: when its ConfigMap changes, and at every tick.
type Node struct {
	Core      corev1client.CoreV1Interface
	Namespace string
	Name      string
	Tick      time.Duration
	Metrics   *Metrics
}

// Run exports until the context ends.
func (n *Node) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + topology.ConfigMapName(n.Name)}
	store, controller := kube.Informer(n.Core.ConfigMaps(n.Namespace), only, &corev1.ConfigMap{}, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
	})
	go controller.RunWithContext(ctx)
	ticker := time.NewTicker(n.Tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
		object, exists, err := store.GetByKey(n.Namespace + "/" + topology.ConfigMapName(n.Name))
		if err != nil || !exists {
			log.Printf("Node %s has no topology", n.Name)
			continue
		}
		if err := n.export(ctx, object.(*corev1.ConfigMap)); err != nil {
			log.Printf("Failed to export node %s, trying again in %s: %v", n.Name, n.Tick, err)
		}
	}
}

func (n *Node) export(ctx context.Context, configMap *corev1.ConfigMap) error {
	node, err := topology.NodeFrom(configMap)
	if err != nil {
		return err
	}
	n.Metrics.Set(n.Name, node)
	return SetLabels(ctx, n.Core, n.Name, Labels(node))
}
