# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What makes a root folder the lab's image: files of its own put in (`dress`), what is of one machine taken out (`clean`)."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import time
from collections.abc import Iterator
from typing import Any

OVERLAY = pathlib.Path(__file__).resolve().parent.parent / "root"
SYSTEM = "etc/systemd/system"
VENDOR = "usr/lib/systemd/system"
LABEL = "gpu-lab"
CONSOLES = {"amd64": "ttyS0", "arm64": "ttyAMA0"}
ADDRESS = "203.0.113.254"

# unit -> the unit that pulls it in. Those of k3s stand below /usr, so that they outlive its removal.
ENABLED = {
    "gpu-lab-emulated.service": f"{VENDOR}/k3s.service.wants",
    "gpu-lab-network.service": f"{SYSTEM}/basic.target.wants",
    "gpu-lab-ssh-keys.service": f"{SYSTEM}/ssh.service.wants",
    "gpu-lab-first-boot.service": f"{VENDOR}/k3s.service.wants",
    "gpu-lab-ready.service": f"{VENDOR}/k3s.service.wants",
    "gpu-lab-ready.target": f"{VENDOR}/k3s.service.wants",
    "systemd-networkd.service": f"{SYSTEM}/multi-user.target.wants",
    "systemd-repart.service": f"{SYSTEM}/sysinit.target.wants",
}
# Nothing updates, cleans or waits behind the learner's back.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "man-db.timer",
    "systemd-networkd-wait-online.service",
)

# Of one machine or one moment. Patterns of pathlib, each relative to the root folder.
LEFT = (
    "etc/.pwd.lock",
    "etc/*-",
    "etc/ssh/ssh_host_*",
    "root/.ansible",
    "root/.bash_history",
    "root/.cache",
    "root/.config",
    "root/.kube/cache",
    "root/.ssh",
    "run/*",
    "tmp/*",
    "tmp/.*",
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/*",
    "var/lib/apt/lists/*",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/*-old",
    "var/lib/systemd/credential.secret",
    "var/lib/systemd/random-seed",
    "var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.introspection/uuid",
    "var/lib/systemd/timers",
    "var/log/journal/*",
    "var/tmp/*",
    "opt/gsb-fake-gpu-lab/wheels",
    "opt/gsb-fake-gpu-lab/*.lock",
)
# The state of one cluster: its authority, its token, its node's password, its data.
CLUSTER = (
    "etc/cni",
    "etc/rancher/node",
    "etc/rancher/k3s/k3s.yaml",
    "var/lib/gsb-fake-gpu-lab",
    "var/lib/cni",
    "var/lib/kubelet",
    "var/lib/rancher/k3s/server",
    "var/lib/runai",
    "opt/cni",
)
AGENT_STAYS = ("containerd", "etc", "images")
AGENT_ETC_STAYS = ("kubelet.conf.d", "containerd")


def _write(path: pathlib.Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _link(path: pathlib.Path, target: str) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def autologin(console: str) -> str:
    return (
        "# Whoever holds the console holds the machine.\n[Service]\nExecStart=\n"
        f"ExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200,57600,38400,9600 {console} $TERM\n"
    )


def sources(root: pathlib.Path) -> str:
    """Debian's own archives: a mirror of the host that baked it is nobody else's business."""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", (root / "usr/lib/os-release").read_text(encoding="utf-8"), re.M)
    suite = found[1] if found else "stable"
    return (
        f"deb http://deb.debian.org/debian {suite} main\n"
        f"deb http://deb.debian.org/debian {suite}-updates main\n"
        f"deb http://security.debian.org/debian-security {suite}-security main\n"
    )


def dress(root: pathlib.Path, wanted: dict[str, Any]) -> None:
    """Put in what the image has of its own."""
    for source in sorted(OVERLAY.rglob("*")):
        if source.is_file():
            mode = 0o755 if os.access(source, os.X_OK) else 0o644
            _write(root / source.relative_to(OVERLAY), source.read_text(encoding="utf-8"), mode)
    for unit, folder in ENABLED.items():
        _link(root / folder / unit, f"/usr/lib/systemd/system/{unit}")
    for unit in MASKED:
        _link(root / SYSTEM / unit, "/dev/null")
    name = wanted["hostname"]
    _write(root / "etc/hostname", f"{name}\n")
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n{ADDRESS} {name}\n")
    # Its own address, where nobody serves names: they fail at once.
    _write(root / "etc/resolv.conf", f"nameserver {ADDRESS}\noptions timeout:1 attempts:1\n")
    _write(root / "etc/apt/sources.list", sources(root))
    _write(root / "etc/fstab", f"LABEL={LABEL} / ext4 noatime,errors=remount-ro,x-systemd.growfs 0 1\n")
    _write(root / "opt/gsb-fake-gpu-lab/image.json", json.dumps(wanted["lab"], indent=2, sort_keys=True) + "\n")
    if wanted["state"] == "seeded":
        _write(root / "var/lib/gsb-fake-gpu-lab/first-boot.done", "")
    keys = wanted["authorized_keys"]
    if keys:
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        _write(root / "root/.ssh/authorized_keys", "".join(f"{key}\n" for key in keys), 0o600)
    drop_in = root / SYSTEM / f"serial-getty@{CONSOLES[wanted['arch']]}.service.d/autologin.conf"
    if wanted["console_autologin"]:
        _write(drop_in, autologin("%I"))
    else:
        drop_in.unlink(missing_ok=True)


def leftovers(root: pathlib.Path, state: str) -> Iterator[pathlib.Path]:
    """What is of one machine, one cluster or one moment."""
    for pattern in LEFT + (CLUSTER if state == "clean" else ()):
        yield from sorted(root.glob(pattern))
    agent = root / "var/lib/rancher/k3s/agent"
    for folder, stays in ((agent, AGENT_STAYS), (agent / "etc", AGENT_ETC_STAYS)):
        if state == "clean" and folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if path.name not in stays)
    if state == "clean":
        yield from sorted(agent.glob("etc/containerd/*.toml"))
    yield from (path for path in sorted(agent.glob("images/*")) if path.name != ".cache.json")


def _delete(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def without_times(root: pathlib.Path) -> None:
    """Byte code that names no time of its source, and is taken without a look at it: the same in each bake."""
    for path in (root / "opt/gsb-fake-gpu-lab").glob("*/lib/**/*.pyc"):
        code = path.read_bytes()
        if code[4:8] == bytes(4):
            new = path.with_name(f".{path.name}")
            new.write_bytes(code[:4] + b"\1\0\0\0" + bytes(8) + code[16:])
            new.replace(path)


def clean(root: pathlib.Path, state: str) -> None:
    """Take out what must not be in two machines."""
    for path in list(leftovers(root, state)):
        _delete(path)
    logs = root / "var/log"
    for path in sorted(logs.rglob("*")):
        if not path.is_dir() or path.is_symlink():
            path.unlink()
    for name in ("pods", "containers"):
        shutil.rmtree(logs / name, ignore_errors=True)
    for cached in root.glob("root/**/__pycache__"):
        shutil.rmtree(cached)
    without_times(root)
    # Empty, not absent: an absent one makes systemd treat the boot as the first and preset every unit.
    _write(root / "etc/machine-id", "", 0o444)
    images = root / "var/lib/rancher/k3s/agent/images"
    images.mkdir(parents=True, exist_ok=True)
    # With this file, even an empty one, k3s imports at a start only what is new.
    _write(images / ".cache.json", "")
    # systemd never lets the clock stand before this file's time.
    epoch = root / "usr/lib/clock-epoch"
    _write(epoch, "")
    os.utime(epoch, (int(time.time()),) * 2)
