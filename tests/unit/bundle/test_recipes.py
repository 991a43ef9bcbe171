# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Recipes: reproducible archives, real images, and everything the sources decide in the key."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import threading
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, debian, images, pins, recipes, wheels
from ansible_collections.gsb.fake_gpu_lab.standins.build.command import Runner
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

ROOT = pathlib.Path(__file__).resolve().parents[3]
PINS = pins.Pins.load(ROOT / pins.FILE)
REF = "registry.k8s.io/pause-like:1"


@pytest.fixture
def runner(tmp_path):
    return Runner("part", tmp_path / "log", threading.Event())


def make_image(runner: Runner, folder: pathlib.Path, ref: str = REF) -> bytes:
    root, work = folder / "root", folder / "work"
    root.mkdir(parents=True)
    work.mkdir()
    images.merge_usr(root)
    images.skeleton(root)
    (root / "pause").write_bytes(os.urandom(0) + b"program" * 5000)
    (root / "pause").chmod(0o700)
    (root / "usr/bin/link").symlink_to("/pause")
    config = images.Config(entrypoint=["/pause"], command=["a", "b"], user="65535:65535", labels={"x": "y"})
    images.build(runner, root, ref, config, "amd64", work, folder / "image.tar")
    return (folder / "image.tar").read_bytes()


def test_an_image_is_the_same_bytes_whenever_it_is_made(runner, tmp_path):
    first = make_image(runner, tmp_path / "one")
    time.sleep(1.1)
    assert make_image(runner, tmp_path / "two") == first


def test_an_image_says_what_it_is(runner, tmp_path):
    content = io.BytesIO(make_image(runner, tmp_path / "one"))
    with tarfile.open(fileobj=content) as archive:
        read_image(archive)


def read_image(archive: tarfile.TarFile) -> None:
    assert {entry.mtime for entry in archive} == {images.EPOCH}

    def blob(digest: str) -> bytes:
        content = archive.extractfile("blobs/" + digest.replace(":", "/")).read()
        assert hashlib.sha256(content).hexdigest() == digest.partition(":")[2]
        return content

    (descriptor,) = json.load(archive.extractfile("index.json"))["manifests"]
    assert descriptor["annotations"] == {"io.containerd.image.name": REF, "org.opencontainers.image.ref.name": REF}
    manifest = json.loads(blob(descriptor["digest"]))
    config = json.loads(blob(manifest["config"]["digest"]))
    assert (config["os"], config["architecture"], config["created"]) == ("linux", "amd64", images.CREATED)
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["config"]["Cmd"] == ["a", "b"]
    assert config["config"]["User"] == "65535:65535"
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(layer["digest"]))) as content:
        entries = {entry.name.strip("/"): entry for entry in content}
    assert entries["pause"].mode == 0o755
    assert entries["usr/bin/link"].linkname == "/pause"
    assert entries["bin"].linkname == "usr/bin"
    assert entries["tmp"].mode == 0o1777
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, images.EPOCH)}


def test_a_layout_with_two_images_is_refused(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{}, {}]}))
    with pytest.raises(BuildError, match="holds 2 images"):
        images.pack(tmp_path, REF, tmp_path / "x.tar")


def chart_archive(path: pathlib.Path, mtime: int, names: list[str]) -> pathlib.Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode, entry.uname = 4, mtime, 0o600, "somebody"
            archive.addfile(entry, io.BytesIO(b"text"))
    return path


def test_a_chart_archive_has_no_trace_of_when_and_by_whom(tmp_path):
    one = recipes.normalised(chart_archive(tmp_path / "one.tgz", 1, ["c/Chart.yaml", "c/values.yaml"]))
    two = recipes.normalised(chart_archive(tmp_path / "two.tgz", 2, ["c/values.yaml", "c/Chart.yaml"]))
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert archive.getnames() == ["c/Chart.yaml", "c/values.yaml"]
        assert {(entry.mtime, entry.mode, entry.uname) for entry in archive} == {(images.EPOCH, 0o644, "")}
        assert archive.extractfile("c/Chart.yaml").read() == b"text"


