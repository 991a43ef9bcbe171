// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var (
	nodeName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// The only labels of Kubernetes' own domains that a kubelet may give itself.
var kubeletLabels = map[string]bool{
	"kubernetes.io/hostname": true, "kubernetes.io/os": true, "kubernetes.io/arch": true,
	"node.kubernetes.io/instance-type":         true,
	"topology.kubernetes.io/region":            true,
	"topology.kubernetes.io/zone":              true,
	"failure-domain.beta.kubernetes.io/region": true,
	"failure-domain.beta.kubernetes.io/zone":   true,
	"beta.kubernetes.io/instance-type":         true,
	"beta.kubernetes.io/os":                    true,
	"beta.kubernetes.io/arch":                  true,
}

func checkNumber(v string) error {
	if _, err := strconv.ParseUint(v, 10, 31); err != nil {
		return errors.New("must be a whole number")
	}
	return nil
}

func checkPort(v string) error {
	if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 {
		return errors.New("must be a port, 1 to 65535")
	}
	return nil
}

func checkMode(v string) error {
	if n, err := strconv.ParseUint(v, 8, 32); err != nil || n > 0o777 {
		return errors.New(`must be an octal file mode such as "0644"`)
	}
	return nil
}

func checkIP(v string) error {
	if _, err := netip.ParseAddr(v); err != nil {
		return errors.New("must be an IP address")
	}
	return nil
}

func checkCIDR(v string) error {
	p, err := netip.ParsePrefix(v)
	if err != nil || !p.Addr().Is4() || p.Bits() > 24 {
		return errors.New("must be one IPv4 network of at least 256 addresses, such as 10.42.0.0/16")
	}
	return nil
}

func checkAbsolute(v string) error {
	if !filepath.IsAbs(v) {
		return errors.New("must be an absolute path")
	}
	return nil
}

func checkNodeName(v string) error {
	if len(v) > 253 || !nodeName.MatchString(v) {
		return errors.New("must be lower-case letters, digits, '-' and '.'")
	}
	return nil
}

func checkLabel(v string) error {
	key, value, found := strings.Cut(v, "=")
	if !found {
		return errors.New("must be key=value")
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if !labelValue.MatchString(value) {
		return fmt.Errorf("value %q is not a valid label value", value)
	}
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed || kubeletLabels[key] {
		return nil
	}
	for _, own := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return nil
		}
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return fmt.Errorf("a node may not give itself labels of the domain %s", domain)
		}
	}
	return nil
}

func checkTaint(v string) error {
	body, effect, found := cutLast(v, ":")
	key, value, _ := strings.Cut(body, "=")
	if !found || checkKey(key) != nil || !labelValue.MatchString(value) {
		return errors.New("must be key=value:effect")
	}
	switch effect {
	case "NoSchedule", "PreferNoSchedule", "NoExecute":
		return nil
	}
	return fmt.Errorf("effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", effect)
}

func checkKey(key string) error {
	name := key
	if domain, rest, prefixed := strings.Cut(key, "/"); prefixed {
		if checkNodeName(domain) != nil {
			return fmt.Errorf("key %q has no valid domain", key)
		}
		name = rest
	}
	if !labelName.MatchString(name) {
		return fmt.Errorf("key %q is not a valid name", key)
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		for _, a := range allowed {
			if v == a {
				return nil
			}
		}
		return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
