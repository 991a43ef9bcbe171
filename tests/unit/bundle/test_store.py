# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The part cache: complete or absent, found again, and broken files seen."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import store as store_module
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import Store

KEY = "0123456789abcdef0123"
COLLECTIONS = pathlib.Path(store_module.__file__).parents[5]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def keep(store: Store, name: str = "part", key: str = KEY, content: str = "content") -> pathlib.Path:
    with store.lock(print), store.workspace(name) as (out, work):
        (work / "scratch").write_text("x")
        (out / "bin").mkdir()
        (out / "bin" / "tool").write_text(content)
        (out / "bin" / "tool").chmod(0o700)
        return store.keep(name, key, out, {"sources": "1"}, {"digest": "sha256:1"}).folder


def test_what_was_kept_is_found_with_its_files(store):
    folder = keep(store)
    stored, wrong = store.find("part", KEY)
    assert (stored.folder, wrong) == (folder, "")
    (file,) = stored.files
    assert (file.path, file.size, file.mode) == ("bin/tool", 7, "0755")
    assert file.sha256 == store_module.sha256_of(folder / "bin/tool")
    assert stored.facts == {"digest": "sha256:1"}


def test_what_was_never_built_is_absent_without_a_complaint(store):
    assert store.find("part", KEY) == (None, "")


def change_size(folder):
    (folder / "bin/tool").write_text("content and more")


def change_content(folder):
    (folder / "bin/tool").write_text("CONTENT")


def remove_file(folder):
    (folder / "bin/tool").unlink()


def replace_by_link(folder):
    (folder / "other").write_text("content")
    (folder / "bin/tool").unlink()
    (folder / "bin/tool").symlink_to("../missing")


def spoil_record(folder):
    (folder / "part.json").write_text("{")


def foreign_record(folder):
    record = json.loads((folder / "part.json").read_text())
    (folder / "part.json").write_text(json.dumps({**record, "key": "another"}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change_size, "bin/tool has 16 bytes instead of 7"),
        (change_content, "bin/tool does not have its sha256"),
        (remove_file, "bin/tool is missing"),
        (replace_by_link, "bin/tool has"),
        (spoil_record, "its record"),
        (foreign_record, "its record"),
    ],
)
def test_a_broken_part_is_seen(spoil, words, store):
    spoil(keep(store))
    stored, wrong = store.find("part", KEY)
    assert stored is None
    assert words in wrong


def test_a_change_that_keeps_size_and_time_is_seen_by_verify(store):
    path = keep(store) / "bin/tool"
    status = path.stat()
    with path.open("r+") as stream:
        stream.write("CONTENT")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.find("part", KEY)[0] is not None
    assert store.find("part", KEY, verify=True)[0] is None


def test_a_file_that_was_read_once_is_not_read_again(store, monkeypatch):
    path = keep(store) / "bin/tool"
    os.utime(path, (1, 1))
    assert store.find("part", KEY)[0] is not None, "a changed time alone is no damage"

    def never(_path):
        raise AssertionError("read again")

    monkeypatch.setattr(store_module, "sha256_of", never)
    assert store.find("part", KEY)[0] is not None
    with pytest.raises(AssertionError):
        store.find("part", KEY, verify=True)


def test_a_build_that_fails_leaves_nothing(store):
    with pytest.raises(RuntimeError), store.lock(print), store.workspace("part") as (out, _work):
        (out / "half").write_text("x")
        raise RuntimeError
    assert store.find("part", KEY) == (None, "")
    assert list(store.scratch.iterdir()) == []
    assert list(store.parts.iterdir()) == []


def test_what_a_killed_run_left_is_swept_by_the_next(store):
    left = store.scratch / "part-1" / "out"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    left.chmod(0o500)
    with store.lock(print):
        assert list(store.scratch.iterdir()) == []


HOLDER = """
import pathlib, sys, time
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import Store
with Store(pathlib.Path(sys.argv[1])).lock(print):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(store):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, store.root],
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_run_waits_and_says_for_whom(store, holder):
    said = []
    with pytest.raises(BuildError, match=f"process {holder.pid}"), store.lock(said.append, patience=0.3, heartbeat=0.1):
        pass
    assert any(f"process {holder.pid}" in line and "waiting" in line for line in said)
    assert len(said) >= 2


def test_the_lock_goes_with_the_process_that_held_it(store, holder):
    holder.send_signal(signal.SIGKILL)
    began = time.monotonic()
    with store.lock(print, patience=10):
        assert time.monotonic() - began < 5


def test_old_builds_are_forgotten_but_the_newest(store):
    for number in range(4):
        folder = keep(store, key=f"{number:020x}")
        os.utime(folder, (number, number))
    keep(store, name="part-of-another", key=KEY)
    store.prune({"part": f"{3:020x}", "part-of-another": KEY})
    assert sorted(path.name for path in store.parts.iterdir()) == [
        f"part-{2:020x}",
        f"part-{3:020x}",
        f"part-of-another-{KEY}",
    ]


def test_times_are_remembered(store):
    with store.lock(print):
        store.remember_timing("helm", 130.04)
        store.remember_timing("kwok", 1)
    assert store.timings() == {"helm": 130.0, "kwok": 1.0}


def test_folders_of_others_in_the_same_place_stay(tmp_path):
    """Somebody may name their home, or /var, as the cache."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/mine").write_text("mine")
    with Store(tmp_path).lock(lambda _line: None):
        pass
    assert (tmp_path / "tmp/mine").read_text() == "mine"
