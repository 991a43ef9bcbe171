// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package topology

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

const namespace = "gpu-operator"

func TestGpuIDIsTheSameEveryTime(t *testing.T) {
	// python3 -c 'import uuid; print(uuid.uuid5(uuid.UUID(int=0), "gpu-lab-0"))'
	if got, want := GpuID("gpu-lab", 0), "GPU-5d6ef7f8-ec68-5080-b3c4-e35db21bdeec"; got != want {
		t.Errorf("GpuID = %s, want %s", got, want)
	}
	if GpuID("gpu-lab", 0) == GpuID("gpu-lab", 1) || GpuID("gpu-lab", 0) == GpuID("gpu-a", 0) {
		t.Error("two cards have one id")
	}
}

func TestCreatedConfigMap(t *testing.T) {
	ctx := context.Background()
	core := fake.NewClientset().CoreV1()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-a", Annotations: map[string]string{KwokAnnotation: "fake", "other": "x"}}}
	if err := CreateNode(ctx, core, namespace, node, NewNode("gpu-a", NodePool{GpuProduct: "Tesla-K80", GpuCount: 1, GpuMemory: 11441}, "mixed")); err != nil {
		t.Fatal(err)
	}
	configMap, err := core.ConfigMaps(namespace).Get(ctx, "topology-gpu-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `gpuMemory: 11441
gpuProduct: Tesla-K80
gpus:
- id: ` + GpuID("gpu-a", 0) + `
  status:
    allocatedBy:
      container: ""
      namespace: ""
      pod: ""
    podGpuUsageStatus: {}
migStrategy: mixed
`
	if configMap.Data[Key] != want {
		t.Errorf("content:\n%s\nwant:\n%s", configMap.Data[Key], want)
	}
	if len(configMap.Labels) != 2 || configMap.Labels["node-name"] != "gpu-a" || configMap.Labels["node-topology"] != "true" {
		t.Errorf("labels %v", configMap.Labels)
	}
	if len(configMap.Annotations) != 1 || configMap.Annotations[KwokAnnotation] != "fake" {
		t.Errorf("annotations %v", configMap.Annotations)
	}
	if len(configMap.OwnerReferences) != 0 {
		t.Errorf("owners %v", configMap.OwnerReferences)
	}
}

func TestApplyBringsADeletedConfigMapBackWithoutTheAnnotation(t *testing.T) {
	ctx := context.Background()
	core := fake.NewClientset().CoreV1()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-a", Annotations: map[string]string{KwokAnnotation: "fake"}}}
	content := NewNode("gpu-a", NodePool{GpuCount: 2}, "mixed")
	if err := CreateNode(ctx, core, namespace, node, content); err != nil {
		t.Fatal(err)
	}
	if err := core.ConfigMaps(namespace).Delete(ctx, "topology-gpu-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ApplyNode(ctx, core, namespace, "gpu-a", content); err != nil {
		t.Fatal(err)
	}
	configMap, err := core.ConfigMaps(namespace).Get(ctx, "topology-gpu-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := configMap.Annotations[KwokAnnotation]; kept {
		t.Error("the annotation came back")
	}
	if strings.Count(configMap.Data[Key], "id: GPU-") != 2 {
		t.Errorf("content %s", configMap.Data[Key])
	}
}

func TestReadCluster(t *testing.T) {
	ctx := context.Background()
	configMap := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "topology", Namespace: namespace}, Data: data}
	}
	core := fake.NewClientset(configMap(map[string]string{Key: "nodePools: {big: {gpuCount: 8, gpuProduct: X, gpuMemory: 5}}\nnodePoolLabelKey: a/b\n"})).CoreV1()
	cluster, err := ReadCluster(ctx, core, namespace, "topology")
	if err != nil {
		t.Fatal(err)
	}
	if cluster.NodePoolLabelKey != "a/b" || cluster.MigStrategy != "mixed" || cluster.NodePools["big"] != (NodePool{GpuProduct: "X", GpuCount: 8, GpuMemory: 5}) {
		t.Errorf("cluster %+v", cluster)
	}
	if _, err := ReadCluster(ctx, fake.NewClientset().CoreV1(), namespace, "topology"); !apierrors.IsNotFound(err) {
		t.Errorf("missing: %v", err)
	}
	for name, data := range map[string]map[string]string{"no key": {"x": "y"}, "no YAML": {Key: "a: ["}} {
		if _, err := ReadCluster(ctx, fake.NewClientset(configMap(data)).CoreV1(), namespace, "topology"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
