# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A bundle as one file, for a machine that cannot make one."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

from . import bundle
from .errors import BuildError, what_to_do
from .images import EPOCH
from .store import remove_tree, sha256_of, write_atomically

SUFFIX = ".sha256"


def problem(folder: Path) -> str:
    """'' when the folder is a whole bundle by its own manifest, every byte of it; else the first thing that is wrong."""
    manifest = bundle.copy_of_manifest(folder)
    if not isinstance(manifest, dict):
        return f"{bundle.MANIFEST} is missing or cannot be read"
    if manifest.get("schema") != bundle.SCHEMA:
        return f"its schema is {manifest.get('schema')}, not {bundle.SCHEMA}"
    try:
        files = {str(file["path"]): file["sha256"] for part in manifest["parts"].values() for file in part["files"]}
    except (LookupError, TypeError, AttributeError):
        return f"{bundle.MANIFEST} does not tell what belongs there"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if odd := sorted(there - files.keys() - {bundle.MANIFEST}):
        return f"{odd[0]} does not belong there"
    for path, wanted in files.items():
        if path not in there:
            return f"{path} is missing"
        if (folder / path).is_symlink() or sha256_of(folder / path) != wanted:
            return f"{path} does not have its sha256"
    return ""


def pack(folder: Path, archive: Path) -> bool:
    """Write the archive and its .sha256 beside it; False when both are there already."""
    if wrong := problem(folder):
        raise BuildError(f"{folder} is no whole bundle: {wrong}.", hint="ansible-playbook lab.yml --tags bundle")
    if not archive.parent.is_dir():
        raise BuildError(f"{archive.parent} is not a folder; make it first.")
    if archive.is_dir():
        raise BuildError(f"{archive} is a folder, not a file.")
    with bundle.alone(archive.parent):
        return _pack(folder, archive)


def _pack(folder: Path, archive: Path) -> bool:
    manifest = (folder / bundle.MANIFEST).read_bytes()
    _sweep(archive)
    if not difference(archive, manifest):
        return False
    beside = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        # The names of wheels are longer than the older formats take.
        with tarfile.open(beside, "w", format=tarfile.PAX_FORMAT) as tar:
            # First, so that it can be read without the rest.
            _add(tar, bundle.MANIFEST, io.BytesIO(manifest), len(manifest), 0o644)
            for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != bundle.MANIFEST):
                mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                with path.open("rb") as stream:
                    _add(tar, path.relative_to(folder).as_posix(), stream, path.stat().st_size, mode)
        checksum = sha256_of(beside)
        beside.replace(archive)
    finally:
        beside.unlink(missing_ok=True)
    write_atomically(archive.with_name(archive.name + SUFFIX), f"{checksum}  {archive.name}\n")
    return True


def _sweep(archive: Path) -> None:
    """What runs that were killed left beside the archive."""
    left = re.compile(rf"\.{re.escape(archive.name)}({re.escape(SUFFIX)})?\.\d+")
    for path in archive.parent.iterdir():
        if left.fullmatch(path.name):
            path.unlink()


def _add(tar: tarfile.TarFile, name: str, stream: Any, size: int, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, EPOCH
    tar.addfile(entry, stream)


def difference(archive: Path, manifest: bytes) -> str:
    """'' when the archive has its checksum and this manifest."""
    try:
        require_checksum(archive)
        with tarfile.open(archive) as tar:
            first = tar.next()
            stream = tar.extractfile(first) if first and first.name == bundle.MANIFEST else None
            return "" if stream is not None and stream.read() == manifest else "another bundle"
    except (BuildError, OSError, tarfile.TarError, LookupError) as wrong:
        return str(wrong)


def require_checksum(archive: Path) -> None:
    """Raises BuildError unless the archive is what the file beside it says."""
    beside = archive.with_name(archive.name + SUFFIX)
    hint = f"take {archive.name} and {beside.name} once more from where they were made"
    try:
        wanted = beside.read_text(encoding="utf-8").split()[0]
        found = sha256_of(archive)
    except (OSError, UnicodeDecodeError, IndexError) as wrong:
        raise BuildError(f"{archive} cannot be checked: {wrong}.", hint=hint) from wrong
    if found != wanted:
        raise BuildError(f"{archive} is damaged: its sha256 is {found}, not {wanted}.", hint=hint)


def unpack(archive: Path, folder: Path, *, check: bool = False) -> bool:
    """Put the bundle of an archive in its place, in one step; False when it is there already."""
    folder = folder.resolve()
    require_checksum(archive)
    try:
        with tarfile.open(archive) as tar:
            first = tar.next()
            stream = tar.extractfile(first) if first and first.name == bundle.MANIFEST else None
            manifest = stream.read() if stream is not None else b""
            json.loads(manifest)
    except (OSError, tarfile.TarError, LookupError, ValueError) as wrong:
        raise BuildError(f"{archive} is no archive of a bundle: {wrong}.") from wrong
    try:
        same = (folder / bundle.MANIFEST).read_bytes() == manifest
    except OSError:
        same = False
    if same and not problem(folder):
        return False
    bundle.require_place(folder)
    if check:
        return True
    folder.parent.mkdir(parents=True, exist_ok=True)
    with bundle.alone(folder.parent):
        return _unpack(archive, folder)


def _unpack(archive: Path, folder: Path) -> bool:
    bundle.sweep(folder)
    fresh = bundle.beside(folder)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(fresh, filter="data")
        if wrong := problem(fresh):
            raise BuildError(f"{archive} holds no whole bundle: {wrong}.")
        bundle.swap(fresh, folder)
    except (OSError, tarfile.TarError, LookupError) as wrong:
        hint = what_to_do(wrong, "lab_bundle_dir")
        raise BuildError(f"{archive} could not be unpacked to {folder}: {wrong}.", hint=hint) from wrong
    finally:
        if fresh.exists():
            remove_tree(fresh)
    return True
