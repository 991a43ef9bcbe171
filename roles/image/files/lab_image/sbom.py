# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the image is made of: the packages of the distribution, the lab's products and their modules, as CycloneDX."""

from __future__ import annotations

import datetime
import pathlib
import re
import uuid
from collections.abc import Iterator
from typing import Any


def debian_packages(root: pathlib.Path) -> list[dict[str, str]]:
    """Name, version and architecture of each installed package."""
    found = []
    for paragraph in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", paragraph, re.M))
        if fields.get("Status", "").endswith(" installed"):
            found.append({"name": fields["Package"], "version": fields["Version"], "arch": fields["Architecture"]})
    return sorted(found, key=lambda package: (package["name"], package["arch"]))


def python_packages(root: pathlib.Path) -> list[dict[str, str]]:
    """Name and version of each Python package below the lab's own folder."""
    found = {
        tuple(path.name.removesuffix(".dist-info").rsplit("-", 1))
        for path in (root / "opt/gsb-fake-gpu-lab").glob("*/lib/python3*/site-packages/*.dist-info")
    }
    return [{"name": name, "version": version} for name, version in sorted(found)]


def components(root: pathlib.Path, bundle: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every component, as plain data."""
    for package in debian_packages(root):
        yield {**package, "kind": "deb", "namespace": "debian"}
    for package in python_packages(root):
        yield {**package, "kind": "pypi", "namespace": None}
    for module, version in sorted(bundle.get("go_modules", {}).items()):
        namespace, _slash, name = module.rpartition("/")
        yield {"kind": "golang", "namespace": namespace or None, "name": name, "version": version}
    for part, content in sorted(bundle["parts"].items()):
        for file in content["files"]:
            for reference in file.get("refs", []):
                name, _colon, tag = reference.rpartition(":")
                yield {
                    "kind": "oci",
                    "namespace": None,
                    "name": name.rsplit("/", 1)[-1],
                    "version": file.get("digest", tag),
                    "qualifiers": {"repository_url": name, "tag": tag},
                    "sha256": file["sha256"],
                }
        if content.get("version"):
            yield {
                "kind": "generic",
                "namespace": None,
                "name": part,
                "version": content["version"],
                "description": content.get("made_of"),
            }


def document(name: str, version: str, found: list[dict[str, Any]], key: str, moment: int) -> str:
    """The components as CycloneDX 1.6 JSON; its number and its time follow from what is packed."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"gsb-fake-gpu-lab/{key}/{name}/bill"))
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    bom.metadata.component = Component(type=ComponentType.OPERATING_SYSTEM, name=name, version=version, bom_ref="image")
    kinds = {"oci": ComponentType.CONTAINER, "generic": ComponentType.APPLICATION}
    for entry in found:
        qualifiers = dict(entry.get("qualifiers") or {})
        if entry.get("arch"):
            qualifiers["arch"] = entry["arch"]
        url = PackageURL(entry["kind"], entry["namespace"], entry["name"], entry["version"], qualifiers or None)
        bom.components.add(
            Component(
                type=kinds.get(entry["kind"], ComponentType.LIBRARY),
                name=entry["name"],
                version=entry["version"],
                description=entry.get("description"),
                purl=url,
                bom_ref=url.to_string(),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=entry["sha256"])] if entry.get("sha256") else None,
            )
        )
    bom.register_dependency(bom.metadata.component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)
