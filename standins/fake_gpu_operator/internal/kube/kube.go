// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package kube holds what every command of the stand-in needs to talk to the API server it runs in.
package kube

import (
	"context"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Client reads the service account of the pod.
func Client() corev1client.CoreV1Interface {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatalf("Failed to get cluster config: %v", err)
	}
	config.QPS, config.Burst = 50, 100
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		log.Fatalf("Failed to create Kubernetes client: %v", err)
	}
	return client
}

// listWatch lists first and watches then: fake clients serve it too.
type listWatch struct{ cache.ListWatch }

func (*listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// Source is the part of a typed client that an informer needs.
type Source[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Informer watches a source, narrowed by selectors, and calls the handler until Run's context ends.
func Informer[L runtime.Object](source Source[L], selectors metav1.ListOptions, object runtime.Object, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
		return options
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &listWatch{cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return source.List(ctx, narrow(options))
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return source.Watch(ctx, narrow(options))
			},
		}},
		ObjectType: object,
		Handler:    handler,
	})
}
