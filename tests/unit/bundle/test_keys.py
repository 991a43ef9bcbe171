# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A content key changes with what decides the bytes, and with nothing else."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import keys


@pytest.fixture
def module(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "module"
    (folder / "inner").mkdir(parents=True)
    (folder / "go.mod").write_text("module a\n")
    (folder / "main.go").write_text("package main\n")
    (folder / "inner" / "inner.go").write_text("package inner\n")
    return folder


def test_the_same_content_gives_the_same_hash(module, tmp_path):
    first = keys.hash_sources(tmp_path, ["module"])
    (module / "main.go").write_text("package main\n")
    assert keys.hash_sources(tmp_path, ["module"]) == first


def change_content(module: pathlib.Path) -> None:
    (module / "main.go").write_text("package main // changed\n")


def change_name(module: pathlib.Path) -> None:
    (module / "main.go").rename(module / "other.go")


def change_mode(module: pathlib.Path) -> None:
    (module / "main.go").chmod(0o755)


def add_file(module: pathlib.Path) -> None:
    (module / "inner" / "embedded.yaml").write_text("a: 1\n")


def remove_file(module: pathlib.Path) -> None:
    (module / "inner" / "inner.go").unlink()


def move_between_files(module: pathlib.Path) -> None:
    (module / "go.mod").write_text("")
    (module / "main.go").write_text("module a\npackage main\n")


@pytest.mark.parametrize(
    "change", [change_content, change_name, change_mode, add_file, remove_file, move_between_files]
)
def test_what_decides_the_bytes_changes_the_hash(change, module, tmp_path):
    first = keys.hash_sources(tmp_path, ["module"])
    change(module)
    assert keys.hash_sources(tmp_path, ["module"]) != first


@pytest.mark.parametrize(
    "name", ["main_test.go", "README.md", ".swapfile", "testdata/x.go", "__pycache__/x", ".hidden/x.go"]
)
def test_what_is_never_built_in_does_not_change_the_hash(name, module, tmp_path):
    first = keys.hash_sources(tmp_path, ["module"])
    path = module / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert keys.hash_sources(tmp_path, ["module"]) == first


def test_a_module_inside_a_module_is_left_out(module, tmp_path):
    first = keys.hash_sources(tmp_path, ["module"])
    nested = module / "nested"
    nested.mkdir()
    (nested / "go.mod").write_text("module b\n")
    (nested / "main.go").write_text("package main\n")
    assert keys.hash_sources(tmp_path, ["module"]) == first
    assert keys.hash_sources(tmp_path, ["module/nested"]) != first


def test_sources_that_are_not_there_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        keys.hash_sources(tmp_path, ["absent"])


def test_the_key_depends_on_every_input_and_not_on_their_order():
    inputs = {"recipe": 1, "arch": "amd64", "toolchain": "go1.26.8", "needs": {"a": "1"}}
    key = keys.content_key(inputs)
    assert keys.content_key(dict(reversed(inputs.items()))) == key
    assert len(key) == keys.KEY_LENGTH
    for name, other in {"recipe": 2, "arch": "arm64", "toolchain": "go1.27", "needs": {"a": "2"}}.items():
        assert keys.content_key({**inputs, name: other}) != key


def test_the_reason_names_what_has_changed():
    before = {"sources": "1", "needs": {}, "toolchain": "go1.26.7"}
    assert keys.why_changed(None, before) == "not there yet"
    assert keys.why_changed(before, {**before, "sources": "2"}) == "its sources have changed"
    assert "toolchain has changed" in keys.why_changed(before, {**before, "toolchain": "go1.26.8"})
    assert keys.why_changed(before, before) == "its folder is gone"
