// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package topologyserver answers over HTTP what the topology ConfigMaps hold, for nvidia-smi.
package topologyserver

import (
	"encoding/json"
	"log"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

// Handler serves /topology and /topology/nodes/{node}, each read anew.
func Handler(core corev1client.CoreV1Interface, namespace, name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topology", func(response http.ResponseWriter, request *http.Request) {
		cluster, err := topology.ReadCluster(request.Context(), core, namespace, name)
		answer(response, cluster, err, "Topology not found")
	})
	mux.HandleFunc("GET /topology/nodes/{node}", func(response http.ResponseWriter, request *http.Request) {
		node, err := topology.ReadNode(request.Context(), core, namespace, request.PathValue("node"))
		answer(response, node, err, "Node topology not found")
	})
	return mux
}

func answer(response http.ResponseWriter, content any, err error, notFound string) {
	switch {
	case apierrors.IsNotFound(err):
		http.Error(response, notFound, http.StatusNotFound)
	case err != nil:
		log.Print(err)
		http.Error(response, err.Error(), http.StatusInternalServerError)
	default:
		response.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(response).Encode(content); err != nil {
			log.Print(err)
		}
	}
}
