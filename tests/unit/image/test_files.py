# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is made of a root folder: the place it gets, the disk's table, the bill of materials."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import time
from types import SimpleNamespace

import pytest
from lab_image import __main__ as tool
from lab_image import inputs, pack, sbom
from lab_image.pack import Fault

WANTED = {
    "hostname": "gpu-lab",
    "authorized_keys": [],
    "console_autologin": True,
    "arch": "amd64",
    "lab": {},
    "state": "clean",
}


def taken(tmp_path, fit=True):
    folder = tmp_path / "key/root.taken"
    store = "var/lib/rancher/k3s/agent/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1"
    (folder / (store if fit else "var")).mkdir(parents=True)
    for name in ("var/log", "var/lib/dpkg"):
        (folder / name).mkdir(parents=True)
    (folder / "var/lib/dpkg/status").touch()
    (folder / "usr/lib").mkdir(parents=True)
    (folder / "usr/lib/os-release").write_text("VERSION_CODENAME=bookworm\n")
    return {**WANTED, "root": str(tmp_path / "key/root"), "taken": str(folder)}


def test_a_fit_folder_gets_its_place_once(tmp_path):
    wanted = taken(tmp_path)
    assert tool.finish(wanted)["changed"] is True
    assert (tmp_path / "key/root/etc/machine-id").is_file()
    assert tool.finish(wanted)["changed"] is False


def test_an_unfit_folder_is_removed_and_told(tmp_path):
    wanted = taken(tmp_path, fit=False)
    with pytest.raises(Fault, match="NOT OK +archives"):
        tool.finish(wanted)
    assert list((tmp_path / "key").iterdir()) == []


