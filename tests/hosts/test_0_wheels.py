# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The wheels of the bundle are whole for every Python that a host may have; pip looks no further."""

from __future__ import annotations

import email
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

# glibc 2.34: that of the oldest system, EL 9.
PLATFORMS = {
    "amd64": [f"manylinux_2_{minor}_x86_64" for minor in range(34, 16, -1)],
    "arm64": [f"manylinux_2_{minor}_aarch64" for minor in range(34, 16, -1)],
}


def usable(wheels, python, arch):
    version = tuple(map(int, python.split(".")))
    tags = {
        *cpython_tags(version, platforms=PLATFORMS[arch]),
        *compatible_tags(version, f"cp{python.replace('.', '')}", PLATFORMS[arch]),
    }
    return {
        canonicalize_name(parse_wheel_filename(wheel.name)[0]): wheel
        for wheel in wheels.glob("*.whl")
        if tags & parse_wheel_filename(wheel.name)[3]
    }


def requirements(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return [Requirement(line) for line in email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_requirement_of_a_wheel_is_a_wheel(first, python):
    arch = "amd64" if list((first / "wheels").glob("*x86_64.whl")) else "arm64"
    wheels = usable(first / "wheels", python, arch)
    assert {"kubernetes", "pyyaml"} <= wheels.keys()
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    lacking = {
        f"{name} wants {wanted}"
        for name, wheel in wheels.items()
        for wanted in requirements(wheel)
        if (wanted.marker is None or wanted.marker.evaluate(environment))
        and canonicalize_name(wanted.name) not in wheels
    }
    assert lacking == set()
