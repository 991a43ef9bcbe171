# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A whole run over small parts: what is built, what is reused, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder as builder_module
from ansible_collections.gsb.fake_gpu_lab.standins.build import bundle, pins, recipes
from ansible_collections.gsb.fake_gpu_lab.standins.build.builder import Builder, Settings
from ansible_collections.gsb.fake_gpu_lab.standins.build.command import Go
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.parts import Job, Part
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import remove_tree

COLLECTIONS = pathlib.Path(builder_module.__file__).parents[5]


class Lab:
    """A checkout with three parts: two programs, and one thing made of both."""

    def __init__(self, root: pathlib.Path) -> None:
        self.checkout = root / "checkout"
        self.cache = root / "cache"
        self.bundle = self.cache / "bundle"
        for name in ("kube", "runc"):
            (self.checkout / name).mkdir(parents=True)
            (self.checkout / name / "source").write_text(name)
        self.built: list[str] = []
        self.said: list[str] = []
        self.while_building = {}
        self.parts = {
            part.name: part
            for part in (
                Part("kube", "Kubernetes", self.program("kube"), sources=("kube",), alone=True, first_time=600),
                Part("runc", "runc", self.program("runc"), sources=("runc",)),
                Part("k3s", "k3s", self.whole, needs=("kube", "runc")),
            )
        }

    def program(self, name: str):
        def build(job: Job) -> None:
            self.built.append(name)
            self.while_building.get(name, lambda: None)()
            job.runner.run(["cp", job.checkout / name / "source", job.out / name])

        return build

    def whole(self, job: Job) -> None:
        self.built.append("k3s")
        self.while_building.get("k3s", lambda: None)()
        (job.out / "k3s").write_text("".join(job.built(name, name).read_text() for name in ("kube", "runc")))

    def run(self, **settings):
        self.built.clear()
        self.said.clear()
        arguments = {"arch": "amd64", "heartbeat": 5.0, **settings}
        return Builder(Settings(self.checkout, self.cache, self.bundle, **arguments), self.said.append).run()


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = Lab(tmp_path)

    def describe(_pins, built, arch):
        path = built["k3s"].folder / "k3s"
        (file,) = built["k3s"].files
        described = {**file.as_json(), "path": "bin/k3s"}
        return {"arch": arch, "parts": {"k3s": {"files": [described]}}}, [bundle.Entry("bin/k3s", path, described)]

    monkeypatch.setattr(pins.Pins, "load", classmethod(lambda cls, path: cls({})))
    monkeypatch.setattr(recipes, "all_parts", lambda *_arguments: lab.parts)
    monkeypatch.setattr(bundle, "describe", describe)
    monkeypatch.setattr(Builder, "_find_go", lambda self: Go("/go", "go1.26.8"))
    return lab


def content(lab: Lab) -> str:
    return (lab.bundle / "bin/k3s").read_text()


def test_a_first_run_builds_everything_and_a_second_nothing(lab):
    outcome = lab.run()
    assert (outcome.changed, sorted(outcome.built)) == (True, ["k3s", "kube", "runc"])
    assert lab.built[-1] == "k3s"
    assert content(lab) == "kuberunc"
    outcome = lab.run()
    assert (outcome.changed, outcome.built, lab.built, lab.said) == (False, [], [], [])
    assert sorted(outcome.reused) == ["k3s", "kube", "runc"]


def test_progress_tells_what_is_built_how_long_it_took_and_when_it_is_done(lab):
    lab.run()
    text = "\n".join(lab.said)
    assert "3 of 3 parts have to be built" in text
    assert "Kubernetes: not there yet; about 10 min 00 s" in text
    assert "building Kubernetes (about 10 min 00 s)" in text
    assert "k3s: done in 0 s" in text and "[3 of 3]" in text
    (lab.checkout / "kube/source").write_text("KUBE")
    lab.run()
    text = "\n".join(lab.said)
    assert "Kubernetes: its sources have changed; last time 0 s" in text
    assert "k3s: a part that it is made from has changed" in text
    assert "building Kubernetes (took 0 s last time)" in text


