# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What accounting needs of the API's objects, from their JSON."""

from __future__ import annotations

import pytest

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _objects
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import (
    Condition,
    Container,
    Node,
    ObjectError,
    Pod,
    Requirement,
    Taint,
    Term,
    Toleration,
)

GPU = "nvidia.com/gpu"

POD = {
    "metadata": {"name": "train", "namespace": "team", "uid": "u1", "deletionTimestamp": "2026-03-01T10:00:00Z"},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "2", "cpu": "500m"}}}],
        "initContainers": [
            {"name": "setup", "resources": {"requests": {GPU: "1"}}},
            {"name": "proxy", "restartPolicy": "Always"},
        ],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}},
        "priority": -5,
        "schedulerName": "default-scheduler",
        "schedulingGates": [{"name": "quota"}],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            }
        },
        "tolerations": [
            {"key": GPU, "operator": "Equal", "value": "yes", "effect": "NoSchedule", "tolerationSeconds": 3}
        ],
        "resourceClaims": [{"name": "card", "resourceClaimName": "card-1"}],
    },
    "status": {
        "phase": "Pending",
        "nominatedNodeName": "n2",
        "extendedResourceClaimStatus": {"resourceClaimName": "claim-1"},
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"},
        ],
    },
}

NODE = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {GPU: "3"},
        "capacity": {GPU: "4"},
        "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
    },
}


def test_a_pod_with_everything():
    assert _objects.pod_from_json(POD) == Pod(
        namespace="team",
        name="train",
        uid="u1",
        node="n1",
        phase="Pending",
        containers=(Container("main", {GPU: "2"}, {GPU: "2", "cpu": "500m"}),),
        init_containers=(Container("setup", {}, {GPU: "1"}), Container("proxy", restartable=True)),
        overhead={"cpu": "250m"},
        pod_requests={"cpu": "2"},
        priority=-5,
        scheduler="default-scheduler",
        gates=("quota",),
        node_selector={"disk": "ssd"},
        affinity=(
            Term(expressions=(Requirement("zone", "In", ("a", "b")),)),
            Term(fields=(Requirement("metadata.name", "NotIn", ("n9",)),)),
        ),
        tolerations=(Toleration(GPU, "Equal", "yes", "NoSchedule"),),
        terminating_since="2026-03-01T10:00:00Z",
        nominated_node="n2",
        claims=("card",),
        extended_claim="claim-1",
        condition=Condition("False", "Unschedulable", "0/1 nodes"),
    )


def test_a_node_with_everything():
    assert _objects.node_from_json(NODE) == Node(
        name="n1",
        labels={"zone": "a"},
        allocatable={GPU: "3"},
        capacity={GPU: "4"},
        unschedulable=True,
        taints=(Taint("k", "v", "NoSchedule"),),
        ready="Unknown",
    )


def test_what_is_missing_or_null_is_empty():
    bare = {"metadata": {"name": "p", "namespace": "d"}}
    assert _objects.pod_from_json(bare) == Pod("d", "p")
    assert _objects.pod_from_json({**bare, "spec": None, "status": {"phase": None, "conditions": None}}) == Pod(
        "d", "p"
    )
    assert _objects.node_from_json({"metadata": {"name": "n"}}) == Node("n")


def test_a_container_with_restart_policy_always_is_no_sidecar_unless_it_is_an_init_container():
    item = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "restartPolicy": "Always"}]}}
    assert not _objects.pod_from_json(item).containers[0].restartable


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        (None, None),
        ({}, None),
        ({"nodeAffinity": {}}, None),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}, None),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}, ()),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}, (Term(),)),
    ],
)
def test_no_required_affinity_is_not_an_empty_one(affinity, terms):
    item = {"metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    assert _objects.pod_from_json(item).affinity == terms


@pytest.mark.parametrize(("given", "text"), [("4", "4"), (4, "4"), (None, "0"), ("many", "many")])
def test_quantities_are_kept_as_text(given, text):
    item = {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: given, "cpu": "1"}}}
    assert _objects.node_from_json(item).allocatable == {GPU: text, "cpu": "1"}


@pytest.mark.parametrize(
    "broken", [None, [], {}, {"metadata": None}, {"metadata": {"name": ""}}, {"metadata": {"name": 7}}]
)
def test_without_a_name_nothing_counts(broken):
    with pytest.raises(ObjectError, match="a pod without a name"):
        _objects.pod_from_json(broken)
    with pytest.raises(ObjectError, match="a node without a name"):
        _objects.node_from_json(broken)


@pytest.mark.parametrize(
    ("section", "value", "says"),
    [
        ("spec", [], "spec is not an object"),
        ("spec", {"nodeName": 5}, "spec.nodeName is not a text"),
        ("spec", {"containers": {}}, "spec.containers is not a list"),
        ("spec", {"containers": ["x"]}, "spec.containers is not a list of objects"),
        ("spec", {"containers": [{"name": "c", "resources": 5}]}, "container c: resources is not an object"),
        (
            "spec",
            {"containers": [{"name": "c", "resources": {"limits": {GPU: 1.5}}}]},
            r"limits\[nvidia.com/gpu\]: 1.5 is not",
        ),
        (
            "spec",
            {"containers": [{"name": "c", "resources": {"limits": {GPU: True}}}]},
            r"limits\[nvidia.com/gpu\]: True is not",
        ),
        ("spec", {"priority": True}, "spec.priority is not a number"),
        ("spec", {"nodeSelector": {"a": 1}}, r"spec.nodeSelector\[a\] is not a text"),
        ("spec", {"tolerations": [{"key": 1}]}, "spec.tolerations.key is not a text"),
        ("status", {"phase": []}, "status.phase is not a text"),
        ("status", {"conditions": "x"}, "status.conditions is not a list"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(section, value, says):
    with pytest.raises(ObjectError, match=f"^pod team/train.*{says}"):
        _objects.pod_from_json({"metadata": {"name": "train", "namespace": "team"}, section: value})


def test_a_node_of_the_wrong_kind_is_named():
    with pytest.raises(ObjectError, match="^node n1: spec.unschedulable is not true or false"):
        _objects.node_from_json({"metadata": {"name": "n1"}, "spec": {"unschedulable": "yes"}})


def test_what_objects_are_called():
    assert _objects.title(Pod("team", "train")) == "pod team/train"
    assert _objects.title(Node("n1")) == "node n1"
