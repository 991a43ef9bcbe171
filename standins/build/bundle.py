# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The bundle folder: what the install roles take, described by manifest.json, replaced as a whole or not at all."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import BuildError
from .pins import Pins, Wheel
from .recipes import place
from .store import Stored, remove_tree, sha256_of

SCHEMA = 1
MANIFEST = "manifest.json"
CONTENTS = {MANIFEST, "bin", "charts", "images", "manifests", "wheels"}
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
PATIENCE = 900.0


@dataclass(frozen=True)
class Entry:
    """One file of the bundle: where it goes, which part it comes from, and what the manifest says of it."""

    path: str
    source: Path
    described: Mapping[str, Any]


def _entry(path: str, stored: Stored, name: str, **more: Any) -> Entry:
    file = next(item for item in stored.files if item.path == name)
    return Entry(path, stored.folder / name, {**file.as_json(), "path": path, **more})


Groups = Mapping[str, tuple[Mapping[str, Any], list[Entry]]]


def _whole(stored: Stored, folder: str) -> list[Entry]:
    """All files of a part, in one folder of the bundle."""
    return [_entry(f"{folder}/{file.path}", stored, file.path) for file in stored.files]


def _wheels(pins: Pins, stored: Stored, arch: str) -> list[Entry]:
    by_file: dict[str, Wheel] = {wheel.file: wheel for wheel in pins.wheels(arch)}
    return [
        _entry(
            f"wheels/{file.path}",
            stored,
            file.path,
            **({"python": by_file[file.path].python} if file.path in by_file else {}),
        )
        for file in stored.files
    ]


def _manifest(origin: str, arch: str, groups: Groups, more: Mapping[str, Any]) -> tuple[dict[str, Any], list[Entry]]:
    manifest = {
        "schema": SCHEMA,
        "origin": origin,
        "arch": arch,
        "parts": {
            # The wheels come from PyPI whatever the origin of the rest is.
            name: {
                "origin": "upstream" if name == "kube-client" else origin,
                **facts,
                "files": [entry.described for entry in entries],
            }
            for name, (facts, entries) in groups.items()
        },
        **more,
    }
    return manifest, [entry for _facts, entries in groups.values() for entry in entries]


def describe(pins: Pins, built: Mapping[str, Stored], arch: str) -> tuple[dict[str, Any], list[Entry]]:
    """The manifest of stand-ins and the files it names."""

    def made(name: str) -> dict[str, Any]:
        return {"version": pins.standin_version(name), "made_of": pins.made_of(name)}

    groups: Groups = {
        "k3s": (made("k3s"), _whole(built["k3s"], "bin")),
        "helm": (made("helm"), _whole(built["helm"], "bin")),
        "kwok": (made("kwok"), _whole(built["kwok-manifests"], "manifests")),
        "fake-gpu-operator": (made("fake-gpu-operator"), _whole(built["chart"], "charts")),
        "images": (
            {},
            [
                _entry(
                    f"images/{image.name}.tar",
                    built[f"image-{image.name}"],
                    f"{image.name}.tar",
                    refs=[image.ref],
                    digest=built[f"image-{image.name}"].facts["digest"],
                    made_of=image.made_of,
                )
                for image in pins.images()
            ],
        ),
        "kube-client": ({"version": pins.kube_client}, _wheels(pins, built["wheels"], arch)),
    }
    packages = {name: version for part in built.values() for name, version in part.facts.get("packages", {}).items()}
    modules = {name: version for part in built.values() for name, version in part.facts.get("modules", {}).items()}
    return _manifest("standin", arch, groups, {"debian_packages": packages, "go_modules": modules})


def describe_upstream(
    pins: Pins, built: Mapping[str, Stored], arch: str, unpinned: list[str]
) -> tuple[dict[str, Any], list[Entry]]:
    """The manifest of what upstream published and the files it names."""

    def published(name: str, part: str) -> dict[str, Any]:
        return {"version": str(pins.data[name]["version"]), **built[part].facts}

    carried: dict[str, list[str]] = {}
    images: list[Entry] = []
    for image in pins.upstream_images(arch):
        if image.carried_by:
            carried.setdefault(image.carried_by, []).append(image.ref)
            continue
        stored = built[f"upstream-image-{image.name}"]
        images.append(
            _entry(
                f"images/{image.name}.tar",
                stored,
                f"{image.name}.tar",
                refs=[image.ref],
                digest=stored.facts["digest"],
                index=image.digest,
            )
        )
    for name, refs in carried.items():
        images.append(_entry(f"images/{name}", built["upstream-k3s-images"], name, refs=refs))
    groups: Groups = {
        "k3s": (published("k3s", "upstream-k3s"), _whole(built["upstream-k3s"], "bin")),
        "helm": (published("helm", "upstream-helm"), _whole(built["upstream-helm"], "bin")),
        "kwok": (
            published("kwok", "upstream-kwok-manifests"),
            _whole(built["upstream-kwok-manifests"], "manifests"),
        ),
        "fake-gpu-operator": (
            published("fake-gpu-operator", "upstream-chart"),
            _whole(built["upstream-chart"], "charts"),
        ),
        "images": ({}, images),
        "kube-client": ({"version": pins.kube_client}, _wheels(pins, built["wheels"], arch)),
    }
    return _manifest("upstream", arch, groups, {"unpinned": unpinned})


