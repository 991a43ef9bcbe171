// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"

	"go.yaml.in/yaml/v3"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

//go:embed containerd.toml.tmpl
var containerdBase string

// ContainerdValues are what a containerd template may use.
type ContainerdValues struct {
	Root          string
	State         string
	Socket        string
	Bin           string
	CNIConfig     string
	Imports       string
	Certificates  string
	PauseImage    string
	Snapshotter   string
	SystemdCgroup bool
}

func (l *Layout) writeContainerdConfig(c *config.Config, log *slog.Logger) error {
	dir := l.agent("etc", "containerd")
	for _, d := range []string{filepath.Join(dir, "config-v3.toml.d"), filepath.Join(dir, "certs.d"), l.agent("containerd")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	values := ContainerdValues{
		Root: l.agent("containerd"), State: RunDir + "/containerd", Socket: ContainerdSocket, Bin: l.Bin,
		CNIConfig: l.agent("etc", "cni", "net.d"), Imports: filepath.Join(dir, "config-v3.toml.d", "*.toml"),
		Certificates: filepath.Join(dir, "certs.d"), PauseImage: c.String("pause-image"),
		Snapshotter: c.String("snapshotter"), SystemdCgroup: l.SystemdCgroup,
	}
	own := filepath.Join(dir, "config-v3.toml.tmpl")
	custom, err := os.ReadFile(own)
	if errors.Is(err, os.ErrNotExist) {
		custom = []byte(`{{ template "base" . }}`)
		if old := filepath.Join(dir, "config.toml.tmpl"); exists(old) {
			log.Warn("template of the old format is not read; write config-v3.toml.tmpl", "file", old)
		}
	} else if err != nil {
		return err
	}
	content, err := renderContainerd(string(custom), values)
	if err != nil {
		return fmt.Errorf("%s: %w", own, err)
	}
	crictl := fmt.Sprintf("runtime-endpoint: unix://%s\nimage-endpoint: unix://%s\ntimeout: 10\n", ContainerdSocket, ContainerdSocket)
	return errors.Join(
		atomicfile.Write(filepath.Join(dir, "config.toml"), content, 0o600),
		atomicfile.Write(l.agent("etc", "crictl.yaml"), []byte(crictl), 0o644))
}

func renderContainerd(custom string, values ContainerdValues) ([]byte, error) {
	t := template.New("config").Option("missingkey=error")
	if _, err := t.New("base").Parse(containerdBase); err != nil {
		return nil, err
	}
	if _, err := t.Parse(custom); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := t.Execute(&b, values)
	return b.Bytes(), err
}

// usesSystemdCgroups says whether containers get their cgroups from systemd:
// what the kubelet is told, else whether systemd runs on a cgroup v2 host.
func (l *Layout) usesSystemdCgroups(c *config.Config) (bool, error) {
	driver, err := l.toldCgroupDriver(c)
	if err != nil {
		return false, err
	}
	if driver != "" {
		return driver == "systemd", nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return false, err
	}
	const cgroup2 = 0x63677270
	return fs.Type == cgroup2 && exists("/run/systemd/system"), nil
}

func (l *Layout) toldCgroupDriver(c *config.Config) (string, error) {
	for _, arg := range c.List("kubelet-arg") {
		if v, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "cgroup-driver="); ok {
			return v, nil
		}
	}
	driver := ""
	files, err := filepath.Glob(filepath.Join(l.kubeletConfigDir(), "*.conf"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if filepath.Base(f) == kubeletDefaults {
			continue
		}
		var fragment struct {
			CgroupDriver string `yaml:"cgroupDriver"`
		}
		content, err := os.ReadFile(f)
		if err == nil {
			err = yaml.Unmarshal(content, &fragment)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", f, err)
		}
		if fragment.CgroupDriver != "" {
			driver = fragment.CgroupDriver
		}
	}
	return driver, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
