# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The ledger by its literal definition, of plain JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _ledger

RESOURCE = "nvidia.com/gpu"

# A busy machine is no reason to fail.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")


def node(name, allocatable=None, **status):
    if allocatable is not None:
        status["allocatable"] = {RESOURCE: allocatable, "cpu": "2"}
    return {"metadata": {"name": name}, "status": status}


def pod(name="p", *limits, node_name="n1", phase="Running", namespace="default", **spec):
    containers = [{"name": f"c{at}", "resources": {"limits": {RESOURCE: one}}} for at, one in enumerate(limits)]
    spec = {"containers": containers, **({"nodeName": node_name} if node_name else {}), **spec}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {"phase": phase}}


def requested(*pods):
    return _ledger.ledger([], pods, RESOURCE)["requested"]


def test_the_finished_lab():
    nodes = [node("gpu-lab", "4"), node("gpu-a", "4"), node("cpu-1")]
    pods = [pod(f"gpu-{n}", "1", node_name="gpu-lab") for n in (1, 2, 3)] + [pod("far-1", "1", node_name="gpu-a")]
    assert _ledger.ledger(nodes, pods, RESOURCE) == {
        "nodes": {"gpu-a": 4, "gpu-lab": 4},
        "allocatable_total": 8,
        "requested": 4,
        "free": 4,
    }


def test_an_empty_cluster():
    assert _ledger.ledger([], [], RESOURCE) == {"nodes": {}, "allocatable_total": 0, "requested": 0, "free": 0}


@pytest.mark.parametrize("allocatable", [None, "0", 0, "0e5"])
def test_a_node_that_offers_none_is_left_out(allocatable):
    assert _ledger.ledger([node("n1", allocatable)], [], RESOURCE)["nodes"] == {}


def test_capacity_does_not_count():
    assert _ledger.ledger([node("n1", "2", capacity={RESOURCE: "4"})], [], RESOURCE)["nodes"] == {"n1": 2}
    assert _ledger.ledger([node("n1", capacity={RESOURCE: "4"})], [], RESOURCE)["nodes"] == {}


@pytest.mark.parametrize("other", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "gpu"])
def test_only_the_exact_name_counts(other):
    nodes = [{"metadata": {"name": "n1"}, "status": {"allocatable": {other: "4"}}}]
    pods = [{**pod(), "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {other: "1"}}}]}}]
    assert _ledger.ledger(nodes, pods, RESOURCE)["free"] == 0
    assert _ledger.ledger(nodes, pods, RESOURCE)["nodes"] == {}


@pytest.mark.parametrize(
    ("phase", "counts"),
    [("Pending", 1), ("Running", 1), ("Succeeded", 0), ("Failed", 0), ("Unknown", 0), ("", 0), (None, 0)],
)
def test_only_pending_and_running_pods_count(phase, counts):
    assert requested(pod("p", "1", phase=phase)) == counts


@pytest.mark.parametrize("where", [None, ""])
def test_a_pod_without_a_node_does_not_count(where):
    assert requested(pod("p", "1", node_name=where, phase="Pending")) == 0


def test_a_pod_on_a_node_that_is_gone_counts():
    assert _ledger.ledger([node("n1", "2")], [pod("p", "1", node_name="gone")], RESOURCE)["free"] == 1


def test_all_containers_count_and_init_containers_do_not():
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {RESOURCE: "8"}}}
    assert requested(pod("p", "1", "2", initContainers=[sidecar], overhead={RESOURCE: "1"})) == 3


def test_limits_count_and_requests_do_not():
    item = pod("p")
    item["spec"]["containers"] = [{"name": "c", "resources": {"requests": {RESOURCE: "1"}}}]
    assert requested(item) == 0


def test_all_namespaces_count():
    assert requested(pod("p", "1", namespace="a"), pod("p", "1", namespace="b")) == 2


def test_a_pod_on_its_way_out_counts_until_it_has_ended():
    item = pod("p", "1")
    item["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    assert requested(item) == 1


def test_free_is_not_held_at_zero():
    result = _ledger.ledger([node("n1", "1")], [pod("p", "3")], RESOURCE)
    assert (result["requested"], result["free"]) == (3, -2)


@pytest.mark.parametrize("containers", [None, [], [{}], [{"resources": None}], [{"resources": {"limits": None}}]])
def test_containers_without_limits_hold_nothing(containers):
    item = pod("p")
    item["spec"]["containers"] = containers
    assert requested(item) == 0


def test_an_unreadable_node_is_named():
    with pytest.raises(_ledger.LedgerError, match=r"node n1: status\.allocatable\[nvidia\.com/gpu\]: 'many'"):
        _ledger.ledger([node("n1", "many")], [], RESOURCE)


def test_an_unreadable_pod_is_named():
    with pytest.raises(_ledger.LedgerError, match=r"pod team/train, container c1: limits\[nvidia\.com/gpu\]: 'many'"):
        _ledger.ledger([], [pod("train", "1", "many", namespace="team")], RESOURCE)


def test_a_pod_that_does_not_count_need_not_be_readable():
    assert requested(pod("old", "many", phase="Failed")) == 0


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": {"name": ""}}])
def test_a_node_without_a_name_is_refused(broken):
    with pytest.raises(_ledger.LedgerError, match="without a name"):
        _ledger.ledger([{**broken, "status": {"allocatable": {RESOURCE: "1"}}}], [], RESOURCE)


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 64)), st.lists(st.integers(0, 64)))
def test_the_sums_hold(offers, wants):
    nodes = [node(name, str(count)) for name, count in offers.items()]
    pods = [pod(f"p{at}", str(count)) for at, count in enumerate(wants)]
    result = _ledger.ledger(nodes, pods, RESOURCE)
    assert result["allocatable_total"] == sum(result["nodes"].values()) == sum(offers.values())
    assert result["free"] == result["allocatable_total"] - result["requested"] == sum(offers.values()) - sum(wants)
    assert 0 not in result["nodes"].values()


def test_the_file_is_stable_sorted_and_ends_with_a_newline():
    first = _ledger.render(_ledger.ledger([node("b", "1"), node("a", "2")], [], RESOURCE))
    second = _ledger.render(_ledger.ledger([node("a", "2"), node("b", "1")], [], RESOURCE))
    assert first == second
    assert first == (
        '{\n  "allocatable_total": 3,\n  "free": 3,\n  "nodes": {\n    "a": 2,\n    "b": 1\n  },\n  "requested": 0\n}\n'
    )


def test_the_file_has_the_four_keys_and_no_others():
    result = {**_ledger.ledger([], [], RESOURCE), "details": "not for the file"}
    assert set(json.loads(_ledger.render(result))) == set(_ledger.KEYS)
