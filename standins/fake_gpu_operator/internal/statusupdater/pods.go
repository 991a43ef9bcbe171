// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package statusupdater

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// UtilizationAnnotation of a pod, "10-30" or "50", is how busy its cards pretend to be.
const UtilizationAnnotation = "run.ai/simulated-gpu-utilization"

// Pods writes into the nodes' ConfigMaps which pod has which card.
type Pods struct {
	Core      corev1client.CoreV1Interface
	Namespace string
}

// Run watches the pods of all namespaces until the context ends.
func (p *Pods) Run(ctx context.Context) {
	_, controller := kube.Informer(p.Core.Pods(metav1.NamespaceAll), metav1.ListOptions{}, &corev1.Pod{}, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.handle(ctx, object, p.Seen) },
		UpdateFunc: func(_, object any) { p.handle(ctx, object, p.Seen) },
		DeleteFunc: func(object any) { p.handle(ctx, object, p.Gone) },
	})
	controller.RunWithContext(ctx)
}

func (p *Pods) handle(ctx context.Context, object any, do func(context.Context, *corev1.Pod) error) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || len(wanted(pod)) == 0 {
		return
	}
	// An error is not tried again: the next event of the pod is the next chance.
	if err := do(ctx, pod); err != nil {
		log.Printf("Pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}

// wanted lists a container's name once for each card it asks for.
func wanted(pod *corev1.Pod) []string {
	var containers []string
	for _, container := range pod.Spec.Containers {
		limit := container.Resources.Limits[topology.Resource]
		for range limit.Value() {
			containers = append(containers, container.Name)
		}
	}
	return containers
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Seen gives a placed pod its cards, or takes them back when it has finished.
func (p *Pods) Seen(ctx context.Context, pod *corev1.Pod) error {
	if finished(pod) {
		return p.Gone(ctx, pod)
	}
	node, err := p.topologyOf(ctx, pod)
	if err != nil {
		return err
	}
	uid := string(pod.UID)
	for i := range node.Gpus {
		if !node.Gpus[i].HeldBy(pod.Namespace, pod.Name) {
			continue
		}
		if _, same := node.Gpus[i].Status.PodGpuUsageStatus[uid]; same {
			return nil
		}
		node.Gpus[i].Free()
	}
	containers := wanted(pod)
	for i := range node.Gpus {
		if len(containers) == 0 {
			break
		}
		gpu := &node.Gpus[i]
		if gpu.Status.AllocatedBy.Pod != "" {
			continue
		}
		gpu.Status.AllocatedBy = topology.ContainerRef{Namespace: pod.Namespace, Pod: pod.Name, Container: containers[0]}
		gpu.Status.PodGpuUsageStatus[uid] = topology.GpuUsageStatus{Utilization: utilization(pod), FbUsed: node.GpuMemory}
		containers = containers[1:]
	}
	if len(containers) > 0 {
		log.Printf("Pod %s/%s: topology of node %s has %d cards too few", pod.Namespace, pod.Name, pod.Spec.NodeName, len(containers))
	}
	return topology.ApplyNode(ctx, p.Core, p.Namespace, pod.Spec.NodeName, node)
}

// Gone frees the cards of a pod.
func (p *Pods) Gone(ctx context.Context, pod *corev1.Pod) error {
	node, err := p.topologyOf(ctx, pod)
	if err != nil {
		return err
	}
	freed := false
	for i := range node.Gpus {
		if node.Gpus[i].HeldBy(pod.Namespace, pod.Name) {
			node.Gpus[i].Free()
			freed = true
		}
	}
	if !freed {
		return nil
	}
	return topology.ApplyNode(ctx, p.Core, p.Namespace, pod.Spec.NodeName, node)
}

func (p *Pods) topologyOf(ctx context.Context, pod *corev1.Pod) (*topology.Node, error) {
	node, err := topology.ReadNode(ctx, p.Core, p.Namespace, pod.Spec.NodeName)
	if err != nil {
		return nil, fmt.Errorf("could not get node topology: %w", err)
	}
	return node, nil
}

func utilization(pod *corev1.Pod) topology.Range {
	text, ok := pod.Annotations[UtilizationAnnotation]
	if !ok {
		return topology.Range{Min: 100, Max: 100}
	}
	var low, high int
	if n, _ := fmt.Sscanf(text, "%d-%d", &low, &high); n == 1 {
		high = low
	} else if n == 0 {
		log.Printf("Pod %s/%s: annotation %s=%q is no percentage", pod.Namespace, pod.Name, UtilizationAnnotation, text)
		return topology.Range{Min: 100, Max: 100}
	}
	return topology.Range{Min: max(0, min(low, 100)), Max: max(0, min(max(low, high), 100))}
}
