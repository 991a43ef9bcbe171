// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// finding is the outcome of one look at the host.
type finding struct {
	name   string
	ok     bool
	needed bool
	detail string
}

func checkConfig(out io.Writer) error {
	missing := 0
	for _, f := range lookAtHost() {
		word := "ok"
		switch {
		case !f.ok && f.needed:
			word = "missing"
			missing++
		case !f.ok:
			word = "warning"
		}
		line := fmt.Sprintf("- %s: %s", f.name, word)
		if f.detail != "" {
			line += " (" + f.detail + ")"
		}
		fmt.Fprintln(out, line)
	}
	if missing > 0 {
		fmt.Fprintf(out, "\nSTATUS: %d (fail)\n", missing)
		return fmt.Errorf("this host lacks %d of the things that a node needs", missing)
	}
	fmt.Fprintln(out, "\nSTATUS: pass")
	return nil
}

func lookAtHost() []finding {
	var findings []finding
	add := func(name string, ok, needed bool, detail string) {
		findings = append(findings, finding{name, ok, needed, detail})
	}
	add("root", os.Geteuid() == 0, true, "")

	var fs syscall.Statfs_t
	const cgroup2 = 0x63677270
	if err := syscall.Statfs("/sys/fs/cgroup", &fs); err != nil {
		add("cgroups", false, true, err.Error())
	} else if fs.Type == cgroup2 {
		content, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
		have := strings.Fields(string(content))
		for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
			add("cgroup v2 controller "+c, contains(have, c), true, "")
		}
	} else {
		add("cgroup v2", false, false, "cgroup v1: the kubelet of 1.35 and later only starts with failCgroupV1: false")
		for _, c := range []string{"cpu", "cpuset", "memory", "pids", "devices", "freezer"} {
			add("cgroup v1 controller "+c, fileExists("/sys/fs/cgroup/"+c), true, "")
		}
	}

	filesystems, _ := os.ReadFile("/proc/filesystems")
	_ = exec.Command("modprobe", "-q", "overlay").Run()
	if !contains(strings.Fields(string(filesystems)), "overlay") {
		filesystems, _ = os.ReadFile("/proc/filesystems")
	}
	add("overlay filesystem", contains(strings.Fields(string(filesystems)), "overlay"), true, "")
	for _, program := range []string{"iptables", "mount", "umount", "nsenter"} {
		path, err := exec.LookPath(program)
		add(program, err == nil, true, path)
	}
	for _, program := range []string{"conntrack", "modprobe"} {
		path, err := exec.LookPath(program)
		add(program, err == nil, false, path)
	}
	if iptables, err := exec.LookPath("iptables"); err == nil && os.Geteuid() == 0 {
		text, err := exec.Command(iptables, "-w", "5", "-t", "nat", "-S").CombinedOutput()
		add("iptables nat table", err == nil, true, firstLine(string(text), err))
	}
	add("bridged packets are filtered", fileExists("/proc/sys/net/bridge/bridge-nf-call-iptables"), false,
		detailUnless(fileExists("/proc/sys/net/bridge/bridge-nf-call-iptables"), "no br_netfilter: services are masqueraded instead"))
	f, err := os.OpenFile("/proc/sys/net/netfilter/nf_conntrack_max", os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	add("nf_conntrack_max can be set", err == nil, false, detailUnless(err == nil, "kube-proxy needs kube-proxy-arg conntrack-max-per-core=0"))
	f, err = os.OpenFile("/dev/kmsg", os.O_RDONLY, 0)
	if err == nil {
		f.Close()
	}
	add("/dev/kmsg", err == nil, true, "")
	route, _ := os.ReadFile("/proc/net/route")
	add("default route", strings.Contains(string(route), "\t00000000\t"), false, "")
	return findings
}

func contains(list []string, item string) bool {
	for _, l := range list {
		if l == item {
			return true
		}
	}
	return false
}

func detailUnless(ok bool, detail string) string {
	if ok {
		return ""
	}
	return detail
}

func firstLine(text string, err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(errors.Join(err).Error() + " " + line)
}
