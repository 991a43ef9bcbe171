# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The module looks again until the cluster is as it should be; a clock of its own makes that quick."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gsb.fake_gpu_lab.plugins.modules import gpu_ledger
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished


class Clock:
    def __init__(self):
        self.now = 0
        self.naps = []
        #: What happens in the cluster during one nap after the other.
        self.meanwhile = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.naps.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(gpu_ledger, "time", clock)
    return clock


@pytest.fixture
def server():
    with api.Api(finished.lab(8)) as running:
        running.page = 500
        # Plain pods may go to both nodes.
        running.lists["/api/v1/nodes"][1]["spec"]["taints"] = []
        yield running


@pytest.fixture
def ledger(run, server, clock):
    return lambda **options: run("gpu_ledger", host=server.url, **options)


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report.json"


def looks(server):
    return sum(path == "/api/v1/nodes" for path, _query in server.seen)


def nothing():
    pass


def grown(server, gpus):
    def grow():
        for field in ("capacity", "allocatable"):
            server.lists["/api/v1/nodes"][1]["status"][field]["nvidia.com/gpu"] = str(gpus)

    return grow


WAITS = [
    # On gpu-lab 1 of 4 is free, on gpu-a 3 of 4.
    ({"free": 6}, 6),
    ({"placeable": {"size": 4}}, 5),
    ({"placeable": {"size": 2, "count": 3}}, 7),
    ({"free": 5, "placeable": {"size": 1, "count": 12}}, 12),
]


@pytest.mark.parametrize(("wanted", "gpus"), WAITS)
def test_it_becomes_so_at_the_third_look(ledger, server, clock, report, wanted, gpus):
    clock.meanwhile = [grown(server, gpus - 1), grown(server, gpus)]
    answer = ledger(wait_for=wanted, dest=str(report), wait_sleep=7)
    assert "failed" not in answer
    assert (looks(server), clock.naps) == (3, [7, 7])
    assert answer["ledger"]["nodes"]["gpu-a"] == gpus
    assert json.loads(report.read_text()) == answer["ledger"]


@pytest.mark.parametrize("wanted", [{}, {"free": 4}, {"free": -3}, {"placeable": {"size": 3}}])
def test_it_is_so_already(ledger, server, wanted):
    assert "failed" not in ledger(wait_for=wanted, wait_timeout=0)
    assert looks(server) == 1


@pytest.mark.parametrize("details", ["none", "full"])
def test_what_is_free_behind_a_taint_is_no_room(ledger, server, details):
    """It is on gpu-a alone that two GPUs are free at once."""
    wanted = {"wait_for": {"placeable": {"size": 2}}, "wait_timeout": 0, "details": details}
    assert "failed" not in ledger(**wanted)
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    server.lists["/api/v1/nodes"][1]["spec"]["taints"] = [taint]
    assert "0 pods of 2 would fit, not 1; the most on one node is 1" in ledger(**wanted)["msg"]


@pytest.mark.parametrize(("details", "fits"), [("none", True), ("summary", False), ("full", False)])
def test_where_every_pod_is_read_a_node_without_places_is_no_room(ledger, server, details, fits):
    """With details none only pods with GPUs are read: that is documented."""
    server.lists["/api/v1/nodes"][1]["status"]["allocatable"]["pods"] = "2"
    server.lists["/api/v1/pods"].append(finished.pod("plain", node="gpu-a", gpus=None))
    answer = ledger(wait_for={"placeable": {"size": 2}}, wait_timeout=0, details=details)
    assert ("failed" not in answer) == fits
    if not fits:
        assert "0 pods of 2 would fit, not 1; the most on one node is 1" in answer["msg"]


@pytest.mark.parametrize(
    ("wanted", "lacks"),
    [
        ({"free": 5}, "4 of nvidia.com/gpu are free, not 5"),
        ({"placeable": {"size": 4}}, "0 pods of 4 would fit, not 1; the most on one node is 3"),
        (
            {"free": 5, "placeable": {"size": 2, "count": 9}},
            "4 of nvidia.com/gpu are free, not 5; 1 pods of 2 would fit, not 9; the most on one node is 3",
        ),
    ],
)
def test_it_never_becomes_so(ledger, server, clock, report, wanted, lacks):
    report.write_text("of yesterday")
    answer = ledger(wait_for=wanted, dest=str(report), wait_timeout=12)
    assert answer["failed"]
    assert answer["msg"] == f"The cluster is not as waited for after 12 seconds: {lacks}"
    assert answer["ledger"]["free"] == 4
    assert (looks(server), clock.now) == (4, 12)
    assert report.read_text() == "of yesterday"


