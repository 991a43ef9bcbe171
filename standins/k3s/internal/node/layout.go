// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package node runs a control plane and a node in one: it writes what the
// components need, starts them in order and keeps them running.
package node

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

// RunDir is where sockets and container state live.
const RunDir = "/run/k3s"

// ContainerdSocket is the address of containerd.
const ContainerdSocket = RunDir + "/containerd/containerd.sock"

const etcdSocket = RunDir + "/etcd/client.sock"

// Layout names every place and address that the components share.
type Layout struct {
	DataDir string
	Bin     string

	NodeName string
	NodeIP   netip.Addr

	BindAddress string
	APIHost     string
	APIPort     string

	ClusterCIDR netip.Prefix
	ServiceCIDR netip.Prefix
	APIService  netip.Addr
	DNSService  netip.Addr
	Domain      string

	SystemdCgroup bool
}

func (l *Layout) server(parts ...string) string {
	return filepath.Join(append([]string{l.DataDir, "server"}, parts...)...)
}

func (l *Layout) agent(parts ...string) string {
	return filepath.Join(append([]string{l.DataDir, "agent"}, parts...)...)
}

func (l *Layout) tls(name string) string { return l.server("tls", name) }

func (l *Layout) program(name string) string { return filepath.Join(l.Bin, name) }

// APIURL is how the host itself reaches the API server.
func (l *Layout) APIURL() string { return "https://" + net.JoinHostPort(l.APIHost, l.APIPort) }

// NewLayout takes from the configuration, and finds out on the host, what
// was left open.
func NewLayout(c *config.Config, bin string) (*Layout, error) {
	l := &Layout{
		DataDir:     c.String("data-dir"),
		Bin:         bin,
		NodeName:    c.String("node-name"),
		BindAddress: c.String("bind-address"),
		APIHost:     "127.0.0.1",
		APIPort:     c.String("https-listen-port"),
		Domain:      c.String("cluster-domain"),
	}
	if l.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		l.NodeName = strings.ToLower(host)
	}
	if a := netip.MustParseAddr(l.BindAddress); !a.IsUnspecified() {
		l.APIHost = l.BindAddress
	}
	var err error
	if ips := c.List("node-ip"); len(ips) > 0 {
		l.NodeIP, err = netip.ParseAddr(ips[0])
	} else {
		l.NodeIP, err = defaultAddress()
	}
	if err != nil {
		return nil, err
	}
	if l.ClusterCIDR, err = netip.ParsePrefix(c.String("cluster-cidr")); err != nil {
		return nil, err
	}
	if l.ServiceCIDR, err = netip.ParsePrefix(c.String("service-cidr")); err != nil {
		return nil, err
	}
	if l.ClusterCIDR.Overlaps(l.ServiceCIDR) {
		return nil, fmt.Errorf("cluster-cidr %s and service-cidr %s overlap", l.ClusterCIDR, l.ServiceCIDR)
	}
	l.APIService = nth(l.ServiceCIDR, 1)
	l.DNSService = nth(l.ServiceCIDR, 10)
	if dns := c.String("cluster-dns"); dns != "" {
		if l.DNSService, err = netip.ParseAddr(dns); err != nil {
			return nil, err
		}
		if !l.ServiceCIDR.Contains(l.DNSService) {
			return nil, fmt.Errorf("cluster-dns %s is not in service-cidr %s", l.DNSService, l.ServiceCIDR)
		}
	}
	return l, nil
}

func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// podSubnet is what the one node hands out to its pods.
func (l *Layout) podSubnet() netip.Prefix {
	return netip.PrefixFrom(l.ClusterCIDR.Masked().Addr(), 24)
}

// defaultAddress is the IPv4 address of the interface with the default route.
func defaultAddress() (netip.Addr, error) {
	f, err := os.Open("/proc/net/route")
	if err != nil {
		return netip.Addr{}, err
	}
	defer f.Close()
	name := defaultInterface(bufio.NewScanner(f))
	if name == "" {
		return netip.Addr{}, errors.New("there is no default route to take the node's address from: set node-ip, or add a route (one through a dummy interface is enough)")
	}
	device, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, err
	}
	addresses, err := device.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has the default route but no IPv4 address: set node-ip", name)
}

func defaultInterface(routes *bufio.Scanner) string {
	best, metric := "", uint64(1<<63)
	for routes.Scan() {
		f := strings.Fields(routes.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		if m, err := strconv.ParseUint(f[6], 10, 32); err == nil && m < metric {
			best, metric = f[0], m
		}
	}
	return best
}
