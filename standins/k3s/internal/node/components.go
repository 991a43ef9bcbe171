// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"net"
	"os"
	"strings"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

// arguments puts flags together. A flag that the user gives replaces the
// default of the same name, and may be given several times.
func arguments(defaults []string, user []string) []string {
	given := map[string]bool{}
	var own []string
	for _, arg := range user {
		arg = strings.TrimLeft(arg, "-")
		name, _, _ := strings.Cut(arg, "=")
		given[name] = true
		own = append(own, "--"+arg)
	}
	var all []string
	for _, arg := range defaults {
		if name, _, _ := strings.Cut(arg, "="); !given[name] {
			all = append(all, "--"+arg)
		}
	}
	return append(all, own...)
}

func (l *Layout) etcdArgs(c *config.Config) []string {
	// What is advertised must look like host and port, but nobody listens
	// there: the one member has no peer, and its client knows the socket.
	const peer, client = "http://127.0.0.1:2380", "http://127.0.0.1:2379"
	return arguments([]string{
		"name=default",
		"data-dir=" + l.server("db", "etcd"),
		"listen-client-urls=unix://" + etcdSocket,
		"listen-peer-urls=unix://" + RunDir + "/etcd/peer.sock",
		"advertise-client-urls=" + client,
		"initial-advertise-peer-urls=" + peer,
		"initial-cluster=default=" + peer,
		"auto-compaction-mode=periodic",
		"auto-compaction-retention=1h",
		"snapshot-count=10000",
		"log-level=warn",
	}, c.List("etcd-arg"))
}

func (l *Layout) apiserverArgs(c *config.Config) []string {
	advertise := c.String("advertise-address")
	if advertise == "" {
		advertise = l.NodeIP.String()
	}
	issuer := "https://kubernetes.default.svc." + l.Domain
	return arguments([]string{
		"advertise-address=" + advertise,
		"allow-privileged=true",
		"anonymous-auth=false",
		"api-audiences=" + issuer + ",k3s",
		"authorization-mode=Node,RBAC",
		"bind-address=" + l.BindAddress,
		"client-ca-file=" + l.tls("client-ca.crt"),
		"enable-admission-plugins=NodeRestriction",
		"etcd-servers=unix://" + etcdSocket,
		"kubelet-certificate-authority=" + l.tls("server-ca.crt"),
		"kubelet-client-certificate=" + l.tls("client-kube-apiserver.crt"),
		"kubelet-client-key=" + l.tls("client-kube-apiserver.key"),
		"kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"profiling=false",
		"proxy-client-cert-file=" + l.tls("client-auth-proxy.crt"),
		"proxy-client-key-file=" + l.tls("client-auth-proxy.key"),
		"requestheader-allowed-names=system:auth-proxy",
		"requestheader-client-ca-file=" + l.tls("request-header-ca.crt"),
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-username-headers=X-Remote-User",
		"secure-port=" + l.APIPort,
		"service-account-issuer=" + issuer,
		"service-account-key-file=" + l.tls("service.key"),
		"service-account-signing-key-file=" + l.tls("service.key"),
		"service-cluster-ip-range=" + l.ServiceCIDR.String(),
		"service-node-port-range=" + c.String("service-node-port-range"),
		"storage-backend=etcd3",
		"tls-cert-file=" + l.tls("serving-kube-apiserver.crt"),
		"tls-private-key-file=" + l.tls("serving-kube-apiserver.key"),
		"v=" + c.String("v"),
	}, c.List("kube-apiserver-arg"))
}

func (l *Layout) controllerManagerArgs(c *config.Config) []string {
	credentials := l.server("cred", "controller.kubeconfig")
	defaults := []string{
		"allocate-node-cidrs=true",
		"authentication-kubeconfig=" + credentials,
		"authorization-kubeconfig=" + credentials,
		"bind-address=127.0.0.1",
		"cluster-cidr=" + l.ClusterCIDR.String(),
		"kubeconfig=" + credentials,
		"leader-elect=false",
		"profiling=false",
		"root-ca-file=" + l.tls("server-ca.crt"),
		"service-account-private-key-file=" + l.tls("service.key"),
		"service-cluster-ip-range=" + l.ServiceCIDR.String(),
		"use-service-account-credentials=true",
		"v=" + c.String("v"),
	}
	for signer, ca := range map[string]string{
		"kube-apiserver-client": "client-ca", "kubelet-client": "client-ca",
		"kubelet-serving": "server-ca", "legacy-unknown": "server-ca",
	} {
		defaults = append(defaults,
			"cluster-signing-"+signer+"-cert-file="+l.tls(ca+".crt"),
			"cluster-signing-"+signer+"-key-file="+l.tls(ca+".key"))
	}
	return arguments(defaults, c.List("kube-controller-manager-arg"))
}

func (l *Layout) schedulerArgs(c *config.Config) []string {
	credentials := l.server("cred", "scheduler.kubeconfig")
	return arguments([]string{
		"authentication-kubeconfig=" + credentials,
		"authorization-kubeconfig=" + credentials,
		"bind-address=127.0.0.1",
		"kubeconfig=" + credentials,
		"leader-elect=false",
		"profiling=false",
		"v=" + c.String("v"),
	}, c.List("kube-scheduler-arg"))
}

func (l *Layout) kubeletArgs(c *config.Config) []string {
	labels := append([]string{"node.kubernetes.io/instance-type=k3s"}, c.List("node-label")...)
	defaults := []string{
		"config-dir=" + l.kubeletConfigDir(),
		"hostname-override=" + l.NodeName,
		"kubeconfig=" + l.agent("kubelet.kubeconfig"),
		"node-ip=" + l.NodeIP.String(),
		"node-labels=" + strings.Join(labels, ","),
		"v=" + c.String("v"),
	}
	if taints := c.List("node-taint"); len(taints) > 0 {
		defaults = append(defaults, "register-with-taints="+strings.Join(taints, ","))
	}
	if c.Bool("protect-kernel-defaults") {
		defaults = append(defaults, "protect-kernel-defaults=true")
	}
	return arguments(defaults, c.List("kubelet-arg"))
}

func (l *Layout) proxyArgs(c *config.Config, bridgeFilter bool) []string {
	defaults := []string{
		"cluster-cidr=" + l.ClusterCIDR.String(),
		"healthz-bind-address=127.0.0.1:10256",
		"hostname-override=" + l.NodeName,
		"kubeconfig=" + l.agent("kubeproxy.kubeconfig"),
		"metrics-bind-address=127.0.0.1:10249",
		"proxy-mode=iptables",
		"v=" + c.String("v"),
	}
	if !bridgeFilter {
		defaults = append(defaults, "masquerade-all=true")
	}
	return arguments(defaults, c.List("kube-proxy-arg"))
}

// childEnv is the environment of every component.
func (l *Layout) childEnv() []string {
	env := []string{"PATH=" + l.Bin + ":" + pathOrDefault()}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "PATH", name == "NOTIFY_SOCKET", strings.HasPrefix(name, "K3S_"), name == "KUBECONFIG":
		default:
			env = append(env, e)
		}
	}
	return env
}

func pathOrDefault() string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !strings.Contains(":"+path+":", ":"+dir+":") {
			path += ":" + dir
		}
	}
	return path
}

func dialable(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
