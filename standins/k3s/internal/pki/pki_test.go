// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	now    = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	server = Request{CommonName: "kube-apiserver", Names: []string{"kubernetes", "localhost"}, Addresses: []net.IP{net.ParseIP("10.43.0.1")}}
	client = Request{CommonName: "system:admin", Organizations: []string{"system:masters"}}
)

func authority(t *testing.T) (*Pair, string) {
	t.Helper()
	dir := t.TempDir()
	ca, err := EnsureCA(filepath.Join(dir, "tls", "server-ca"), "k3s-server-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	return ca, dir
}

func ensure(t *testing.T, path string, ca *Pair, r Request, at time.Time) (*Pair, string) {
	t.Helper()
	p, reason, err := Ensure(path, ca, r, at)
	if err != nil {
		t.Fatal(err)
	}
	return p, reason
}

func TestAuthority(t *testing.T) {
	ca, _ := authority(t)
	if life := ca.Cert.NotAfter.Sub(now); life != 3650*day {
		t.Errorf("it is valid for %s", life)
	}
	if !ca.Cert.IsCA || !strings.HasPrefix(ca.Cert.Subject.CommonName, "k3s-server-ca@") {
		t.Errorf("CA %t, %s", ca.Cert.IsCA, ca.Cert.Subject)
	}
	again, err := EnsureCA(ca.Path, "other", now.Add(5*365*day))
	if err != nil || !again.Cert.Equal(ca.Cert) {
		t.Errorf("it is not kept: %v", err)
	}
	if info, err := os.Stat(ca.KeyFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info.Mode(), err)
	}
}

func TestAuthorityIsNeverReplaced(t *testing.T) {
	ca, _ := authority(t)
	if _, err := EnsureCA(ca.Path, "x", now.Add(3651*day)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
	if err := os.WriteFile(ca.CrtFile(), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureCA(ca.Path, "x", now); err == nil {
		t.Error("a broken authority is accepted")
	}
	if err := os.Remove(ca.CrtFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureCA(ca.Path, "x", now); err == nil {
		t.Error("a lone key is overwritten")
	}
}

func TestCertificates(t *testing.T) {
	ca, dir := authority(t)
	s, _ := ensure(t, filepath.Join(dir, "serving"), ca, server, now)
	c, _ := ensure(t, filepath.Join(dir, "client"), ca, client, now)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	for _, name := range []string{"kubernetes", "localhost", "10.43.0.1"} {
		if _, err := s.Cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client's certificate serves")
	}
	if life := s.Cert.NotAfter.Sub(now); life != 365*day {
		t.Errorf("a certificate is valid for %s", life)
	}
	if _, err := tls.LoadX509KeyPair(s.CrtFile(), s.KeyFile()); err != nil {
		t.Error(err)
	}
}

func TestRenewal(t *testing.T) {
	ca, dir := authority(t)
	other, _ := authority(t)
	path := filepath.Join(dir, "serving")
	more := server
	more.Addresses = append(more.Addresses, net.ParseIP("192.0.2.1"))
	named := server
	named.Names = append(named.Names, "gpu-lab")
	for _, test := range []struct {
		name   string
		change func()
		ca     *Pair
		r      Request
		at     time.Time
		reason string
	}{
		{"nothing to do", func() {}, ca, server, now, ""},
		{"121 days left", func() {}, ca, server, now.Add(244 * day), ""},
		{"119 days left", func() {}, ca, server, now.Add(246 * day), "ends on 2027-11-30"},
		{"run out", func() {}, ca, server, now.Add(400 * day), "ends on"},
		{"not valid yet", func() {}, ca, server, now.Add(-2 * day), "not valid yet"},
		{"a new address", func() {}, ca, more, now, "192.0.2.1"},
		{"a new name", func() {}, ca, named, now, "gpu-lab"},
		{"fewer names", func() { ensure(t, path, ca, named, now) }, ca, server, now, ""},
		{"another authority", func() {}, other, server, now, "another authority"},
		{"another subject", func() {}, ca, Request{CommonName: "x", Names: server.Names}, now, "another subject"},
		{"no certificate", func() { os.Remove(path + ".crt") }, ca, server, now, "missing"},
		{"no key", func() { os.Remove(path + ".key") }, ca, server, now, "missing"},
		{"a broken certificate", func() { os.WriteFile(path+".crt", []byte("x"), 0o600) }, ca, server, now, "holds no certificate"},
		{"another key", func() { rewriteKey(t, path+".key") }, ca, server, now, "does not belong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, suffix := range []string{".crt", ".key"} {
				os.Remove(path + suffix)
			}
			before, _ := ensure(t, path, ca, server, now)
			test.change()
			after, reason := ensure(t, path, test.ca, test.r, test.at)
			if test.reason == "" && reason != "" || !strings.Contains(reason, test.reason) {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
			if test.name != "fewer names" && (test.reason == "") != bytes.Equal(before.Cert.Raw, after.Cert.Raw) {
				t.Error("renewed without need, or not renewed")
			}
			if loaded, err := Load(path); err != nil || !loaded.Cert.Equal(after.Cert) {
				t.Errorf("on disk: %v", err)
			}
		})
	}
}

func TestLeafEndsWithItsAuthority(t *testing.T) {
	ca, dir := authority(t)
	at := now.Add(3600 * day)
	path := filepath.Join(dir, "late")
	p, _ := ensure(t, path, ca, client, at)
	if !p.Cert.NotAfter.Equal(ca.Cert.NotAfter) {
		t.Errorf("it ends on %s, its authority on %s", p.Cert.NotAfter, ca.Cert.NotAfter)
	}
	if _, reason := ensure(t, path, ca, client, at); reason != "" {
		t.Errorf("renewed again at every start: %s", reason)
	}
}

func TestServiceAccountKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tls", "service.key")
	if err := EnsureKey(file); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := EnsureKey(file); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(file); err != nil || !bytes.Equal(first, second) {
		t.Error("the key is not kept")
	}
}

func rewriteKey(t *testing.T, file string) {
	t.Helper()
	key, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKey(file, key); err != nil {
		t.Fatal(err)
	}
}
