# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import json
import shlex

import pytest
from lab_machine import GPU, NAMESPACE, POD_IMAGE

LAB_PODS = {"gpu-1", "gpu-2", "gpu-3", "far-1"}


@pytest.fixture(scope="module")
def rules(machine):
    return machine.file("rules.txt")


def test_uneven_rejection_is_there(rules):
    assert f"must be equal to {GPU} limit of 2" in rules


def test_fraction_rejection_is_there(rules):
    assert "must be an integer" in rules


@pytest.mark.parametrize(
    "resources",
    [{"requests": {GPU: "1"}, "limits": {GPU: "2"}}, {"limits": {GPU: "0.5"}}],
    ids=["uneven", "fraction"],
)
def test_the_server_says_the_same_today(machine, rules, resources):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked-again", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "main", "image": POD_IMAGE, "resources": resources}]},
    }
    answer = machine.host.run(f"echo {shlex.quote(json.dumps(pod))} | kubectl create --dry-run=server -f -")
    assert answer.rc != 0
    reasons = [
        line.split("spec.containers[0].", 1)[1] for line in answer.stderr.splitlines() if "spec.containers[0]." in line
    ]
    assert reasons
    for reason in reasons:
        assert reason in rules


def test_neither_pod_remains(machine):
    names = {pod["metadata"]["name"] for pod in machine.get("pods", "-n", NAMESPACE)["items"]}
    assert names <= LAB_PODS
