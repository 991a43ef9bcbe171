# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the host is (`gather`), and what follows from it (`workarounds`, `problems`: pure)."""

from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

from lab_machine.settings import Settings

CAP_SYS_RESOURCE = 24
# The ranges that Kubernetes takes inside the machine (pods, services).
CLUSTER_RANGES = ("10.42.0.0/16", "10.43.0.0/16")
NOT_ROOT = (
    "The embedded machine is a container with mounts and a bridge of its own, and only root can make or remove it: "
    "run the same command with sudo, or as root."
)
TOOLS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


def _read(path: str) -> str | None:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _existing(path: pathlib.Path) -> pathlib.Path:
    while not os.path.exists(path):
        path = path.parent
    return path


def _filesystem(path: pathlib.Path) -> str:
    """Type of the file system that holds `path`."""
    real, best = str(_existing(path).resolve()), ("", "")
    for line in (_read("/proc/self/mounts") or "").splitlines():
        _source, mountpoint, kind = line.split()[:3]
        if (real + "/").startswith(mountpoint.rstrip("/") + "/") and len(mountpoint) >= len(best[0]):
            best = (mountpoint, kind)
    return best[1]


def _networks() -> list[dict[str, str]]:
    """Every IPv4 range in use: [{range, device}]."""
    if not shutil.which("ip"):
        return []
    found = []
    run = subprocess.run(["ip", "-json", "-4", "address"], capture_output=True, text=True, check=True)
    for link in json.loads(run.stdout or "[]"):
        for entry in link.get("addr_info", []):
            if "local" in entry:
                range_ = ipaddress.ip_interface(f"{entry['local']}/{entry['prefixlen']}").network
                found.append({"range": str(range_), "device": link["ifname"]})
    run = subprocess.run(["ip", "-json", "-4", "route"], capture_output=True, text=True, check=True)
    for route in json.loads(run.stdout or "[]"):
        if route.get("dst", "default") != "default":
            found.append({"range": route["dst"], "device": route.get("dev", route.get("type", "a route"))})
    return found


def _conntrack_writable() -> bool:
    """Whether nf_conntrack_max can be opened for writing in a network namespace of its own."""
    probe = "exec 3>>/proc/sys/net/netfilter/nf_conntrack_max"
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, check=False).returncode == 0


def gather(settings: Settings) -> dict[str, Any]:
    status = _read("/proc/self/status") or ""
    capabilities = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.M)
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _read("/proc/meminfo") or "", re.M))
    return {
        "system": os.uname().sysname,
        "root": os.geteuid() == 0,
        "systemd": os.path.isdir("/run/systemd/system"),
        "tools": sorted(name for name in TOOLS if shutil.which(name)),
        "apt": shutil.which("apt-get") is not None,
        "cgroup": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "cgroup_mounted": os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        or os.path.isdir("/sys/fs/cgroup/systemd"),
        "sys_resource": bool(capabilities and int(capabilities[1], 16) >> CAP_SYS_RESOURCE & 1),
        "kmsg": os.access("/dev/kmsg", os.R_OK),
        "run_tmpfs": _filesystem(pathlib.Path("/run")) == "tmpfs",
        "modules": os.path.isdir("/lib/modules"),
        "fuse": os.path.exists("/dev/fuse"),
        "cpus": os.cpu_count() or 1,
        "conntrack_max": int(_read("/proc/sys/net/netfilter/nf_conntrack_max") or 0),
        "conntrack_writable": _conntrack_writable(),
        "networks": _networks(),
        "links": {link.name: _read(f"{link}/ifalias") or "" for link in pathlib.Path("/sys/class/net").iterdir()},
        "disk_gib": round(shutil.disk_usage(_existing(settings.home)).free / 2**30, 1),
        "filesystem": _filesystem(settings.home),
        "memory_gib": round(int(memory.get("MemTotal", 0)) / 2**20, 1),
        "memory_free_gib": round(int(memory.get("MemAvailable", 0)) / 2**20, 1),
    }


def workarounds(found: dict[str, Any]) -> dict[str, bool]:
    """Which of the known gaps between this host and Kubernetes in a machine have to be bridged."""
    # kube-proxy writes nf_conntrack_max unless it already is exactly what it wants.
    wanted = min(max(131072, 32768 * found["cpus"]), 1048576)
    return {
        "cgroup_v1": found["cgroup"] == 1,
        "oom_score": not found["sys_resource"],
        "conntrack": not found["conntrack_writable"] and found["conntrack_max"] != wanted,
        "kmsg": not found["kmsg"],
        "private_run": not found["run_tmpfs"],
    }


