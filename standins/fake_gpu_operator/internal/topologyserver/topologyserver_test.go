// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package topologyserver

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

func TestHandler(t *testing.T) {
	broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "topology-broken", Namespace: "ns"}, Data: map[string]string{"topology.yml": "["}}
	pools := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "topology", Namespace: "ns"}, Data: map[string]string{"topology.yml": "nodePools: {default: {gpuCount: 2}}"}}
	core := fake.NewClientset(broken, pools).CoreV1()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	if err := topology.CreateNode(context.Background(), core, "ns", node, topology.NewNode("real", topology.NodePool{GpuProduct: "Tesla-K80", GpuCount: 2, GpuMemory: 11441}, "mixed")); err != nil {
		t.Fatal(err)
	}
	get := func(handlerName, path string) (int, string) {
		recorder := httptest.NewRecorder()
		Handler(core, "ns", handlerName).ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		return recorder.Code, strings.TrimSpace(recorder.Body.String())
	}

	status, body := get("topology", "/topology/nodes/real")
	var seen topology.Node
	if err := json.Unmarshal([]byte(body), &seen); err != nil || status != 200 || len(seen.Gpus) != 2 || seen.Gpus[1].ID != topology.GpuID("real", 1) {
		t.Errorf("%d %s: %v", status, body, err)
	}
	status, body = get("topology", "/topology")
	var cluster topology.Cluster
	if err := json.Unmarshal([]byte(body), &cluster); err != nil || status != 200 || cluster.NodePools["default"].GpuCount != 2 {
		t.Errorf("%d %s: %v", status, body, err)
	}
	if status, body := get("topology", "/topology/nodes/none"); status != 404 || body != "Node topology not found" {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("elsewhere", "/topology"); status != 404 || body != "Topology not found" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get("topology", "/topology/nodes/broken"); status != 500 {
		t.Errorf("broken: %d", status)
	}
}