def test_a_changed_source_builds_that_part_and_what_is_made_of_it(lab):
    lab.run()
    (lab.checkout / "runc/source").write_text("RUNC")
    lab.run()
    assert lab.built == ["runc", "k3s"]
    assert content(lab) == "kubeRUNC"


def test_going_back_finds_the_former_build(lab):
    lab.run()
    (lab.checkout / "runc/source").write_text("RUNC")
    lab.run()
    (lab.checkout / "runc/source").write_text("runc")
    outcome = lab.run()
    assert lab.built == []
    assert outcome.changed, "the folder is another one again"
    assert content(lab) == "kuberunc"


@pytest.mark.parametrize("name", ["kube", "k3s"])
def test_a_broken_file_is_named_and_built_again(lab, name):
    lab.run()
    (path,) = lab.cache.glob(f"parts/{name}-*/{name}")
    path.write_text("rubbish")
    lab.run()
    assert lab.built == [name]
    assert any("broken" in line and f"{name} has" in line for line in lab.said)
    assert content(lab) == "kuberunc"


def test_a_bundle_file_that_was_replaced_is_put_back_without_a_build(lab):
    lab.run()
    (lab.bundle / "bin/k3s").unlink()
    (lab.bundle / "bin/k3s").write_text("rubbish")
    assert lab.run().changed
    assert lab.built == []
    assert content(lab) == "kuberunc"


def test_verify_reads_everything(lab):
    lab.run()
    (path,) = lab.cache.glob("parts/kube-*/kube")
    times = path.stat()
    path.write_text("KUBE")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not lab.run().changed
    assert lab.run(verify=True).built == ["kube"]


def test_an_ingredient_that_is_gone_is_not_built_while_what_is_made_of_it_is_there(lab):
    lab.run()
    (folder,) = lab.cache.glob("parts/kube-*")
    remove_tree(folder)
    assert not lab.run().changed
    (lab.checkout / "runc/source").write_text("RUNC")
    lab.run()
    assert sorted(lab.built) == ["k3s", "kube", "runc"]


def test_a_broken_ingredient_is_built_again_though_nothing_needs_it_now(lab):
    lab.run()
    (path,) = lab.cache.glob("parts/runc-*/runc")
    path.write_text("rubbish")
    remove_tree(next(lab.cache.glob("parts/kube-*")))
    assert lab.run().built == ["runc"]


def test_what_was_edited_while_waiting_for_another_run_is_what_is_built(lab, monkeypatch):
    lock = builder_module.Store.lock

    def slow(store, *arguments, **options):
        (lab.checkout / "runc/source").write_text("RUNC")
        return lock(store, *arguments, **options)

    monkeypatch.setattr(builder_module.Store, "lock", slow)
    lab.run()
    assert content(lab) == "kubeRUNC"


def test_what_is_asked_for_is_built_again_with_all_that_is_made_of_it(lab):
    lab.run()
    lab.run(rebuild=frozenset({"runc"}))
    assert lab.built == ["runc", "k3s"]


def test_a_part_that_does_not_exist_is_refused_with_the_names(lab):
    with pytest.raises(BuildError) as caught:
        lab.run(rebuild=frozenset({"kubernetes"}))
    assert "There is no part kubernetes" in str(caught.value)
    assert "k3s, kube, runc" in str(caught.value)


def test_only_a_part_and_its_ingredients(lab):
    outcome = lab.run(only=frozenset({"runc"}))
    assert outcome.built == ["runc"]
    assert not lab.bundle.exists()


def test_check_mode_says_what_would_be_built_and_writes_nothing(lab):
    outcome = lab.run(check=True)
    assert (outcome.changed, lab.built) == (True, [])
    assert not lab.cache.exists()
    assert "Kubernetes: would be built (not there yet)" in lab.said
    lab.run()
    assert not lab.run(check=True).changed
    (lab.bundle / "bin/k3s").unlink()
    for path in lab.cache.glob("parts/*/*"):
        os.utime(path, (1, 1))
    before = {path: path.stat().st_mtime_ns for path in sorted(lab.cache.rglob("*"))}
    outcome = lab.run(check=True)
    assert outcome.changed
    assert lab.said == ["the bundle would be put together again: bin/k3s is missing"]
    assert {path: path.stat().st_mtime_ns for path in sorted(lab.cache.rglob("*"))} == before


