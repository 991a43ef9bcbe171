# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the role asks for, and every path and name that follows from it."""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import json
import pathlib
import platform


@dataclasses.dataclass(frozen=True)
class Settings:
    """One machine. The fields are the role's variables without their prefix."""

    name: str
    network: str
    folder: str
    cache: str
    suite: str
    mirror: str
    packages: tuple[str, ...]
    disk_gib: float
    memory_gib: float
    start_timeout: int
    stop_timeout: int
    base_folder: str = ""

    @classmethod
    def from_json(cls, text: str) -> Settings:
        values = json.loads(text)
        values["packages"] = tuple(values["packages"])
        return cls(**values)

    @property
    def prefix(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.network)

    @property
    def gateway(self) -> str:
        return str(self.prefix.network_address + 1)

    @property
    def address(self) -> str:
        return str(self.prefix.network_address + 2)

    @property
    def bridge(self) -> str:
        return f"br-{self.name}"

    @property
    def veth(self) -> str:
        """The name systemd-nspawn gives the host's end of the machine's cable."""
        return f"vb-{self.name}"

    @property
    def alias(self) -> str:
        """Written on the bridge, so that nobody else's is taken for it."""
        return f"gsb-fake-gpu-lab {self.name}"

    @property
    def label(self) -> str:
        """Name of the cgroup and of the transient unit; nobody else's starts so."""
        return f"gsb-fake-gpu-lab-{self.name}"

    @property
    def home(self) -> pathlib.Path:
        return pathlib.Path(self.folder) / self.name

    @property
    def root(self) -> pathlib.Path:
        return self.home / "root"

    @property
    def ssh(self) -> pathlib.Path:
        return self.home / "ssh"

    @property
    def base_key(self) -> str:
        """Names the base root folder by the recipe that makes it."""
        recipe = ("3", platform.machine(), self.suite, self.mirror, *sorted(self.packages))
        return hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]

    @property
    def bases(self) -> pathlib.Path:
        return pathlib.Path(self.cache) / "root"

    @property
    def base(self) -> pathlib.Path:
        return pathlib.Path(self.base_folder) if self.base_folder else self.bases / self.base_key
