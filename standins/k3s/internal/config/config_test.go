// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func noEnv(string) string { return "" }

// files writes a configuration and its drop-ins and returns its path.
func files(t *testing.T, main string, dropIns map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(path, content string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, main)
	for name, content := range dropIns {
		write(filepath.Join(path+".d", name), content)
	}
	return path
}

func load(t *testing.T, main string, dropIns map[string]string, args ...string) (*Config, error) {
	t.Helper()
	return Load(ServerOptions, append([]string{"--config", files(t, main, dropIns)}, args...), noEnv)
}

func TestDefaults(t *testing.T) {
	c, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"data-dir": "/var/lib/rancher/k3s", "write-kubeconfig-mode": "0600", "cluster-cidr": "10.42.0.0/16",
		"service-cidr": "10.43.0.0/16", "cluster-domain": "cluster.local", "https-listen-port": "6443", "node-name": "",
	} {
		if got := c.String(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if got := c.List("disable"); len(got) != 0 {
		t.Errorf("disable = %q", got)
	}
}

func TestMerging(t *testing.T) {
	tests := []struct {
		name    string
		main    string
		dropIns map[string]string
		args    []string
		option  string
		want    []string
	}{
		{"a list", "node-label: [a=1, b=2]", nil, nil, "node-label", []string{"a=1", "b=2"}},
		{"one value for a list", "kubelet-arg: v=2", nil, nil, "kubelet-arg", []string{"v=2"}},
		{"an octal number stays as written", "write-kubeconfig-mode: 0644", nil, nil, "write-kubeconfig-mode", []string{"0644"}},
		{"the last file wins", "node-name: a", map[string]string{"20-x.yaml": "node-name: c", "10-x.yaml": "node-name: b"}, nil, "node-name", []string{"c"}},
		{"a list is replaced", "kubelet-arg: [a=1]", map[string]string{"10.yaml": "kubelet-arg: [b=2]"}, nil, "kubelet-arg", []string{"b=2"}},
		{"plus adds to a list", "kubelet-arg: [a=1]", map[string]string{"10.yaml": "kubelet-arg+: [b=2]", "20.yaml": "kubelet-arg+: c=3"}, nil, "kubelet-arg", []string{"a=1", "b=2", "c=3"}},
		{"plus on nothing", "", map[string]string{"10.yaml": "kube-proxy-arg+: [x=1]"}, nil, "kube-proxy-arg", []string{"x=1"}},
		{"plus adds to a string", "token: ab", map[string]string{"10.yaml": "token+: cd"}, nil, "token", []string{"abcd"}},
		{"after plus, a plain key replaces", "kubelet-arg: [a=1]", map[string]string{"10.yaml": "kubelet-arg+: [b=2]", "20.yaml": "kubelet-arg: [c=3]"}, nil, "kubelet-arg", []string{"c=3"}},
		{"other files in the folder do not count", "node-name: a", map[string]string{"10.yaml.bak": "node-name: b", "README": "x"}, nil, "node-name", []string{"a"}},
		{"the command line beats the files", "node-name: a", map[string]string{"10.yaml": "node-name: b"}, []string{"--node-name=c"}, "node-name", []string{"c"}},
		{"the command line replaces a list", "node-label: [a=1]", nil, []string{"--node-label", "b=2", "--node-label=c=3"}, "node-label", []string{"b=2", "c=3"}},
		{"commas divide what can be divided", "disable: traefik,servicelb", nil, nil, "disable", []string{"traefik", "servicelb"}},
		{"commas in flags of components stay", "kubelet-arg: ['eviction-hard=a<1%,b<2%']", nil, nil, "kubelet-arg", []string{"eviction-hard=a<1%,b<2%"}},
		{"a switch", "", nil, []string{"--disable-kube-proxy"}, "disable-kube-proxy", []string{"true"}},
		{"a switch, off", "disable-kube-proxy: true", nil, []string{"--disable-kube-proxy=false"}, "disable-kube-proxy", []string{"false"}},
		{"short flags", "", nil, []string{"-i", "10.0.0.1"}, "node-ip", []string{"10.0.0.1"}},
		{"comments and nothing", "# nothing\n", nil, nil, "node-name", nil},
		{"an empty document", "---\n", nil, nil, "node-name", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := load(t, test.main, test.dropIns, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.List(test.option); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s = %q, want %q", test.option, got, test.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		main string
		args []string
		want []string
	}{
		{"unknown key", "node-nmae: x", nil, []string{`unknown key "node-nmae"`, "config.yaml, line 1", `did you mean "node-name"?`}},
		{"unknown key with plus", "fooo+: [x]", nil, []string{`unknown key "fooo+"`}},
		{"the config itself", "config: /x", nil, []string{`unknown key "config"`}},
		{"unknown flag", "", []string{"--frobnicate=1"}, []string{"command line", `unknown flag "--frobnicate=1"`}},
		{"a stray argument", "", []string{"start"}, []string{`unexpected argument "start"`}},
		{"a flag without its value", "", []string{"--node-name"}, []string{`"--node-name" needs a value`}},
		{"a key twice", "node-name: a\nnode-name: b", nil, []string{"line 2"}},
		{"a list for one value", "node-name: [a]", nil, []string{"node-name: takes one value"}},
		{"a mapping", "kubelet-arg: {a: b}", nil, []string{"kubelet-arg: must be a plain value or a list"}},
		{"no mapping at all", "- a\n- b", nil, []string{"must be a mapping"}},
		{"broken YAML", "a: [", nil, []string{"config.yaml"}},
		{"plus on a switch", "disable-kube-proxy+: true", nil, []string{"nothing can be added"}},
		{"no switch", "disable-kube-proxy: maybe", nil, []string{"line 1", "disable-kube-proxy", "true or false"}},
		{"file mode", `write-kubeconfig-mode: "0648"`, nil, []string{"octal"}},
		{"reserved label", "node-label: [node-role.kubernetes.io/worker=true]", nil, []string{"may not give itself"}},
		{"label without value", "node-label: [a]", nil, []string{"key=value"}},
		{"taint", "node-taint: ['a=b:Never']", nil, []string{`"Never"`}},
		{"network", "cluster-cidr: 10.42.0.0", nil, []string{"IPv4 network"}},
		{"address", "node-ip: host", nil, []string{"IP address"}},
		{"node name", "node-name: A_b", nil, []string{"lower-case"}},
		{"joining", "server: https://10.0.0.1:6443", nil, []string{"server is not offered by this stand-in", "line 1"}},
		{"encryption", "secrets-encryption: true", nil, []string{"not offered", "encrypted"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.main, nil, test.args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestDropInIsNamed(t *testing.T) {
	_, err := load(t, "", map[string]string{"10-lab.yaml": "\nnode_name: x"})
	if err == nil || !strings.Contains(err.Error(), "10-lab.yaml, line 2") || !strings.Contains(err.Error(), `"node_name"`) {
		t.Error(err)
	}
}

func TestRefusedOptionsMayBeOff(t *testing.T) {
	if _, err := load(t, "secrets-encryption: false\nserver: ''", nil); err != nil {
		t.Error(err)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(ServerOptions, []string{"--config=/nonexistent/config.yaml"}, noEnv)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a named file that is missing: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	path := files(t, "token: file", nil)
	env := map[string]string{"K3S_CONFIG_FILE": path, "K3S_NODE_NAME": "from-env", "K3S_TOKEN": "env"}
	c, err := Load(ServerOptions, nil, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if c.String("node-name") != "from-env" || c.String("token") != "file" || c.String("config") != path {
		t.Errorf("node-name %q, token %q, config %q", c.String("node-name"), c.String("token"), c.String("config"))
	}
}

func TestIgnoredIsTold(t *testing.T) {
	c, err := load(t, "disable-helm-controller: true\ndisable-network-policy: false", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Ignored()
	if len(got) != 1 || !strings.Contains(got[0], "disable-helm-controller") || !strings.Contains(got[0], "config.yaml, line 1") {
		t.Errorf("%q", got)
	}
}

func TestHelp(t *testing.T) {
	if _, err := Load(ServerOptions, []string{"--help"}, noEnv); !errors.Is(err, ErrHelp) {
		t.Error(err)
	}
	text := Usage(ServerOptions)
	for _, o := range ServerOptions {
		if !strings.Contains(text, "--"+o.Name) {
			t.Errorf("the help lacks %s", o.Name)
		}
	}
}

func TestDataDir(t *testing.T) {
	path := files(t, "data-dir: /from/file\nno-such-key: 1", nil)
	good := files(t, "data-dir: /from/file", nil)
	for _, test := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"--data-dir", "/x"}, nil, "/x"},
		{[]string{"-d=/x"}, nil, "/x"},
		{nil, map[string]string{"K3S_CONFIG_FILE": good, "K3S_DATA_DIR": "/env"}, "/from/file"},
		{nil, map[string]string{"K3S_CONFIG_FILE": path, "K3S_DATA_DIR": "/env"}, "/env"},
		{nil, map[string]string{"K3S_CONFIG_FILE": "/nonexistent"}, DefaultDataDir},
	} {
		if got := DataDir(test.args, func(n string) string { return test.env[n] }); got != test.want {
			t.Errorf("%q %v: %s, want %s", test.args, test.env, got, test.want)
		}
	}
}

func TestOptionsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range ServerOptions {
		for _, name := range []string{o.Name, o.Short} {
			if name != "" && seen[name] {
				t.Errorf("%s stands twice", name)
			}
			seen[name] = true
		}
		if o.Help == "" {
			t.Errorf("%s has no help", o.Name)
		}
		if o.Default != "" && o.Check != nil {
			if err := o.Check(o.Default); err != nil {
				t.Errorf("default of %s: %v", o.Name, err)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	for _, good := range []string{"a=", "a=b", "run.ai/simulated-gpu-node-pool=default", "node.kubernetes.io/instance-type=x", "gpu.node.kubernetes.io/a=b", "kubernetes.io/hostname=x"} {
		if err := checkLabel(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"a", "=b", "a=b c", "-a=b", "kubernetes.io/a=b", "x.k8s.io/a=b", "a/b/c=d"} {
		if checkLabel(bad) == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	for _, good := range []string{"a:NoSchedule", "a=b:NoExecute", "kwok.x-k8s.io/node=fake:NoSchedule"} {
		if err := checkTaint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
