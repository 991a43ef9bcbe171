# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The wheelhouse: the Python packages of the Kubernetes client, each file pinned by its sha256."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import proxy
from .command import Runner
from .errors import BuildError, Cancelled
from .pins import Wheel

PLATFORMS = {
    "amd64": ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64"),
    "arm64": ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64"),
}
# Where pip looks when nothing else is said.
INDEX = "pypi.org"


def requirements(wheels: Sequence[Wheel]) -> str:
    """A requirements file that only lets the pinned files in."""
    hashes: dict[tuple[str, str], list[str]] = {}
    for wheel in wheels:
        hashes.setdefault((wheel.name, wheel.version), []).append(wheel.sha256)
    lines = []
    for (name, version), values in sorted(hashes.items()):
        lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{value}" for value in sorted(values))]))
    return "\n".join(lines) + "\n"


def download(runner: Runner, wheels: Sequence[Wheel], arch: str, target: Path, work: Path) -> None:
    """Fetch every pinned file with pip, which refuses one whose sha256 is not in the list."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "requirements.txt").write_text(requirements(wheels), encoding="utf-8")
    environment = {**proxy.environment(), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    platforms = [word for name in (*PLATFORMS[arch], "any") for word in ("--platform", name)]
    left = list(wheels)
    for python in sorted({wheel.python for wheel in wheels} - {"any"}):
        now = [wheel for wheel in left if wheel.python in (python, "any")]
        left = [wheel for wheel in left if wheel not in now]
        listing = work / f"requirements-{python}.txt"
        listing.write_text(requirements(now), encoding="utf-8")
        try:
            runner.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
                    *("--require-hashes", "--requirement", listing, "--dest", target),
                    *("--implementation", "cp", "--python-version", python, *platforms),
                ],
                env=environment,
                hint=f"{sys.executable} -m pip --version   # pip must be there and reach its index; then run this again",
            )
        except Cancelled:
            raise
        except BuildError as problem:
            if "no space left" in str(problem).lower():
                problem.hint = (
                    f"make room below {work.parents[2]} and below {tempfile.gettempdir()}; then run this again"
                )
                raise
            refused = proxy.trouble(INDEX)
            # Which index pip asks is its own affair.
            if refused is None or refused.host:
                raise
            raise BuildError(
                f"{runner.part} could not be downloaded: {refused}",
                hint=f"{refused.hint}; then run this again",
                log=runner.log,
            ) from problem
