// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package kwokplugin

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

const namespace = "gpu-operator"

func node(name string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Status: corev1.NodeStatus{
			Capacity:        corev1.ResourceList{"cpu": resource.MustParse("32")},
			Allocatable:     corev1.ResourceList{"cpu": resource.MustParse("32")},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10247}},
			NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "kwok-v0.8.0", Architecture: "amd64"},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

var kwok = map[string]string{topology.KwokAnnotation: "fake"}

func create(t *testing.T, core corev1client.CoreV1Interface, node *corev1.Node, count int) {
	t.Helper()
	if err := topology.CreateNode(context.Background(), core, namespace, node, topology.NewNode(node.Name, topology.NodePool{GpuCount: count}, "mixed")); err != nil {
		t.Fatal(err)
	}
}

func gpus(t *testing.T, core corev1client.CoreV1Interface, name string) (capacity, allocatable int64, status corev1.NodeStatus) {
	t.Helper()
	node, err := core.Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, a := node.Status.Capacity[topology.Resource], node.Status.Allocatable[topology.Resource]
	return c.Value(), a.Value(), node.Status
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestOnlyNewConfigMapsOfKwokNodesCount(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	core := fake.NewClientset(node("real", nil), node("gpu-a", kwok), node("gpu-b", kwok)).CoreV1()
	create(t, core, node("real", nil), 2)
	create(t, core, node("gpu-a", kwok), 2)
	plugin := &Plugin{Core: core, Namespace: namespace}
	go plugin.Run(ctx)
	has := func(name string, count int64) func() bool {
		return func() bool { c, a, _ := gpus(t, core, name); return c == count && a == count }
	}
	eventually(t, "2 on gpu-a", has("gpu-a", 2))

	grown := topology.NewNode("gpu-a", topology.NodePool{GpuCount: 4}, "mixed")
	if err := topology.ApplyNode(ctx, core, namespace, "gpu-a", grown); err != nil {
		t.Fatal(err)
	}
	create(t, core, node("gpu-b", kwok), 3)
	eventually(t, "3 on gpu-b", has("gpu-b", 3))
	if !has("gpu-a", 2)() {
		t.Error("a changed ConfigMap changed the node")
	}
	if c, a, _ := gpus(t, core, "real"); c != 0 || a != 0 {
		t.Errorf("the real node got %d/%d", c, a)
	}

	cancel()
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	go plugin.Run(ctx)
	eventually(t, "4 on gpu-a after a restart", has("gpu-a", 4))
}

func TestPatchBlanksWhatKwokWroteAndKeepsTheRest(t *testing.T) {
	patch, err := Patch(4)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Status struct {
			Capacity, Allocatable map[string]string
			NodeInfo              map[string]any
			DaemonEndpoints       map[string]map[string]any
			Conditions            any
		}
	}
	if err := json.Unmarshal(patch, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Status.Capacity["nvidia.com/gpu"] != "4" || sent.Status.Allocatable["nvidia.com/gpu"] != "4" || sent.Status.Conditions != nil {
		t.Errorf("patch %s", patch)
	}
	if version, there := sent.Status.NodeInfo["kubeletVersion"]; !there || version != "" {
		t.Errorf("nodeInfo %v", sent.Status.NodeInfo)
	}

	core := fake.NewClientset(node("gpu-a", kwok)).CoreV1()
	create(t, core, node("gpu-a", kwok), 4)
	configMap, err := core.ConfigMaps(namespace).Get(context.Background(), "topology-gpu-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Plugin{Core: core, Namespace: namespace}).Add(context.Background(), configMap); err != nil {
		t.Fatal(err)
	}
	_, _, status := gpus(t, core, "gpu-a")
	if status.NodeInfo.KubeletVersion != "" || status.DaemonEndpoints.KubeletEndpoint.Port != 0 {
		t.Errorf("nodeInfo %+v, port %d", status.NodeInfo, status.DaemonEndpoints.KubeletEndpoint.Port)
	}
	if cpu := status.Capacity["cpu"]; cpu.Value() != 32 || len(status.Conditions) != 1 {
		t.Errorf("status %+v", status)
	}
}
