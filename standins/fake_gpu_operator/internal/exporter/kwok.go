// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package exporter

import (
	"context"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// Kwok exports all KWOK nodes from one pod: the exporter's DaemonSet cannot run there.
type Kwok struct {
	Core      corev1client.CoreV1Interface
	Namespace string
	Metrics   *Metrics
}

// Run exports until the context ends.
func (k *Kwok) Run(ctx context.Context) {
	_, controller := kube.Informer(k.Core.ConfigMaps(k.Namespace), metav1.ListOptions{LabelSelector: topology.NodeNameLabel}, &corev1.ConfigMap{}, cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			configMap, ok := configMapOf(object)
			return ok && configMap.Annotations[topology.KwokAnnotation] == topology.KwokFake
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { k.export(ctx, object) },
			UpdateFunc: func(_, object any) { k.export(ctx, object) },
			DeleteFunc: func(object any) {
				if configMap, ok := configMapOf(object); ok {
					k.Metrics.Forget(configMap.Labels[topology.NodeNameLabel])
				}
			},
		},
	})
	controller.RunWithContext(ctx)
}

func configMapOf(object any) (*corev1.ConfigMap, bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	configMap, ok := object.(*corev1.ConfigMap)
	return configMap, ok
}

func (k *Kwok) export(ctx context.Context, object any) {
	configMap, _ := configMapOf(object)
	name := configMap.Labels[topology.NodeNameLabel]
	node, err := topology.NodeFrom(configMap)
	if err != nil {
		log.Printf("Failed to export node %s: %v", name, err)
		return
	}
	k.Metrics.Set(name, node)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return SetLabels(ctx, k.Core, name, Labels(node)) })
	if err != nil {
		log.Printf("Failed to label node %s: %v", name, err)
	}
}
