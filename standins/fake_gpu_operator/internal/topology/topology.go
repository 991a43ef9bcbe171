// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package topology is the data model that all parts of the operator share: the cluster's node pools in the ConfigMap
// "topology", and the GPUs of one node in the ConfigMap "topology-<node>".
package topology

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	// Key is the key of both kinds of ConfigMap.
	Key = "topology.yml"
	// NodeNameLabel tells the node that a ConfigMap describes.
	NodeNameLabel = "node-name"
	// NodeTopologyLabel marks the ConfigMaps of nodes.
	NodeTopologyLabel = "node-topology"
	// KwokAnnotation is copied from a KWOK node to its ConfigMap.
	KwokAnnotation = "kwok.x-k8s.io/node"
	// KwokFake is the value that KWOK's own nodes have.
	KwokFake = "fake"
	// FieldManager owns what Apply writes.
	FieldManager = "fake-gpu-operator"
	// Resource is what a GPU is called in capacity, allocatable and limits.
	Resource corev1.ResourceName = "nvidia.com/gpu"

	defaultPoolLabel   = "run.ai/simulated-gpu-node-pool"
	defaultMigStrategy = "mixed"
)

// Cluster is the content of the ConfigMap "topology".
type Cluster struct {
	NodePools        map[string]NodePool `json:"nodePools"`
	NodePoolLabelKey string              `json:"nodePoolLabelKey"`
	MigStrategy      string              `json:"migStrategy,omitempty"`
}

// NodePool says what each node of a pool has.
type NodePool struct {
	GpuProduct    string `json:"gpuProduct"`
	GpuCount      int    `json:"gpuCount"`
	GpuMemory     int    `json:"gpuMemory"`
	DriverVersion string `json:"driverVersion,omitempty"`
	CudaVersion   string `json:"cudaVersion,omitempty"`
}

// Node is the content of a ConfigMap "topology-<node>".
type Node struct {
	GpuMemory     int    `json:"gpuMemory"`
	GpuProduct    string `json:"gpuProduct"`
	Gpus          []Gpu  `json:"gpus"`
	MigStrategy   string `json:"migStrategy"`
	DriverVersion string `json:"driverVersion,omitempty"`
	CudaVersion   string `json:"cudaVersion,omitempty"`
}

// Gpu is one fake card.
type Gpu struct {
	ID     string    `json:"id"`
	Status GpuStatus `json:"status"`
}

// GpuStatus says who has the card and how busy it pretends to be.
type GpuStatus struct {
	AllocatedBy       ContainerRef              `json:"allocatedBy"`
	PodGpuUsageStatus map[string]GpuUsageStatus `json:"podGpuUsageStatus"`
}

// ContainerRef names a container; all empty means nobody.
type ContainerRef struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

// GpuUsageStatus is what one pod, by its uid, uses of a card.
type GpuUsageStatus struct {
	Utilization Range `json:"utilization"`
	FbUsed      int   `json:"fbUsed"`
}

// Range of a percentage.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Free takes the card from whoever had it.
func (g *Gpu) Free() {
	g.Status = GpuStatus{PodGpuUsageStatus: map[string]GpuUsageStatus{}}
}

// HeldBy tells whether the pod has the card.
func (g *Gpu) HeldBy(namespace, pod string) bool {
	return g.Status.AllocatedBy.Namespace == namespace && g.Status.AllocatedBy.Pod == pod
}

// ConfigMapName of a node.
func ConfigMapName(node string) string { return "topology-" + node }

// GpuID of the index-th card of a node is the same whenever it is computed.
func GpuID(node string, index int) string {
	return "GPU-" + uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s-%d", node, index)).String()
}

// NewNode makes the topology of a node that nobody uses yet.
func NewNode(name string, pool NodePool, migStrategy string) *Node {
	node := &Node{
		GpuMemory:     pool.GpuMemory,
		GpuProduct:    pool.GpuProduct,
		Gpus:          make([]Gpu, pool.GpuCount),
		MigStrategy:   migStrategy,
		DriverVersion: pool.DriverVersion,
		CudaVersion:   pool.CudaVersion,
	}
	for i := range node.Gpus {
		node.Gpus[i].ID = GpuID(name, i)
		node.Gpus[i].Free()
	}
	return node
}

// ReadCluster gets and decodes the ConfigMap of the node pools.
func ReadCluster(ctx context.Context, core corev1client.CoreV1Interface, namespace, name string) (*Cluster, error) {
	configMap, err := core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{NodePoolLabelKey: defaultPoolLabel, MigStrategy: defaultMigStrategy}
	if err := decode(configMap, cluster); err != nil {
		return nil, err
	}
	return cluster, nil
}

// ReadNode gets and decodes the ConfigMap of a node.
func ReadNode(ctx context.Context, core corev1client.CoreV1Interface, namespace, node string) (*Node, error) {
	configMap, err := core.ConfigMaps(namespace).Get(ctx, ConfigMapName(node), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return NodeFrom(configMap)
}

// NodeFrom decodes the ConfigMap of a node.
func NodeFrom(configMap *corev1.ConfigMap) (*Node, error) {
	node := &Node{}
	if err := decode(configMap, node); err != nil {
		return nil, err
	}
	for i := range node.Gpus {
		if node.Gpus[i].Status.PodGpuUsageStatus == nil {
			node.Gpus[i].Status.PodGpuUsageStatus = map[string]GpuUsageStatus{}
		}
	}
	return node, nil
}

func decode(configMap *corev1.ConfigMap, into any) error {
	text, ok := configMap.Data[Key]
	if !ok {
		return fmt.Errorf("configmap %q has no key %q", configMap.Name, Key)
	}
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("configmap %q, key %q: %w", configMap.Name, Key, err)
	}
	return nil
}

func labels(node string) map[string]string {
	return map[string]string{NodeNameLabel: node, NodeTopologyLabel: "true"}
}

// CreateNode makes the ConfigMap of a node. It has no owner: only the status-updater removes it.
func CreateNode(ctx context.Context, core corev1client.CoreV1Interface, namespace string, node *corev1.Node, content *Node) error {
	text, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName(node.Name), Namespace: namespace, Labels: labels(node.Name)},
		Data:       map[string]string{Key: string(text)},
	}
	if value, ok := node.Annotations[KwokAnnotation]; ok {
		configMap.Annotations = map[string]string{KwokAnnotation: value}
	}
	_, err = core.ConfigMaps(namespace).Create(ctx, configMap, metav1.CreateOptions{})
	return err
}

// ApplyNode writes the whole content by server-side apply. A ConfigMap that was deleted after it was read comes back
// by this, and without the KWOK annotation: the original does the same.
func ApplyNode(ctx context.Context, core corev1client.CoreV1Interface, namespace, node string, content *Node) error {
	text, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	configMap := applycorev1.ConfigMap(ConfigMapName(node), namespace).WithLabels(labels(node)).WithData(map[string]string{Key: string(text)})
	_, err = core.ConfigMaps(namespace).Apply(ctx, configMap, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	return err
}
