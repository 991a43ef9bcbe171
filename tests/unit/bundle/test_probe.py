# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Where the bundle comes from: the decision, its one line, and that asking is bounded."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import probe

HOSTS = ["get.example", "git.example", "registry.example"]


def never(host, timeout):
    raise AssertionError("asked")


def test_stand_ins_that_are_asked_for_need_no_probe():
    choice = probe.choose("standin", HOSTS, reach_host=never)
    assert (choice.origin, choice.reachable) == ("standin", None)
    assert "bundle_source=standin" in choice.reason


def test_upstream_that_is_asked_for_needs_no_probe():
    choice = probe.choose("upstream", HOSTS, ["one"], reach_host=never)
    assert (choice.origin, choice.reachable) == ("upstream", None)
    assert "bundle_source=upstream" in choice.reason


def test_auto_takes_stand_ins_when_a_name_does_not_answer_and_says_which():
    problems = {"git.example": "its name is not known", "registry.example": "no answer in 3 s"}
    choice = probe.choose("auto", HOSTS, reach_host=lambda host, _timeout: problems.get(host, ""))
    assert (choice.origin, choice.reachable) == ("standin", False)
    assert "upstream cannot be reached (git.example: its name is not known, and 1 more of 3 names)" in choice.reason
    assert "\n" not in choice.reason


def test_auto_takes_upstream_when_it_can_be_reached():
    choice = probe.choose("auto", HOSTS, reach_host=lambda _host, _timeout: "")
    assert (choice.origin, choice.reachable) == ("upstream", True)
    assert "upstream can be reached" in choice.reason


@pytest.mark.parametrize(("unpinned", "words"), [(["chart"], "for chart: "), (["a", "b", "c"], "for a and 2 more: ")])
def test_auto_takes_nothing_that_nobody_vouched_for(unpinned, words):
    choice = probe.choose("auto", HOSTS, unpinned, reach_host=lambda _host, _timeout: "")
    assert (choice.origin, choice.reachable) == ("standin", True)
    assert words in choice.reason
    assert "bundle_allow_unpinned=true" in choice.reason


def test_all_names_are_asked_at_once():
    gate = threading.Barrier(len(HOSTS), timeout=5)
    assert probe.probe(HOSTS, 1, lambda _host, _timeout: gate.wait() and "" or "") == {}


def test_a_resolver_that_hangs_does_not_hold_up_the_run():
    began = time.monotonic()
    problems = probe.probe(HOSTS, 0.1, lambda host, _timeout: time.sleep(5) or "" if host == HOSTS[1] else "")
    assert time.monotonic() - began < 2
    assert problems == {HOSTS[1]: "no answer in 0.2 s"}


def test_a_listener_that_never_speaks_tls_is_no_upstream(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(probe, "PORT", server.getsockname()[1])
        began = time.monotonic()
        assert probe.reach("127.0.0.1", 0.3) == "no answer in 0.3 s"
        assert time.monotonic() - began < 2


def test_a_closed_port_and_an_unknown_name_are_told_apart(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(probe, "PORT", port)
    assert "refused" in probe.reach("127.0.0.1", 1)
    assert probe.reach("name.invalid", 1) == "its name is not known"


@pytest.mark.parametrize("wanted", ["auto", "standin", "upstream"])
def test_the_reason_is_one_line(wanted):
    assert "\n" not in probe.choose(wanted, HOSTS, reach_host=lambda _host, _timeout: "down").reason
