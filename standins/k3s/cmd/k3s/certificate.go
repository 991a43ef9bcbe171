// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/node"
	"gsb.fake_gpu_lab/standins/k3s/internal/pki"
)

const certificateUsage = "usage: k3s certificate check [--output text|table] | rotate [--service NAME,...]"

func certificate(args []string, out io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New(certificateUsage)}
	}
	dataDir := config.DataDir(args[1:], os.Getenv)
	switch args[0] {
	case "check":
		format, err := outputFlag(args[1:], "text", "table")
		if err != nil {
			return err
		}
		return checkCertificates(dataDir, format, out, time.Now())
	case "rotate":
		services, err := serviceFlag(args[1:])
		if err != nil {
			return err
		}
		return rotateCertificates(dataDir, services, out)
	case "rotate-ca":
		return errors.New("certificate rotate-ca is not offered by this stand-in")
	}
	return usageError{fmt.Errorf("certificate: unknown command %q; %s", args[0], certificateUsage)}
}

// certificateFiles lists the certificates by their file, without .crt.
func certificateFiles(dataDir string) ([]string, error) {
	var files []string
	for _, dir := range []string{filepath.Join(dataDir, "server", "tls"), filepath.Join(dataDir, "agent")} {
		found, err := filepath.Glob(filepath.Join(dir, "*.crt"))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			// The agent's copies of the authorities have no key beside them.
			if path := strings.TrimSuffix(f, ".crt"); fileExists(path + ".key") {
				files = append(files, path)
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no certificates below %s: has k3s server ever started, and may you read them?", dataDir)
	}
	sort.Strings(files)
	return files, nil
}

func checkCertificates(dataDir, format string, out io.Writer, now time.Time) error {
	files, err := certificateFiles(dataDir)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if format == "table" {
		fmt.Fprintln(table, "FILENAME\tSUBJECT\tUSAGES\tEXPIRES\tRESIDUAL TIME\tSTATUS")
	}
	expired := 0
	for _, path := range files {
		content, err := os.ReadFile(path + ".crt")
		if err != nil {
			return err
		}
		block, _ := pem.Decode(content)
		if block == nil {
			return fmt.Errorf("%s.crt: holds no certificate", path)
		}
		crt, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s.crt: %w", path, err)
		}
		left := crt.NotAfter.Sub(now)
		status := "OK"
		switch {
		case left <= 0:
			status = "EXPIRED"
			expired++
		case now.Before(crt.NotBefore):
			status = "NOT YET VALID"
		case left < pki.RenewBefore:
			status = "WARNING"
		}
		if format == "table" {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d days\t%s\n", filepath.Base(path)+".crt", crt.Subject.CommonName, usages(crt),
				crt.NotAfter.UTC().Format("Jan 02, 2006 15:04 MST"), int(left.Hours()/24), status)
		} else {
			fmt.Fprintf(out, "%s: certificate CN=%s is %s, expires at %s\n", path+".crt", crt.Subject.CommonName,
				strings.ToLower(status), crt.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if expired > 0 {
		return fmt.Errorf("%d certificates expired: restart the k3s service to renew them", expired)
	}
	return nil
}

func usages(c *x509.Certificate) string {
	if c.IsCA {
		return "CertSign"
	}
	var names []string
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			names = append(names, "ServerAuth")
		case x509.ExtKeyUsageClientAuth:
			names = append(names, "ClientAuth")
		}
	}
	return strings.Join(names, ",")
}

// services are the names that `rotate --service` takes, with their files.
var services = map[string][]string{
	"admin":              {"server/tls/client-admin"},
	"api-server":         {"server/tls/serving-kube-apiserver", "server/tls/client-kube-apiserver"},
	"auth-proxy":         {"server/tls/client-auth-proxy"},
	"controller-manager": {"server/tls/client-controller"},
	"kube-proxy":         {"agent/client-kube-proxy"},
	"kubelet":            {"agent/client-kubelet", "agent/serving-kubelet"},
	"scheduler":          {"server/tls/client-scheduler"},
	"supervisor":         {"server/tls/client-supervisor"},
}

func serviceFlag(args []string) ([]string, error) {
	var names []string
	for i := 0; i < len(args); i++ {
		value, given := strings.CutPrefix(args[i], "--service=")
		switch {
		case given:
		case (args[i] == "--service" || args[i] == "-s") && i+1 < len(args):
			i++
			value = args[i]
		case (args[i] == "--data-dir" || args[i] == "-d") && i+1 < len(args):
			i++
			continue
		case strings.HasPrefix(args[i], "--data-dir="):
			continue
		default:
			return nil, usageError{fmt.Errorf("unexpected argument %q; %s", args[i], certificateUsage)}
		}
		names = append(names, strings.Split(value, ",")...)
	}
	if len(names) == 0 {
		for name := range services {
			names = append(names, name)
		}
		sort.Strings(names)
	}
	for _, name := range names {
		if services[name] == nil {
			return nil, usageError{fmt.Errorf("unknown service %q", name)}
		}
	}
	return names, nil
}

// rotateCertificates removes certificates; the next start makes new ones.
func rotateCertificates(dataDir string, names []string, out io.Writer) error {
	unlock, err := stopped(dataDir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range names {
		for _, path := range services[name] {
			for _, suffix := range []string{".crt", ".key"} {
				if err := os.Remove(filepath.Join(dataDir, path+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
		fmt.Fprintf(out, "%s: the next start makes a new certificate\n", name)
	}
	return nil
}

// stopped makes sure that no server runs on the data folder.
func stopped(dataDir string) (unlock func(), err error) {
	f, err := os.OpenFile(node.LockFile(dataDir), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.New("k3s must be stopped first: systemctl stop k3s")
	}
	return func() { f.Close() }, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