def text_of(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def what_differs(folder: Path, manifest: Mapping[str, Any], entries: list[Entry], *, verify: bool = False) -> str:
    """'' when the folder holds exactly the bundle, else the first thing that is wrong, in words.

    A file is the part's own or has its size and time; `verify` reads it where it is a copy.
    """
    try:
        if (folder / MANIFEST).read_text(encoding="utf-8") != text_of(manifest):
            return "the parts have changed"
    except (OSError, UnicodeDecodeError):
        return "there is no bundle yet" if not folder.exists() else f"{MANIFEST} is missing"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    wanted = {entry.path for entry in entries} | {MANIFEST}
    if odd := sorted(there - wanted):
        return f"{odd[0]} does not belong there"
    for entry in entries:
        path = folder / entry.path
        try:
            here, kept = path.lstat(), entry.source.stat()
        except OSError:
            return f"{entry.path} is missing"
        same_file = (here.st_dev, here.st_ino) == (kept.st_dev, kept.st_ino)
        if same_file:
            continue
        like_it = (here.st_size, here.st_mtime_ns) == (kept.st_size, kept.st_mtime_ns)
        if not like_it or (verify and sha256_of(path) != entry.described["sha256"]):
            return f"{entry.path} has changed"
    return ""


def assemble(folder: Path, manifest: Mapping[str, Any], entries: list[Entry]) -> None:
    """Fill a new folder beside the old one, put it in its place in one step, and remove the old one."""
    # Of a link, the folder that it names.
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent):
        sweep(folder)
        fresh = beside(folder)
        try:
            fresh.mkdir()
            for entry in entries:
                target = fresh / entry.path
                target.parent.mkdir(exist_ok=True)
                place(entry.source, target)
            (fresh / MANIFEST).write_text(text_of(manifest), encoding="utf-8")
            (fresh / MANIFEST).chmod(0o644)
            swap(fresh, folder)
        finally:
            if fresh.exists():
                remove_tree(fresh)


def require_place(folder: Path) -> None:
    """Raises BuildError where something else than a bundle would be replaced."""
    try:
        there = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError as problem:
        raise BuildError(f"{folder} is no folder.", hint="name another one with -e lab_bundle_dir=/path") from problem
    manifest = copy_of_manifest(folder)
    if there <= CONTENTS or (isinstance(manifest, dict) and {"schema", "parts"} <= manifest.keys()):
        return
    raise BuildError(
        f"{folder} holds what is no bundle ({sorted(there - CONTENTS)[0]}), and a bundle replaces its folder as a whole.",
        hint="name a folder that is empty or not there yet with -e lab_bundle_dir=/path",
    )


@contextmanager
def alone(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Be the only run that fills something beside a bundle or an archive here; the others wait, but not for ever."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        until = time.monotonic() + patience
        while not _locked(here):
            if time.monotonic() > until:
                raise BuildError(
                    f"Another run has been busy in {folder} for more than {patience:.0f} s.",
                    hint=f"fuser -v {folder}   # wait for it or end it, then run this again",
                )
            time.sleep(0.1)
        yield
    finally:
        os.close(here)


def _locked(here: int) -> bool:
    try:
        fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some file systems know no locks.
        pass
    return True


def beside(folder: Path) -> Path:
    """Where a new bundle is filled."""
    return folder.with_name(f".{folder.name}.new-{os.getpid()}")


def swap(fresh: Path, folder: Path) -> None:
    """The new bundle in the place of the old one, which goes."""
    if not folder.exists():
        fresh.rename(folder)
        return
    if not exchange(fresh, folder):
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        folder.rename(old)
        fresh.rename(folder)
    sweep(folder)


def sweep(folder: Path) -> None:
    """Old and unfinished folders beside the bundle."""
    for pattern in (f".{folder.name}.new-*", f".{folder.name}.old-*"):
        for left in folder.parent.glob(pattern):
            remove_tree(left)


def exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step of the kernel; False where the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


def copy_of_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def free_space(folder: Path) -> int:
    """Bytes that are free where the folder is or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
