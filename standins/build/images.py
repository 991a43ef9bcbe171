# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Container images by umoci, as reproducible archives that `ctr images import` takes, checked by skopeo."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .command import Runner
from .errors import BuildError

# The one time that everything reproducible carries: 2026-01-01T00:00:00Z.
EPOCH = 1767225600
CREATED = "2026-01-01T00:00:00Z"
PATH_VALUE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Config:
    """What a container runs when nothing else is said."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def skeleton(root: Path) -> None:
    """The few folders and files that every image has."""
    for name in ("etc", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "root").chmod(0o700)
    nobody = "65534:65534"
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/bin/sh\nnobody:x:{nobody}:nobody:/:/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")


def merge_usr(root: Path, folders: Sequence[str] = ("bin", "sbin", "lib", "lib64")) -> None:
    """/bin and its like as links below /usr, as in every distribution of today."""
    for name in folders:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")


def settle(root: Path) -> None:
    """Fixed times and plain modes, so that the same content gives the same layer."""
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            if not path.is_symlink() and path != root / "tmp" and path != root / "root":
                executable = path.is_dir() or bool(path.stat().st_mode & 0o111)
                path.chmod(0o755 if executable else 0o644)
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    root.chmod(0o755)
    os.utime(root, (EPOCH, EPOCH))


def build(runner: Runner, root: Path, ref: str, config: Config, arch: str, work: Path, archive: Path) -> str:
    """Make the archive of a one-layer image; returns the digest of its manifest."""
    settle(root)
    layout = work / "layout"
    image = f"{layout}:image"
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    runner.run(["umoci", "init", "--layout", layout])
    runner.run(["umoci", "new", "--image", image])
    history = ["--history.created", CREATED, "--history.created_by", "gsb.fake_gpu_lab"]
    runner.run(["umoci", "insert", "--image", image, *rootless, *history, root, "/"])
    options = ["--created", CREATED, "--no-history", "--os", "linux", "--architecture", arch]
    options += ["--config.env", f"PATH={PATH_VALUE}"]
    for word in config.entrypoint:
        options += ["--config.entrypoint", word]
    for word in config.command:
        options += ["--config.cmd", word]
    if config.user:
        options += ["--config.user", config.user]
    for name, value in sorted(config.labels.items()):
        options += ["--config.label", f"{name}={value}"]
    runner.run(["umoci", "config", "--image", image, *options])
    runner.run(["umoci", "gc", "--layout", layout])
    digest = pack(layout, ref, archive)
    # skopeo unpacks an archive with its owner, which only root may.
    checked = f"oci:{image}" if rootless else f"oci-archive:{archive}:{ref}"
    runner.run(["skopeo", "inspect", checked])
    return digest


def pack(layout: Path, ref: str, archive: Path) -> str:
    """An OCI layout as one tar file with fixed times and order, its one image named by the full reference."""
    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    if len(index["manifests"]) != 1:
        raise BuildError(f"{layout} holds {len(index['manifests'])} images instead of one.")
    descriptor = index["manifests"][0]
    blobs = {f"sha256:{blob.name}": blob.read_bytes() for blob in (layout / "blobs/sha256").iterdir()}
    write_archive(archive, ref, descriptor, blobs)
    return str(descriptor["digest"])


def write_archive(archive: Path, ref: str, descriptor: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
    """An OCI layout with one image under its full reference; blobs by their digest (sha256:...)."""
    names = {"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": ref}
    index = {"schemaVersion": 2, "manifests": [{**descriptor, "annotations": names}]}
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index, sort_keys=True).encode())
        for digest, blob in sorted(blobs.items()):
            _add(tar, f"blobs/{digest.replace(':', '/')}", blob)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mtime = EPOCH
    tar.addfile(entry, io.BytesIO(content))
