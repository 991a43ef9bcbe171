# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Programs and libraries out of the distribution's own packages, verified by apt."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .command import Runner

APT_HINT = "apt-get update   # then run this again"


def distribution() -> str:
    """The distribution whose packages are used, as part of the content key."""
    release = platform.freedesktop_os_release()
    return f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID', release.get('VERSION_CODENAME', ''))}"


def download(runner: Runner, packages: Sequence[str], folder: Path) -> list[Path]:
    """Fetch packages into an empty folder. apt checks them against the distribution's signed lists."""
    folder.mkdir(parents=True)
    runner.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", *packages],
        cwd=folder,
        hint=APT_HINT,
    )
    return sorted(folder.glob("*.deb"))


def field(package: Path, name: str) -> str:
    return subprocess.run(
        ["dpkg-deb", "-f", str(package), name], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def libraries_needed(depends: Iterable[str]) -> set[str]:
    """The library packages that Depends and Pre-Depends name; of alternatives the first."""
    found = set()
    for line in depends:
        for clause in line.split(","):
            name = re.split(r"[\s:(|]", clause.strip(), maxsplit=1)[0]
            if name.startswith("lib"):
                found.add(name)
    return found


def extract(
    runner: Runner, packages: Sequence[str], work: Path, *, libraries: bool = True
) -> tuple[Path, dict[str, str]]:
    """Unpack packages, with the libraries they need, into one merged folder; and say which versions they are."""
    versions: dict[str, str] = {}
    root = work / "unpacked"
    root.mkdir(parents=True)
    wanted = set(packages)
    for turn in range(20):
        if not wanted:
            break
        needs: list[str] = []
        for package in download(runner, sorted(wanted), work / f"packages{turn}"):
            versions[field(package, "Package")] = field(package, "Version")
            needs += [field(package, "Depends"), field(package, "Pre-Depends")]
            one = work / "one"
            runner.run(["dpkg-deb", "-x", package, one])
            merge(one, root)
            shutil.rmtree(one)
        wanted = libraries_needed(needs) - set(versions) if libraries else set()
    return root, versions


def merge(source: Path, target: Path) -> None:
    """Move a package's files into a root folder where /bin, /sbin, /lib* are below /usr."""
    for path in sorted(source.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        place = target / usr_merged(path.relative_to(source).as_posix())
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)


def usr_merged(path: str) -> str:
    return f"usr/{path}" if re.match(r"(bin|sbin|lib|lib32|lib64|libx32)/", path) else path


def copy_selected(source: Path, target: Path, keep: Callable[[str], bool]) -> None:
    """Copy the files whose path below the root `keep` wants; links stay links."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if (path.is_symlink() or path.is_file()) and keep(name):
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place, follow_symlinks=False)
