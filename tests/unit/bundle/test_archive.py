# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A bundle that is carried: the same bytes at the other end, or a sentence."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import archive, bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

FILES = {"bin/k3s": b"program", "images/pause.tar": b"image", f"wheels/{'x' * 150}.whl": b"wheel"}


def make(folder, files=FILES, **more):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name.startswith("bin/") else 0o644)
    listed = [{"path": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()]
    manifest = {"schema": 1, "origin": "standin", "parts": {"all": {"files": listed}}, **more}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def packed(tmp_path):
    archive.pack(make(tmp_path / "here"), tmp_path / "lab.tar")
    return tmp_path / "lab.tar"


def test_there_and_back(tmp_path, packed):
    there = tmp_path / "deep/there"
    assert archive.unpack(packed, there)
    assert {name: (there / name).read_bytes() for name in FILES} == FILES
    assert (there / "bin/k3s").stat().st_mode & 0o777 == 0o755
    assert not archive.unpack(packed, there)
    assert [path.name for path in there.parent.iterdir()] == ["there"]


def test_packed_once_and_the_same_bytes(tmp_path, packed):
    before = packed.read_bytes()
    assert not archive.pack(tmp_path / "here", packed)
    packed.unlink()
    assert archive.pack(tmp_path / "here", packed)
    assert packed.read_bytes() == before
    checksum, name = packed.with_name("lab.tar.sha256").read_text().split()
    assert (checksum, name) == (hashlib.sha256(before).hexdigest(), "lab.tar")


def test_another_bundle_is_packed_again_and_takes_the_place_of_the_old_one(tmp_path, packed):
    there = tmp_path / "there"
    archive.unpack(packed, there)
    make(tmp_path / "here", {"bin/k3s": b"newer"})
    for name in FILES.keys() - {"bin/k3s"}:
        (tmp_path / "here" / name).unlink()
    assert archive.pack(tmp_path / "here", packed)
    assert archive.unpack(packed, there)
    assert (there / "bin/k3s").read_bytes() == b"newer"
    assert not (there / "images/pause.tar").exists()


def test_check_mode_changes_nothing(tmp_path, packed):
    assert archive.unpack(packed, tmp_path / "there", check=True)
    assert not (tmp_path / "there").exists()


def test_a_bundle_that_was_damaged_is_unpacked_again(tmp_path, packed):
    there = tmp_path / "there"
    archive.unpack(packed, there)
    (there / "bin/k3s").write_bytes(b"prograM")
    assert archive.unpack(packed, there)
    assert (there / "bin/k3s").read_bytes() == b"program"


@pytest.mark.parametrize("harm", ["a byte", "an end", "no checksum"])
def test_a_damaged_archive_is_refused_and_the_old_bundle_stays(tmp_path, packed, harm):
    there = make(tmp_path / "there", {"bin/k3s": b"older"})
    content = bytearray(packed.read_bytes())
    if harm == "a byte":
        content[700] ^= 1
    elif harm == "an end":
        del content[-600:]
    else:
        packed.with_name("lab.tar.sha256").unlink()
    packed.write_bytes(content)
    with pytest.raises(BuildError, match="Next: take lab.tar"):
        archive.unpack(packed, there)
    assert (there / "bin/k3s").read_bytes() == b"older"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("images/more.tar", b"x", "images/more.tar does not belong there"),
        ("bin/k3s", b"other", "bin/k3s does not have its sha256"),
    ],
)
def test_an_archive_whose_files_are_not_those_of_its_manifest(tmp_path, packed, name, content, words):
    other = tmp_path / "other"
    archive.unpack(packed, other)
    (other / name).write_bytes(content)
    with tarfile.open(packed, "w") as tar:
        for path in sorted(other.rglob("*"), key=lambda path: path.name != "manifest.json"):
            if path.is_file():
                tar.add(path, path.relative_to(other).as_posix())
    checksum = hashlib.sha256(packed.read_bytes()).hexdigest()
    packed.with_name("lab.tar.sha256").write_text(f"{checksum}  lab.tar\n")
    with pytest.raises(BuildError, match=words):
        archive.unpack(packed, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_bundle_that_is_not_whole_is_not_packed(tmp_path):
    folder = make(tmp_path / "here")
    (folder / "bin/k3s").unlink()
    with pytest.raises(BuildError, match="bin/k3s is missing"):
        archive.pack(folder, tmp_path / "lab.tar")
    assert not (tmp_path / "lab.tar").exists()


def test_a_place_that_is_none(tmp_path):
    folder = make(tmp_path / "here")
    with pytest.raises(BuildError, match="is not a folder"):
        archive.pack(folder, tmp_path / "nowhere/lab.tar")
    with pytest.raises(BuildError, match="is a folder"):
        archive.pack(folder, tmp_path)


def repack(packed, files, links=()):
    """An archive with its checksum, of whatever."""
    with tarfile.open(packed, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    checksum = hashlib.sha256(packed.read_bytes()).hexdigest()
    packed.with_name("lab.tar.sha256").write_text(f"{checksum}  lab.tar\n")


@pytest.mark.parametrize(
    "manifest", [b"[]", b'{"schema": 1}', b'{"schema": 1, "parts": []}', b'{"schema": 1, "parts": {"a": {}}}', b"{"]
)
def test_an_archive_with_a_manifest_that_is_none(tmp_path, packed, manifest):
    repack(packed, {"manifest.json": manifest})
    with pytest.raises(BuildError, match="holds no whole bundle: manifest.json|is no archive of a bundle"):
        archive.unpack(packed, tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "lab.tar", "lab.tar.sha256"]


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({"../out": b"x"}, []),
        ({"/etc/out": b"x"}, []),
        ({}, [("bin", "/etc")]),
        ({}, [("bin/k3s", "../../out")]),
        ({}, [("bin/k3s", "helm")]),
    ],
)
def test_nothing_of_an_archive_lands_elsewhere(tmp_path, packed, files, links):
    manifest = (tmp_path / "here/manifest.json").read_bytes()
    repack(packed, {"manifest.json": manifest, **files}, links)
    with pytest.raises(BuildError, match="could not be unpacked|holds no whole bundle"):
        archive.unpack(packed, tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "lab.tar", "lab.tar.sha256"]


