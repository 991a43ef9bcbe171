// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package smi is nvidia-smi as a container with a fake GPU finds it: it asks the topology-server what the node has.
package smi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	defaultDriver = "470.129.06"
	defaultCuda   = "11.4"
)

// Server is where every nvidia-smi asks; the namespace cannot be changed.
const Server = "http://topology-server.gpu-operator"

type node struct {
	GpuMemory     int    `json:"gpuMemory"`
	GpuProduct    string `json:"gpuProduct"`
	DriverVersion string `json:"driverVersion"`
	CudaVersion   string `json:"cudaVersion"`
	Gpus          []struct {
		Status struct {
			AllocatedBy struct {
				Pod string `json:"pod"`
			} `json:"allocatedBy"`
			PodGpuUsageStatus map[string]struct {
				Utilization struct {
					Min int `json:"min"`
					Max int `json:"max"`
				} `json:"utilization"`
				FbUsed int `json:"fbUsed"`
			} `json:"podGpuUsageStatus"`
		} `json:"status"`
	} `json:"gpus"`
}

type row struct{ index, used, utilization int }

// Smi is one call.
type Smi struct {
	Server      string
	Env         func(string) string
	Now         func() time.Time
	Out, Errors io.Writer
}

// Run prints the table, or the reason why there is none, and returns the exit status.
func (s *Smi) Run() int {
	address := s.Server + "/topology/nodes/" + s.Env("NODE_NAME")
	response, err := http.Get(address)
	if err != nil {
		fmt.Fprintln(s.Out, "NVIDIA-SMI has failed because it couldn't communicate with the topology server.")
		fmt.Fprintln(s.Errors, err)
		return 1
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		fmt.Fprintln(s.Out, "NVIDIA-SMI has failed because it couldn't communicate with the topology server.")
		fmt.Fprintln(s.Errors, err)
		return 1
	}
	if response.StatusCode != http.StatusOK {
		fmt.Fprintln(s.Out, "No devices were found")
		fmt.Fprintf(s.Errors, "topology server %s returned %s: %s\n", address, response.Status, strings.TrimSpace(string(body)))
		return 1
	}
	var seen node
	if err := json.Unmarshal(body, &seen); err != nil {
		fmt.Fprintln(s.Out, "Failed to parse devices data")
		fmt.Fprintln(s.Errors, err)
		return 1
	}
	s.print(&seen, rows(&seen, s.Env("HOSTNAME"), s.Env("POD_UUID")))
	return 0
}

// rows of the cards that the topology gives to this pod. Without any, the first card is shown as unused.
func rows(seen *node, hostname, uid string) []row {
	var own []row
	for i, gpu := range seen.Gpus {
		usage, byUID := gpu.Status.PodGpuUsageStatus[uid]
		byName := hostname != "" && gpu.Status.AllocatedBy.Pod == hostname
		if !byName && (uid == "" || !byUID) {
			continue
		}
		found := row{index: i, used: usage.FbUsed, utilization: (usage.Utilization.Min + usage.Utilization.Max) / 2}
		if !byUID {
			for _, usage := range gpu.Status.PodGpuUsageStatus {
				found.used += usage.FbUsed
				found.utilization += (usage.Utilization.Min + usage.Utilization.Max) / 2
			}
		}
		own = append(own, found)
	}
	if own == nil {
		own = []row{{}}
	}
	return own
}

func (s *Smi) print(seen *node, rows []row) {
	driver, cuda := seen.DriverVersion, seen.CudaVersion
	if driver == "" {
		driver = defaultDriver
	}
	if cuda == "" {
		cuda = defaultCuda
	}
	const rule = "+-----------------------------------------------------------------------------+"
	fmt.Fprintf(s.Out, "%s\n%s\n", s.Now().Format(time.ANSIC), rule)
	fmt.Fprintf(s.Out, "| NVIDIA-SMI %-11s  Driver Version: %-11s  CUDA Version: %-9s|\n", driver, driver, cuda)
	fmt.Fprint(s.Out, `|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
`)
	for _, row := range rows {
		memory := fmt.Sprintf("%dMiB / %dMiB", row.used, seen.GpuMemory)
		fmt.Fprintf(s.Out, "| %3d  %-12.12s        Off  | 00000001:%02X:00.0 Off |                  Off |\n", row.index, seen.GpuProduct, row.index)
		fmt.Fprintf(s.Out, "| N/A   33C    P8    11W /  70W | %20s |    %3d%%      Default |\n", memory, row.utilization)
		fmt.Fprintln(s.Out, "|                               |                      |                  N/A |")
		fmt.Fprintln(s.Out, "+-------------------------------+----------------------+----------------------+")
	}
	fmt.Fprintf(s.Out, "\n%s\n", rule)
	fmt.Fprint(s.Out, `| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|  No running processes found                                                 |
`)
	fmt.Fprintln(s.Out, rule)
}
