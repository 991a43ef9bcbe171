# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""At most two parts at a time, one of them alone when it says so, each after what it needs."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build.scheduler import Task, choose, run


class Recorder:
    """Builds nothing, and notes what ran beside what."""

    def __init__(self, took: float = 0.03, broken: str = "") -> None:
        self.took = took
        self.broken = broken
        self.lock = threading.Lock()
        self.running: set[str] = set()
        self.together: list[frozenset[str]] = []
        self.order: list[str] = []
        self.said: list[tuple] = []
        self.cancel = threading.Event()

    def build(self, name: str) -> None:
        with self.lock:
            self.running.add(name)
            self.order.append(name)
            self.together.append(frozenset(self.running))
        if name == self.broken:
            time.sleep(self.took)
            with self.lock:
                self.running.discard(name)
            raise RuntimeError(name)
        self.cancel.wait(self.took)
        with self.lock:
            self.running.discard(name)

    def started(self, name):
        self.said.append(("started", name))

    def finished(self, name, seconds):
        self.said.append(("finished", name))

    def failed(self, name, seconds, still_running):
        self.said.append(("failed", name, tuple(still_running)))

    def heartbeat(self, running):
        self.said.append(("heartbeat", frozenset(running)))


def task(name: str, *needs: str, alone: bool = False, expected: float = 1.0) -> Task:
    return Task(name, frozenset(needs), alone, expected)


def test_two_run_together_and_never_three():
    recorder = Recorder()
    run([task(str(number)) for number in range(7)], recorder.build, recorder, recorder.cancel)
    assert max(len(names) for names in recorder.together) == 2
    assert sorted(recorder.order) == [str(number) for number in range(7)]


def test_one_that_wants_to_be_alone_is():
    recorder = Recorder()
    tasks = [task("a"), task("b"), task("c"), task("kube", alone=True, expected=0.5), task("d", expected=0.1)]
    run(tasks, recorder.build, recorder, recorder.cancel)
    assert [names for names in recorder.together if "kube" in names] == [frozenset({"kube"})]
    assert any(len(names) == 2 for names in recorder.together)


def test_each_comes_after_what_it_needs_and_needs_outside_are_met():
    recorder = Recorder()
    tasks = [task("k3s", "kube", "runc", "already-there"), task("kube"), task("runc", "kube")]
    run(tasks, recorder.build, recorder, recorder.cancel)
    assert recorder.order == ["kube", "runc", "k3s"]


def test_the_longest_starts_first():
    waiting = [task("short", expected=1), task("long", expected=9), task("longer-but-blocked", "short", expected=99)]
    assert choose(waiting, [], [], 2).name == "long"


def test_nothing_joins_one_that_is_alone_and_none_overtakes_one_that_waits_for_silence():
    kube = task("kube", alone=True, expected=9)
    assert choose([task("a")], [], [kube], 2) is None
    assert choose([kube, task("a")], [], [task("b")], 2) is None


def test_a_failure_cancels_the_other_and_starts_nothing_more():
    recorder = Recorder(took=0.1, broken="bad")
    slow = task("slow", expected=9)
    recorder.took = 0.05

    def build(name):
        if name == "slow":
            recorder.order.append(name)
            assert recorder.cancel.wait(5), "was not cancelled"
            return
        recorder.build(name)

    began = time.monotonic()
    with pytest.raises(RuntimeError, match="bad"):
        run([slow, task("bad", expected=8), task("never", expected=1)], build, recorder, recorder.cancel)
    assert time.monotonic() - began < 3
    assert "never" not in recorder.order
    assert ("failed", "bad", ("slow",)) in recorder.said


def test_a_circle_is_named():
    recorder = Recorder()
    with pytest.raises(ValueError, match="a, b"):
        run([task("a", "b"), task("b", "a")], recorder.build, recorder, recorder.cancel)


def test_a_long_build_gives_signs_of_life():
    recorder = Recorder(took=0.5)
    run([task("a"), task("b")], recorder.build, recorder, recorder.cancel, heartbeat=0.1)
    beats = [entry for entry in recorder.said if entry[0] == "heartbeat"]
    assert 3 <= len(beats) <= 6
    assert beats[0] == ("heartbeat", frozenset({"a", "b"}))


def test_what_waits_behind_a_steady_stream_of_others_still_gets_signs_of_life():
    recorder = Recorder(took=0.05)
    run([task(str(number)) for number in range(12)], recorder.build, recorder, recorder.cancel, heartbeat=0.1)
    assert any(entry[0] == "heartbeat" for entry in recorder.said)
