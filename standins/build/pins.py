# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The pins: what is installed, in which version, and what stands in for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from .errors import BuildError

FILE = Path("roles/bundle/vars/pins.yml")
VARIABLE = "bundle_pins"
ARCHITECTURES = ("amd64", "arm64")
FIGURE = r"(sha256:)?[0-9a-f]{64}"


@dataclass(frozen=True)
class Image:
    """One container image: the reference it is imported under and what its stand-in is made of."""

    ref: str
    name: str
    made_of: str
    program: str | None = None


@dataclass(frozen=True)
class Wheel:
    name: str
    version: str
    file: str
    arch: str
    python: str
    sha256: str


@dataclass(frozen=True)
class UpstreamFile:
    name: str
    url: str
    sha256: str | None


@dataclass(frozen=True)
class UpstreamChart:
    """A chart in a registry: its repository, the digest of its manifest, the sha256 of its .tgz."""

    repository: str
    version: str
    digest: str | None
    sha256: str | None


@dataclass(frozen=True)
class UpstreamImage:
    """An image in a registry: the digest of its index, that of the platform, and the file that has it inside."""

    ref: str
    name: str
    digest: str | None
    platform: str | None
    carried_by: str


class Pins:
    """A reading of the pins file."""

    def __init__(self, data: Mapping[str, Any], place: Path = FILE) -> None:
        self.data = data
        #: Where they are read from, for those who have to correct them.
        self.place = place

    @classmethod
    def load(cls, path: Path) -> Pins:
        try:
            pins = cls(yaml.safe_load(path.read_text(encoding="utf-8"))[VARIABLE], path)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as problem:
            raise BuildError(f"The pins {path} cannot be read: {problem}") from problem
        try:
            figures = pins.figures()
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise BuildError(
                f"The pins {path} are not of the form of {FILE}: {type(problem).__name__} {problem}.",
                hint=f"begin with a copy of {FILE}, and change versions, addresses and figures",
            ) from problem
        for name, figure in figures:
            if figure is not None and not re.fullmatch(FIGURE, str(figure)):
                raise BuildError(f"The pins {path} have {figure} for {name}, which is no sha256.")
        return pins

    def figures(self) -> list[tuple[str, str | None]]:
        """All checksums, each with what it is of; reads all that is ever read."""
        found: list[tuple[str, str | None]] = []
        for arch in ARCHITECTURES:
            for name in ("k3s", "helm", "kwok"):
                found += [(file.url, file.sha256) for file in self.files(name, arch)]
            found += [(wheel.file, wheel.sha256) for wheel in self.wheels(arch)]
            for image in self.upstream_images(arch):
                found += [(image.ref, image.digest), (image.ref, image.platform)]
        for name in ("k3s", "helm", "kwok", "fake-gpu-operator"):
            str(self.data[name]["version"]), self.standin_version(name), self.made_of(name)
        chart = self.chart()
        self.images(), self.upstream_hosts(), self.kube_client
        return [*found, (chart.repository, chart.digest), (chart.repository, chart.sha256)]

    def standin_version(self, name: str) -> str:
        return str(self.data[name]["standin"]["version"])

    def made_of(self, name: str) -> str:
        return str(self.data[name]["standin"]["made_of"])

    def module_version(self, module: str) -> str:
        for standin in self._standins():
            if version := standin.get("modules", {}).get(module):
                return str(version)
        raise BuildError(f"The pins name no version of the Go module {module}.")

    def modules(self) -> dict[str, str]:
        """Every pinned Go module with its version."""
        return {
            name: str(version) for standin in self._standins() for name, version in standin.get("modules", {}).items()
        }

    def _standins(self) -> list[Mapping[str, Any]]:
        entries = [entry for name, entry in self.data.items() if name != "images"] + list(self.data["images"])
        return [entry["standin"] for entry in entries if "standin" in entry]

    def images(self) -> list[Image]:
        found = []
        for entry in self.data["images"]:
            standin = entry["standin"]
            found.append(
                Image(standin.get("ref", entry["ref"]), standin["name"], standin["made_of"], standin.get("program"))
            )
        return found

    @property
    def kube_client(self) -> str:
        return str(self.data["kube-client"]["version"])

    def wheels(self, arch: str) -> list[Wheel]:
        return [
            Wheel(wheel["name"], str(wheel["version"]), file["name"], file["arch"], str(file["python"]), file["sha256"])
            for wheel in self.data["kube-client"]["wheels"]
            for file in wheel["files"]
            if file["arch"] in (arch, "any")
        ]

    def files(self, name: str, arch: str) -> list[UpstreamFile]:
        """The published files of a product for an architecture."""
        return [
            UpstreamFile(file["name"], file["url"], file["sha256"])
            for file in self.data[name]["upstream"]
            if file["arch"] in (arch, "any")
        ]

    def chart(self) -> UpstreamChart:
        entry = self.data["fake-gpu-operator"]
        (file,) = entry["upstream"]
        return UpstreamChart(
            file["url"].removeprefix("oci://"), str(entry["version"]), file.get("digest"), file["sha256"]
        )

    def upstream_images(self, arch: str) -> list[UpstreamImage]:
        return [
            UpstreamImage(
                entry["ref"],
                entry["standin"]["name"],
                entry["upstream"]["digest"],
                entry["upstream"][arch],
                entry["upstream"].get("carried_by", ""),
            )
            for entry in self.data["images"]
        ]

    def unpinned(self, arch: str) -> list[str]:
        """What upstream publishes and no checksum is known of."""
        names = [file.name for name in ("k3s", "helm", "kwok") for file in self.files(name, arch) if not file.sha256]
        chart = self.chart()
        if not (chart.digest and chart.sha256):
            names.append(f"the chart {chart.repository}:{chart.version}")
        return names + [image.ref for image in self.upstream_images(arch) if not image.carried_by and not image.digest]

    def upstream_hosts(self) -> list[str]:
        """The names that a download from upstream has to reach."""
        hosts = []
        for entry in self.data.values():
            if isinstance(entry, Mapping):
                hosts += [urlsplit(file["url"]).hostname for file in entry.get("upstream", [])]
        for image in self.data["images"]:
            registry = image["ref"].partition("/")[0]
            hosts.append("registry-1.docker.io" if registry == "docker.io" else registry)
        return sorted({host for host in hosts if host})
