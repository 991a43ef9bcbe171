# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Scheduling rules and pod states, as Kubernetes means them."""

from __future__ import annotations

import pytest

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _sight
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import finished

TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
NODE = {"metadata": {"name": "gpu-a", "labels": {"type": "kwok", "slots": "4"}}}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": TAINT["key"], "operator": "Exists"}, True),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": TAINT["key"], "operator": "Equal", "value": "fake"}, True),
        ({"key": TAINT["key"], "value": "fake", "effect": "NoSchedule"}, True),
        ({"key": TAINT["key"], "value": "real"}, False),
        ({"key": TAINT["key"]}, False),
        ({"key": "other", "value": "fake"}, False),
        ("Exists", False),
    ],
)
def test_tolerations(toleration, expected):
    assert _sight.tolerates({"spec": {"tolerations": [toleration]}}, TAINT) is expected


def test_no_tolerations_tolerate_nothing():
    assert not _sight.tolerates({}, TAINT)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({}, True), ({"type": "kwok"}, True), ({"type": "other"}, False), ({"type": "kwok", "zone": "a"}, False)],
)
def test_node_selectors(selector, expected):
    assert _sight.selects({"spec": {"nodeSelector": selector}}, NODE) is expected


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (requirement("type", "In", "kwok", "other"), True),
        (requirement("type", "In", "other"), False),
        (requirement("zone", "In", "a"), False),
        (requirement("type", "NotIn", "other"), True),
        (requirement("type", "NotIn", "kwok"), False),
        (requirement("zone", "NotIn", "a"), True),
        (requirement("type", "Exists"), True),
        (requirement("zone", "Exists"), False),
        (requirement("zone", "DoesNotExist"), True),
        (requirement("type", "DoesNotExist"), False),
        (requirement("slots", "Gt", "3"), True),
        (requirement("slots", "Gt", "4"), False),
        (requirement("slots", "Lt", "5"), True),
        (requirement("slots", "Lt", "4"), False),
        (requirement("type", "Gt", "3"), False),
        (requirement("slots", "Gt"), False),
        (requirement("slots", "Near", "4"), False),
    ],
)
def test_required_node_affinity(expression, expected):
    assert _sight.selects(affine([{"matchExpressions": [expression]}]), NODE) is expected


def affine(terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


def test_one_term_is_enough_and_all_its_parts_are_needed():
    yes, no = requirement("type", "Exists"), requirement("zone", "Exists")
    assert _sight.selects(affine([{"matchExpressions": [no]}, {"matchExpressions": [yes]}]), NODE)
    assert not _sight.selects(affine([{"matchExpressions": [yes, no]}]), NODE)
    by_name = requirement("metadata.name", "In", "gpu-lab")
    assert not _sight.selects(affine([{"matchExpressions": [yes], "matchFields": [by_name]}]), NODE)


def test_an_empty_term_selects_nothing():
    assert not _sight.selects(affine([{}]), NODE)
    assert not _sight.selects(affine([]), NODE)


@pytest.mark.parametrize(
    ("change", "words", "running"),
    [
        ({}, "Running", True),
        ({"status": {"phase": "Running"}}, "Running", True),
        (
            {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}},
            "Failed, UnexpectedAdmissionError",
            False,
        ),
        (
            {"status": {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}},
            "Running, Completed",
            False,
        ),
        ({"status": {"phase": "Running", "containerStatuses": [{"state": {}}]}}, "Running, not running", False),
        (
            {"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}},
            "Pending, ErrImagePull",
            False,
        ),
        ({"metadata": {"deletionTimestamp": "2026-03-01T10:00:00Z"}}, "Running, Terminating", False),
        ({"status": {}}, "Unknown", False),
    ],
)
def test_states(change, words, running):
    item = {**finished.pod("p"), **change}
    assert _sight.state(item) == words
    assert _sight.is_running(item) is running


def test_the_state_of_a_waiting_pod_and_of_none():
    assert _sight.state(finished.waiting("p")) == "Pending, Unschedulable"
    assert _sight.state({}) == "(none)"


def test_the_real_node_is_the_one_that_is_named_else_the_first_that_is_none_of_kwok():
    look = finished.lab(8)
    other = finished.real_node(2)
    other["metadata"]["name"] = "another"
    look["nodes"].insert(0, other)
    assert _sight.Sight(look, _sight.Names()).real_name == "gpu-lab"
    look["nodes"] = [node for node in look["nodes"] if node["metadata"]["name"] != "gpu-lab"]
    assert _sight.Sight(look, _sight.Names()).real_name == "another"


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "gpu-a"},
        {"name": "x", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        {"name": "x", "labels": {"type": "kwok"}},
    ],
)
def test_kwok_nodes(metadata):
    assert _sight.Sight({}, _sight.Names()).is_kwok({"metadata": metadata})


def test_a_moment():
    assert _sight.moment("1970-01-01T00:01:00Z") == 60
    assert _sight.moment("soon") is None
    assert _sight.moment(None) is None


def test_the_brief_of_the_finished_lab():
    brief = _sight.Sight(finished.lab(8), _sight.Names()).brief()
    assert {name: node["allocatable"] for name, node in brief["nodes"].items()} == {"gpu-lab": 4, "gpu-a": 4}
    assert {name for name, pod in brief["pods"].items() if pod["running"]} == {"gpu-1", "gpu-2", "gpu-3", "far-1"}
    assert brief["pods"]["gpu-1"]["uid"] == finished.REAL_UID
    assert brief["topology"]["nodes"] == {"gpu-lab": 4, "gpu-a": 4}
    assert brief["ledger"]["free"] == 4
    assert set(brief["files"].values()) == {"ok"}
    assert "defaults" not in brief["release"]


def test_the_brief_of_an_empty_look():
    brief = _sight.Sight({}, _sight.Names()).brief()
    assert (brief["nodes"], brief["pods"], brief["release"], brief["namespace"]) == ({}, {}, None, False)


def test_the_brief_has_no_ledger_when_the_cluster_cannot_be_counted():
    look = finished.lab(8)
    look["nodes"][0]["status"]["allocatable"]["nvidia.com/gpu"] = "many"
    assert _sight.Sight(look, _sight.Names()).brief()["ledger"] is None
