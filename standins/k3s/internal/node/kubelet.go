// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

const kubeletDefaults = "00-k3s-defaults.conf"

func (l *Layout) kubeletConfigDir() string { return l.agent("etc", "kubelet.conf.d") }

func (l *Layout) writeKubeletConfig(c *config.Config) error {
	resolvConf, err := l.resolvConf(c)
	if err != nil {
		return err
	}
	driver := "cgroupfs"
	if l.SystemdCgroup {
		driver = "systemd"
	}
	type object = map[string]any
	content, err := yaml.Marshal(object{
		"apiVersion":         "kubelet.config.k8s.io/v1beta1",
		"kind":               "KubeletConfiguration",
		"address":            "0.0.0.0",
		"port":               10250,
		"readOnlyPort":       0,
		"healthzBindAddress": "127.0.0.1",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": l.agent("client-ca.crt")},
		},
		"authorization":            object{"mode": "Webhook"},
		"tlsCertFile":              l.agent("serving-kubelet.crt"),
		"tlsPrivateKeyFile":        l.agent("serving-kubelet.key"),
		"containerRuntimeEndpoint": "unix://" + ContainerdSocket,
		"cgroupDriver":             driver,
		"clusterDNS":               []string{l.DNSService.String()},
		"clusterDomain":            l.Domain,
		"resolvConf":               resolvConf,
		"staticPodPath":            l.agent("pod-manifests"),
		"failSwapOn":               false,
		"serializeImagePulls":      false,
		"evictionHard":             object{"imagefs.available": "5%", "nodefs.available": "5%"},
		"evictionMinimumReclaim":   object{"imagefs.available": "10%", "nodefs.available": "10%"},
	})
	if err != nil {
		return err
	}
	for _, d := range []string{l.kubeletConfigDir(), l.agent("pod-manifests")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return atomicfile.Write(filepath.Join(l.kubeletConfigDir(), kubeletDefaults), content, 0o600)
}

// resolvConf is the file that pods inherit their nameservers from. A
// nameserver of the host's own loopback is none in a pod.
func (l *Layout) resolvConf(c *config.Config) (string, error) {
	if told := c.String("resolv-conf"); told != "" {
		return told, nil
	}
	for _, f := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		content, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if reachableFromPods(string(content)) {
			return f, nil
		}
	}
	own := l.agent("etc", "resolv.conf")
	return own, atomicfile.Write(own, []byte("nameserver 8.8.8.8\n"), 0o644)
}

func reachableFromPods(resolvConf string) bool {
	found := false
	for line := range strings.Lines(resolvConf) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(f[1])
		if err != nil || !a.IsGlobalUnicast() {
			return false
		}
		found = true
	}
	return found
}