def test_a_link_in_the_place_of_the_manifest(tmp_path, packed):
    repack(packed, {}, [("manifest.json", "nowhere")])
    with pytest.raises(BuildError, match="is no archive of a bundle"):
        archive.unpack(packed, tmp_path / "there")


def test_what_a_killed_run_left_of_an_archive_goes(tmp_path, packed):
    packed.unlink()
    for name in (".lab.tar.4711", ".lab.tar.sha256.4711"):
        (tmp_path / name).write_text("half")
    (tmp_path / ".lab.tar.mine").write_text("of somebody else")
    assert archive.pack(tmp_path / "here", packed)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lab.tar.mine", "here", "lab.tar", "lab.tar.sha256"]


def test_runs_at_the_same_time_wait_for_each_other(tmp_path, packed):
    with ThreadPoolExecutor(8) as pool:
        folders = [tmp_path / "there"] * 4
        unpacked = list(pool.map(lambda folder: archive.unpack(packed, folder), folders))
        again = list(pool.map(lambda _turn: archive.pack(tmp_path / "here", tmp_path / "more.tar"), range(4)))
    assert any(unpacked)
    assert again.count(True) == 1
    assert archive.problem(tmp_path / "there") == ""


def test_a_run_that_never_ends_is_not_waited_for_for_ever(tmp_path):
    with (
        bundle.alone(tmp_path),
        pytest.raises(BuildError, match="Another run has been busy in"),
        bundle.alone(tmp_path, 0.2),
    ):
        pytest.fail("both are alone")


def test_a_folder_of_something_else_is_never_replaced(tmp_path, packed):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years")
    with pytest.raises(BuildError, match=r"home holds what is no bundle \(thesis.tex\)"):
        archive.unpack(packed, home)
    assert (home / "thesis.tex").read_text() == "years"
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(BuildError, match="file is no folder"):
        archive.unpack(packed, file)


def test_a_link_to_a_folder_stays_one(tmp_path, packed):
    (tmp_path / "disk").mkdir()
    (tmp_path / "there").symlink_to("disk")
    assert archive.unpack(packed, tmp_path / "there")
    assert (tmp_path / "there").is_symlink()
    assert (tmp_path / "disk/bin/k3s").read_bytes() == b"program"
    assert not archive.unpack(packed, tmp_path / "there")
