// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"time"
)

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

type nodeList struct {
	Items []struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Status struct {
			Addresses []struct {
				Type    string `json:"type"`
				Address string `json:"address"`
			} `json:"addresses"`
		} `json:"status"`
	} `json:"items"`
}

// followNodes gives the own node its role, and CoreDNS the names of all.
func (l *Layout) followNodes(ctx context.Context, api *apiClient, log *slog.Logger) {
	pause := 500 * time.Millisecond
	said := ""
	for {
		registered, err := l.lookAtNodes(ctx, api)
		if registered {
			pause = 15 * time.Second
		}
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			log.Warn("nodes are not followed; it is tried again", "reason", said)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (l *Layout) lookAtNodes(ctx context.Context, api *apiClient) (registered bool, err error) {
	var nodes nodeList
	if err := api.get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return false, err
	}
	for _, n := range nodes.Items {
		if n.Metadata.Name != l.NodeName {
			continue
		}
		registered = true
		if _, labelled := n.Metadata.Labels[controlPlaneLabel]; !labelled {
			err = api.patch(ctx, "/api/v1/nodes/"+l.NodeName,
				map[string]any{"metadata": map[string]any{"labels": map[string]string{controlPlaneLabel: "true"}}})
		}
	}
	hosts := nodeHosts(nodes)
	const path = "/api/v1/namespaces/kube-system/configmaps/coredns"
	var now struct {
		Data map[string]string `json:"data"`
	}
	if getErr := api.get(ctx, path, &now); getErr != nil {
		if !errors.Is(getErr, errNotFound) {
			err = errors.Join(err, getErr)
		}
		return registered, err // CoreDNS may be disabled.
	}
	if registered && now.Data["NodeHosts"] != hosts {
		err = errors.Join(err, api.patch(ctx, path, map[string]any{"data": map[string]string{"NodeHosts": hosts}}))
	}
	return registered, err
}

// nodeHosts is the text of a hosts file with every node's address.
func nodeHosts(nodes nodeList) string {
	var lines []string
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == "InternalIP" && a.Address != "" {
				lines = append(lines, fmt.Sprintf("%s %s\n", a.Address, n.Metadata.Name))
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}
