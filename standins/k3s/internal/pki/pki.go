// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package pki makes and renews the certificates of the cluster.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
)

const (
	day = 24 * time.Hour
	// CALife is how long a new certificate authority is valid.
	CALife = 3650 * day
	// LeafLife is how long a new certificate is valid.
	LeafLife = 365 * day
	// RenewBefore is what must remain of a certificate at a start.
	RenewBefore = 120 * day
	// A clock that is set back a little must not make the certificates invalid.
	backdate = day
)

// Pair is a certificate with its key, in files <Path>.crt and <Path>.key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
	Path string
}

// CrtFile and KeyFile are the two files of the pair.
func (p *Pair) CrtFile() string { return p.Path + ".crt" }
func (p *Pair) KeyFile() string { return p.Path + ".key" }

// Request says what a certificate must be.
type Request struct {
	CommonName    string
	Organizations []string
	// Names and addresses of a server; none makes a client certificate.
	Names     []string
	Addresses []net.IP
}

// Load reads a pair.
func Load(path string) (*Pair, error) {
	p := &Pair{Path: path}
	crt, err := os.ReadFile(p.CrtFile())
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(crt)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s: holds no certificate", p.CrtFile())
	}
	if p.Cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", p.CrtFile(), err)
	}
	if p.Key, err = loadKey(p.KeyFile()); err != nil {
		return nil, err
	}
	public, ok := p.Key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(p.Cert.PublicKey) {
		return nil, fmt.Errorf("%s: does not belong to %s", p.KeyFile(), p.CrtFile())
	}
	return p, nil
}

func loadKey(file string) (crypto.Signer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s: holds no key", file)
	}
	var key any
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: cannot sign", file)
	}
	return signer, nil
}

// EnsureCA loads an authority, or makes it when there is none. One that is
// there but broken or expired is never replaced: everything hangs on it.
func EnsureCA(path, name string, now time.Time) (*Pair, error) {
	p, err := Load(path)
	switch {
	case err == nil && now.After(p.Cert.NotAfter):
		return nil, fmt.Errorf("%s: expired on %s", p.CrtFile(), p.Cert.NotAfter.Format(time.DateOnly))
	case err == nil && !p.Cert.IsCA:
		return nil, fmt.Errorf("%s: is not a certificate authority", p.CrtFile())
	case err == nil:
		return p, nil
	case !absent(path + ".crt"):
		return nil, err
	case !absent(path + ".key"):
		return nil, fmt.Errorf("%s is there without its certificate", path+".key")
	}
	key, err := generate()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, now.Unix())},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(CALife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	return sign(path, template, key, nil, nil)
}

// Ensure loads a certificate, or makes it anew when it is missing, broken,
// not what is asked for, of another authority, or close to its end.
func Ensure(path string, ca *Pair, r Request, now time.Time) (p *Pair, reason string, err error) {
	p, err = Load(path)
	if err == nil {
		if reason = unfit(p, ca, r, now); reason == "" {
			return p, "", nil
		}
	} else if reason = err.Error(); errors.Is(err, os.ErrNotExist) {
		reason = "missing"
	}
	key, err := generate()
	if err != nil {
		return nil, "", err
	}
	notAfter := now.Add(LeafLife)
	if ca.Cert.NotAfter.Before(notAfter) {
		notAfter = ca.Cert.NotAfter
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		DNSNames:    r.Names,
		IPAddresses: r.Addresses,
		NotBefore:   now.Add(-backdate),
		NotAfter:    notAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: usages(r),
	}
	p, err = sign(path, template, key, ca.Cert, ca.Key)
	return p, reason, err
}

func usages(r Request) []x509.ExtKeyUsage {
	if len(r.Names)+len(r.Addresses) > 0 {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

func unfit(p, ca *Pair, r Request, now time.Time) string {
	c := p.Cert
	switch {
	case c.CheckSignatureFrom(ca.Cert) != nil:
		return "signed by another authority"
	case now.Before(c.NotBefore):
		return "not valid yet"
	case c.NotAfter.Sub(now) < RenewBefore && c.NotAfter.Before(ca.Cert.NotAfter):
		return fmt.Sprintf("ends on %s", c.NotAfter.Format(time.DateOnly))
	case c.Subject.CommonName != r.CommonName || fmt.Sprint(c.Subject.Organization) != fmt.Sprint(r.Organizations):
		return "made out to another subject"
	}
	names := map[string]bool{}
	for _, n := range c.DNSNames {
		names[n] = true
	}
	for _, n := range r.Names {
		if !names[n] {
			return "does not name " + n
		}
	}
	for _, wanted := range r.Addresses {
		found := false
		for _, a := range c.IPAddresses {
			found = found || a.Equal(wanted)
		}
		if !found {
			return "does not name " + wanted.String()
		}
	}
	return ""
}

func sign(path string, template *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate, parentKey crypto.Signer) (*Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	p := &Pair{Cert: cert, Key: key, Path: path}
	var crt bytes.Buffer
	encode(&crt, "CERTIFICATE", der)
	if parent != template {
		encode(&crt, "CERTIFICATE", parent.Raw)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := writeKey(p.KeyFile(), key); err != nil {
		return nil, err
	}
	return p, atomicfile.Write(p.CrtFile(), crt.Bytes(), 0o644)
}

func generate() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	encode(&b, "EC PRIVATE KEY", der)
	return atomicfile.Write(file, b.Bytes(), 0o600)
}

func encode(b *bytes.Buffer, kind string, der []byte) {
	// Writing to a buffer cannot fail.
	_ = pem.Encode(b, &pem.Block{Type: kind, Bytes: der})
}

// EnsureKey makes the key that signs service account tokens.
func EnsureKey(file string) error {
	if _, err := loadKey(file); err == nil || !absent(file) {
		return err
	}
	key, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return writeKey(file, key)
}

func absent(file string) bool {
	_, err := os.Stat(file)
	return errors.Is(err, os.ErrNotExist)
}
