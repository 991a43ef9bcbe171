# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The tool behind the role `image`. Each command prints one JSON object, with a `fault` in words when it could not do
what it was asked; the role decides what to call."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lab_image import inputs, qemu, sbom
from lab_image.dress import clean, dress
from lab_image.hygiene import inspect, size_of, table
from lab_image.pack import FORMATS, Fault, kernel_of, moment_of, pack

# Of the collection, what a baked root folder is made from.
MADE_FROM = (
    "roles",
    "plugins",
    "playbooks",
    "inventory/localhost.yml",
    "lab.yml",
    "meta",
    "galaxy.yml",
    "MANIFEST.json",
)
NO_PART = ("__main__.py", "hygiene.py", "inputs.py", "pack.py", "qemu.py", "sbom.py")
TOOLS = {
    "mcopy": "mtools",
    "mkfs.vfat": "dosfstools",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "sfdisk": "fdisk",
    "zstd": "zstd",
}
COMPRESSED_GIB = 1.2


def digest_of(collection: pathlib.Path, wanted: Any) -> str:
    """Names a baked root folder by all that it is made from."""
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode())
    for name in MADE_FROM:
        top = collection / name
        for path in sorted([top] if top.is_file() else top.rglob("*")):
            ours = path.parent.name == "lab_image" and path.name in NO_PART
            # How a folder is looked at and packed is no part of it; neither is what people read.
            if path.is_file() and "__pycache__" not in path.parts and not ours and path.suffix != ".md":
                digest.update(f"{path.relative_to(collection)}\0{path.stat().st_mode:o}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def alone(folder: pathlib.Path) -> Iterator[None]:
    """Hold a folder against other runs; freed by the kernel when this one is killed."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check(wanted: dict[str, Any]) -> dict[str, Any]:
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    if says := inputs.problems(wanted, arch):
        raise Fault("\n".join(says))
    return {"changed": False}


def look(wanted: dict[str, Any]) -> dict[str, Any]:
    folder = pathlib.Path(wanted["cache"])
    key = digest_of(pathlib.Path(wanted["collection"]), wanted["inputs"])
    packages = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if wanted.get("try"):
        packages = qemu.missing_packages(wanted["arch"])
    root = folder / key / "root"
    if wanted.get("claim") and not root.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            if why := inputs.claim(folder, [key, f"in {wanted['machine']}"], inputs.runner()):
                raise Fault(why)
    # A root folder that was taken by a run that was killed is only to be finished.
    baked = root.is_dir() or root.with_name("root.taken").is_dir()
    return {"changed": False, "key": key, "root": str(root), "packages": packages, "baked": baked}


def finish(wanted: dict[str, Any]) -> dict[str, Any]:
    """Dress and clean a root folder that left the machine, check it, and give it its place."""
    root, new = pathlib.Path(wanted["root"]), pathlib.Path(wanted["taken"])
    if root.is_dir():
        shutil.rmtree(new, ignore_errors=True)
        return {"changed": False, "checks": []}
    clean(new, wanted["state"])
    dress(new, wanted)
    results = inspect(new, wanted["state"])
    if not all(result["ok"] for result in results):
        shutil.rmtree(new)
        raise Fault("\n".join(["The root folder is not fit to be packed:", *table(results)]))
    new.rename(root)
    # The one before may still be booted by somebody; older ones are of no use.
    baked = sorted(
        (path for path in root.parent.parent.iterdir() if (path / "root").is_dir()),
        key=lambda path: path.stat().st_mtime,
    )
    claimed = inputs.claims(root.parent.parent)
    halves = [
        path
        for path in root.parent.parent.iterdir()
        if re.fullmatch("[0-9a-f]{16}", path.name) and not (path / "root").is_dir() and path.name not in claimed
    ]
    for path in [*baked[:-2], *halves]:
        shutil.rmtree(path)
    return {"changed": True, "checks": table(results)}


def manifest(root: pathlib.Path, wanted: dict[str, Any], files: list[dict[str, Any]]) -> dict[str, Any]:
    bundle = json.loads(pathlib.Path(wanted["bundle"], "manifest.json").read_text(encoding="utf-8"))
    _kernel, _initrd, kernel = kernel_of(root)
    return {
        "schema": 1,
        "name": wanted["name"],
        "key": wanted["key"],
        "arch": wanted["arch"],
        "origin": bundle["origin"],
        "state": wanted["state"],
        "versions": {
            **{name: part["version"] for name, part in bundle["parts"].items() if part.get("version")},
            "collection": wanted["version"],
            "debian": (root / "etc/debian_version").read_text(encoding="ascii").strip(),
            "kernel": kernel,
        },
        "bundle": {
            file["path"]: file["sha256"]
            for part in bundle["parts"].values()
            for file in part["files"]
            if "/wheels" not in file["path"]
        },
        "unpacked_bytes": size_of(root),
        "files": files,
    }


def make(wanted: dict[str, Any], check: bool) -> dict[str, Any]:
    """The files of the image, with what they are made of."""
    root, folder, name = pathlib.Path(wanted["root"]), pathlib.Path(wanted["dest"]), wanted["name"]
    stamp = folder / f"{name}.json"
    try:
        known = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    sizes = {file["path"]: file["size"] for file in known.get("files", [])}
    fresh = (
        known.get("packed") == wanted["packed"]
        and (folder / f"{name}.cdx.json").is_file()
        and all(
            (folder / path).is_file() and (folder / path).stat().st_size == sizes.get(path)
            for path in (f"{name}.{kind}" for kind in wanted["formats"])
        )
    )
    if fresh and any(line.startswith("NOT OK") for line in known["checks"]):
        raise Fault("\n".join(["The image is too large:", *known["checks"]]))
    if fresh or check:
        return {"changed": not fresh, "files": known.get("files", []), "checks": known.get("checks", [])}
    results = inspect(root, wanted["state"])
    if not all(result["ok"] for result in results):
        raise Fault("\n".join(["The root folder is not fit to be packed:", *table(results)]))
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        return made(root, folder, name, wanted, results)


def made(
    root: pathlib.Path, folder: pathlib.Path, name: str, wanted: dict[str, Any], results: list[dict[str, Any]]
) -> dict[str, Any]:
    stamp = folder / f"{name}.json"
    # Of all kinds: one that is not made any more would be of another folder.
    for kind in ("json", "cdx.json", *FORMATS):
        (folder / f"{name}.{kind}").unlink(missing_ok=True)
    files = pack(root, folder, name, wanted)
    for file in files:
        gib = file["size"] / 2**30
        seen = [] if gib <= COMPRESSED_GIB else [f"{gib:.2f} GiB"]
        what = f"at most {COMPRESSED_GIB:g} GiB: {gib:.2f} GiB"
        results.append({"check": file["path"].split(".", 1)[1], "what": what, "ok": not seen, "seen": seen})
    said = manifest(root, wanted, files)
    bundle = json.loads(pathlib.Path(wanted["bundle"], "manifest.json").read_text(encoding="utf-8"))
    bill = sbom.document(name, wanted["version"], list(sbom.components(root, bundle)), wanted["key"], moment_of(root))
    (folder / f"{name}.cdx.json").write_text(bill + "\n", encoding="utf-8")
    said.update(packed=wanted["packed"], checks=table(results), sbom=f"{name}.cdx.json")
    stamp.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if not all(result["ok"] for result in results):
        raise Fault("\n".join(["The image is too large:", *table(results)]))
    return {"changed": True, "files": files, "checks": table(results)}


COMMANDS = {
    "check": check,
    "look": look,
    "finish": finish,
    "make": make,
    "try": qemu.start,
    "follow": qemu.follow,
    "ask": qemu.ask,
    "play": qemu.play,
    "stop": qemu.stop,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--settings", required=True, help="the role's variables, as JSON")
    parser.add_argument("--check", action="store_true", help="make changes nothing, and says what would be done")
    options = parser.parse_args()
    wanted = json.loads(options.settings)
    rehearsal = {"check": options.check} if options.command == "make" else {}
    try:
        answer = COMMANDS[options.command](wanted, **rehearsal)
    except Fault as fault:
        answer = {"changed": False, "fault": str(fault)}
    except OSError as error:
        answer = {"changed": False, "fault": f"{error.strerror}: {error.filename or ''}".rstrip(": ")}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
