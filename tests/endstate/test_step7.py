# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import pytest
from lab_machine import GPU, KWOK_NODE, condition, gpu_limits, is_running

TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


@pytest.fixture(scope="module", params=["in the file", "in the cluster"])
def node(request, machine):
    if request.param == "in the file":
        return machine.manifest("kwok-node.yaml")
    return machine.get("node", KWOK_NODE)


def test_node_belongs_to_kwok_and_to_the_pool(node):
    meta = node["metadata"]
    assert (node["kind"], meta["name"]) == ("Node", KWOK_NODE)
    assert meta["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert meta["labels"]["run.ai/simulated-gpu-node-pool"] == "default"


def test_node_is_told_from_the_real_one(node, real_node):
    assert node["metadata"]["labels"]["type"] == "kwok"
    assert "type" not in real_node["metadata"]["labels"]


def test_node_is_tainted(node):
    assert TAINT in [{key: taint.get(key) for key in TAINT} for taint in node["spec"]["taints"]]


def test_node_without_kubelet_advertises_four(machine):
    node = machine.get("node", KWOK_NODE)
    assert condition(node, "Ready")["status"] == "True"
    assert node["status"]["allocatable"][GPU] == "4"


def test_far_1_runs_there(machine):
    pod = machine.pod("far-1")
    assert is_running(pod), pod["status"]
    assert pod["spec"]["nodeName"] == KWOK_NODE
    assert gpu_limits(pod) == ["1"]


def test_far_1_chose_and_tolerates_the_node(machine):
    spec = machine.pod("far-1")["spec"]
    # A pod that sets nodeName by hand would get there too, past the scheduler.
    assert spec.get("nodeSelector") or spec.get("affinity", {}).get("nodeAffinity")
    tolerated = [t for t in spec["tolerations"] if t.get("key") == TAINT["key"]]
    assert tolerated and all(t.get("effect") in (None, TAINT["effect"]) for t in tolerated)