def test_free_is_by_the_accounting_asked_for(ledger, server):
    server.lists["/api/v1/pods"].append(finished.pod("odd", phase="Unknown"))
    assert "failed" not in ledger(wait_for={"free": 4}, wait_timeout=0)
    answer = ledger(wait_for={"free": 4}, wait_timeout=0, accounting="scheduler")
    assert "3 of nvidia.com/gpu are free, not 4" in answer["msg"]
    assert answer["ledger"]["free"] == 3


@pytest.mark.parametrize("options", [{"wait_for": {"free": 100}}, {"settle": True}])
def test_check_mode_looks_once(ledger, server, clock, report, options):
    answer = ledger(dest=str(report), check=True, **options)
    assert (answer["changed"], looks(server), clock.naps) == (True, 1, [])
    assert not report.exists()


def test_settled_after_two_looks_that_are_the_same(ledger, server, clock):
    clock.meanwhile = [grown(server, 5), grown(server, 6), nothing]
    assert ledger(settle=True)["ledger"]["nodes"]["gpu-a"] == 6
    assert looks(server) == 4


def test_settled_at_once_is_two_looks(ledger, server):
    ledger(settle=True)
    assert looks(server) == 2


def test_it_never_settles(ledger, server, clock, report):
    clock.meanwhile = [grown(server, gpus) for gpus in range(10, 20)]
    answer = ledger(settle=True, wait_timeout=20, dest=str(report))
    assert answer["msg"] == ("The cluster is not as waited for after 20 seconds: two looks in a row were not the same")
    assert not report.exists()


def test_settled_and_so(ledger, server, clock):
    clock.meanwhile = [nothing, grown(server, 8), nothing]
    assert ledger(settle=True, wait_for={"free": 8})["ledger"]["free"] == 8
    assert looks(server) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"wait_timeout": 0}, "after 0 seconds: there was one look only, and two that are the same were asked for"),
        ({"wait_timeout": 3, "wait_sleep": 60}, "after 3 seconds: two looks in a row were not the same"),
    ],
)
def test_what_is_said_of_a_short_wait_is_so(ledger, server, clock, options, said):
    clock.meanwhile = [grown(server, 9)]
    assert ledger(settle=True, **options)["msg"] == f"The cluster is not as waited for {said}"
    assert clock.now == options["wait_timeout"]


def test_a_server_that_is_away_meanwhile_is_asked_again(ledger, server, clock, report):
    def away():
        server.trouble["/api/v1/pods"] = 503

    def back():
        server.trouble.clear()
        grown(server, 8)()

    clock.meanwhile = [away, nothing, back]
    answer = ledger(wait_for={"free": 8}, dest=str(report))
    assert answer["ledger"]["free"] == 8
    assert clock.naps == [5, 5, 5]


@pytest.mark.parametrize("first", [True, False])
def test_a_server_that_stays_away_is_told_when_the_time_is_up(ledger, server, clock, report, first):
    def away():
        server.trouble["/api/v1/pods"] = 503

    clock.meanwhile = [away]
    if first:
        away()
    answer = ledger(wait_for={"free": 8}, wait_timeout=20, dest=str(report))
    assert (answer["failed"], answer["kind"], clock.now) == (True, "unreachable", 20)
    assert "503 Service Unavailable" in answer["msg"]
    assert not report.exists()


def test_who_waits_for_nothing_is_told_at_once(ledger, server, clock):
    server.trouble["/api/v1/pods"] = 503
    assert ledger()["kind"] == "unreachable"
    assert clock.naps == []


def test_trouble_in_a_later_look_fails(ledger, server, clock, report):
    clock.meanwhile = [lambda: server.trouble.update({"/api/v1/pods": 403})]
    answer = ledger(wait_for={"free": 8}, dest=str(report))
    assert (answer["failed"], answer["kind"]) == (True, "refused")
    assert not report.exists()


@pytest.mark.parametrize("check", [False, True])
def test_an_empty_cluster_fails_when_asked_to(ledger, report, check):
    answer = ledger(resource="amd.com/gpu", fail_on_empty=True, dest=str(report), check=check)
    assert (answer["failed"], answer["msg"]) == (True, "no node advertises amd.com/gpu")
    assert not report.exists()


def test_an_empty_cluster_is_a_warning_otherwise(ledger, report):
    answer = ledger(resource="amd.com/gpu", dest=str(report))
    assert answer["warned"][0] == "no node advertises amd.com/gpu"
    assert json.loads(report.read_text())["nodes"] == {}


def test_settle_waits_for_the_first_device_of_an_empty_cluster_no_longer_than_it_has_to(ledger, server, clock):
    assert ledger(resource="amd.com/gpu", settle=True)["ledger"]["nodes"] == {}
    assert looks(server) == 2
