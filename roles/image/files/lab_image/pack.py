# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A root folder becomes a disk image: no loop device, no mount, no virtual machine."""

from __future__ import annotations

import hashlib
import math
import os
import pathlib
import re
import shutil
import subprocess
import uuid
from typing import Any

from lab_image.dress import CONSOLES, LABEL

MIB = 2**20
ESP_MIB = 96
# The types that systemd looks for, by architecture: the root file system grows into its partition by them.
ROOT_TYPES = {
    "amd64": "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
    "arm64": "B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
}
LOADERS = {"amd64": ("systemd-bootx64.efi", "BOOTX64.EFI"), "arm64": ("systemd-bootaa64.efi", "BOOTAA64.EFI")}
COMMAND_LINE = (
    "root=LABEL={label} rw quiet loglevel=4 console=tty0 console={console},115200 systemd.unified_cgroup_hierarchy=1"
)
# Emulated CPUs do not say that their counters (tsc) agree, though they do. The clock that the kernel takes instead is a
# device, and programs in Go ask for the time so often that all CPUs wait for it.
OWN = {"amd64": " tsc=reliable", "arm64": ""}


class Fault(Exception):
    """Something that ends the work, said in words for the user."""


def run(*command: str, moment: int | None = None, **options: Any) -> str:
    """Run a command, for which it is `moment`."""
    if moment is not None:
        options["env"] = {
            **os.environ, "TZ": "UTC0", "SOURCE_DATE_EPOCH": str(moment), "E2FSPROGS_FAKE_TIME": str(moment),
        }  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=None if "input" in options else subprocess.DEVNULL,
        **options,
    )
    if done.returncode:
        raise Fault(f"{' '.join(command[:6])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def kernel_of(root: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path, str]:
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise Fault(f"{root}/boot has {len(kernels)} kernels, wanted one.")
    version = kernels[0].name.removeprefix("vmlinuz-")
    initrd = root / f"boot/initrd.img-{version}"
    if not initrd.is_file():
        raise Fault(f"{initrd} is not there.")
    return kernels[0], initrd, version


def moment_of(root: pathlib.Path) -> int:
    """When it was baked."""
    return int((root / "usr/lib/clock-epoch").stat().st_mtime)


def size_of(root: pathlib.Path) -> int:
    """Bytes on disk, each file once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder, _folders, files in os.walk(root):
        for name in (".", *files):
            entry = os.lstat(os.path.join(folder, name))
            if (entry.st_dev, entry.st_ino) not in seen:
                seen.add((entry.st_dev, entry.st_ino))
                total += entry.st_blocks * 512
    return total


def require_room(root: pathlib.Path, folder: pathlib.Path, size_gib: float) -> None:
    """On the image's disk, and on the one where it is made: before, not half-way."""
    inside = size_of(root)
    # Inodes, a journal and free space to live on, besides the EFI partition.
    least = math.ceil((inside * 1.15 / MIB + ESP_MIB + 128) / 512) / 2
    if size_gib < least:
        raise Fault(
            f"image_size_gib is {size_gib:g}: the root folder has {inside / 2**30:.1f} GiB, give at least {least:g}."
        )
    # The root file system, the disk with it, and the compressed files.
    free, needed = shutil.disk_usage(folder).free / 2**30, inside * 3 / 2**30
    if free < needed:
        raise Fault(
            f"{folder} has {free:.1f} GiB free, and making the image takes {needed:.1f}: free some, or set image_dest."
        )


def partitions(size_mib: int, arch: str, key: str) -> str:
    """The table as sfdisk reads it; its identifiers follow from what is packed."""

    def identifier(name: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"gsb-fake-gpu-lab/{key}/{name}"))

    return "\n".join(
        [
            "label: gpt",
            f"label-id: {identifier('disk')}",
            f"start=1MiB, size={ESP_MIB}MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp, uuid={identifier('esp')}",
            f"start={1 + ESP_MIB}MiB, size={size_mib - ESP_MIB - 2}MiB, type={ROOT_TYPES[arch]}, name=root, uuid={identifier('root')}",
            "",
        ]
    )