def test_a_failed_build_is_reported_and_the_rest_is_kept(lab):
    def fail():
        raise OSError("no space left")

    lab.while_building["k3s"] = fail
    with pytest.raises(BuildError) as caught:
        lab.run()
    assert "k3s could not be built: no space left" in str(caught.value)
    assert str(lab.cache / "logs/k3s.log") in str(caught.value)
    assert any("k3s: failed after" in line for line in lab.said)
    assert not lab.bundle.exists()
    lab.while_building.clear()
    lab.run()
    assert lab.built == ["k3s"]


def test_a_failure_keeps_the_old_bundle(lab):
    lab.run()
    (lab.checkout / "kube/source").unlink()
    (lab.checkout / "kube/other").write_text("")
    with pytest.raises(BuildError, match="cp ended with status 1"):
        lab.run()
    assert content(lab) == "kuberunc"


def test_sources_edited_during_the_build_are_not_kept_under_the_former_key(lab):
    lab.while_building["kube"] = lambda: (lab.checkout / "kube/source").write_text("KUBE")
    with pytest.raises(BuildError, match="changed while it was being built"):
        lab.run()
    lab.while_building.clear()
    lab.run()
    assert content(lab) == "KUBErunc"


def test_too_little_space_is_said_before_a_long_build(lab, monkeypatch):
    monkeypatch.setattr(bundle, "free_space", lambda _folder: 2**30)
    with pytest.raises(BuildError, match=r"needs 8 GiB below .*; 1\.0 GiB are free"):
        lab.run()
    assert lab.built == []


def test_a_long_part_is_alone_and_a_short_one_is_not(lab):
    seen = []
    lab.while_building["kube"] = lambda: (seen.append("kube"), time.sleep(0.2), seen.append("kube ends"))
    lab.while_building["runc"] = lambda: seen.append("runc")
    lab.run()
    assert seen == ["kube", "kube ends", "runc"], "the first build of kube is a long one"
    seen.clear()
    for name in ("kube", "runc"):
        (lab.checkout / name / "source").write_text("again")
    lab.run()
    assert seen.index("runc") < seen.index("kube ends"), "now it is known to be short"


KILLED = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[2])
import test_builder
from ansible_collections.gsb.fake_gpu_lab.standins.build import pins, recipes
from ansible_collections.gsb.fake_gpu_lab.standins.build.builder import Builder
from ansible_collections.gsb.fake_gpu_lab.standins.build.command import Go
lab = test_builder.Lab.__new__(test_builder.Lab)
root = pathlib.Path(sys.argv[1])
original = pathlib.Path.mkdir
pathlib.Path.mkdir = lambda self, *a, **k: original(self, *a, **{**k, "exist_ok": True})
lab.__init__(root)
pins.Pins.load = classmethod(lambda cls, path: cls({}))
recipes.all_parts = lambda *_: lab.parts
Builder._find_go = lambda self: Go("/go", "go1.26.8")
lab.while_building["k3s"] = lambda: (print("inside", flush=True), time.sleep(60))
lab.run()
"""


def test_a_run_that_is_killed_is_gone_on_with(lab, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path, pathlib.Path(__file__).parent],
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert list((lab.cache / ".gsb-work").iterdir()), "the killed run was in the middle of a part"
    lab.run()
    assert lab.built == ["k3s"], "what was finished before is reused"
    assert list((lab.cache / ".gsb-work").iterdir()) == []
    assert content(lab) == "kuberunc"


def test_the_record_tells_from_what_a_part_was_made(lab):
    lab.run()
    (path,) = lab.cache.glob("parts/k3s-*/part.json")
    inputs = json.loads(path.read_text())["inputs"]
    assert set(inputs) == {"part", "recipe", "arch", "settings", "sources", "needs", "toolchain"}
    assert set(inputs["needs"]) == {"kube", "runc"}


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.2, "0 s"), (99.4, "99 s"), (100, "1 min 40 s"), (601, "10 min 01 s"), (7260, "121 min 00 s")],
)
def test_durations_are_said_as_people_say_them(value, words):
    assert builder_module.seconds(value) == words