def test_the_two_newest_are_kept(tmp_path):
    for number, name in enumerate(("a", "b", "c")):
        (tmp_path / name / "root").mkdir(parents=True)
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "files").mkdir()
    tool.finish(taken(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "files", "key"]


def test_what_runs_left_half_made_goes_and_what_a_run_is_making_stays(tmp_path):
    for name in ("0123456789abcdef", "fedcba9876543210"):
        (tmp_path / name / "root.taken").mkdir(parents=True)
    assert inputs.claim(tmp_path, ["fedcba9876543210"], inputs.runner()) == ""
    tool.finish(taken(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claims.json", "fedcba9876543210", "key"]


def test_what_another_run_took_before_is_not_left_behind(tmp_path):
    wanted = taken(tmp_path)
    (tmp_path / "key/root").mkdir()
    assert tool.finish(wanted)["changed"] is False
    assert [path.name for path in (tmp_path / "key").iterdir()] == ["root"]


@pytest.fixture
def baked(tmp_path, monkeypatch):
    """A root folder and what is asked of it; making a disk of it and compressing it are as good as free."""
    wanted = taken(tmp_path)
    tool.finish(wanted)
    root = pathlib.Path(wanted["root"])
    (root / "boot").mkdir()
    (root / "etc/debian_version").write_text("12.13\n")
    for name in ("vmlinuz-6", "initrd.img-6"):
        (root / "boot" / name).touch()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/manifest.json").write_text('{"origin": "standin", "parts": {}}')
    monkeypatch.setattr(pack, "make_disk", lambda _root, disk, *_: disk.write_bytes(b"disk"))
    for kind in pack.FORMATS:
        monkeypatch.setitem(pack.FORMATS, kind, lambda disk, target: target.write_bytes(disk.read_bytes()))
    more = {"dest": str(tmp_path / "files"), "name": "lab", "key": "key", "packed": "1", "version": "1", "size_gib": 4}
    return {**wanted, **more, "formats": ["qcow2", "raw.zst"], "bundle": str(tmp_path / "bundle")}


def names(wanted):
    return sorted(path.name for path in pathlib.Path(wanted["dest"]).iterdir())


def test_files_are_made_once(baked):
    assert tool.make(baked, check=True)["changed"] is True
    assert tool.make(baked, check=False)["changed"] is True
    assert names(baked) == ["lab.cdx.json", "lab.json", "lab.qcow2", "lab.raw.zst"]
    assert tool.make(baked, check=False)["changed"] is False


@pytest.mark.parametrize("name", ["lab.qcow2", "lab.cdx.json", "lab.json"])
def test_a_file_that_is_gone_or_cut_short_is_made_again(baked, name):
    tool.make(baked, check=False)
    path = pathlib.Path(baked["dest"], name)
    before = path.read_bytes()
    path.write_bytes(before[:1]) if name == "lab.qcow2" else path.unlink()
    assert tool.make(baked, check=False)["changed"] is True
    assert path.read_bytes() == before


def test_a_file_of_a_kind_that_is_not_asked_for_any_more_does_not_stay(baked):
    tool.make(baked, check=False)
    tool.make({**baked, "formats": ["qcow2"], "packed": "2"}, check=False)
    assert names(baked) == ["lab.cdx.json", "lab.json", "lab.qcow2"]


def test_an_image_that_is_too_large_stays_so(baked, monkeypatch):
    monkeypatch.setattr(tool, "COMPRESSED_GIB", 1e-12)
    for _ in range(2):
        with pytest.raises(Fault, match="too large"):
            tool.make(baked, check=False)


def test_nothing_half_made_is_left_when_the_disk_is_full(baked, monkeypatch):
    def full(_disk, target):
        target.write_bytes(b"half")
        raise Fault("qemu-img: No space left on device")

    monkeypatch.setitem(pack.FORMATS, "qcow2", full)
    with pytest.raises(Fault, match="No space left"):
        tool.make(baked, check=False)
    assert names(baked) == []


@pytest.mark.parametrize(("what", "said"), [("disk", "give at least"), ("folder", "GiB free")])
def test_too_little_room_is_told_before_anything_is_written(baked, monkeypatch, what, said):
    monkeypatch.setattr(pack, "size_of", lambda _root: 5 * 2**30 if what == "disk" else 2 * 2**30)
    monkeypatch.setattr(pack.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=3 * 2**30))
    with pytest.raises(Fault, match=said):
        tool.make(baked, check=False)
    assert names(baked) == []


def test_the_bill_is_the_same_each_time(baked):
    tool.make(baked, check=False)
    path = pathlib.Path(baked["dest"], "lab.cdx.json")
    first = path.read_bytes()
    path.unlink()
    tool.make(baked, check=False)
    assert path.read_bytes() == first


TOOLS = ("debugfs", "mke2fs", "mkfs.vfat", "mcopy", "qemu-img", "sfdisk", "zstd")


@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason="the tools that make disks are not installed")
def test_the_same_folder_makes_the_same_files(tmp_path):
    """Whenever it is packed, and whatever was read in it since."""
    root = tmp_path / "root"
    for name in (
        "boot/vmlinuz-6",
        "boot/initrd.img-6",
        "usr/lib/systemd/boot/efi/systemd-bootx64.efi",
        "usr/lib/clock-epoch",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name * 1000)
    os.utime(root / "usr/lib/clock-epoch", (1_700_000_000,) * 2)
    (root / "bin").symlink_to("usr/bin")
    wanted = {"formats": ["qcow2", "raw.zst"], "size_gib": 0.5, "arch": "amd64", "key": "key"}
    made = []
    for number, folder in enumerate((tmp_path / "one", tmp_path / "two")):
        folder.mkdir()
        made.append(pack.pack(root, folder, "lab", wanted))
        # FAT counts every second one.
        time.sleep(2.1 * (number == 0))
        os.utime(root / "boot/vmlinuz-6", (1, (root / "boot/vmlinuz-6").stat().st_mtime))
    assert made[0] == made[1]


def test_inodes_in_use():
    said = "Inode count:              12\nGroup 0:\n  Free inodes: 4, 6-8\nGroup 1:\n  Free inodes: \nGroup 2:\n  Free inodes: 11-12\n"
    assert pack.used_inodes(said) == [1, 2, 3, 5, 9, 10]


def test_the_partitions_end_before_the_end_of_the_disk():
    lines = pack.partitions(4096, "amd64", "key").splitlines()
    assert (
        lines
        == pack.partitions(4096, "amd64", "key").splitlines()
        != pack.partitions(4096, "amd64", "other").splitlines()
    )
    root = next(line for line in lines if "name=root" in line)
    assert f"start={1 + pack.ESP_MIB}MiB, size={4096 - pack.ESP_MIB - 2}MiB" in root
    assert "type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709" in root


def test_the_bill_lists_packages_modules_and_images(tmp_path):
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"
    )
    (tmp_path / "opt/gsb-fake-gpu-lab/venv/lib/python3.11/site-packages/kubernetes-37.0.2.dist-info").mkdir(
        parents=True
    )
    bundle = {
        "go_modules": {"k8s.io/kubernetes": "v1.36.3"},
        "parts": {
            "k3s": {"version": "v1.36.3+standin1", "made_of": "parts", "files": []},
            "images": {
                "files": [{"refs": ["docker.io/library/pause:1"], "digest": "sha256:" + "a" * 64, "sha256": "b" * 64}]
            },
        },
    }
    bill = json.loads(sbom.document("lab", "0.1.0", list(sbom.components(tmp_path, bundle)), "key", 0))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    urls = {component["purl"].split("?")[0] for component in bill["components"]}
    assert urls == {
        "pkg:deb/debian/bash@5.2",
        "pkg:pypi/kubernetes@37.0.2",
        "pkg:golang/k8s.io/kubernetes@v1.36.3",
        "pkg:generic/k3s@v1.36.3%2Bstandin1",
        "pkg:oci/pause@sha256:" + "a" * 64,
    }