def make_esp(root: pathlib.Path, esp: pathlib.Path, arch: str) -> None:
    kernel, initrd, _version = kernel_of(root)
    source, target = LOADERS[arch]
    moment = moment_of(root)
    run(
        *("mkfs.vfat", "--invariant", "-C", "-F", "32", "-n", "ESP", "-i", "6C616267"),
        *(str(esp), str(ESP_MIB * 1024)),
        moment=moment,
    )
    options = COMMAND_LINE.format(label=LABEL, console=CONSOLES[arch]) + OWN[arch]
    entry = f"title GPU lab\nlinux /linux\ninitrd /initrd\noptions {options}\n"
    texts = {"loader/loader.conf": "timeout 0\ndefault gpu-lab.conf\neditor no\n", "loader/entries/gpu-lab.conf": entry}
    for folder in ("EFI", "EFI/BOOT", "loader", "loader/entries"):
        run("mmd", "-i", str(esp), f"::{folder}", moment=moment)
    for source_path, name in (
        (root / "usr/lib/systemd/boot/efi" / source, f"EFI/BOOT/{target}"),
        (kernel, "linux"),
        (initrd, "initrd"),
    ):
        run("mcopy", "-i", str(esp), str(source_path), f"::{name}", moment=moment)
    for name, text in texts.items():
        run("mcopy", "-i", str(esp), "-", f"::{name}", moment=moment, input=text)


def used_inodes(said: str) -> list[int]:
    """The numbers of the inodes in use, of what dumpe2fs says of a file system."""
    count = re.search(r"^Inode count: +(\d+)$", said, re.M)
    if not count:
        raise Fault("dumpe2fs does not tell how many inodes there are.")
    free: set[int] = set()
    for ranges in re.findall(r"^ +Free inodes: (.+)$", said, re.M):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
            free.update(range(int(first), int(last or first) + 1))
    return [number for number in range(1, int(count[1]) + 1) if number not in free]


def set_times(image: pathlib.Path, moment: int) -> None:
    """One moment for when each file was made, changed and read: reading it, or copying the root folder, changes nothing."""
    lines = [
        f"set_inode_field <{number}> {field} @{moment}\n"
        for number in used_inodes(run("dumpe2fs", str(image)))
        for field in ("atime", "ctime", "crtime")
    ]
    script = image.with_suffix(".times")
    script.write_text("".join(lines), encoding="ascii")
    run("debugfs", "-w", "-f", str(script), str(image), moment=moment)
    script.unlink()


def make_disk(root: pathlib.Path, disk: pathlib.Path, size_gib: float, arch: str, key: str) -> None:
    size_mib = int(size_gib * 1024)
    root_mib = size_mib - ESP_MIB - 2
    parts = {"esp": disk.with_suffix(".esp"), "root": disk.with_suffix(".root")}
    for path in (disk, *parts.values()):
        path.unlink(missing_ok=True)
    make_esp(root, parts["esp"], arch)
    identifier = str(uuid.uuid5(uuid.NAMESPACE_URL, f"gsb-fake-gpu-lab/{key}/filesystem"))
    run(
        "mke2fs", "-q", "-t", "ext4", "-L", LABEL, "-U", identifier, "-E", f"hash_seed={identifier}", "-m", "1",
        "-d", str(root), str(parts["root"]), f"{root_mib}M", moment=moment_of(root),
    )  # fmt: skip
    set_times(parts["root"], moment_of(root))
    with open(disk, "wb") as stream:
        stream.truncate(size_mib * MIB)
    run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(disk), input=partitions(size_mib, arch, key))
    for name, at in (("esp", 1), ("root", 1 + ESP_MIB)):
        run("dd", f"if={parts[name]}", f"of={disk}", "bs=1M", f"seek={at}", "conv=notrunc,sparse", "status=none")
        parts[name].unlink()


def make_qcow2(disk: pathlib.Path, target: pathlib.Path) -> None:
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd", str(disk), str(target))


def make_raw_zst(disk: pathlib.Path, target: pathlib.Path) -> None:
    run("zstd", "-q", "-f", "-9", "--long=27", "-T0", str(disk), "-o", str(target))


FORMATS = {"qcow2": make_qcow2, "raw.zst": make_raw_zst}


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pack(root: pathlib.Path, folder: pathlib.Path, name: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Make the files that are missing; each is whole or not there."""
    missing = [kind for kind in wanted["formats"] if not (folder / f"{name}.{kind}").is_file()]
    if missing:
        making = folder / ".making"
        shutil.rmtree(making, ignore_errors=True)
        require_room(root, folder, wanted["size_gib"])
        making.mkdir(parents=True)
        try:
            disk = making / "disk.raw"
            make_disk(root, disk, wanted["size_gib"], wanted["arch"], wanted["key"])
            for kind in missing:
                FORMATS[kind](disk, making / kind)
                os.replace(making / kind, folder / f"{name}.{kind}")
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return [
        {"path": path.name, "size": path.stat().st_size, "sha256": sha256(path)}
        for path in (folder / f"{name}.{kind}" for kind in wanted["formats"])
    ]
