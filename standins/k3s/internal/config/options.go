// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package config reads the options of `k3s server` from the command line, the
// configuration file with its drop-in folder, and the environment.
package config

// Kind says what values an option takes.
type Kind int

const (
	String Kind = iota
	Bool
	List
)

// Support says what this stand-in does with an option of the real k3s.
type Support int

const (
	// Works: it does what it does in k3s.
	Works Support = iota
	// Ignored: accepted, because what it switches does not exist here.
	Ignored
	// Refused: a start that pretended to honour it would mislead.
	Refused
)

// Option is one long flag of `k3s server`, and the key of the same name.
type Option struct {
	Name    string
	Short   string
	Kind    Kind
	Default string
	Env     string
	Help    string
	Support Support
	// Split: one value may hold several, separated by commas.
	Split bool
	Check func(value string) error
}

const (
	DefaultFile    = "/etc/rancher/k3s/config.yaml"
	DefaultDataDir = "/var/lib/rancher/k3s"
	DefaultOutput  = "/etc/rancher/k3s/k3s.yaml"
)

// ServerOptions are all options that `k3s server` knows.
var ServerOptions = []Option{
	{Name: "config", Short: "c", Default: DefaultFile, Env: "K3S_CONFIG_FILE", Help: "configuration file; its drop-ins are in the folder of the same name with .d"},
	{Name: "debug", Kind: Bool, Env: "K3S_DEBUG", Help: "log more"},
	{Name: "v", Default: "0", Help: "verbosity of the Kubernetes components", Check: checkNumber},
	{Name: "data-dir", Short: "d", Default: DefaultDataDir, Env: "K3S_DATA_DIR", Help: "folder of all state", Check: checkAbsolute},
	{Name: "bind-address", Default: "0.0.0.0", Help: "address that the API server listens on", Check: checkIP},
	{Name: "https-listen-port", Default: "6443", Help: "port of the API server", Check: checkPort},
	{Name: "advertise-address", Help: "address of the API server for the pods; the node's own when empty", Check: checkIP},
	{Name: "tls-san", Kind: List, Split: true, Help: "further names and addresses in the API server's certificate"},
	{Name: "cluster-cidr", Default: "10.42.0.0/16", Help: "network of the pods", Check: checkCIDR},
	{Name: "service-cidr", Default: "10.43.0.0/16", Help: "network of the services", Check: checkCIDR},
	{Name: "service-node-port-range", Default: "30000-32767", Help: "ports for services of type NodePort"},
	{Name: "cluster-dns", Help: "address of the cluster DNS; the tenth of service-cidr when empty", Check: checkIP},
	{Name: "cluster-domain", Default: "cluster.local", Help: "domain of the cluster"},
	{Name: "token", Short: "t", Env: "K3S_TOKEN", Help: "secret of the server; made at the first start when empty"},
	{Name: "token-file", Env: "K3S_TOKEN_FILE", Help: "file with the token", Check: checkAbsolute},
	{Name: "write-kubeconfig", Short: "o", Default: DefaultOutput, Env: "K3S_KUBECONFIG_OUTPUT", Help: "where the admin's kubeconfig is written", Check: checkAbsolute},
	{Name: "write-kubeconfig-mode", Default: "0600", Env: "K3S_KUBECONFIG_MODE", Help: "its file mode, octal", Check: checkMode},
	{Name: "write-kubeconfig-group", Env: "K3S_KUBECONFIG_GROUP", Help: "its group"},
	{Name: "kube-apiserver-arg", Kind: List, Help: "flag of kube-apiserver, key=value"},
	{Name: "kube-controller-manager-arg", Kind: List, Help: "flag of kube-controller-manager, key=value"},
	{Name: "kube-scheduler-arg", Kind: List, Help: "flag of kube-scheduler, key=value"},
	{Name: "kubelet-arg", Kind: List, Help: "flag of the kubelet, key=value"},
	{Name: "kube-proxy-arg", Kind: List, Help: "flag of kube-proxy, key=value"},
	{Name: "etcd-arg", Kind: List, Help: "flag of etcd, key=value"},
	{Name: "disable", Kind: List, Split: true, Help: "packaged components to leave out"},
	{Name: "disable-kube-proxy", Kind: Bool, Help: "run no kube-proxy"},
	{Name: "disable-scheduler", Kind: Bool, Help: "run no kube-scheduler"},
	{Name: "node-name", Env: "K3S_NODE_NAME", Help: "name of the node; the host's when empty", Check: checkNodeName},
	{Name: "node-ip", Short: "i", Split: true, Kind: List, Help: "address of the node; the default route's when empty", Check: checkIP},
	{Name: "node-label", Kind: List, Split: true, Help: "label that the node registers with, key=value", Check: checkLabel},
	{Name: "node-taint", Kind: List, Split: true, Help: "taint that the node registers with, key=value:effect", Check: checkTaint},
	{Name: "resolv-conf", Env: "K3S_RESOLV_CONF", Help: "resolv.conf of the pods", Check: checkAbsolute},
	{Name: "pause-image", Default: "docker.io/rancher/mirrored-pause:3.10.2", Help: "image that holds a pod's namespaces"},
	{Name: "snapshotter", Default: "overlayfs", Help: "overlayfs or native", Check: oneOf("overlayfs", "native")},
	{Name: "protect-kernel-defaults", Kind: Bool, Help: "the kubelet fails where the kernel's settings differ from its own"},
	{Name: "flannel-backend", Default: "vxlan", Help: "none writes no network configuration; any other value gives the one bridge that a single node needs",
		Check: oneOf("none", "vxlan", "host-gw", "wireguard-native")},

	{Name: "disable-helm-controller", Kind: Bool, Support: Ignored, Help: "there is no Helm controller here"},
	{Name: "disable-network-policy", Kind: Bool, Support: Ignored, Help: "there is no network policy controller here"},
	{Name: "disable-cloud-controller", Kind: Bool, Support: Ignored, Help: "there is no cloud controller here"},
	{Name: "cluster-init", Kind: Bool, Env: "K3S_CLUSTER_INIT", Support: Ignored, Help: "the datastore is a single etcd anyway"},
	{Name: "etcd-disable-snapshots", Kind: Bool, Support: Ignored, Help: "no snapshots are taken here"},
	{Name: "etcd-expose-metrics", Kind: Bool, Support: Ignored, Help: "etcd has no port here"},
	{Name: "agent-token", Env: "K3S_AGENT_TOKEN", Support: Ignored, Help: "no other node can join"},
	{Name: "agent-token-file", Env: "K3S_AGENT_TOKEN_FILE", Support: Ignored, Help: "no other node can join"},
	{Name: "lb-server-port", Support: Ignored, Help: "there is no client-side load balancer here"},
	{Name: "flannel-iface", Support: Ignored, Help: "there is no flannel here"},
	{Name: "flannel-ipv6-masq", Kind: Bool, Support: Ignored, Help: "there is no flannel here"},
	{Name: "flannel-external-ip", Kind: Bool, Support: Ignored, Help: "there is no flannel here"},
	{Name: "egress-selector-mode", Support: Ignored, Help: "the API server reaches its one node directly"},
	{Name: "servicelb-namespace", Support: Ignored, Help: "there is no servicelb here"},
	{Name: "default-local-storage-path", Support: Ignored, Help: "there is no local-storage here"},
	{Name: "helm-job-image", Support: Ignored, Help: "there is no Helm controller here"},
	{Name: "system-default-registry", Support: Ignored, Help: "images are imported, not pulled"},
	{Name: "disable-default-registry-endpoint", Kind: Bool, Support: Ignored, Help: "images are imported, not pulled"},
	{Name: "embedded-registry", Kind: Bool, Support: Ignored, Help: "there is no other node to share images with"},
	{Name: "supervisor-metrics", Kind: Bool, Support: Ignored, Help: "the supervisor has no port here"},
	{Name: "prefer-bundled-bin", Kind: Bool, Support: Ignored, Help: "there are no bundled userspace tools here"},
	{Name: "selinux", Kind: Bool, Env: "K3S_SELINUX", Support: Ignored, Help: "SELinux is not set up"},
	{Name: "alsologtostderr", Kind: Bool, Support: Ignored, Help: "everything is logged to the standard output"},
	{Name: "node-external-ip", Kind: List, Split: true, Support: Ignored, Help: "there is no cloud controller here that would announce it"},

	{Name: "server", Short: "s", Env: "K3S_URL", Support: Refused, Help: "this stand-in is one node and joins no other"},
	{Name: "datastore-endpoint", Env: "K3S_DATASTORE_ENDPOINT", Support: Refused, Help: "the datastore is the etcd inside"},
	{Name: "secrets-encryption", Kind: Bool, Support: Refused, Help: "secrets are not encrypted at rest by this stand-in"},
	{Name: "cluster-reset", Kind: Bool, Support: Refused, Help: "a single etcd has no membership to reset"},
	{Name: "docker", Kind: Bool, Support: Refused, Help: "containerd is the only container runtime"},
	{Name: "container-runtime-endpoint", Support: Refused, Help: "containerd inside is the only container runtime"},
	{Name: "rootless", Kind: Bool, Support: Refused, Help: "it runs as root only"},
	{Name: "disable-agent", Kind: Bool, Support: Refused, Help: "server and node are one here"},
	{Name: "disable-apiserver", Kind: Bool, Support: Refused, Help: "server and node are one here"},
	{Name: "disable-controller-manager", Kind: Bool, Support: Refused, Help: "server and node are one here"},
	{Name: "disable-etcd", Kind: Bool, Support: Refused, Help: "server and node are one here"},
	{Name: "with-node-id", Kind: Bool, Support: Refused, Help: "the node's name is fixed"},
	{Name: "vpn-auth", Support: Refused, Help: "there is no VPN"},
}
