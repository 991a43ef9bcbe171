// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package exporter

import (
	"context"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	kubetesting "k8s.io/client-go/testing"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

const namespace = "gpu-operator"

func bare(name string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": "keep"}, Annotations: annotations}}
}

func create(t *testing.T, core corev1client.CoreV1Interface, node *corev1.Node, count int) {
	t.Helper()
	content := topology.NewNode(node.Name, topology.NodePool{GpuProduct: "Tesla-K80", GpuCount: count, GpuMemory: 11441}, "mixed")
	if err := topology.CreateNode(context.Background(), core, namespace, node, content); err != nil {
		t.Fatal(err)
	}
}

func labelsOf(t *testing.T, core corev1client.CoreV1Interface, name string) map[string]string {
	t.Helper()
	node, err := core.Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node.Labels
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

var exported = map[string]string{
	"type": "keep", "nvidia.com/gpu.product": "Tesla-K80", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "11441",
	"nvidia.com/gpu.present": "true", "nvidia.com/mig.strategy": "mixed", "run.ai/fake.gpu": "true",
}

func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{
		"Tesla-K80": "Tesla-K80", "NVIDIA A100 (80 GB)": "NVIDIA-A100-80-GB", " x ": "x", strings.Repeat("a", 62) + "--b": strings.Repeat("a", 62),
	} {
		if got := labelValue(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNodeIsLabelledAtOnceAndWhenItsTopologyChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	core := fake.NewClientset(bare("real", nil), bare("other", nil)).CoreV1()
	create(t, core, bare("real", nil), 2)
	create(t, core, bare("other", nil), 7)
	metrics := &Metrics{}
	go (&Node{Core: core, Namespace: namespace, Name: "real", Tick: time.Hour, Metrics: metrics}).Run(ctx)
	eventually(t, "labels", func() bool { return maps.Equal(labelsOf(t, core, "real"), exported) })
	content := topology.NewNode("real", topology.NodePool{GpuProduct: "Tesla-K80", GpuCount: 4, GpuMemory: 11441}, "mixed")
	if err := topology.ApplyNode(ctx, core, namespace, "real", content); err != nil {
		t.Fatal(err)
	}
	eventually(t, "count 4", func() bool { return labelsOf(t, core, "real")["nvidia.com/gpu.count"] == "4" })
	if got := labelsOf(t, core, "other"); len(got) != 1 {
		t.Errorf("another node was labelled: %v", got)
	}
}

func TestAConflictIsTriedAgainAtTheNextTick(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewClientset(bare("real", nil))
	conflicts := make(chan struct{}, 1)
	client.PrependReactor("update", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		select {
		case conflicts <- struct{}{}:
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "real", nil)
		default:
			return false, nil, nil
		}
	})
	core := client.CoreV1()
	create(t, core, bare("real", nil), 2)
	go (&Node{Core: core, Namespace: namespace, Name: "real", Tick: 50 * time.Millisecond, Metrics: &Metrics{}}).Run(ctx)
	eventually(t, "labels", func() bool { return maps.Equal(labelsOf(t, core, "real"), exported) })
	if len(conflicts) != 1 {
		t.Error("there was no conflict")
	}
}

func TestALabelThatSomebodyRemovedComesBackAtATick(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	core := fake.NewClientset(bare("real", nil)).CoreV1()
	create(t, core, bare("real", nil), 2)
	go (&Node{Core: core, Namespace: namespace, Name: "real", Tick: 50 * time.Millisecond, Metrics: &Metrics{}}).Run(ctx)
	labelled := func() bool { return maps.Equal(labelsOf(t, core, "real"), exported) }
	eventually(t, "labels", labelled)
	if _, err := core.Nodes().Update(ctx, bare("real", nil), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "labels again", labelled)
}

func TestKwokExportsKwokNodesOnly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kwok := map[string]string{topology.KwokAnnotation: "fake"}
	core := fake.NewClientset(bare("real", nil), bare("gpu-a", kwok), bare("gpu-b", kwok)).CoreV1()
	create(t, core, bare("real", nil), 2)
	create(t, core, bare("gpu-a", kwok), 2)
	metrics := &Metrics{}
	go (&Kwok{Core: core, Namespace: namespace, Metrics: metrics}).Run(ctx)
	eventually(t, "labels of gpu-a", func() bool { return maps.Equal(labelsOf(t, core, "gpu-a"), exported) })
	create(t, core, bare("gpu-b", kwok), 2)
	eventually(t, "labels of gpu-b", func() bool { return maps.Equal(labelsOf(t, core, "gpu-b"), exported) })
	if got := labelsOf(t, core, "real"); len(got) != 1 {
		t.Errorf("the real node was labelled: %v", got)
	}
	if err := core.ConfigMaps(namespace).Delete(ctx, "topology-gpu-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "metrics without gpu-a", func() bool { return !strings.Contains(scrape(metrics), `Hostname="gpu-a"`) })
	if !strings.Contains(scrape(metrics), `Hostname="gpu-b"`) {
		t.Error("metrics lost gpu-b")
	}
}

func scrape(metrics *Metrics) string {
	recorder := httptest.NewRecorder()
	metrics.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	return recorder.Body.String()
}

func TestMetrics(t *testing.T) {
	content := topology.NewNode("real", topology.NodePool{GpuProduct: "Tesla-K80", GpuCount: 2, GpuMemory: 11441}, "mixed")
	content.Gpus[1].Status.AllocatedBy = topology.ContainerRef{Namespace: "fake-lab", Pod: "gpu-1", Container: "main"}
	content.Gpus[1].Status.PodGpuUsageStatus["u1"] = topology.GpuUsageStatus{Utilization: topology.Range{Min: 10, Max: 30}, FbUsed: 11441}
	metrics := &Metrics{}
	metrics.Set("real", content)
	text := scrape(metrics)
	tail := `,namespace="fake-lab",pod="gpu-1",container="main"} `
	for _, want := range []string{
		"# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="` + topology.GpuID("real", 0) + `",device="nvidia0",modelName="Tesla-K80",Hostname="real",namespace="",pod="",container=""} 0` + "\n",
		`DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="` + topology.GpuID("real", 1) + `",device="nvidia1",modelName="Tesla-K80",Hostname="real"` + tail + "20\n",
		`Hostname="real"` + tail + "11441\n", // FB_USED
		`Hostname="real"` + tail + "0\n",     // FB_FREE
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s in\n%s", want, text)
		}
	}
}
