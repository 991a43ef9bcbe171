// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/pki"
)

// Leaf is one certificate of the cluster, by its place below the data folder.
type Leaf struct {
	Path    string
	CA      string
	Request pki.Request
	// User is the kubeconfig written for it, if any.
	Kubeconfig string
}

// Authorities are the certificate authorities below server/tls.
var Authorities = []string{"server-ca", "client-ca", "request-header-ca"}

// Leaves are all certificates that the authorities sign.
func (l *Layout) Leaves(extraNames []string) []Leaf {
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + l.Domain, "localhost", l.NodeName}
	addresses := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1"), net.IP(l.APIService.AsSlice()), net.IP(l.NodeIP.AsSlice())}
	if host, err := os.Hostname(); err == nil && host != l.NodeName {
		names = append(names, host)
	}
	if ip := net.ParseIP(l.BindAddress); ip != nil && !ip.IsUnspecified() {
		addresses = append(addresses, ip)
	}
	for _, n := range extraNames {
		if ip := net.ParseIP(n); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, n)
		}
	}
	client := func(name string, groups ...string) pki.Request {
		return pki.Request{CommonName: name, Organizations: groups}
	}
	return []Leaf{
		{Path: "server/tls/serving-kube-apiserver", CA: "server-ca", Request: pki.Request{CommonName: "kube-apiserver", Names: names, Addresses: addresses}},
		{Path: "server/tls/client-admin", CA: "client-ca", Request: client("system:admin", "system:masters"), Kubeconfig: "server/cred/admin.kubeconfig"},
		{Path: "server/tls/client-supervisor", CA: "client-ca", Request: client("system:k3s-supervisor", "system:masters"), Kubeconfig: "server/cred/supervisor.kubeconfig"},
		{Path: "server/tls/client-kube-apiserver", CA: "client-ca", Request: client("kube-apiserver", "system:masters")},
		{Path: "server/tls/client-controller", CA: "client-ca", Request: client("system:kube-controller-manager"), Kubeconfig: "server/cred/controller.kubeconfig"},
		{Path: "server/tls/client-scheduler", CA: "client-ca", Request: client("system:kube-scheduler"), Kubeconfig: "server/cred/scheduler.kubeconfig"},
		{Path: "server/tls/client-auth-proxy", CA: "request-header-ca", Request: client("system:auth-proxy")},
		{Path: "agent/client-kubelet", CA: "client-ca", Request: client("system:node:"+l.NodeName, "system:nodes"), Kubeconfig: "agent/kubelet.kubeconfig"},
		{Path: "agent/client-kube-proxy", CA: "client-ca", Request: client("system:kube-proxy"), Kubeconfig: "agent/kubeproxy.kubeconfig"},
		{Path: "agent/serving-kubelet", CA: "server-ca", Request: pki.Request{CommonName: l.NodeName, Names: []string{l.NodeName, "localhost"}, Addresses: []net.IP{net.IP(l.NodeIP.AsSlice()), net.ParseIP("127.0.0.1")}}},
	}
}

// ensureCertificates makes what is missing, renews what runs out, and writes
// the kubeconfigs of the components.
func (l *Layout) ensureCertificates(c *config.Config, log *slog.Logger, now time.Time) error {
	authorities := map[string]*pki.Pair{}
	for _, name := range Authorities {
		ca, err := pki.EnsureCA(l.tls(name), "k3s-"+name, now)
		if err != nil {
			return err
		}
		authorities[name] = ca
	}
	serverCA, err := os.ReadFile(l.tls("server-ca.crt"))
	if err != nil {
		return err
	}
	clientCA, err := os.ReadFile(l.tls("client-ca.crt"))
	if err != nil {
		return err
	}
	if err := errors.Join(
		atomicfile.Write(l.agent("server-ca.crt"), serverCA, 0o644),
		atomicfile.Write(l.agent("client-ca.crt"), clientCA, 0o644)); err != nil {
		return err
	}
	for _, leaf := range l.Leaves(c.List("tls-san")) {
		path := filepath.Join(l.DataDir, leaf.Path)
		_, reason, err := pki.Ensure(path, authorities[leaf.CA], leaf.Request, now)
		if err != nil {
			return err
		}
		if reason != "" && reason != "missing" {
			log.Info("certificate renewed", "file", path+".crt", "reason", reason)
		}
		if leaf.Kubeconfig == "" {
			continue
		}
		content, err := kubeconfig(l.APIURL(), serverCA, path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(l.DataDir, leaf.Kubeconfig)), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(l.DataDir, leaf.Kubeconfig), content, 0o600); err != nil {
			return err
		}
	}
	return pki.EnsureKey(l.tls("service.key"))
}

