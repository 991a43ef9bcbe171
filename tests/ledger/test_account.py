# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Every kind of pod that the two definitions treat differently, and the scheduler's own number for each."""

from __future__ import annotations

import time

import pytest
from ledger_lab import GPU, NAMESPACE, container, kwok_node, pod

NODE = "ledger-a"
THERE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}


@pytest.fixture(scope="module")
def account(cluster):
    """A node with 32 GPUs and one pod of each kind on it."""
    cluster.apply(kwok_node(NODE, 32))
    cluster.until(lambda: GPU in cluster.get(f"node {NODE}")["status"]["allocatable"], "the node has its GPUs")
    sidecar = container(2, "sidecar", restartPolicy="Always")
    cluster.apply(
        pod("plain", container(1), **THERE),
        pod("two", container(1, "one"), container(2, "other"), **THERE),
        pod("init", container(1), init=[container(4, "prepare")], **THERE),
        pod("sidecar", container(1), init=[sidecar], **THERE),
        # The sidecar runs already when the second init container does: 2 + 3.
        pod("ordered", container(1), init=[sidecar, container(3, "prepare")], **THERE),
        pod("nothing", container(), **THERE),
        pod("leaving", container(1), **THERE),
        pod("unplaced", container(64), **THERE),
    )
    names = ("plain", "two", "init", "sidecar", "ordered", "leaving")
    cluster.kubectl(f"-n {NAMESPACE} wait pod {' '.join(names)} --for=condition=PodScheduled --timeout=90s")
    # Something that nobody takes away keeps a deleted pod: it is terminating.
    cluster.kubectl(
        f"-n {NAMESPACE} patch pod leaving --type=merge -p %s", '{"metadata":{"finalizers":["example.org/hold"]}}'
    )
    cluster.kubectl(f"-n {NAMESPACE} delete pod leaving --wait=false")
    # Placed by hand, on a node that does not exist: an orphan, Pending for ever.
    cluster.apply(pod("orphan", container(1), nodeName="ledger-gone"))
    # A pod that has ended holds nothing.
    cluster.apply(pod("ended", container(1), **THERE))
    cluster.kubectl(f"-n {NAMESPACE} wait pod ended --for=condition=PodScheduled --timeout=90s")
    cluster.kubectl(
        f"-n {NAMESPACE} patch pod ended --subresource=status --type=merge -p %s", '{"status":{"phase":"Succeeded"}}'
    )
    cluster.until(lambda: (NAMESPACE, "orphan") in cluster.scheduler_metrics(), "the scheduler has seen all", 60)
    yield cluster.ledger(details="full")
    cluster.kubectl(f"-n {NAMESPACE} patch pod leaving --type=merge -p %s", '{"metadata":{"finalizers":null}}')
    cluster.kubectl(f"-n {NAMESPACE} delete pod orphan --force --grace-period=0")


def test_it_equals_what_the_scheduler_says_itself(cluster, account):
    metrics = cluster.scheduler_metrics()
    assert metrics == {
        (NAMESPACE, "plain"): 1,
        (NAMESPACE, "two"): 3,
        (NAMESPACE, "init"): 4,
        (NAMESPACE, "sidecar"): 3,
        (NAMESPACE, "ordered"): 5,
        (NAMESPACE, "leaving"): 1,
        (NAMESPACE, "orphan"): 1,
    }
    scheduler = account["scheduler"]
    assert scheduler["requested"] + scheduler["orphaned"] == sum(metrics.values())
    assert scheduler["orphaned"] == 1


def test_limits_are_counted_literally(account):
    ledger = account["ledger"]
    # plain 1, two 3, init 1, sidecar 1, ordered 1, leaving 1, orphan 1
    assert ledger["requested"] == 9
    assert ledger["nodes"][NODE] == 32
    assert ledger["allocatable_total"] == sum(ledger["nodes"].values())
    assert ledger["free"] == ledger["allocatable_total"] - 9


def test_every_difference_has_its_pod_and_its_reason(account):
    assert {one["name"]: one["reasons"] for one in account["details"]["differences"]} == {
        "init": ["init_container"],
        "ordered": ["sidecar", "init_container"],
        "orphan": ["orphan"],
        "sidecar": ["sidecar"],
    }


def test_terminating_and_orphans_are_named(account):
    assert [one["name"] for one in account["details"]["terminating"]] == ["leaving"]
    assert [(one["name"], one["node"]) for one in account["details"]["orphans"]] == [("orphan", "ledger-gone")]


def test_the_two_encodings_agree(cluster, account):
    """Details are read as protobuf; what kubectl prints is JSON: the same pods, added up by hand."""
    assert account["stats"]["encoding"] == "protobuf"
    placed = [
        one
        for one in cluster.get("pods -A")["items"]
        if one["spec"].get("nodeName") and one["status"]["phase"] in ("Pending", "Running")
    ]
    limits = [
        int(one.get("resources", {}).get("limits", {}).get(GPU, "0"))
        for each in placed
        for one in each["spec"]["containers"]
    ]
    assert sum(limits) == account["ledger"]["requested"]


def test_waiting_for_room_ends_when_a_pod_goes(cluster, account):
    free = account["ledger"]["free"]
    refused = cluster.module(wait_for={"free": free + 3}, wait_timeout=2, wait_sleep=1)
    assert f"{free} of {GPU} are free, not {free + 3}" in refused["msg"]
    assert refused["ledger"] == account["ledger"]
    cluster.kubectl(f"-n {NAMESPACE} delete pod two --wait=false")
    begun = time.monotonic()
    answer = cluster.ledger(wait_for={"free": free + 3}, wait_timeout=60, wait_sleep=1)
    assert answer["ledger"]["free"] == free + 3
    assert time.monotonic() - begun < 60
