# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""500 nodes and 5,000 pods on the real API server: several pages of each, and the right sum."""

from __future__ import annotations

import json

import pytest
from ledger_lab import GPU, NAMESPACE, container, kwok_node, pod

NODES, PODS = 500, 5000
GPU_NODES = 100
# Placed by hand: the scheduler would need minutes for them, and is not what is looked at here.
# One kubectl makes 50 objects in a second at most, by its own choice.
FILL = """
import json, subprocess, sys
objects = json.load(open(sys.argv[1]))
command = ["k3s", "kubectl", "create", "--validate=false", "-o", "name", "-f", "-"]
makers = []
for at in range(4):
    maker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    json.dump({"apiVersion": "v1", "kind": "List", "items": objects[at::4]}, maker.stdin)
    maker.stdin.close()
    makers.append(maker)
sys.exit(max(maker.wait() for maker in makers))
"""


@pytest.fixture(scope="module")
def large(cluster):
    nodes = [kwok_node(f"large-{at:03d}", 8 if at < GPU_NODES else None) for at in range(NODES)]
    pods = []
    for at in range(PODS):
        # Every fifth pod has GPUs, one or two; it is on one of the nodes that have some.
        gpus = (0, 0, 0, 0, 1 + at % 2)[at % 5]
        node = f"large-{at % GPU_NODES if gpus else at % NODES:03d}"
        pods.append(pod(f"large-{at:04d}", container(gpus), nodeName=node))
    wanted = sum(int(one["spec"]["containers"][0].get("resources", {}).get("limits", {}).get(GPU, 0)) for one in pods)
    cluster.write("/root/ledger-fill.py", FILL)
    for objects in (nodes, pods):
        cluster.write("/root/ledger-objects.json", json.dumps(objects))
        cluster.run("python3 /root/ledger-fill.py /root/ledger-objects.json")
    cluster.run("rm /root/ledger-fill.py /root/ledger-objects.json")
    yield wanted


def test_the_sum_is_right_over_several_pages(cluster, large):
    answer = cluster.ledger()
    ledger = answer["ledger"]
    offered = {name: count for name, count in ledger["nodes"].items() if name.startswith("large-")}
    assert offered == {f"large-{at:03d}": 8 for at in range(GPU_NODES)}
    assert ledger["requested"] == large
    assert answer["stats"]["encoding"] == "protobuf"
    # 500 and a node, 5,000 and some pods, 500 on each page
    assert answer["stats"]["pages"] >= 2 + 11
    print(f"{answer['stats']} for {PODS} pods")


def test_the_account_equals_the_ledger(cluster, large):
    answer = cluster.ledger(details="full")
    assert sum(node["requested"] for node in answer["details"]["nodes"]) == large
    assert answer["details"]["counts"]["waiting"] == 0
    # 2 of 8 and 1 of 8 in turn: more pods than GPUs, so some nodes are full beyond what they offer.
    over = {node["name"] for node in answer["details"]["nodes"] if node["free"] < 0}
    assert {one["name"] for one in answer["details"]["overcommitted"]} == over


def test_pods_that_end_are_counted_no_more(cluster, large):
    names = [f"large-{at:04d}" for at in range(4, 54, 5)]
    freed = sum(1 + at % 2 for at in range(4, 54, 5))
    for name in names:
        cluster.kubectl(
            f"-n {NAMESPACE} patch pod {name} --subresource=status --type=merge -p %s",
            '{"status":{"phase":"Succeeded"}}',
        )
    assert cluster.ledger()["ledger"]["requested"] == large - freed
