// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

var quiet = slog.New(slog.DiscardHandler)

func configured(t *testing.T, args ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.ServerOptions, append([]string{"--config", file, "--node-name=gpu-lab", "--node-ip=192.0.2.7"}, args...), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// laidOut gives a layout on a folder of the test's own.
func laidOut(t *testing.T, args ...string) (*Layout, *config.Config) {
	t.Helper()
	c := configured(t, append([]string{"--data-dir", t.TempDir()}, args...)...)
	l, err := NewLayout(c, "/bundle/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{l.server("manifests"), l.agent("etc"), l.agent("images")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return l, c
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestLayout(t *testing.T) {
	l, _ := laidOut(t, "--service-cidr=10.96.0.0/12", "--cluster-cidr=10.200.0.0/16")
	if l.APIService.String() != "10.96.0.1" || l.DNSService.String() != "10.96.0.10" || l.podSubnet().String() != "10.200.0.0/24" {
		t.Errorf("%s %s %s", l.APIService, l.DNSService, l.podSubnet())
	}
	if l.APIURL() != "https://127.0.0.1:6443" {
		t.Error(l.APIURL())
	}
	for _, wrong := range [][]string{
		{"--service-cidr=10.42.0.0/16"},
		{"--cluster-dns=192.0.2.1"},
	} {
		if _, err := NewLayout(configured(t, wrong...), ""); err == nil {
			t.Errorf("%q: accepted", wrong)
		}
	}
}

func TestDefaultInterface(t *testing.T) {
	const routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n" +
		"eth1\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\n" +
		"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\n" +
		"cni0\t00002A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n"
	if got := defaultInterface(bufio.NewScanner(strings.NewReader(routes))); got != "eth0" {
		t.Errorf("%q", got)
	}
	if got := defaultInterface(bufio.NewScanner(strings.NewReader("Iface\nlo\t0000007F\t0\t1\t0\t0\t0\t000000FF\n"))); got != "" {
		t.Errorf("%q", got)
	}
}

func TestArguments(t *testing.T) {
	got := arguments([]string{"a=1", "b=2", "c=3"}, []string{"b=20", "--b=21", "d", "e=x=y"})
	if want := []string{"--a=1", "--c=3", "--b=20", "--b=21", "--d", "--e=x=y"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestComponentArguments(t *testing.T) {
	l, c := laidOut(t, "--kubelet-arg=max-pods=20", "--kube-proxy-arg=conntrack-max-per-core=0", "--kube-apiserver-arg=anonymous-auth=true",
		"--node-label=run.ai/simulated-gpu-node-pool=default", "--node-taint=a=b:NoSchedule", "--v=4")
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"kubelet":    {l.kubeletArgs(c), []string{"--max-pods=20", "--node-labels=node.kubernetes.io/instance-type=k3s,run.ai/simulated-gpu-node-pool=default", "--register-with-taints=a=b:NoSchedule", "--v=4", "--node-ip=192.0.2.7"}},
		"proxy":      {l.proxyArgs(c, false), []string{"--conntrack-max-per-core=0", "--masquerade-all=true"}},
		"apiserver":  {l.apiserverArgs(c), []string{"--anonymous-auth=true", "--advertise-address=192.0.2.7", "--etcd-servers=unix:///run/k3s/etcd/client.sock"}},
		"controller": {l.controllerManagerArgs(c), []string{"--bind-address=127.0.0.1"}},
		"scheduler":  {l.schedulerArgs(c), []string{"--bind-address=127.0.0.1"}},
	} {
		for _, want := range test.want {
			if !slices.Contains(test.args, want) {
				t.Errorf("%s lacks %s: %q", name, want, test.args)
			}
		}
	}
	if slices.Contains(l.apiserverArgs(c), "--anonymous-auth=false") {
		t.Error("the default is still there")
	}
	if slices.Contains(l.proxyArgs(c, true), "--masquerade-all=true") {
		t.Error("masqueraded without need")
	}
	for _, arg := range l.etcdArgs(c) {
		if strings.HasPrefix(arg, "--listen") && !strings.Contains(arg, "=unix://") {
			t.Errorf("etcd listens beyond its socket: %s", arg)
		}
	}
}

func TestChildrenDoNotSeeTheServiceEnvironment(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/x")
	t.Setenv("K3S_TOKEN", "secret")
	t.Setenv("HTTPS_PROXY", "http://proxy")
	l, _ := laidOut(t)
	env := strings.Join(l.childEnv(), "\n")
	if strings.Contains(env, "NOTIFY_SOCKET") || strings.Contains(env, "secret") {
		t.Error(env)
	}
	if !strings.Contains(env, "PATH=/bundle/bin:") || !strings.Contains(env, "HTTPS_PROXY=") {
		t.Error(env)
	}
}

func TestContainerdConfig(t *testing.T) {
	l, c := laidOut(t, "--pause-image=example.org/pause:1")
	if err := l.writeContainerdConfig(c, quiet); err != nil {
		t.Fatal(err)
	}
	file := l.agent("etc", "containerd", "config.toml")
	plain := read(t, file)
	for _, want := range []string{
		"version = 3", `imports = ["` + l.agent("etc/containerd/config-v3.toml.d/*.toml") + `"]`,
		`address = "/run/k3s/containerd/containerd.sock"`, `sandbox = "example.org/pause:1"`, "SystemdCgroup = false",
		`bin_dirs = ["/bundle/bin"]`, `conf_dir = "` + l.agent("etc/cni/net.d") + `"`, `snapshotter = "overlayfs"`,
	} {
		if !strings.Contains(plain, want) {
			t.Errorf("lacks %s:\n%s", want, plain)
		}
	}
	if got := read(t, l.agent("etc", "crictl.yaml")); !strings.Contains(got, "runtime-endpoint: unix:///run/k3s/containerd/containerd.sock\n") {
		t.Error(got)
	}
	custom := l.agent("etc", "containerd", "config-v3.toml.tmpl")
	write(t, custom, "{{ template \"base\" . }}\n# mine, {{ .Snapshotter }}\n")
	if err := l.writeContainerdConfig(c, quiet); err != nil {
		t.Fatal(err)
	}
	if got := read(t, file); got != plain+"\n# mine, overlayfs\n" {
		t.Errorf("the template does not extend the base:\n%s", got)
	}
	for _, broken := range []string{"{{ .NoSuchThing }}", "{{ if }}"} {
		write(t, custom, broken)
		if err := l.writeContainerdConfig(c, quiet); err == nil || !strings.Contains(err.Error(), custom) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

func TestCgroupDriver(t *testing.T) {
	l, _ := laidOut(t)
	systemd, err := l.usesSystemdCgroups(configured(t, "--kubelet-arg=cgroup-driver=systemd"))
	if err != nil || !systemd {
		t.Errorf("kubelet-arg is not heard: %v", err)
	}
	write(t, filepath.Join(l.kubeletConfigDir(), "50-x.conf"), "cgroupDriver: systemd\n")
	if systemd, err = l.usesSystemdCgroups(configured(t)); err != nil || !systemd {
		t.Errorf("kubelet.conf.d is not heard: %v", err)
	}
	if systemd, err = l.usesSystemdCgroups(configured(t, "--kubelet-arg=cgroup-driver=cgroupfs")); err != nil || systemd {
		t.Errorf("kubelet-arg does not beat kubelet.conf.d: %v", err)
	}
	write(t, filepath.Join(l.kubeletConfigDir(), "60-y.conf"), "[")
	if _, err = l.usesSystemdCgroups(configured(t)); err == nil || !strings.Contains(err.Error(), "60-y.conf") {
		t.Errorf("a broken fragment: %v", err)
	}
}

func TestKubeletConfig(t *testing.T) {
	l, c := laidOut(t, "--resolv-conf=/some/resolv.conf")
	if err := l.writeKubeletConfig(c); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind           string
		ReadOnlyPort   *int     `yaml:"readOnlyPort"`
		ClusterDNS     []string `yaml:"clusterDNS"`
		ResolvConf     string   `yaml:"resolvConf"`
		CgroupDriver   string   `yaml:"cgroupDriver"`
		Endpoint       string   `yaml:"containerRuntimeEndpoint"`
		Authentication struct{ Anonymous struct{ Enabled *bool } }
		Frequency      string `yaml:"nodeStatusUpdateFrequency"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(l.kubeletConfigDir(), "00-k3s-defaults.conf"))), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "KubeletConfiguration" || got.ReadOnlyPort == nil || *got.ReadOnlyPort != 0 || got.ClusterDNS[0] != "10.43.0.10" ||
		got.ResolvConf != "/some/resolv.conf" || got.CgroupDriver != "cgroupfs" || got.Endpoint != "unix:///run/k3s/containerd/containerd.sock" ||
		got.Authentication.Anonymous.Enabled == nil || *got.Authentication.Anonymous.Enabled || got.Frequency != "" {
		t.Errorf("%+v", got)
	}
}

func TestNameserversThatPodsCanReach(t *testing.T) {
	for text, want := range map[string]bool{
		"nameserver 10.0.0.1\n":                           true,
		"# x\nsearch a\nnameserver 2001:db8::1\n":         true,
		"nameserver 127.0.0.53\noptions edns0\n":          false,
		"nameserver 10.0.0.1\nnameserver 127.0.0.1\n":     false,
		"nameserver fe80::1%eth0\n":                       false,
		"":                                                false,
		"search example.org\n# nameserver 10.0.0.1\n":     false,
		"nameserver 10.0.0.1 # the router\noptions x:1\n": true,
	} {
		if got := reachableFromPods(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestNetworkConfig(t *testing.T) {
	l, c := laidOut(t)
	if err := l.writeNetworkConfig(c); err != nil {
		t.Fatal(err)
	}
	file := l.agent("etc", "cni", "net.d", cniConfig)
	for _, want := range []string{`"subnet": "10.42.0.0/24"`, `"type": "portmap"`, `"bridge": "cni0"`} {
		if !strings.Contains(read(t, file), want) {
			t.Errorf("lacks %s", want)
		}
	}
	if err := l.writeNetworkConfig(configured(t, "--flannel-backend=none")); err != nil {
		t.Fatal(err)
	}
	if exists(file) {
		t.Error("flannel-backend none leaves a network configuration")
	}
}

func TestToken(t *testing.T) {
	ca := []byte("the certificate")
	digest := sha256.Sum256(ca)
	prefix := "K10" + hex.EncodeToString(digest[:]) + "::server:"
	for token, want := range map[string]string{
		"secret": prefix + "secret", "K10abc::server:secret": prefix + "secret", "K10abc::node:secret": prefix + "secret",
	} {
		if got, err := FormatToken(token, ca); err != nil || got != want {
			t.Errorf("%s: %s, %v", token, got, err)
		}
	}
	for _, wrong := range []string{"K10abc", "K10abc::server", "K10abc::server:", "a b", "a:b"} {
		if got, err := FormatToken(wrong, ca); err == nil {
			t.Errorf("%s: %s", wrong, got)
		}
	}
}

func TestTokenFiles(t *testing.T) {
	l, c := laidOut(t)
	if err := l.ensureCertificates(c, quiet, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := l.ensureToken(c); err != nil {
		t.Fatal(err)
	}
	first := read(t, l.server("token"))
	if !strings.HasPrefix(first, "K10") || !strings.HasSuffix(first, "\n") {
		t.Error(first)
	}
	if info, err := os.Stat(l.server("token")); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	for _, link := range []string{"node-token", "agent-token"} {
		if target, err := os.Readlink(l.server(link)); err != nil || target != l.server("token") {
			t.Error(target, err)
		}
	}
	if err := l.ensureToken(c); err != nil || read(t, l.server("token")) != first {
		t.Errorf("the token is not kept: %v", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "from-file\n")
	if err := l.ensureToken(configured(t, "--token-file", file)); err != nil || !strings.HasSuffix(read(t, l.server("token")), ":from-file\n") {
		t.Error(read(t, l.server("token")), err)
	}
}

func TestCertificates(t *testing.T) {
	l, c := laidOut(t, "--tls-san=lab.example.org,198.51.100.1")
	now := time.Now()
	if err := l.ensureCertificates(c, quiet, now); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(read(t, l.tls("serving-kube-apiserver.crt"))))
	crt, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lab.example.org", "198.51.100.1", "10.43.0.1", "127.0.0.1", "192.0.2.7", "kubernetes.default.svc.cluster.local", "gpu-lab"} {
		if err := crt.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	snapshot := func() map[string]string {
		files := map[string]string{}
		err := filepath.WalkDir(l.DataDir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				content, readErr := os.ReadFile(path)
				files[path] = string(content)
				err = readErr
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := snapshot()
	if err := l.ensureCertificates(c, quiet, now.Add(200*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, snapshot()) {
		t.Error("a start on day 200 changes something")
	}
	if err := l.ensureCertificates(c, quiet, now.Add(250*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	second := snapshot()
	for _, leaf := range l.Leaves(nil) {
		path := filepath.Join(l.DataDir, leaf.Path) + ".crt"
		if first[path] == second[path] {
			t.Errorf("%s is not renewed on day 250", leaf.Path)
		}
		if file := filepath.Join(l.DataDir, leaf.Kubeconfig); leaf.Kubeconfig != "" && first[file] == second[file] {
			t.Errorf("%s still holds the old certificate", leaf.Kubeconfig)
		}
	}
	for _, name := range append(Authorities, "service") {
		for path, content := range first {
			if strings.HasPrefix(filepath.Base(path), name+".") && second[path] != content {
				t.Errorf("%s changed", path)
			}
		}
	}
}

func TestNodeHosts(t *testing.T) {
	var nodes nodeList
	if err := yaml.Unmarshal([]byte(`
items:
- metadata: {name: gpu-lab}
  status: {addresses: [{type: InternalIP, address: 10.0.0.2}, {type: Hostname, address: gpu-lab}]}
- metadata: {name: gpu-a}
  status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}
- metadata: {name: bare}
`), &nodes); err != nil {
		t.Fatal(err)
	}
	if got := nodeHosts(nodes); got != "10.0.0.1 gpu-a\n10.0.0.2 gpu-lab\n" {
		t.Errorf("%q", got)
	}
}

// documents splits a manifest.
func documents(t *testing.T, content []byte) []map[string]any {
	t.Helper()
	var found []map[string]any
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document map[string]any
		if err := decoder.Decode(&document); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found = append(found, document)
	}
}

func TestPackagedManifestsAreComplete(t *testing.T) {
	l, c := laidOut(t)
	l.NodeIP = netip.MustParseAddr("192.0.2.7")
	a := l.newAddons(c, quiet)
	entries, err := packaged.ReadDir("packaged")
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := a.render(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range documents(t, content) {
			if d["kind"] == nil || d["apiVersion"] == nil || d["metadata"].(map[string]any)["name"] == nil {
				t.Errorf("%s: %v", e.Name(), d)
			}
		}
	}
	content, err := a.render("coredns.yaml")
	if err != nil || !strings.Contains(string(content), "192.0.2.7 gpu-lab") || !strings.Contains(string(content), "clusterIP: 10.43.0.10") {
		t.Errorf("%v\n%s", err, content)
	}
}
