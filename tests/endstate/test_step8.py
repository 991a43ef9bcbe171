# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import json

import pytest
from lab_machine import GPU, KWOK_NODE


@pytest.fixture(scope="module")
def report(machine):
    return json.loads(machine.file("report.json"))


def test_exactly_four_keys(report):
    assert sorted(report) == ["allocatable_total", "free", "nodes", "requested"]


def test_is_the_ledger_of_the_cluster_now(machine, report):
    nodes = {
        node["metadata"]["name"]: int(node["status"]["allocatable"][GPU])
        for node in machine.get("nodes")["items"]
        if int(node["status"].get("allocatable", {}).get(GPU, 0)) > 0
    }
    requested = sum(
        int(container.get("resources", {}).get("limits", {}).get(GPU, 0))
        for pod in machine.get("pods", "-A")["items"]
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
        for container in pod["spec"]["containers"]
    )
    total = sum(nodes.values())
    assert report == {
        "nodes": nodes,
        "allocatable_total": total,
        "requested": requested,
        "free": total - requested,
    }


def test_is_the_ledger_the_lab_ends_with(report, real_node):
    assert report == {
        "nodes": {real_node["metadata"]["name"]: 4, KWOK_NODE: 4},
        "allocatable_total": 8,
        "requested": 4,
        "free": 4,
    }


def test_numbers_are_integers(report):
    numbers = [report["allocatable_total"], report["requested"], report["free"], *report["nodes"].values()]
    assert all(type(number) is int for number in numbers)
