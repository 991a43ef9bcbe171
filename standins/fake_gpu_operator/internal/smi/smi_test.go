// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package smi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const two = `{"gpuMemory":11441,"gpuProduct":"Tesla-K80","gpus":[
{"id":"GPU-0","status":{"allocatedBy":{"namespace":"fake-lab","pod":"gpu-1","container":"main"},"podGpuUsageStatus":{"u1":{"utilization":{"min":80,"max":100},"fbUsed":11441}}}},
{"id":"GPU-1","status":{"allocatedBy":{"namespace":"fake-lab","pod":"gpu-2","container":"main"},"podGpuUsageStatus":{"u2":{"utilization":{"min":10,"max":10},"fbUsed":500}}}}],"migStrategy":"mixed"}`

func call(t *testing.T, handler http.HandlerFunc, env map[string]string) (status int, out, errors string) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return callAt(server.URL, env)
}

func callAt(url string, env map[string]string) (int, string, string) {
	var out, errors bytes.Buffer
	smi := Smi{Server: url, Env: func(name string) string { return env[name] }, Now: func() time.Time { return time.Unix(0, 0).UTC() }, Out: &out, Errors: &errors}
	status := smi.Run()
	return status, out.String(), errors.String()
}

func answer(status int, body string) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/topology/nodes/gpu-lab" {
			http.Error(response, "wrong path "+request.URL.Path, http.StatusTeapot)
			return
		}
		response.WriteHeader(status)
		response.Write([]byte(body))
	}
}

func TestTable(t *testing.T) {
	status, out, errors := call(t, answer(200, two), map[string]string{"NODE_NAME": "gpu-lab", "HOSTNAME": "gpu-1"})
	want := `Thu Jan  1 00:00:00 1970
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla-K80           Off  | 00000001:00:00.0 Off |                  Off |
| N/A   33C    P8    11W /  70W |  11441MiB / 11441MiB |     90%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
`
	if status != 0 || errors != "" || out != want {
		t.Errorf("%d %q\n%s", status, errors, out)
	}
}

func TestWhichRows(t *testing.T) {
	for name, test := range map[string]struct {
		env        map[string]string
		want, miss string
	}{
		"by name":           {map[string]string{"HOSTNAME": "gpu-2"}, "|    500MiB / 11441MiB |     10%", "|   0  Tesla"},
		"by uid":            {map[string]string{"HOSTNAME": "other", "POD_UUID": "u2"}, "|   1  Tesla-K80   ", "|   0  Tesla"},
		"nobody's pod":      {map[string]string{"HOSTNAME": "gpu-9"}, "|   0  Tesla-K80           Off  | 00000001:00:00.0 Off |                  Off |\n| N/A   33C    P8    11W /  70W |      0MiB / 11441MiB |      0%", "|   1  Tesla"},
		"no name, no uid":   {map[string]string{}, "|      0MiB / 11441MiB |", "|   1  Tesla"},
		"uid beats no name": {map[string]string{"POD_UUID": "u1"}, "|  11441MiB / 11441MiB |     90%", "|   1  Tesla"},
	} {
		t.Run(name, func(t *testing.T) {
			test.env["NODE_NAME"] = "gpu-lab"
			status, out, _ := call(t, answer(200, two), test.env)
			if status != 0 || !strings.Contains(out, test.want) || strings.Contains(out, test.miss) {
				t.Errorf("%d\n%s", status, out)
			}
		})
	}
}

func TestVersionsOfThePoolAndLongNames(t *testing.T) {
	body := `{"gpuMemory":81920,"gpuProduct":"NVIDIA-A100-SXM4-80GB","driverVersion":"550.54.15","cudaVersion":"12.4","gpus":[]}`
	status, out, _ := call(t, answer(200, body), map[string]string{"NODE_NAME": "gpu-lab"})
	for _, want := range []string{"| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n", "|   0  NVIDIA-A100-        Off  |"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
}

func TestFailures(t *testing.T) {
	env := map[string]string{"NODE_NAME": "gpu-lab"}
	status, out, errors := call(t, answer(404, "Node topology not found\n"), env)
	if status != 1 || out != "No devices were found\n" || !strings.HasSuffix(errors, "/topology/nodes/gpu-lab returned 404 Not Found: Node topology not found\n") || !strings.HasPrefix(errors, "topology server http://") {
		t.Errorf("404: %d %q %q", status, out, errors)
	}
	status, out, errors = call(t, answer(200, "Cannot"), env)
	if status != 1 || out != "Failed to parse devices data\n" || errors == "" {
		t.Errorf("parse: %d %q %q", status, out, errors)
	}
	status, out, errors = callAt("http://127.0.0.1:1", env)
	if status != 1 || out != "NVIDIA-SMI has failed because it couldn't communicate with the topology server.\n" || !strings.Contains(errors, "connection refused") {
		t.Errorf("refused: %d %q %q", status, out, errors)
	}
	status, out, _ = call(t, func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Length", "100")
		response.Write([]byte("{"))
	}, env)
	if status != 1 || !strings.Contains(out, "couldn't communicate") {
		t.Errorf("cut off: %d %q", status, out)
	}
}
