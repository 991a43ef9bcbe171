// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package statusupdater

import (
	"context"
	"encoding/json"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

const (
	exporterLabel = "nvidia.com/gpu.deploy.dcgm-exporter"
	deployed      = "true"
)

// realNodeLabels stay off KWOK nodes, where no container can run.
var realNodeLabels = []string{
	"nvidia.com/gpu.deploy.device-plugin",
	"nvidia.com/gpu.deploy.dra-plugin-gpu",
	"nvidia.com/gpu.deploy.compute-domain-dra-plugin",
}

// Nodes gives each node of a pool its topology ConfigMap and the labels that the DaemonSets select.
type Nodes struct {
	Core      corev1client.CoreV1Interface
	Namespace string
	// Cluster was read once, when the process started.
	Cluster *topology.Cluster
}

// Run watches the nodes until the context ends.
func (n *Nodes) Run(ctx context.Context) {
	_, controller := kube.Informer(n.Core.Nodes(), metav1.ListOptions{}, &corev1.Node{}, cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			node, ok := nodeOf(object)
			if !ok {
				return false
			}
			_, pooled := node.Labels[n.Cluster.NodePoolLabelKey]
			return pooled
		},
		// Each event has a goroutine of its own, so an addition can overtake the removal before it.
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) {
				if node, ok := nodeOf(object); ok {
					go n.Add(ctx, node)
				}
			},
			DeleteFunc: func(object any) {
				if node, ok := nodeOf(object); ok {
					go n.Delete(ctx, node)
				}
			},
		},
	})
	controller.RunWithContext(ctx)
}

func nodeOf(object any) (*corev1.Node, bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	node, ok := object.(*corev1.Node)
	return node, ok
}

// Add makes the ConfigMap of a node that has none and labels the node.
func (n *Nodes) Add(ctx context.Context, node *corev1.Node) {
	if err := n.createTopology(ctx, node); err != nil {
		log.Printf("Failed to create node topology of %s: %v", node.Name, err)
		return
	}
	if err := n.label(ctx, node, deployed); err != nil {
		log.Printf("Failed to label node %s: %v", node.Name, err)
	}
}

// createTopology never computes again what exists: a changed pool size reaches a node only after its ConfigMap was deleted.
func (n *Nodes) createTopology(ctx context.Context, node *corev1.Node) error {
	_, err := topology.ReadNode(ctx, n.Core, n.Namespace, node.Name)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	name := node.Labels[n.Cluster.NodePoolLabelKey]
	pool, ok := n.Cluster.NodePools[name]
	if !ok {
		log.Printf("Node %s is in the pool %q, which the topology does not have", node.Name, name)
		return nil
	}
	err = topology.CreateNode(ctx, n.Core, n.Namespace, node, topology.NewNode(node.Name, pool, n.Cluster.MigStrategy))
	if err == nil {
		log.Printf("Created topology of node %s: %d x %s", node.Name, pool.GpuCount, pool.GpuProduct)
	}
	return err
}

// Delete takes back what Add gave, when a node leaves its pool or the cluster.
func (n *Nodes) Delete(ctx context.Context, node *corev1.Node) {
	err := n.Core.ConfigMaps(n.Namespace).Delete(ctx, topology.ConfigMapName(node.Name), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		log.Printf("Failed to delete node topology of %s: %v", node.Name, err)
	}
	if err := n.label(ctx, node, nil); err != nil && !apierrors.IsNotFound(err) {
		log.Printf("Failed to unlabel node %s: %v", node.Name, err)
	}
}

func (n *Nodes) label(ctx context.Context, node *corev1.Node, value any) error {
	labels := map[string]any{exporterLabel: value}
	if node.Annotations[topology.KwokAnnotation] != topology.KwokFake {
		for _, name := range realNodeLabels {
			labels[name] = value
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = n.Core.Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
