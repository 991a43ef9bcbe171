// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package statusupdater

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

const (
	namespace = "gpu-operator"
	pool      = "run.ai/simulated-gpu-node-pool"
)

func cluster(count int) *topology.Cluster {
	return &topology.Cluster{
		NodePools:        map[string]topology.NodePool{"default": {GpuProduct: "Tesla-K80", GpuCount: count, GpuMemory: 11441}},
		NodePoolLabelKey: pool,
		MigStrategy:      "mixed",
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pool: "default", "keep": "me"}}}
}

func kwokNode(name string) *corev1.Node {
	made := node(name)
	made.Annotations = map[string]string{topology.KwokAnnotation: "fake"}
	return made
}

func pod(name, uid, on string, limits ...int64) *corev1.Pod {
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "fake-lab", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: on}}
	for i, limit := range limits {
		container := corev1.Container{Name: "c" + string(rune('0'+i))}
		if limit > 0 {
			container.Resources.Limits = corev1.ResourceList{topology.Resource: *resource.NewQuantity(limit, resource.DecimalSI)}
		}
		made.Spec.Containers = append(made.Spec.Containers, container)
	}
	return made
}

func read(t *testing.T, core corev1client.CoreV1Interface, name string) *topology.Node {
	t.Helper()
	content, err := topology.ReadNode(context.Background(), core, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func holders(content *topology.Node) []string {
	var names []string
	for _, gpu := range content.Gpus {
		by := gpu.Status.AllocatedBy
		names = append(names, by.Namespace+"/"+by.Pod+"/"+by.Container)
	}
	return names
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

func gpuLabels(node *corev1.Node) []string {
	var names []string
	for name, value := range node.Labels {
		if name != pool && name != "keep" {
			names = append(names, name+"="+value)
		}
	}
	slices.Sort(names)
	return names
}

func TestAddLabelsRealAndKwokNodes(t *testing.T) {
	ctx := context.Background()
	core := fake.NewClientset(node("real"), kwokNode("gpu-a")).CoreV1()
	nodes := &Nodes{Core: core, Namespace: namespace, Cluster: cluster(2)}
	for name, want := range map[string][]string{
		"real": {
			"nvidia.com/gpu.deploy.compute-domain-dra-plugin=true", "nvidia.com/gpu.deploy.dcgm-exporter=true",
			"nvidia.com/gpu.deploy.device-plugin=true", "nvidia.com/gpu.deploy.dra-plugin-gpu=true",
		},
		"gpu-a": {"nvidia.com/gpu.deploy.dcgm-exporter=true"},
	} {
		before, err := core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		nodes.Add(ctx, before)
		after, err := core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := gpuLabels(after); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: labels %v, want %v", name, got, want)
		}
		if got := len(read(t, core, name).Gpus); got != 2 {
			t.Errorf("%s: %d GPUs", name, got)
		}
		nodes.Delete(ctx, after)
		after, err = core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := gpuLabels(after); got != nil || after.Labels["keep"] != "me" {
			t.Errorf("%s: labels %v stay after Delete", name, after.Labels)
		}
		if _, err := topology.ReadNode(ctx, core, namespace, name); !apierrors.IsNotFound(err) {
			t.Errorf("%s: topology stays after Delete: %v", name, err)
		}
	}
}

func TestATopologyThatExistsIsNeverComputedAgain(t *testing.T) {
	ctx := context.Background()
	core := fake.NewClientset(node("real")).CoreV1()
	(&Nodes{Core: core, Namespace: namespace, Cluster: cluster(2)}).Add(ctx, node("real"))
	grown := &Nodes{Core: core, Namespace: namespace, Cluster: cluster(4)}
	grown.Add(ctx, node("real"))
	if got := len(read(t, core, "real").Gpus); got != 2 {
		t.Fatalf("%d GPUs after the pool grew, want the old 2", got)
	}
	if err := core.ConfigMaps(namespace).Delete(ctx, "topology-real", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	grown.Add(ctx, node("real"))
	if got := len(read(t, core, "real").Gpus); got != 4 {
		t.Fatalf("%d GPUs after the ConfigMap was deleted, want 4", got)
	}
}

func TestUnknownPoolGetsNoTopology(t *testing.T) {
	ctx := context.Background()
	other := node("real")
	other.Labels[pool] = "missing"
	core := fake.NewClientset(other).CoreV1()
	(&Nodes{Core: core, Namespace: namespace, Cluster: cluster(2)}).Add(ctx, other)
	if _, err := topology.ReadNode(ctx, core, namespace, "real"); !apierrors.IsNotFound(err) {
		t.Errorf("topology: %v", err)
	}
}

func TestTheLabelDecidesAndADeletedConfigMapStaysAway(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	core := fake.NewClientset(node("real"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}).CoreV1()
	go (&Nodes{Core: core, Namespace: namespace, Cluster: cluster(2)}).Run(ctx)
	has := func(name string) func() bool {
		return func() bool { _, err := topology.ReadNode(ctx, core, namespace, name); return err == nil }
	}
	hasNot := func(name string) func() bool {
		return func() bool { _, err := topology.ReadNode(ctx, core, namespace, name); return apierrors.IsNotFound(err) }
	}
	label := func(name, value string) {
		t.Helper()
		patch := `{"metadata":{"labels":{"` + pool + `":` + value + `}}}`
		if _, err := core.Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "topology of the labelled node", has("real"))
	if !hasNot("plain")() {
		t.Error("a node without the label has a topology")
	}
	label("plain", `"default"`)
	eventually(t, "topology after labelling", has("plain"))
	label("plain", "null")
	eventually(t, "topology gone after unlabelling", hasNot("plain"))

	if err := core.ConfigMaps(namespace).Delete(ctx, "topology-real", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Nodes().Patch(ctx, "real", types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"1"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	label("plain", `"default"`)
	eventually(t, "a later event handled", has("plain"))
	if !hasNot("real")() {
		t.Error("the deleted ConfigMap came back by itself")
	}
}

func TestPodsTakeAndGiveBackCards(t *testing.T) {
	ctx := context.Background()
	core := fake.NewClientset(node("real")).CoreV1()
	(&Nodes{Core: core, Namespace: namespace, Cluster: cluster(3)}).Add(ctx, node("real"))
	pods := &Pods{Core: core, Namespace: namespace}
	check := func(step string, want ...string) {
		t.Helper()
		if got := holders(read(t, core, "real")); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v, want %v", step, got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one, two := pod("gpu-1", "u1", "real", 1), pod("gpu-2", "u2", "real", 0, 1, 1)
	do(pods.Seen(ctx, one))
	check("first pod", "fake-lab/gpu-1/c0", "//", "//")
	usage := read(t, core, "real").Gpus[0].Status.PodGpuUsageStatus["u1"]
	if usage != (topology.GpuUsageStatus{Utilization: topology.Range{Min: 100, Max: 100}, FbUsed: 11441}) {
		t.Errorf("usage %+v", usage)
	}
	do(pods.Seen(ctx, one))
	do(pods.Seen(ctx, two))
	check("two containers", "fake-lab/gpu-1/c0", "fake-lab/gpu-2/c1", "fake-lab/gpu-2/c2")
	do(pods.Seen(ctx, pod("late", "u3", "real", 1)))
	check("no card left", "fake-lab/gpu-1/c0", "fake-lab/gpu-2/c1", "fake-lab/gpu-2/c2")
	do(pods.Gone(ctx, one))
	check("deleted", "//", "fake-lab/gpu-2/c1", "fake-lab/gpu-2/c2")
	if got := read(t, core, "real").Gpus[0].Status.PodGpuUsageStatus; len(got) != 0 {
		t.Errorf("usage stays: %v", got)
	}
	two.Status.Phase = corev1.PodFailed
	do(pods.Seen(ctx, two))
	check("failed", "//", "//", "//")
	do(pods.Seen(ctx, pod("gpu-1", "u1", "real", 1)))
	do(pods.Seen(ctx, pod("gpu-1", "u4", "real", 1)))
	check("made again under its name", "fake-lab/gpu-1/c0", "//", "//")
	if _, ok := read(t, core, "real").Gpus[0].Status.PodGpuUsageStatus["u4"]; !ok {
		t.Error("the usage is the old pod's")
	}
}

func TestOnlyPlacedPodsWithGpusCountAndAMissingTopologyIsNotTriedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewClientset(node("real"), pod("early", "u0", "real", 1))
	core := client.CoreV1()
	go (&Pods{Core: core, Namespace: namespace}).Run(ctx)
	eventually(t, "the early pod looked for its topology", func() bool {
		for _, action := range client.Actions() {
			if action.Matches("get", "configmaps") {
				return true
			}
		}
		return false
	})
	(&Nodes{Core: core, Namespace: namespace, Cluster: cluster(3)}).Add(ctx, node("real"))
	for _, created := range []*corev1.Pod{pod("waiting", "u1", "", 1), pod("plain", "u2", "real", 0), pod("gpu-1", "u3", "real", 1)} {
		if _, err := core.Pods("fake-lab").Create(ctx, created, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "gpu-1 in the topology", func() bool {
		return reflect.DeepEqual(holders(read(t, core, "real")), []string{"fake-lab/gpu-1/c0", "//", "//"})
	})
	early := pod("early", "u0", "real", 1)
	early.Labels = map[string]string{"touched": "1"}
	if _, err := core.Pods("fake-lab").Update(ctx, early, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the early pod after its next event", func() bool {
		return reflect.DeepEqual(holders(read(t, core, "real")), []string{"fake-lab/gpu-1/c0", "fake-lab/early/c0", "//"})
	})
	if err := core.Pods("fake-lab").Delete(ctx, "gpu-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gpu-1 out of the topology", func() bool {
		return reflect.DeepEqual(holders(read(t, core, "real")), []string{"//", "fake-lab/early/c0", "//"})
	})
}

func TestUtilization(t *testing.T) {
	for text, want := range map[string]topology.Range{
		"10-30": {Min: 10, Max: 30}, "50": {Min: 50, Max: 50}, "30-10": {Min: 30, Max: 30}, "-5": {}, "90-400": {Min: 90, Max: 100}, "much": {Min: 100, Max: 100},
	} {
		one := pod("gpu-1", "u1", "real", 1)
		one.Annotations = map[string]string{UtilizationAnnotation: text}
		if got := utilization(one); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestPrune(t *testing.T) {
	ctx := context.Background()
	finishedPod := pod("done", "u2", "real", 1)
	finishedPod.Status.Phase = corev1.PodSucceeded
	core := fake.NewClientset(node("real"), pod("runs", "u1", "real", 1), finishedPod, pod("moved", "u4", "elsewhere", 1)).CoreV1()
	(&Nodes{Core: core, Namespace: namespace, Cluster: cluster(4)}).Add(ctx, node("real"))
	content := read(t, core, "real")
	for i, name := range []string{"runs", "done", "gone", "moved"} {
		content.Gpus[i].Status.AllocatedBy = topology.ContainerRef{Namespace: "fake-lab", Pod: name, Container: "c0"}
	}
	if err := topology.ApplyNode(ctx, core, namespace, "real", content); err != nil {
		t.Fatal(err)
	}
	if err := Prune(ctx, core, namespace); err != nil {
		t.Fatal(err)
	}
	if got, want := holders(read(t, core, "real")), []string{"fake-lab/runs/c0", "//", "//", "//"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPruneAppliesTheOrphanItDeleted(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset()
	core := client.CoreV1()
	if err := topology.CreateNode(ctx, core, namespace, kwokNode("gpu-a"), topology.NewNode("gpu-a", topology.NodePool{GpuCount: 2}, "mixed")); err != nil {
		t.Fatal(err)
	}
	if err := Prune(ctx, core, namespace); err != nil {
		t.Fatal(err)
	}
	deleted := false
	for _, action := range client.Actions() {
		deleted = deleted || action.Matches("delete", "configmaps")
	}
	configMap, err := core.ConfigMaps(namespace).Get(ctx, "topology-gpu-a", metav1.GetOptions{})
	if !deleted || err != nil {
		t.Fatalf("deleted %t, then %v", deleted, err)
	}
	if _, kept := configMap.Annotations[topology.KwokAnnotation]; kept {
		t.Error("the annotation survived")
	}
}
