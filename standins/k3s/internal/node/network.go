// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

const cniConfig = "10-bridge.conflist"

func (l *Layout) writeNetworkConfig(c *config.Config) error {
	dir := l.agent("etc", "cni", "net.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, cniConfig)
	if c.String("flannel-backend") == "none" {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	type object = map[string]any
	content, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "cbr0",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": object{"type": "host-local", "ranges": [][]object{{{"subnet": l.podSubnet().String()}}}},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(content, '\n'), 0o600)
}

// prepareKernel lets the host route for its pods. It returns whether the
// kernel filters bridged packets: if not, a service's answer from a pod on
// the same bridge would take a short cut around the address translation.
func prepareKernel(log *slog.Logger) (bridgeFilter bool) {
	for _, module := range []string{"overlay", "br_netfilter", "nf_conntrack"} {
		if out, err := exec.Command("modprobe", module).CombinedOutput(); err != nil {
			log.Debug("module not loaded", "module", module, "reason", err.Error(), "output", string(out))
		}
	}
	set := func(name, value string) bool {
		file := filepath.Join("/proc/sys", name)
		if now, err := os.ReadFile(file); err == nil && string(now) == value+"\n" {
			return true
		}
		err := os.WriteFile(file, []byte(value), 0o644)
		if err != nil {
			log.Warn("kernel setting not made", "name", name, "value", value, "reason", err.Error())
		}
		return err == nil
	}
	set("net/ipv4/ip_forward", "1")
	const filter = "net/bridge/bridge-nf-call-iptables"
	return exists(filepath.Join("/proc/sys", filter)) && set(filter, "1")
}
