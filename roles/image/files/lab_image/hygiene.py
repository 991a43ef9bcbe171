# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The checks that a root folder has to pass before it is packed. Each says what it saw."""

from __future__ import annotations

import os
import pathlib
import re
import stat
from collections.abc import Callable

from lab_image.dress import MASKED, SYSTEM, leftovers
from lab_image.pack import size_of
from lab_image.sbom import debian_packages

LOGS_MIB = 200
UNPACKED_GIB = 4.0
Seen = list[str]
CHECKS: dict[str, tuple[str, Callable[[pathlib.Path, str], Seen]]] = {}


def check(name: str, what: str) -> Callable[[Callable[[pathlib.Path, str], Seen]], Callable[[pathlib.Path, str], Seen]]:
    def register(function: Callable[[pathlib.Path, str], Seen]) -> Callable[[pathlib.Path, str], Seen]:
        CHECKS[name] = (what, function)
        return function

    return register


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@check("machine-id", "empty: each machine makes its own, and no unit is preset anew")
def _machine_id(root: pathlib.Path, _state: str) -> Seen:
    path = root / "etc/machine-id"
    if not path.is_file():
        return ["/etc/machine-id is not there"]
    return [f"/etc/machine-id holds {path.read_text().strip()}"] if path.stat().st_size else []


@check("leftovers", "no host keys, no random seed, no history, no caches, no state of a cluster")
def _leftovers(root: pathlib.Path, state: str) -> Seen:
    ours = {root / "root/.ssh"} if (root / "root/.ssh/authorized_keys").is_file() else set()
    return [f"/{path.relative_to(root)}" for path in leftovers(root, state) if path not in ours]


@check("cloud-init", "no instance of a cloud")
def _cloud(root: pathlib.Path, _state: str) -> Seen:
    return [f"/{name}" for name in ("var/lib/cloud/data/instance-id",) if (root / name).exists()]


@check("cores", "no memory image of a program that ended badly")
def _cores(root: pathlib.Path, _state: str) -> Seen:
    found = [
        *root.glob("core"),
        *root.glob("core.[0-9]*"),
        *root.glob("root/core*"),
        *root.glob("var/lib/systemd/coredump/*"),
    ]
    return [f"/{path.relative_to(root)}" for path in found]


@check("logs", f"at most {LOGS_MIB} MiB")
def _logs(root: pathlib.Path, _state: str) -> Seen:
    mib = size_of(root / "var/log") / 2**20
    return [f"{mib:.0f} MiB in /var/log"] if mib > LOGS_MIB else []


@check("secrets", "no private key, no token, no password that opens more than one machine")
def _secrets(root: pathlib.Path, state: str) -> Seen:
    found = []
    for line in _text(root / "etc/shadow").splitlines():
        name, word = line.split(":")[:2]
        if not word.startswith(("*", "!")):
            found.append(f"{name} has a password" if word else f"{name} has an empty password")
    # A seeded image shares those of its cluster by choice, and no others.
    shared = [root / "etc/rancher", root / "var/lib/rancher"] if state == "seeded" else []
    for place in ("etc", "root", "home", "var/lib/rancher/k3s/agent/etc", "var/lib/rancher/k3s/server"):
        for folder, _folders, files in os.walk(root / place):
            if any(pathlib.Path(folder).is_relative_to(top) for top in shared):
                continue
            for name in files:
                path = pathlib.Path(folder, name)
                if path.is_symlink() or not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > 2**20:
                    continue
                if re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|client-key-data:", _text(path)):
                    found.append(f"/{path.relative_to(root)}")
    return found


@check("nesting", "nothing that only a machine in a container needs")
def _nesting(root: pathlib.Path, _state: str) -> Seen:
    names = ("before-k3s", "kernel-settings", "network")
    found = [f"/usr/lib/lab-machine/{name}" for name in names if (root / "usr/lib/lab-machine" / name).exists()]
    for pattern in (
        "etc/rancher/k3s/config.yaml.d/10-machine.yaml",
        "etc/systemd/*.conf.d/10-machine.conf",
        "etc/ssh/sshd_config.d/10-machine.conf",
        "usr/lib/systemd/system/k3s.service.wants/lab-before-k3s.service",
        "var/lib/rancher/k3s/agent/etc/*.d/10-machine.*",
        "var/lib/rancher/k3s/agent/etc/containerd/*.d/10-machine.*",
    ):
        found += [f"/{path.relative_to(root)}" for path in sorted(root.glob(pattern))]
    for unit in ("systemd-udevd.service", "systemd-udev-trigger.service"):
        if os.path.islink(root / SYSTEM / unit):
            found.append(f"/{SYSTEM}/{unit} is masked")
    return found


@check("timers", "nothing is updated or cleaned behind the learner's back")
def _timers(root: pathlib.Path, _state: str) -> Seen:
    return [f"{unit} is not masked" for unit in MASKED if not os.path.islink(root / SYSTEM / unit)]


@check("archives", "images lie unpacked in containerd's store, no archive is left to import")
def _archives(root: pathlib.Path, _state: str) -> Seen:
    agent = root / "var/lib/rancher/k3s/agent"
    found = [f"/{path.relative_to(root)}" for path in sorted(agent.glob("images/*.tar*"))]
    store = agent / "containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
    layers = len(list(store.glob("*"))) if store.is_dir() else 0
    return found + ([] if layers else ["containerd's store has no unpacked layer"])


@check("collection", "image garbage collection off")
def _collection(root: pathlib.Path, _state: str) -> Seen:
    files = sorted((root / "var/lib/rancher/k3s/agent/etc/kubelet.conf.d").glob("*"))
    if any("imageGCHighThresholdPercent: 100" in _text(path) for path in files):
        return []
    return ["no file of kubelet.conf.d sets imageGCHighThresholdPercent: 100"]


@check("clock", "never before the bake")
def _clock(root: pathlib.Path, _state: str) -> Seen:
    return [] if (root / "usr/lib/clock-epoch").exists() else ["/usr/lib/clock-epoch is not there"]


@check("licences", "each package of the distribution has its copyright file")
def _licences(root: pathlib.Path, _state: str) -> Seen:
    # A folder of documents may be a link to that of another package.
    return [
        f"/usr/share/doc/{package['name']}/copyright is not there"
        for package in debian_packages(root)
        if not (root / "usr/share/doc" / package["name"] / "copyright").exists()
    ]


@check("size", f"at most {UNPACKED_GIB:g} GiB unpacked")
def _size(root: pathlib.Path, _state: str) -> Seen:
    gib = size_of(root) / 2**30
    return [f"{gib:.2f} GiB"] if gib > UNPACKED_GIB else []


def inspect(root: pathlib.Path, state: str) -> list[dict[str, object]]:
    found = []
    for name, (what, function) in CHECKS.items():
        seen = function(root, state)
        found.append({"check": name, "what": what, "ok": not seen, "seen": seen})
    return found


def table(results: list[dict[str, object]]) -> list[str]:
    lines = []
    for result in results:
        lines.append(f"{'ok' if result['ok'] else 'NOT OK':7} {result['check']:12} {result['what']}")
        lines += [f"{'':20} {line}" for line in list(result["seen"])[:8]]
    return lines
