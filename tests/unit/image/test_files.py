# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is made of a root folder: the place it gets, the disk's table, the bill of materials."""

from __future__ import annotations

import json

import pytest
from lab_image import __main__ as tool
from lab_image import pack, sbom
from lab_image.pack import Fault

WANTED = {"hostname": "gpu-lab", "authorized_keys": [], "console_autologin": True, "lab": {}, "state": "clean"}


def taken(tmp_path, fit=True):
    folder = tmp_path / "key/root.taken"
    store = "var/lib/rancher/k3s/agent/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1"
    (folder / (store if fit else "var")).mkdir(parents=True)
    for name in ("var/log", "var/lib/dpkg"):
        (folder / name).mkdir(parents=True)
    (folder / "var/lib/dpkg/status").touch()
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
    import os

    for number, name in enumerate(("a", "b", "c")):
        (tmp_path / name / "root").mkdir(parents=True)
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "files").mkdir()
    tool.finish(taken(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "files", "key"]


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
    bill = json.loads(sbom.document("lab", "0.1.0", list(sbom.components(tmp_path, bundle))))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    urls = {component["purl"].split("?")[0] for component in bill["components"]}
    assert urls == {
        "pkg:deb/debian/bash@5.2",
        "pkg:pypi/kubernetes@37.0.2",
        "pkg:golang/k8s.io/kubernetes@v1.36.3",
        "pkg:generic/k3s@v1.36.3%2Bstandin1",
        "pkg:oci/pause@sha256:" + "a" * 64,
    }
