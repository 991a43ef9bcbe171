# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Every reason why a GPU pod waits, provoked for real, and the scheduler's own sentence for it."""

from __future__ import annotations

import pytest
from ledger_lab import GPU, KWOK_TAINT, NAMESPACE, container, kwok_node, pod


def on(kind):
    """A node of this kind only."""
    return {"nodeSelector": {"ledger-kind": kind}}


def asks(gpus, **more):
    limits = {GPU: str(gpus), **more}
    return container(resources={"limits": limits, "requests": limits})


# Each kind of node is alone with the pods that select it, so that one pod has one reason.
NODES = [
    kwok_node("ledger-full", 1, {"ledger-kind": "full"}),
    kwok_node("ledger-piece-1", 1, {"ledger-kind": "pieces"}),
    kwok_node("ledger-piece-2", 1, {"ledger-kind": "pieces"}),
    kwok_node("ledger-tainted", 4, {"ledger-kind": "tainted"}, [KWOK_TAINT]),
    kwok_node("ledger-cordoned", 4, {"ledger-kind": "cordoned"}),
    kwok_node("ledger-none", None, {"ledger-kind": "none"}),
    kwok_node("ledger-cpu", 4, {"ledger-kind": "cpu"}, cpu="1"),
    kwok_node("ledger-memory", 4, {"ledger-kind": "memory"}, memory="1Gi"),
    kwok_node("ledger-slots", 4, {"ledger-kind": "slots"}, pods="0"),
]
PODS = {
    "too-few": (pod("too-few", asks(1), **on("full")), "too_few"),
    "fragmented": (pod("fragmented", asks(2), **on("pieces")), "fragmented"),
    "tainted": (pod("tainted", asks(1), **on("tainted")), "taint"),
    "cordoned": (pod("cordoned", asks(1), **on("cordoned")), "cordoned"),
    "not-advertised": (pod("not-advertised", asks(1), **on("none")), "not_advertised"),
    "cpu": (pod("cpu", asks(1, cpu="2"), **on("cpu")), "cpu"),
    "memory": (pod("memory", asks(1, memory="2Gi"), **on("memory")), "memory"),
    "slots": (pod("slots", asks(1), **on("slots")), "pods"),
    "selector": (pod("selector", asks(1), **on("nowhere")), "selector_or_affinity"),
    "too-large": (pod("too-large", asks(64)), "too_large"),
    "gated": (pod("gated", asks(1), schedulingGates=[{"name": "example.org/later"}]), "scheduling_gate"),
}


@pytest.fixture(scope="module")
def waiting(cluster):
    cluster.apply(*NODES)
    for node in NODES:
        if GPU in node["status"]["allocatable"]:
            name = node["metadata"]["name"]
            cluster.until(
                lambda name=name: GPU in cluster.get(f"node {name}")["status"]["allocatable"], f"{name} has GPUs"
            )
    cluster.kubectl("cordon ledger-cordoned")
    cluster.apply(pod("holder", asks(1), **on("full")))
    cluster.kubectl(f"-n {NAMESPACE} wait pod/holder --for=condition=PodScheduled --timeout=60s")
    cluster.apply(*(one for one, _reason in PODS.values()))

    def told():
        pods = {one["metadata"]["name"]: one for one in cluster.get(f"-n {NAMESPACE} pods")["items"]}
        return all(any(c.get("message") for c in pods[name]["status"].get("conditions", [])) for name in PODS)

    cluster.until(told, "the scheduler has judged every pod", 60)
    answer = cluster.ledger(details="full")
    return {one["name"]: one for one in answer["details"]["waiting"] if one["namespace"] == NAMESPACE}


def test_all_that_wait_are_there_and_nobody_else(waiting):
    assert waiting.keys() == PODS.keys()


@pytest.mark.parametrize("name", PODS)
def test_the_reason_is_named(waiting, name):
    _manifest, reason = PODS[name]
    assert reason in [one["reason"] for one in waiting[name]["reasons"]], waiting[name]
    assert waiting[name]["message"].startswith("asks for ")


@pytest.mark.parametrize("name", [name for name in PODS if name != "gated"])
def test_the_scheduler_says_the_same(waiting, name):
    """Its sentence has the same nodes and reasons; what it adds about preemption is not predicted."""
    predicted = waiting[name]["predicted"].rstrip(".")
    assert predicted
    said = waiting[name]["scheduler_message"]
    head, _, reasons = predicted.partition(": ")
    assert said.startswith(head), (predicted, said)
    for reason in reasons.split(", "):
        # "1 node(s) had untolerated taint(s)" is told with the taint by older schedulers: {key: value}
        assert reason.removesuffix("(s)") in said, (predicted, said)
