# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The bundle folder is replaced as a whole, and what is wrong in it is seen."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import sha256_of


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "helm").write_text("helm")
    (folder / "helm").chmod(0o755)
    (folder / "pause.tar").write_text("pause")
    return folder


def entries_of(parts: pathlib.Path) -> list[bundle.Entry]:
    return [
        bundle.Entry("bin/helm", parts / "helm", {"sha256": sha256_of(parts / "helm")}),
        bundle.Entry("images/pause.tar", parts / "pause.tar", {"sha256": sha256_of(parts / "pause.tar")}),
    ]


def manifest_of(word: str = "one") -> dict:
    return {"schema": 1, "origin": "standin", "parts": {"helm": {"version": word}}}


@pytest.fixture
def folder(tmp_path, parts):
    target = tmp_path / "cache" / "bundle"
    bundle.assemble(target, manifest_of(), entries_of(parts))
    return target


def test_the_folder_holds_the_files_and_the_manifest(folder, parts):
    assert (folder / "bin/helm").read_text() == "helm"
    assert (folder / "bin/helm").stat().st_mode & 0o777 == 0o755
    assert json.loads((folder / "manifest.json").read_text()) == manifest_of()
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == ""


def test_nothing_is_copied_within_one_file_system(folder, parts):
    assert (folder / "bin/helm").samefile(parts / "helm")


def test_a_copy_is_as_good_as_a_link(folder, parts, monkeypatch):
    def no_links(*_arguments):
        raise OSError

    monkeypatch.setattr(bundle.os, "link", no_links)
    bundle.assemble(folder, manifest_of(), entries_of(parts))
    assert not (folder / "bin/helm").samefile(parts / "helm")
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == ""
    times = (folder / "bin/helm").stat()
    (folder / "bin/helm").write_text("HELM")
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == "bin/helm has changed"
    os.utime(folder / "bin/helm", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == ""
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts), verify=True) == "bin/helm has changed"


def remove_file(folder):
    (folder / "images/pause.tar").unlink()


def add_file(folder):
    (folder / "images/old.tar").write_text("x")


def replace_file(folder):
    (folder / "bin/helm").unlink()
    (folder / "bin/helm").write_text("HELM")


def remove_manifest(folder):
    (folder / "manifest.json").unlink()


def edit_manifest(folder):
    (folder / "manifest.json").write_text("{}")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (remove_file, "images/pause.tar is missing"),
        (add_file, "images/old.tar does not belong there"),
        (replace_file, "bin/helm has changed"),
        (remove_manifest, "manifest.json is missing"),
        (edit_manifest, "the parts have changed"),
    ],
)
def test_what_is_wrong_is_named_and_put_right(spoil, words, folder, parts):
    spoil(folder)
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == words
    bundle.assemble(folder, manifest_of(), entries_of(parts))
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == ""


def test_a_new_bundle_takes_the_old_ones_place_and_leaves_nothing_beside(folder, parts):
    bundle.assemble(folder, manifest_of("two"), entries_of(parts)[:1])
    assert sorted(path.name for path in folder.iterdir()) == ["bin", "manifest.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


def test_where_folders_cannot_be_swapped_the_old_one_is_moved_away(folder, parts, monkeypatch):
    monkeypatch.setattr(bundle, "exchange", lambda *_arguments: False)
    bundle.assemble(folder, manifest_of("two"), entries_of(parts))
    assert bundle.what_differs(folder, manifest_of("two"), entries_of(parts)) == ""
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


def test_two_folders_are_swapped_in_one_step(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    assert bundle.exchange(tmp_path / "one", tmp_path / "two")
    assert os.listdir(tmp_path / "one") == ["two"]
    assert not bundle.exchange(tmp_path / "one", tmp_path / "absent")


def test_an_interruption_leaves_the_old_bundle_whole(folder, parts, monkeypatch):
    place = bundle.place

    def interrupted(source, target):
        if source.name == "pause.tar":
            raise KeyboardInterrupt
        place(source, target)

    monkeypatch.setattr(bundle, "place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bundle.assemble(folder, manifest_of("two"), entries_of(parts))
    assert bundle.what_differs(folder, manifest_of(), entries_of(parts)) == ""
    monkeypatch.undo()
    bundle.assemble(folder, manifest_of("two"), entries_of(parts))
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]
