# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "roles/machine/files"))

from lab_machine.settings import Settings


@pytest.fixture
def settings(tmp_path):
    return Settings(
        name="gsb-lab",
        network="10.231.77.0/24",
        folder=str(tmp_path / "machines"),
        cache=str(tmp_path / "cache"),
        suite="bookworm",
        mirror="",
        packages=("systemd", "openssh-server"),
        disk_gib=10,
        memory_gib=3,
        start_timeout=60,
        stop_timeout=30,
    )


@pytest.fixture
def able():
    """A host that lacks nothing: what `facts.gather` finds there."""
    return {
        "system": "Linux",
        "root": True,
        "systemd": True,
        "tools": ["ip", "mmdebstrap", "ssh", "ssh-keygen", "systemd-nspawn"],
        "apt": True,
        "cgroup": 2,
        "cgroup_mounted": True,
        "sys_resource": True,
        "kmsg": True,
        "run_tmpfs": True,
        "modules": True,
        "fuse": True,
        "cpus": 2,
        "conntrack_max": 131072,
        "conntrack_writable": False,
        "networks": [
            {"range": "127.0.0.0/8", "device": "lo"},
            {"range": "192.0.2.0/24", "device": "eth0"},
        ],
        "links": {"lo": "", "eth0": ""},
        "disk_gib": 80.0,
        "filesystem": "ext4",
        "memory_gib": 7.8,
        "memory_free_gib": 6.0,
    }