def name_problem(name: str) -> str | None:
    if re.fullmatch(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", name):
        return None
    return (
        f"machine_name '{name}' cannot be used: take 1 to 12 lower-case letters, digits and dashes, "
        "a letter first and no dash last (the names of the bridge and the cable are made from it)."
    )


def network_problem(network: str) -> str | None:
    try:
        prefix = ipaddress.IPv4Network(network)
    except ValueError:
        prefix = None
    if prefix is None or prefix.prefixlen != 24 or not prefix.is_private:
        return (
            f"machine_network '{network}' cannot be used: give a private IPv4 network of 256 addresses "
            "that ends in .0/24, such as 10.231.77.0/24."
        )
    for taken in CLUSTER_RANGES:
        if prefix.overlaps(ipaddress.IPv4Network(taken)):
            return (
                f"machine_network '{network}' lies in {taken}, which Kubernetes uses inside the machine: "
                "set machine_network to another one, such as 10.231.77.0/24."
            )
    return None


def problems(settings: Settings, found: dict[str, Any], made: bool, running: bool) -> list[str]:
    """Everything that stands in the way, each as a sentence that says what to do about it."""
    if found["system"] != "Linux":
        return [
            f"The embedded machine needs Linux, and this is {found['system']}: run it in a Linux machine, or give "
            "an existing host with -i inventory/ssh.example.yml."
        ]
    says = [
        problem
        for problem in (
            name_problem(settings.name),
            network_problem(settings.network),
        )
        if problem
    ]
    if says:
        return says
    if not found["root"]:
        return [NOT_ROOT]
    missing = missing_packages(found, settings.base.is_dir())
    if missing and not found["apt"]:
        says.append(
            f"Missing here: {', '.join(missing)} (Debian's names), and there is no apt-get to install them with: "
            "install them with this system's package manager and run the same command again."
        )
    if not found["cgroup_mounted"]:
        says.append(
            "No cgroups are mounted on /sys/fs/cgroup, so no container can be started here: "
            "mount them (mount -t cgroup2 none /sys/fs/cgroup), or use another host."
        )
    if found["filesystem"] in ("overlay", "aufs"):
        says.append(
            f"{settings.folder} is on an {found['filesystem']} file system, on which containers cannot be stacked: "
            "set machine_folder to a folder on a real disk (ext4, xfs, btrfs)."
        )
    if found["links"].get(settings.bridge, settings.alias) != settings.alias:
        says.append(
            f"There is a network device {settings.bridge} that is not this machine's: set machine_name to another name, "
            f"or remove the device (ip link delete {settings.bridge})."
        )
    if not running:
        ours = ipaddress.IPv4Network(settings.network)
        for entry in found["networks"]:
            if entry["device"] != settings.bridge and ours.overlaps(
                ipaddress.IPv4Network(entry["range"], strict=False)
            ):
                says.append(
                    f"machine_network {settings.network} is taken: {entry['device']} uses {entry['range']}. "
                    "Set machine_network to a free one, such as 10.231.78.0/24 (the list in use: ip -4 route)."
                )
                break
        if found["memory_gib"] < settings.memory_gib:
            says.append(
                f"Too little memory: {found['memory_gib']} GiB in all, and the lab wants {settings.memory_gib:g} GiB: "
                "use a larger host, or lower machine_memory_gib to try all the same."
            )
        elif found["memory_free_gib"] < settings.memory_gib / 2:
            says.append(
                f"Too little free memory: {found['memory_free_gib']} GiB, and the lab uses about "
                f"{settings.memory_gib / 2:g} GiB: end other programs (free -h; ps aux --sort=-rss | head)."
            )
    if not made and found["disk_gib"] < settings.disk_gib:
        says.append(
            f"Too little disk: {found['disk_gib']} GiB free for {settings.folder}, and the lab wants "
            f"{settings.disk_gib:g} GiB: free some (df -h), or set machine_folder to a larger disk."
        )
    return says


def missing_packages(found: dict[str, Any], base_made: bool) -> list[str]:
    """Debian's names of what is missing; mmdebstrap only for as long as there is no base root folder."""
    needed = set(TOOLS) - ({"mmdebstrap"} if base_made else set())
    return sorted({TOOLS[name] for name in needed - set(found["tools"])})
