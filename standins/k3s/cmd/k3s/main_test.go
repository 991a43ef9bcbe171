// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/node"
	"gsb.fake_gpu_lab/standins/k3s/internal/pki"
)

// k3s runs a command line without a configuration of the host's.
func k3s(t *testing.T, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("K3S_CONFIG_FILE", file)
	var out bytes.Buffer
	err := run(append([]string{"/usr/local/bin/k3s"}, args...), &out)
	return out.String(), err
}

func TestVersion(t *testing.T) {
	out, err := k3s(t, "--version")
	if err != nil || !regexp.MustCompile(`^k3s version v\S+ \(standin\)\ngo version go1\.\S+\n$`).MatchString(out) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, "frobnicate"},
		{[]string{"agent"}, "joins no server"},
		{[]string{"server", "--frobnicate"}, "frobnicate"},
		{[]string{"token"}, "usage"},
		{[]string{"token", "list", "--output", "yaml"}, "yaml"},
		{[]string{"token", "shuffle"}, "shuffle"},
		{[]string{"certificate", "check", "--output=yaml"}, "yaml"},
		{[]string{"certificate", "rotate", "--service", "kitchen"}, "kitchen"},
		{[]string{"completion", "tcsh"}, "usage"},
	} {
		_, err := k3s(t, test.args...)
		if u := (usageError{}); !errors.As(err, &u) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.args, err)
		}
	}
}

func TestWhatIsNotOffered(t *testing.T) {
	for _, args := range [][]string{{"etcd-snapshot", "save"}, {"secrets-encrypt", "status"}, {"token", "create"}, {"certificate", "rotate-ca"}} {
		if _, err := k3s(t, args...); err == nil || !strings.Contains(err.Error(), "not offered by this stand-in") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestBareLauncherSaysSo(t *testing.T) {
	if _, err := k3s(t, "kubectl", "version"); err == nil || !strings.Contains(err.Error(), "carries no payload") {
		t.Error(err)
	}
}

func TestTokenGenerate(t *testing.T) {
	out, err := k3s(t, "token", "generate")
	if err != nil || !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}\n$`).MatchString(out) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestServerHelp(t *testing.T) {
	out, err := k3s(t, "server", "--help")
	if err != nil || !strings.Contains(out, "--write-kubeconfig-mode") || !strings.Contains(out, "Accepted without effect") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestCompletionIsValid(t *testing.T) {
	out, err := k3s(t, "completion", "bash")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(out)
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// certificates makes a data folder with two authorities and two certificates.
func certificates(t *testing.T, now time.Time) string {
	t.Helper()
	data := t.TempDir()
	ca, err := pki.EnsureCA(filepath.Join(data, "server/tls/client-ca"), "k3s-client-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"server/tls/client-scheduler", "agent/client-kubelet"} {
		if _, _, err := pki.Ensure(filepath.Join(data, path), ca, pki.Request{CommonName: filepath.Base(path)}, now); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestCertificateCheck(t *testing.T) {
	now := time.Now()
	data := certificates(t, now)
	if err := os.WriteFile(filepath.Join(data, "agent/client-ca.crt"), []byte("a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		at     time.Time
		status string
		fails  bool
	}{
		{now, "OK", false},
		{now.Add(250 * 24 * time.Hour), "WARNING", false},
		{now.Add(366 * 24 * time.Hour), "EXPIRED", true},
	} {
		var out bytes.Buffer
		err := checkCertificates(data, "table", &out, test.at)
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", test.status, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 || !strings.HasPrefix(lines[0], "FILENAME") {
			t.Fatalf("%q", lines)
		}
		if !strings.HasSuffix(lines[1], test.status) || !strings.HasPrefix(lines[1], "client-kubelet.crt") {
			t.Errorf("%q does not say %s", lines[1], test.status)
		}
		if !strings.HasSuffix(lines[2], "OK") || !strings.Contains(lines[2], "CertSign") {
			t.Errorf("the authority: %q", lines[2])
		}
	}
}

func TestCertificateCheckBeforeTheFirstStart(t *testing.T) {
	if err := checkCertificates(t.TempDir(), "text", &bytes.Buffer{}, time.Now()); err == nil {
		t.Error("nothing to check, and nobody said so")
	}
}

func TestCertificateRotate(t *testing.T) {
	data := certificates(t, time.Now())
	if err := os.WriteFile(node.LockFile(data), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := stopped(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k3s(t, "certificate", "rotate", "--data-dir", data); err == nil || !strings.Contains(err.Error(), "must be stopped") {
		t.Errorf("rotated under a running server: %v", err)
	}
	unlock()
	if _, err := k3s(t, "certificate", "rotate", "--data-dir", data, "--service=scheduler"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"server/tls/client-scheduler.crt": false, "server/tls/client-scheduler.key": false, "agent/client-kubelet.crt": true, "server/tls/client-ca.crt": true} {
		if fileExists(filepath.Join(data, path)) != want {
			t.Errorf("%s there: %t", path, !want)
		}
	}
}

// A service name must not silently lose its certificate.
func TestEveryLeafCanBeRotated(t *testing.T) {
	known := map[string]bool{}
	for _, paths := range services {
		for _, p := range paths {
			known[p] = true
		}
	}
	for _, leaf := range (&node.Layout{}).Leaves(nil) {
		if !known[leaf.Path] {
			t.Errorf("%s belongs to no service", leaf.Path)
		}
		delete(known, leaf.Path)
	}
	for path := range known {
		t.Errorf("%s is no certificate", path)
	}
}
