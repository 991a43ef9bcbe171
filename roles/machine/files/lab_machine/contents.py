# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is put into the root folder and beside it, as a pure function of the settings and of what the host lacks."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import stat
from typing import Union

from lab_machine.settings import Settings

OVERLAY = pathlib.Path(__file__).resolve().parent.parent / "root"
SYSTEM = "root/etc/systemd/system"
VENDOR = "root/usr/lib/systemd/system"

ENABLED = {
    "lab-end-pods.service": "multi-user.target",
    "lab-kernel-settings.service": "basic.target",
    "lab-network.service": "basic.target",
}
# Nothing in the machine is to be updated, cleaned or set up on the host's devices, and nobody sits at its console.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "modprobe@configfs.service",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-remount-fs.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
)

NETWORK = """\
# The only way out is the bridge, and nothing is behind it.
ip link set dev host0 addrgenmode none up
ip address replace {address}/24 broadcast + dev host0
ip route replace default via {gateway} dev host0
"""

HOSTS = """\
127.0.0.1 localhost
{address} {name}
"""

RESOLV_CONF = """\
# Nothing answers there: the machine has no network behind its bridge.
nameserver {gateway}
options timeout:1 attempts:1
"""

SSH_CONFIG = """\
# From the bridge's own address: while the machine is down, nobody else is taken for it.
Host {name} {address}
    HostName {address}
    BindAddress {gateway}
    User root
    IdentityFile {ssh}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {ssh}/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
    LogLevel ERROR
    # For those who ask for ControlMaster: one connection for many commands, given up when the machine is gone.
    ControlPath {ssh}/mux-%h
    ServerAliveInterval 5
    ServerAliveCountMax 3
"""

BEFORE_K3S = """\
# What this host lacks for Kubernetes in a machine.
put() {
    mkdir -p "${1%/*}"
    cat > "$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}
"""

# Each bridges one gap; the names are those of facts.workarounds.
BRIDGES = {
    "cgroup_v1": """
# cgroup v1: its hierarchies come read-only into the machine, and the kubelet refuses them unless told.
for hierarchy in /sys/fs/cgroup/*; do
    if mountpoint -q "$hierarchy"; then mount -o remount,rw,bind "$hierarchy"; fi
done
put /var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10-machine.conf << 'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
END
""",
    "oom_score": """
# No CAP_SYS_RESOURCE: no process can be made safer from the out-of-memory killer than its parent is.
put /var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/10-machine.toml << 'END'
version = 3

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
END
""",
    "conntrack": """
# nf_conntrack_max belongs to the host and cannot be written in the machine: kube-proxy has to leave it alone.
put /etc/rancher/k3s/config.yaml.d/10-machine.yaml << 'END'
kube-proxy-arg+:
  - conntrack-max-per-core=0
END
""",
    "kmsg": """
# The host has no readable /dev/kmsg, which the kubelet wants: the console in its place.
ln -sfn /dev/console /dev/kmsg
""",
}


@dataclasses.dataclass(frozen=True)
class File:
    text: str
    mode: int = 0o644


@dataclasses.dataclass(frozen=True)
class Link:
    target: str


Content = Union[File, Link, None]


def before_k3s(needed: dict[str, bool]) -> File | None:
    """The script that runs before each start of k3s, None when this host lacks nothing."""
    bridges = [text for name, text in BRIDGES.items() if needed[name]]
    return File(BEFORE_K3S + "".join(bridges)) if bridges else None


def contents(settings: Settings, needed: dict[str, bool], keys: dict[str, str]) -> dict[str, Content]:
    """Path below the machine's folder: what it has to be, None for what must not be there."""
    values = {
        "name": settings.name,
        "address": settings.address,
        "gateway": settings.gateway,
        "ssh": settings.ssh,
    }
    wanted: dict[str, Content] = {
        f"root/{path.relative_to(OVERLAY)}": File(path.read_text(encoding="utf-8"))
        for path in sorted(OVERLAY.rglob("*"))
        if path.is_file()
    }
    for unit, target in ENABLED.items():
        wanted[f"{SYSTEM}/{target}.wants/{unit}"] = Link(f"/usr/lib/systemd/system/{unit}")
    for unit in MASKED:
        wanted[f"{SYSTEM}/{unit}"] = Link("/dev/null")
    # Not below /etc, so that it outlives the removal of k3s.
    wanted[f"{VENDOR}/k3s.service.wants/lab-before-k3s.service"] = Link("../lab-before-k3s.service")
    wanted.update(
        {
            "root/etc/hostname": File(settings.name + "\n"),
            "root/etc/hosts": File(HOSTS.format(**values)),
            "root/etc/resolv.conf": File(RESOLV_CONF.format(**values)),
            "root/usr/lib/lab-machine/network": File(NETWORK.format(**values)),
            "root/usr/lib/lab-machine/before-k3s": before_k3s(needed),
            "root/root/.ssh/authorized_keys": File(keys["id_ed25519.pub"], 0o600),
            "root/etc/ssh/ssh_host_ed25519_key": File(keys["host_ed25519"], 0o600),
            "root/etc/ssh/ssh_host_ed25519_key.pub": File(keys["host_ed25519.pub"]),
            "ssh/config": File(SSH_CONFIG.format(**values), 0o600),
            "ssh/known_hosts": File(f"{settings.address} {keys['host_ed25519.pub']}", 0o600),
        }
    )
    return wanted


# A root folder that leaves the machine keeps these: pods hold up the end of any machine.
STAYS = ("lab-end-pods.service", "end-pods")


def release(folder: pathlib.Path) -> None:
    """Take out of the root folder what `write` and the script before k3s put there."""
    overlay = [f"root/{path.relative_to(OVERLAY)}" for path in OVERLAY.rglob("*") if path.is_file()]
    links = [f"{SYSTEM}/{target}.wants/{unit}" for unit, target in ENABLED.items()]
    links += [f"{SYSTEM}/{unit}" for unit in MASKED]
    links += [f"{VENDOR}/k3s.service.wants/lab-before-k3s.service"]
    named = [
        f"root/{name}"
        for name in (
            "etc/hostname",
            "etc/hosts",
            "etc/resolv.conf",
            "usr/lib/lab-machine/network",
            "usr/lib/lab-machine/before-k3s",
            "root/.ssh/authorized_keys",
            "etc/ssh/ssh_host_ed25519_key",
            "etc/ssh/ssh_host_ed25519_key.pub",
        )
    ]
    written = [f"root{name}" for text in BRIDGES.values() for name in re.findall(r"^put (\S+) <<", text, re.M)]
    for name in overlay + links + named + written:
        if not name.endswith(STAYS):
            (folder / name).unlink(missing_ok=True)


def _now(path: pathlib.Path) -> Content:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return Link(os.readlink(path))
        return File(path.read_text(encoding="utf-8", errors="replace"), status.st_mode & 0o7777)
    except FileNotFoundError:
        return None


def differing(folder: pathlib.Path, wanted: dict[str, Content]) -> list[str]:
    """The paths that are not as they have to be."""
    return [name for name, content in wanted.items() if _now(folder / name) != content]


def write(folder: pathlib.Path, wanted: dict[str, Content], names: list[str]) -> None:
    for name in names:
        path, content = folder / name, wanted[name]
        if content is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new = path.parent / f".new-{path.name}"
        new.unlink(missing_ok=True)
        if isinstance(content, Link):
            new.symlink_to(content.target)
        else:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, content.mode)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                os.fchmod(stream.fileno(), content.mode)
                stream.write(content.text)
        os.replace(new, path)