func kubeconfig(url string, ca []byte, pair string) ([]byte, error) {
	crt, err := os.ReadFile(pair + ".crt")
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(pair + ".key")
	if err != nil {
		return nil, err
	}
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: default
  cluster:
    certificate-authority-data: %s
    server: %s
contexts:
- name: default
  context:
    cluster: default
    user: default
current-context: default
preferences: {}
users:
- name: default
  user:
    client-certificate-data: %s
    client-key-data: %s
`, b64(ca), url, b64(crt), b64(key)), nil
}

// writeAdminKubeconfig leaves the admin's kubeconfig where it was asked for.
func (l *Layout) writeAdminKubeconfig(c *config.Config) error {
	content, err := os.ReadFile(l.server("cred", "admin.kubeconfig"))
	if err != nil {
		return err
	}
	mode, err := strconv.ParseUint(c.String("write-kubeconfig-mode"), 8, 32)
	if err != nil {
		return err
	}
	path := c.String("write-kubeconfig")
	for _, p := range []string{path, config.DefaultOutput} {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(path, content, os.FileMode(mode)); err != nil {
		return err
	}
	gid := 0
	if name := c.String("write-kubeconfig-group"); name != "" {
		if gid, err = groupID(name); err != nil {
			return fmt.Errorf("write-kubeconfig-group: %w", err)
		}
	}
	if err := os.Chown(path, 0, gid); err != nil {
		return err
	}
	if path == config.DefaultOutput {
		return nil
	}
	return atomicfile.Symlink(path, config.DefaultOutput)
}

func groupID(name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil {
		return id, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// ensureToken writes server/token and the links to it.
func (l *Layout) ensureToken(c *config.Config) error {
	ca, err := os.ReadFile(l.tls("server-ca.crt"))
	if err != nil {
		return err
	}
	wanted := c.String("token")
	if file := c.String("token-file"); file != "" && wanted == "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		wanted = strings.TrimSpace(string(content))
	}
	file := l.server("token")
	if wanted == "" {
		if content, err := os.ReadFile(file); err == nil {
			wanted = strings.TrimSpace(string(content))
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if wanted == "" {
		if wanted, err = randomHex(16); err != nil {
			return err
		}
	}
	token, err := FormatToken(wanted, ca)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(file, []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Symlink(file, l.server("node-token")),
		atomicfile.Symlink(file, l.server("agent-token")))
}

// FormatToken gives the long form of a token, K10<digest of the CA>::server:<secret>.
func FormatToken(token string, ca []byte) (string, error) {
	secret := token
	if strings.HasPrefix(token, "K10") {
		_, credentials, found := strings.Cut(token, "::")
		if !found {
			return "", errors.New("token: the long form is K10<digest>::server:<secret>")
		}
		_, secret, found = strings.Cut(credentials, ":")
		if !found || secret == "" {
			return "", errors.New("token: the long form is K10<digest>::server:<secret>")
		}
	}
	if strings.ContainsAny(secret, "\n\r :") {
		return "", errors.New("token: must not contain spaces or colons")
	}
	digest := sha256.Sum256(ca)
	return "K10" + hex.EncodeToString(digest[:]) + "::server:" + secret, nil
}

func (l *Layout) ensureNodePassword() error {
	file := "/etc/rancher/node/password"
	if _, err := os.Stat(file); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	secret, err := randomHex(16)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(secret+"\n"), 0o600)
}

func randomHex(n int) (string, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}
