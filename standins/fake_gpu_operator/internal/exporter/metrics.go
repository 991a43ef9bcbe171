// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// MetricsAddress is the port of the original's exporter.
const MetricsAddress = ":9400"

// Metrics serves what DCGM's exporter would say of the nodes it was told about.
type Metrics struct {
	mutex sync.Mutex
	nodes map[string]*topology.Node
}

// Set replaces the topology of a node.
func (m *Metrics) Set(name string, node *topology.Node) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.nodes == nil {
		m.nodes = map[string]*topology.Node{}
	}
	m.nodes[name] = node
}

// Forget drops a node.
func (m *Metrics) Forget(name string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.nodes, name)
}

// ServeHTTP writes the Prometheus text format.
func (m *Metrics) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	m.mutex.Lock()
	defer m.mutex.Unlock()
	names := make([]string, 0, len(m.nodes))
	for name := range m.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, metric := range []struct {
		name, help string
		value      func(*topology.Node, topology.GpuStatus) int
	}{
		{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", func(_ *topology.Node, status topology.GpuStatus) int { return used(status).utilization }},
		{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", func(_ *topology.Node, status topology.GpuStatus) int { return used(status).memory }},
		{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", func(node *topology.Node, status topology.GpuStatus) int { return node.GpuMemory - used(status).memory }},
	} {
		fmt.Fprintf(response, "# HELP %s %s\n# TYPE %s gauge\n", metric.name, metric.help, metric.name)
		for _, name := range names {
			for i, gpu := range m.nodes[name].Gpus {
				writeSample(response, metric.name, name, i, m.nodes[name].GpuProduct, gpu, metric.value(m.nodes[name], gpu.Status))
			}
		}
	}
}

func writeSample(to io.Writer, metric, node string, index int, product string, gpu topology.Gpu, value int) {
	holder := gpu.Status.AllocatedBy
	var labels []string
	for _, label := range [][2]string{
		{"gpu", strconv.Itoa(index)}, {"UUID", gpu.ID}, {"device", "nvidia" + strconv.Itoa(index)}, {"modelName", product}, {"Hostname", node},
		{"namespace", holder.Namespace}, {"pod", holder.Pod}, {"container", holder.Container},
	} {
		labels = append(labels, fmt.Sprintf("%s=%q", label[0], label[1]))
	}
	fmt.Fprintf(to, "%s{%s} %d\n", metric, strings.Join(labels, ","), value)
}

type usage struct{ utilization, memory int }

// used adds up the pods of a card; a range of utilization counts with its middle.
func used(status topology.GpuStatus) usage {
	var sum usage
	for _, pod := range status.PodGpuUsageStatus {
		sum.utilization += (pod.Utilization.Min + pod.Utilization.Max) / 2
		sum.memory += pod.FbUsed
	}
	sum.utilization = min(sum.utilization, 100)
	return sum
}

// Serve answers /metrics until the context ends.
func (m *Metrics) Serve(ctx context.Context, address string) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("Failed to serve metrics: %v", err)
	}
}
