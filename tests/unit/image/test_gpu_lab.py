# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The command of the image: what it takes for ready, which pods it puts back, what a login shows."""

from __future__ import annotations

import copy
import datetime
import json

import pytest

UTC = datetime.timezone.utc
WANT = {"node": "gpu-lab", "resource": "nvidia.com/gpu", "gpus": 2, "namespace": "fake-lab", "operator_namespace": "o"}
BOOTED = datetime.datetime(2026, 1, 1, 12, 0, 0, 400000, tzinfo=UTC)
HOST = {"boot_id": "this-boot", "booted": BOOTED, "begun": 0.0, "now": BOOTED + datetime.timedelta(seconds=30)}
READY = {
    "readyz": "ok",
    "node": {
        "metadata": {"labels": {"nvidia.com/gpu.product": "Tesla-K80"}},
        "status": {
            "nodeInfo": {"bootID": "this-boot"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "2"},
        },
    },
    "lease": {"spec": {"renewTime": "2026-01-01T12:00:25.000000Z"}},
    "topology": {"data": {"topology.yml": "gpus:\n- id: a\n  status: {}\n- id: b\n  status: {}\n"}},
    "plugins": [
        {
            "metadata": {},
            "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T12:00:10Z"}}}]},
        }
    ],
}


def changed(path, value):
    seen = copy.deepcopy(READY)
    at = seen
    *parents, last = path
    for step in parents:
        at = at[step]
    at[last] = value
    return seen


def test_ready(gpu_lab):
    verdict = gpu_lab.judge(READY, WANT, HOST)
    assert verdict == {"reached": list(gpu_lab.PHASES), "said": "", "gpus": 2, "product": "Tesla-K80"}


@pytest.mark.parametrize(
    ("path", "value", "last", "said"),
    [
        (("readyz",), "[-]etcd failed", "k3s", "API server"),
        (("node",), None, "api", "registers"),
        (("node", "status", "nodeInfo", "bootID"), "the-boot-before", "node", "earlier boot"),
        (
            ("node", "status", "conditions"),
            [{"type": "Ready", "status": "False", "message": "no CNI"}],
            "boot",
            "no CNI",
        ),
        (("lease", "spec", "renewTime"), "2026-01-01T11:59:59Z", "boot", "lease"),
        (("lease",), None, "boot", "lease"),
        (("topology",), None, "ready", "operator"),
        (("plugins",), [], "operator", "device plugin"),
        (
            ("plugins", 0, "status", "containerStatuses", 0, "state"),
            {"running": {"startedAt": "2026-01-01T11:59:59Z"}},
            "operator",
            "device plugin",
        ),
        (("plugins", 0, "metadata", "deletionTimestamp"), "2026-01-01T12:00:20Z", "operator", "device plugin"),
        (("node", "status", "allocatable"), {}, "plugin", "0 of 2"),
        (("node", "status", "allocatable", "nvidia.com/gpu"), "1", "plugin", "1 of 2"),
        (("node", "metadata", "labels"), {}, "gpus", "nvidia.com/gpu.product"),
    ],
)
def test_not_ready_says_what_is_awaited(gpu_lab, path, value, last, said):
    verdict = gpu_lab.judge(changed(path, value), WANT, HOST)
    assert verdict["reached"][-1] == last
    assert said in verdict["said"]


def test_a_grown_pool_is_awaited_whole(gpu_lab):
    four = changed(("topology", "data", "topology.yml"), "gpus:\n" + "- id: x\n" * 4)
    assert "2 of 4" in gpu_lab.judge(four, WANT, HOST)["said"]
    four["node"]["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    assert gpu_lab.judge(four, WANT, HOST)["gpus"] == 4


def test_a_lease_that_nobody_renews_any_more_is_not_ready(gpu_lab):
    late = {**HOST, "now": BOOTED + datetime.timedelta(seconds=120)}
    assert "lease" in gpu_lab.judge(READY, WANT, late)["said"]


def pod(**status):
    return {
        "metadata": {
            "name": "gpu-1",
            "namespace": "fake-lab",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"app": "x"},
        },
        "spec": {
            "nodeName": "gpu-lab",
            "volumes": [{"name": "kube-api-access-abc"}, {"name": "mine"}],
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    "volumeMounts": [{"name": "kube-api-access-abc"}, {"name": "mine"}],
                }
            ],
        },
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", **status},
    }


def test_only_gpu_pods_that_were_turned_away_and_that_nobody_makes_again(gpu_lab):
    owned, cpu = pod(), pod()
    owned["metadata"]["ownerReferences"] = [{"kind": "Job"}]
    cpu["spec"]["containers"][0]["resources"] = {}
    pods = [pod(), pod(reason="Evicted"), pod(phase="Running"), owned, cpu]
    assert gpu_lab.rejected(pods, "nvidia.com/gpu") == [pods[0]]


def test_a_pod_is_made_again_as_its_author_wrote_it(gpu_lab):
    again = gpu_lab.born_again(pod())
    assert again["metadata"] == {"name": "gpu-1", "namespace": "fake-lab", "labels": {"app": "x"}}
    assert "nodeName" not in again["spec"]
    assert again["spec"]["volumes"] == [{"name": "mine"}]
    assert again["spec"]["containers"][0]["volumeMounts"] == [{"name": "mine"}]
    assert "status" not in again


def test_what_was_applied_wins(gpu_lab):
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu-1"}, "spec": {}}
    seen = pod()
    seen["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(written)}
    assert gpu_lab.born_again(seen) == written


def test_the_login_tells_both_languages_and_the_rejected_pods(gpu_lab):
    verdict = gpu_lab.judge(READY, WANT, HOST)
    said = gpu_lab.motd(verdict, ["gpu-1"], WANT, 17.3, "k3s v1 (standin)")
    assert "준비됨: gpu-lab 노드에 nvidia.com/gpu 2개 (Tesla-K80), 부팅 17초 뒤" in said
    assert "Ready:  node gpu-lab has 2 nvidia.com/gpu (Tesla-K80), 17 s after power-on" in said
    assert "gpu-lab restore" in said
    assert "standin" in said


def test_the_login_does_not_call_ready_what_is_not(gpu_lab):
    verdict = gpu_lab.judge(changed(("node", "status", "allocatable"), {}), WANT, HOST)
    said = gpu_lab.motd(verdict, [], WANT, 0.0, "")
    assert "Not ready yet (7/9): node gpu-lab has 0 of 2" in said
    assert "Ready:" not in said and "restore" not in said