def test_requirements_name_every_file_by_its_hash():
    wheel = {"arch": "any", "python": "any"}
    text = wheels.requirements(
        [
            pins.Wheel("b", "2", "b-2.whl", sha256="2" * 64, **wheel),
            pins.Wheel("a", "1", "a-1-cp311.whl", sha256="1" * 64, **wheel),
            pins.Wheel("a", "1", "a-1-cp310.whl", sha256="0" * 64, **wheel),
        ]
    )
    assert text == (
        f"a==1 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
        f"b==2 \\\n    --hash=sha256:{'2' * 64}\n"
    )


@pytest.mark.parametrize(
    ("depends", "names"),
    [
        ("libc6 (>= 2.36), libtinfo6 (>= 6)", {"libc6", "libtinfo6"}),
        ("base-files (>= 2), debianutils", set()),
        ("libssl3t64 | libssl3, libc6:any", {"libssl3t64", "libc6"}),
        ("", set()),
    ],
)
def test_the_libraries_a_package_needs(depends, names):
    assert debian.libraries_needed([depends]) == names


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("usr/lib/aarch64-linux-gnu/libm.so.6", True),
        ("usr/lib64/ld-linux-x86-64.so.2", True),
        ("usr/lib/ld-linux-aarch64.so.1", True),
        ("usr/lib/x86_64-linux-gnu/libresolv.so.2", True),
        ("usr/lib/x86_64-linux-gnu/gconv/BIG5HKSCS.so", False),
        ("usr/lib/x86_64-linux-gnu/libmvec.so.1", False),
        ("usr/share/doc/libc6/NEWS.gz", False),
    ],
)
def test_only_the_libraries_that_programs_load_are_taken(name, kept):
    assert recipes.is_library(name) is kept


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libgcc-s1", True),
        ("usr/share/doc/libc6/changelog.Debian.gz", False),
        ("usr/share/doc/libc6/examples/copyright", False),
        ("usr/share/doc-base/x", False),
    ],
)
def test_a_packages_licence_goes_where_its_files_go(name, kept):
    assert recipes.is_notice(name) is kept


@pytest.mark.parametrize(
    ("path", "merged"),
    [
        ("bin/bash", "usr/bin/bash"),
        ("lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("usr/bin/env", "usr/bin/env"),
        ("library/x", "library/x"),
    ],
)
def test_everything_lives_below_usr(path, merged):
    assert debian.usr_merged(path) == merged


@pytest.fixture(scope="module")
def parts():
    return recipes.all_parts(PINS, ROOT, "amd64")


def test_every_image_of_the_pins_is_a_part(parts):
    assert {f"image-{image.name}" for image in PINS.images()} <= set(parts)


def test_needs_exist_and_come_first(parts):
    names = builder.order(parts)
    for part in parts.values():
        for need in part.needs:
            assert names.index(need) < names.index(part.name)


def test_only_kubernetes_wants_the_machine_for_itself(parts):
    assert [name for name, part in parts.items() if part.alone] == ["kube"]


def test_a_go_part_has_its_versions_and_stamps_in_the_key(parts):
    assert parts["helm"].settings["variables"]["helm.sh/helm/v3/internal/version.version"] == "v3.22.0"
    assert parts["helm"].settings["versions"] == {"helm.sh/helm/v3": "v3.22.0"}
    stamps = parts["kube"].settings["variables"]
    assert stamps["k8s.io/component-base/version.gitVersion"] == PINS.standin_version("k3s")
    assert stamps["k8s.io/component-base/version.gitMinor"] == "36"
    assert parts["k3s-launcher"].settings["variables"] == {"main.version": PINS.standin_version("k3s")}


def test_the_architecture_decides_the_wheels():
    amd64, arm64 = (recipes.all_parts(PINS, ROOT, arch)["wheels"].settings for arch in pins.ARCHITECTURES)
    assert amd64 != arm64


def test_packages_are_listed_once_and_cover_the_tools():
    listed = [
        line
        for line in (ROOT / "roles/bundle/files/packages.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert {"umoci", "skopeo"} <= set(listed)
    assert listed == sorted(set(listed))


def test_the_builder_is_a_command(tmp_path):
    answer = subprocess.run(
        ["python3", "-m", "standins.build", "--cache", tmp_path, "--rebuild", "nothing-like-it"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "There is no part nothing-like-it" in answer.stderr
