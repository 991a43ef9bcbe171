// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package payload

// Programs must be in the bin folder of a payload.
var Programs = []string{
	"kube", "containerd", "containerd-shim-runc-v2", "ctr", "crictl", "runc",
	"bridge", "host-local", "loopback", "portmap",
}

// KubeNames are the names that kube is called by.
var KubeNames = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"kubelet", "kube-proxy", "kubectl",
}
