# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The next release of everything, for a test: what a bundle of stand-ins has, under the version after its own.

Nothing is compiled: the k3s stand-in says another version of the same length, KWOK's image has another tag, and the
chart is packed under another version.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsb-fake-gpu-lab"
KWOK_IMAGE = "registry.k8s.io/kwok/kwok"


def after(version: str) -> str:
    """The version with its last digit counted up."""
    assert version[-1] in "012345678", f"no next version of the same length: {version}"
    return version[:-1] + str(int(version[-1]) + 1)


def part(name: str) -> Path:
    """The folder of a part that the last build of the stand-ins used."""
    found = sorted((CACHE / "parts").glob(f"{name}-*/part.json"), key=lambda path: path.parent.stat().st_mtime)
    found = [path.parent for path in found if re.fullmatch(rf"{name}-[0-9a-f]+", path.parent.name)]
    assert found, f"{CACHE}/parts has no {name}: make the stand-ins with lab.yml --tags bundle -e bundle_source=standin"
    return found[-1]


def renamed(source: Path, target: Path, old: str, new: str) -> None:
    content = source.read_bytes()
    assert old.encode() in content, f"{source} does not say {old}"
    target.write_bytes(content.replace(old.encode(), new.encode()))
    target.chmod(0o755)


def next_k3s(digest: str, old: str) -> Path:
    """The stand-in under the next version; kept in the cache, since packing takes some seconds."""
    kept = CACHE / "test" / f"k3s-after-{digest[:16]}"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    launcher = part("k3s-launcher")
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        programs = Path(folder) / "payload" / "bin"
        programs.mkdir(parents=True)
        for name in ("containerd", "crictl", "cni", "runc"):
            for program in part(name).iterdir():
                if program.suffix != ".json":
                    shutil.copy2(program, programs)
        renamed(part("kube") / "kube", programs / "kube", old, after(old))
        renamed(launcher / "k3s-launcher", Path(folder) / "launcher", old, after(old))
        made = Path(folder) / "k3s"
        subprocess.run(
            [launcher / "pack", "-o", made, "-launcher", Path(folder) / "launcher", programs.parent],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        made.rename(kept)
    return kept


def retagged(archive: Path, old: str, new: str) -> bytes | None:
    """The archive of an image under another name; None where it holds no image of that name."""
    made = io.BytesIO()
    found = False
    with tarfile.open(archive) as tar, tarfile.open(fileobj=made, mode="w") as copy:
        for member in tar:
            content = tar.extractfile(member).read() if member.isfile() else b""
            if member.name in ("index.json", "manifest.json") and old.encode() in content:
                found, content = True, content.replace(old.encode(), new.encode())
                member.size = len(content)
            copy.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return made.getvalue() if found else None


def repacked(chart: Path, version: str) -> bytes:
    """The chart under another version; its images stay those of its appVersion."""
    made = io.BytesIO()
    with tarfile.open(chart) as tar, tarfile.open(fileobj=made, mode="w:gz") as copy:
        for member in tar:
            content = tar.extractfile(member).read() if member.isfile() else b""
            if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"):
                content = re.sub(rb"(?m)^version: .*$", b"version: " + version.encode(), content)
                member.size = len(content)
            copy.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return made.getvalue()


def next_bundle(first: Path, folder: Path) -> Path:
    """A bundle with the next version of k3s, of KWOK and of the chart, as the builder would lay it out."""
    second = folder / "bundle"
    shutil.copytree(first, second)
    manifest = json.loads((first / "manifest.json").read_text())
    parts = manifest["parts"]

    def put(name: str, path: str, content: bytes) -> None:
        (second / path).write_bytes(content)
        (entry,) = [file for file in parts[name]["files"] if file["path"] == path]
        entry |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}

    k3s, kwok, chart = (parts[name]["version"] for name in ("k3s", "kwok", "fake-gpu-operator"))
    put("k3s", "bin/k3s", next_k3s(parts["k3s"]["files"][0]["sha256"], k3s).read_bytes())
    was, becomes = f"{KWOK_IMAGE}:{kwok}", f"{KWOK_IMAGE}:{after(kwok)}"
    manifests = (first / "manifests/kwok.yaml").read_text()
    assert was in manifests
    put("kwok", "manifests/kwok.yaml", manifests.replace(was, becomes).encode())
    # The air-gap archive of k3s, which is compressed, has k3s' own images only.
    archives = [file["path"] for file in parts["images"]["files"] if not file["path"].endswith(".zst")]
    renamed_archives = {path: retagged(first / path, was, becomes) for path in archives}
    ((path, content),) = [(path, content) for path, content in renamed_archives.items() if content]
    put("images", path, content)
    (packed,) = [file["path"] for file in parts["fake-gpu-operator"]["files"]]
    path = packed.replace(chart, after(chart))
    (second / packed).rename(second / path)
    parts["fake-gpu-operator"]["files"][0]["path"] = path
    put("fake-gpu-operator", path, repacked(first / packed, after(chart)))
    for name in ("k3s", "kwok", "fake-gpu-operator"):
        parts[name]["version"] = after(parts[name]["version"])
    (second / "manifest.json").write_text(json.dumps(manifest, indent=2))
    return second
