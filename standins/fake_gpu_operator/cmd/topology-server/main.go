// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command topology-server answers nvidia-smi.
package main

import (
	"errors"
	"log"
	"net/http"
	"time"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/kube"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/start"
	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topologyserver"
)

func main() {
	ctx := start.Start("topology-server")
	handler := topologyserver.Handler(kube.Client(), start.Env("TOPOLOGY_CM_NAMESPACE"), start.Env("TOPOLOGY_CM_NAME"))
	server := &http.Server{Addr: ":8080", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("Failed to serve: %v", err)
	}
}
