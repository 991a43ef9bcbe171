# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Look at a host that is to become the lab; print as JSON what stands in the way and what to know. Change nothing.

The one argument is a JSON object with the keys of DEFAULTS. `judge` is a pure function of what was seen.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

DEFAULTS = {
    "cgroup_v1": False,
    "install_packages": True,
    "cpus": 2,
    "memory_mib": 3500,
    "disk_gib": 6,
    "supported": {},
    "python": "python3",
    "pythons": ["3.10", "3.11", "3.12", "3.13"],
    "tools": {},
    "origin_file": "",
    "commands": {},
}
# What the unit of the lab's k3s says.
LAB = "gsb.fake_gpu_lab"
PORTS = {
    6443: "the API server",
    6444: "k3s",
    10250: "the kubelet",
    10257: "the controller manager",
    10259: "the scheduler",
}
LISTEN = "0A"
# What overlayfs cannot stack the layers of images on.
UNSTACKABLE = ("aufs", "overlay", "nfs", "nfs4", "9p", "vfat", "exfat")
MANAGERS = {"apt-get": "apt-get install", "dnf": "dnf install", "zypper": "zypper install", "pacman": "pacman -S"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ASK_PYTHON = "import importlib.util as u, sys; print('%d.%d' % sys.version_info[:2], bool(u.find_spec('ensurepip')))"


def text(path, root="/"):
    try:
        with open(os.path.join(root, path.lstrip("/")), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def run(*argv):
    """Standard output of a command; empty when it fails or is not there."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def release(content):
    """os-release(5) as a dict."""
    return {
        key: value.strip("\"'")
        for key, _equals, value in (line.partition("=") for line in content.splitlines())
        if value
    }


def default_route(routes, routes6):
    """Whether one of the kernel's tables has a route to everywhere: proc_net_route, ipv6_route."""
    four = [line.split() for line in routes.splitlines()[1:]]
    six = [line.split() for line in routes6.splitlines()]
    return any(line[1] == "00000000" and line[7] == "00000000" for line in four if len(line) > 7) or any(
        line[0] == "0" * 32 and line[1] == "00" and line[-1] != "lo" for line in six if len(line) > 9
    )


def nameservers(content):
    return [line.split()[1] for line in content.splitlines() if line.startswith("nameserver") and len(line.split()) > 1]


def listening(tables):
    """port -> inode of its socket, from /proc/net/tcp and tcp6."""
    found = {}
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN:
                found.setdefault(int(fields[1].rpartition(":")[2], 16), fields[9])
    return found


def owners(inodes, root="/proc"):
    """inode -> name of a process that has the socket."""
    found = {}
    for link in glob.glob(os.path.join(root, "[0-9]*", "fd", "*")):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if match and match[1] in inodes and match[1] not in found:
            found[match[1]] = text(os.path.join(link.rsplit("/fd/", 1)[0], "comm"), "/").strip() or "?"
    return found


def filesystem(place, mounts):
    """Type of the file system that a folder is on, from proc_pid_mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        fields = line.split()
        at = fields[1].replace("\\040", " ").rstrip("/")
        if (place == at or place.startswith(at + "/")) and len(at) >= len(found[0]):
            found = (at, fields[2])
    return found[1]


def python_here(name):
    """Version of a Python, and whether it can make virtual environments."""
    version, _space, venv = run(name, "-c", ASK_PYTHON).partition(" ")
    return version, venv == "True"


def others(root="/"):
    """Other Kubernetes distributions on this host, by what they leave."""
    marks = {
        "kubeadm": "etc/kubernetes/manifests/kube-apiserver.yaml",
        "rke2": "usr/local/bin/rke2",
        "MicroK8s": "snap/bin/microk8s",
        "k0s": "usr/local/bin/k0s",
        "a kubelet": "etc/systemd/system/multi-user.target.wants/kubelet.service",
    }
    return sorted(name for name, path in marks.items() if os.path.exists(os.path.join(root, path)))


def somebody_elses(origin_file, root="/"):
    """What is here of a k3s that is not the lab's; empty where there is none."""
    units = sorted(glob.glob(os.path.join(root, "etc/systemd/system/k3s*.service")))
    for unit in units:
        if LAB not in text(unit):
            return unit
    if units or os.path.exists(origin_file):
        return ""
    config = os.path.join(root, "etc/rancher/k3s/config.yaml")
    if os.path.exists(config) and LAB not in text(config):
        return config
    data = os.path.join(root, "var/lib/rancher/k3s/server")
    return data if os.path.isdir(data) else ""


def somebody_elses_commands(commands, origin_file):
    """Those of the lab's commands whose places are taken, where there was no lab that has recorded them."""
    return [
        path
        for path, record in commands.items()
        if os.path.lexists(path) and not os.path.exists(record) and not os.path.exists(origin_file)
    ]


def see(want):
    python, venv = python_here(want["python"])
    sockets = listening([text("/proc/net/tcp"), text("/proc/net/tcp6")])
    taken = {port: inode for port, inode in sockets.items() if port in PORTS}
    names = owners(set(taken.values())) if taken else {}
    memory = re.search(r"MemTotal:\s*(\d+)", text("/proc/meminfo"))
    place = "/var/lib/rancher"
    while not os.path.exists(place):
        place = os.path.dirname(place)
    return {
        "root": os.geteuid() == 0,
        "systemd": os.path.isdir("/run/systemd/system"),
        "python": python,
        "venv": venv,
        "other_pythons": [one for one in want["pythons"] if python_here(f"python{one}")[0] == one],
        "tools": sorted(name for name in want["tools"] if shutil.which(name, path=PATH)),
        "manager": next((name for name in MANAGERS if shutil.which(name, path=PATH)), ""),
        "release": release(text("/etc/os-release") or text("/usr/lib/os-release")),
        "cgroup": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "controllers": text("/sys/fs/cgroup/cgroup.controllers").split(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
        "disk": {"place": place, "free_gib": shutil.disk_usage(place).free / 2**30},
        "filesystem": filesystem(place, text("/proc/self/mounts")),
        "k3s": os.path.exists("/usr/local/bin/k3s") or os.path.exists("/etc/systemd/system/k3s.service"),
        "route": default_route(text("/proc/net/route"), text("/proc/net/ipv6_route")),
        "nameservers": nameservers(text("/etc/resolv.conf")),
        "upstream_nameservers": nameservers(text("/run/systemd/resolve/resolv.conf")),
        "synchronized": run("timedatectl", "show", "--property=NTPSynchronized", "--value"),
        "taken": {port: names.get(inode, "?") for port, inode in sorted(taken.items())},
        "swap": len(text("/proc/swaps").splitlines()) > 1,
        "firewalls": [name for name in ("ufw", "firewalld") if run("systemctl", "is-active", name) == "active"],
        "selinux": text("/sys/fs/selinux/enforce").strip() == "1",
        "k3s_selinux": bool(glob.glob("/var/lib/selinux/*/active/modules/*/k3s")),
        "commands": somebody_elses_commands(want["commands"], want["origin_file"]),
        "others": others()
        + [f"a k3s that is not the lab's ({path})" for path in [somebody_elses(want["origin_file"])] if path],
    }


def is_loop(address):
    return address.startswith("127.") or address == "::1"


def judge(seen, want):
    """What stands in the way, and what may: sentences with what to do next; and the packages that are missing."""
    problems, warnings = [], []
    if not seen["root"]:
        problems.append("The lab is installed as root. Next: let the user use sudo, and set ansible_become: true.")
    if not seen["systemd"]:
        problems.append(
            "systemd does not run here, and k3s is installed as a service of it. Next: take a machine that boots systemd."
        )
    distribution, version = seen["release"].get("ID", "an unknown system"), seen["release"].get("VERSION_ID", "")
    if version.split(".")[0] not in want["supported"].get(distribution, []) and version not in want["supported"].get(
        distribution, []
    ):
        known = ", ".join(f"{name} {one}" for name, versions in want["supported"].items() for one in versions)
        warnings.append(f"This is {distribution} {version}".rstrip() + f"; the lab is made for {known}.")
    install = MANAGERS.get(seen["manager"], "install")
    if not seen["python"] or seen["python"] not in want["pythons"]:
        is_now = f"is {seen['python']}" if seen["python"] else "is not there"
        here = seen["other_pythons"]
        problems.append(
            f"{want['python']} {is_now}; the Kubernetes client in the bundle is for {', '.join(want['pythons'])}. Next: "
            + (f"set lab_host_python to python{here[-1]}, which is here." if here else "")
            + (
                ""
                if here
                else f"{install} python{want['pythons'][2]}, and set lab_host_python to python{want['pythons'][2]}."
            )
        )
    packages = [package for name, package in sorted(want["tools"].items()) if name not in seen["tools"]]
    why = [f"{name} is missing" for name in sorted(want["tools"]) if name not in seen["tools"]]
    if seen["python"] and not seen["venv"]:
        plain = want["python"] == "python3"
        packages.append("python3-venv" if plain else f"{os.path.basename(want['python'])}-venv")
        why.append(f"{want['python']} cannot make virtual environments (there is no ensurepip)")
    if packages and not (want["install_packages"] and distribution in ("debian", "ubuntu")):
        problems.append(f"{', and '.join(why)}. Next: {install} {' '.join(packages)}")
        packages = []
    if seen["cgroup"] == 1 and not want["cgroup_v1"]:
        problems.append(
            "The host has cgroup v1, which Kubernetes 1.35 and later refuse. "
            "Next: add systemd.unified_cgroup_hierarchy=1 to the kernel's command line and reboot."
        )
    lacking = [name for name in ("cpu", "cpuset", "memory", "pids") if name not in seen["controllers"]]
    if seen["cgroup"] == 2 and lacking:
        problems.append(
            f"The kernel offers no cgroup controller {', '.join(lacking)}. "
            "Next: add cgroup_enable=memory cgroup_enable=cpuset to the kernel's command line and reboot."
        )
    if seen["cpus"] < want["cpus"]:
        problems.append(f"{seen['cpus']} CPU is there, {want['cpus']} are needed. Next: give the machine more.")
    if seen["memory_mib"] < want["memory_mib"]:
        problems.append(
            f"{seen['memory_mib']} MiB of memory are there, {want['memory_mib']} are needed. Next: give the machine more."
        )
    if not seen["k3s"] and seen["disk"]["free_gib"] < want["disk_gib"]:
        problems.append(
            f"{seen['disk']['free_gib']:.1f} GiB are free at {seen['disk']['place']}, {want['disk_gib']} are needed. Next: make room."
        )
    if seen["filesystem"] in UNSTACKABLE:
        problems.append(
            f"{seen['disk']['place']} is on {seen['filesystem']}, on which the layers of images cannot be stacked. "
            "Next: mount an ext4 or xfs at /var/lib/rancher."
        )
    if not seen["route"]:
        problems.append(
            "There is no default route, without which k3s does not start; one to nowhere is enough. "
            "Next: ip link add dummy0 type dummy && ip addr add 203.0.113.254/31 dev dummy0 && ip link set dummy0 up && "
            "ip route add default via 203.0.113.255 dev dummy0 metric 1000"
        )
    here = seen["nameservers"]
    if here and all(map(is_loop, here)) and all(map(is_loop, seen["upstream_nameservers"] or ["127.0.0.1"])):
        problems.append(
            f"/etc/resolv.conf names only this host ({', '.join(here)}), so the cluster's DNS would ask itself for ever. "
            "Next: write the real name server into /etc/resolv.conf."
        )
    if not seen["k3s"]:
        for port, name in seen["taken"].items():
            problems.append(
                f"Port {port}, for {PORTS[port]}, is taken by {name}. Next: stop it, ss -ltnp 'sport = :{port}'"
            )
    if seen["others"]:
        problems.append(
            f"Another Kubernetes is here: {', '.join(seen['others'])}. Next: remove it, or take another machine."
        )
    for path in seen["commands"]:
        problems.append(
            f"{path} is there already and is not the lab's. Next: move it away, or give the lab's another name: "
            f"-e helm_path={path}-lab"
        )
    if seen["synchronized"] == "no":
        warnings.append(
            "The clock is not synchronized; certificates are not valid before the time at which they were made. "
            "Next: timedatectl set-ntp true"
        )
    if seen["swap"]:
        warnings.append(
            "There is swap; the kubelet of k3s tolerates it, memory limits of pods then hold less strictly."
        )
    if "ufw" in seen["firewalls"]:
        warnings.append("ufw is active. Pods need: ufw allow from 10.42.0.0/16 && ufw allow from 10.43.0.0/16")
    if "firewalld" in seen["firewalls"]:
        warnings.append(
            "firewalld is active. Pods need: firewall-cmd --permanent --zone=trusted --add-source=10.42.0.0/16 "
            "--add-source=10.43.0.0/16 && firewall-cmd --reload"
        )
    if seen["selinux"] and not seen["k3s_selinux"]:
        warnings.append(
            "SELinux enforces and has no policy for k3s. Next: install the package k3s-selinux, or setenforce 0 for a try."
        )
    return {"problems": problems, "warnings": warnings, "packages": packages}


if __name__ == "__main__":
    wanted = {**DEFAULTS, **json.loads(sys.argv[1])}
    found = see(wanted)
    print(json.dumps({"seen": found, **judge(found, wanted)}))
