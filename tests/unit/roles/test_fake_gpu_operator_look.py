# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role fake_gpu_operator makes of one look at the cluster."""

from __future__ import annotations

import base64
import copy
import datetime
import gzip
import importlib.util
import json
import pathlib

import pytest
import yaml

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "roles" / "fake_gpu_operator" / "files" / "look.py"
SPEC = importlib.util.spec_from_file_location("fake_gpu_operator_look", SCRIPT)
look = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(look)

BASE = {"runtimeClass": {"enabled": False}, "devicePlugin": {"image": {"pullPolicy": "IfNotPresent"}}}
HOST = {
    "boot_id": "this-boot",
    "booted": look.parse_time("2026-01-01T10:00:00Z"),
    "kubelet_started": look.parse_time("2026-01-01T10:00:10Z"),
    "now": look.parse_time("2026-01-01T11:00:00Z"),
}
WANT = {
    **look.DEFAULTS,
    "namespace": "gpu-operator",
    "release": "gpu-operator",
    "chart": "fake-gpu-operator",
    "chart_version": "0.2.1",
    "node": "gpu-lab",
    "pool_label": "run.ai/simulated-gpu-node-pool",
    "default_size": 2,
    "values": BASE,
    "file_text": "",
}


def values(size: int) -> dict:
    return look.merge(BASE, {"topology": {"nodePools": {"default": {"gpuCount": size}}}})


MANIFEST = """---
# Source: fake-gpu-operator/templates/status-updater.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: status-updater}
spec: {replicas: 1}
---
kind: DaemonSet
metadata: {name: device-plugin}
---
---
kind: ConfigMap
metadata: {name: topology}
"""


def secret(revision: int, status: str, config: dict, version: str = "0.2.1") -> dict:
    body = {
        "info": {"status": status},
        "chart": {"metadata": {"name": "fake-gpu-operator", "version": version}},
        "config": config,
        "manifest": MANIFEST,
    }
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(body).encode()))).decode()
    name = f"sh.helm.release.v1.gpu-operator.v{revision}"
    return {
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {"name": name, "labels": {"owner": "helm", "name": "gpu-operator", "version": str(revision)}},
        "data": {"release": packed},
    }


def node(name: str, shown: int, kwok: bool = False) -> dict:
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"run.ai/simulated-gpu-node-pool": "default", "nvidia.com/gpu.product": "Tesla-K80"},
            "annotations": {"kwok.x-k8s.io/node": "fake"} if kwok else {},
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": str(shown)},
            "nodeInfo": {"bootID": "" if kwok else "this-boot"},
        },
    }


def topology(name: str, count: int, created: str = "2026-01-01T10:01:00Z", kwok: bool = False) -> dict:
    text = yaml.safe_dump({"gpus": [{"id": f"GPU-{index}"} for index in range(count)]})
    return {
        "kind": "ConfigMap",
        "metadata": {
            "name": f"topology-{name}",
            "labels": {"node-name": name, "node-topology": "true"},
            "annotations": {"kwok.x-k8s.io/node": "fake"} if kwok else {},
            "creationTimestamp": created,
        },
        "data": {"topology.yml": text},
    }


def pod(app: str, started: str | None = "2026-01-01T10:02:00Z", waiting: str = "") -> dict:
    state = {"running": {"startedAt": started}} if started else {"waiting": {"reason": waiting}}
    return {
        "kind": "Pod",
        "metadata": {"name": f"{app}-x", "labels": {"app": app}},
        "spec": {"nodeName": "gpu-lab"},
        "status": {"phase": "Running", "containerStatuses": [{"state": state}]},
    }


def deployment(name: str) -> dict:
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "generation": 2},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    }


def daemonset(name: str) -> dict:
    return {
        "kind": "DaemonSet",
        "metadata": {"name": name, "generation": 1},
        "status": {
            "observedGeneration": 1,
            "desiredNumberScheduled": 1,
            "updatedNumberScheduled": 1,
            "numberAvailable": 1,
        },
    }


def lab(size: int = 2) -> dict:
    return {
        "secret": secret(1, "deployed", values(size)),
        "node": node("gpu-lab", size),
        "topology": topology("gpu-lab", size),
        "plugin": pod("device-plugin"),
        "updater": deployment("status-updater"),
        "daemonset": daemonset("device-plugin"),
    }


def judge(items: dict, **want: object) -> dict:
    return look.judge(list(copy.deepcopy(items).values()), {**WANT, **want}, HOST)


def test_a_lab_at_rest_needs_nothing() -> None:
    seen = judge(lab())
    assert seen["missing"] == []
    assert seen["ready"] is True
    assert (seen["size"], seen["upgrade"], seen["wrong"], seen["lacking"], seen["restart"]) == (2, "", [], [], {})


def test_a_pool_that_has_grown_keeps_its_size() -> None:
    seen = judge(lab(4))
    assert (seen["size"], seen["ready"]) == (4, True)


def test_a_size_that_is_asked_for_wins() -> None:
    seen = judge(lab(2), pool_size=4)
    assert seen["size"] == 4
    assert seen["upgrade"] == "the release has other values"
    assert seen["release_values"]["topology"]["nodePools"]["default"]["gpuCount"] == 4
    assert seen["wrong"] == ["topology-gpu-lab"]


def test_a_size_from_the_command_line_is_text() -> None:
    assert judge(lab(4), pool_size="4")["ready"] is True


def test_a_new_release_gets_the_default_size() -> None:
    seen = judge({"node": lab()["node"]})
    assert (seen["size"], seen["upgrade"]) == (2, "the release gpu-operator is not installed")
    assert seen["lacking"] == ["topology-gpu-lab"]
    assert seen["interrupted"] is False


def test_more_values_of_the_learner_are_kept_and_no_reason_to_upgrade() -> None:
    items = lab()
    more = {**values(2), "topologyServer": {"enabled": True}}
    items["secret"] = secret(2, "deployed", more)
    seen = judge(items)
    assert seen["ready"] is True
    assert seen["release_values"]["topologyServer"] == {"enabled": True}


def test_a_value_that_was_dropped_is_put_back() -> None:
    items = lab()
    items["secret"] = secret(2, "deployed", {"topology": {"nodePools": {"default": {"gpuCount": 2}}}})
    seen = judge(items)
    assert seen["upgrade"] == "the release has other values"
    assert seen["release_values"] == values(2)


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "pending-rollback", "failed"])
def test_a_revision_that_was_not_completed_is_named(status: str) -> None:
    items = lab()
    items["second"] = secret(2, status, values(4))
    seen = judge(items)
    assert seen["interrupted"] is True
    assert seen["release"]["secret"] == "sh.helm.release.v1.gpu-operator.v2"
    assert seen["upgrade"] == f"the release is {status}"
    assert seen["size"] == 4


def test_revisions_are_compared_as_numbers() -> None:
    items = {**lab(), "ninth": secret(9, "superseded", values(1)), "tenth": secret(10, "deployed", values(2))}
    assert judge(items)["release"]["revision"] == 10


def test_another_chart_is_an_upgrade() -> None:
    items = lab()
    items["secret"] = secret(1, "deployed", values(2), version="0.2.0")
    assert judge(items)["upgrade"] == "the release is of fake-gpu-operator 0.2.0"


def test_the_values_file_is_the_whole_truth() -> None:
    text = yaml.safe_dump({"topology": {"nodePools": {"default": {"gpuCount": 4}}}})
    seen = judge(lab(2), values_file="/root/values.yaml", file_text=text)
    assert (seen["size"], seen["mistake"]) == (4, "")
    assert seen["release_values"] == {"topology": {"nodePools": {"default": {"gpuCount": 4}}}}


def test_a_values_file_of_another_size_is_a_mistake() -> None:
    text = yaml.safe_dump({"topology": {"nodePools": {"default": {"gpuCount": 3}}}})
    seen = judge(lab(2), values_file="/root/values.yaml", file_text=text, pool_size=4)
    assert seen["mistake"] == "/root/values.yaml gives the pool default a gpuCount of 3, wanted 4"


@pytest.mark.parametrize("size", [0, -1, "0"])
def test_a_pool_without_gpus_is_a_mistake(size: object) -> None:
    assert f"is {size};" in judge(lab(2), pool_size=size)["mistake"]


def test_a_values_file_without_a_size_is_a_mistake() -> None:
    assert judge(lab(2), values_file="/root/values.yaml", file_text="runtimeClass: {enabled: false}")["mistake"]


def test_a_topology_of_another_size_is_deleted_before_the_plugin_counts() -> None:
    items = lab(4)
    items["topology"] = topology("gpu-lab", 2)
    items["node"] = node("gpu-lab", 2)
    seen = judge(items)
    assert seen["wrong"] == ["topology-gpu-lab"]
    assert seen["restart"] == {}
    assert seen["ready"] is False


def test_a_topology_that_cannot_be_read_is_wrong() -> None:
    items = lab()
    items["topology"]["data"]["topology.yml"] = "gpus: ["
    assert judge(items)["wrong"] == ["topology-gpu-lab"]


def test_a_plugin_older_than_its_topology_has_read_the_one_before() -> None:
    items = lab(4)
    items["topology"] = topology("gpu-lab", 4, created="2026-01-01T10:30:00Z")
    items["node"] = node("gpu-lab", 2)
    assert judge(items)["restart"] == {"daemonset/device-plugin": "has read the topology that was there before"}


def test_a_plugin_older_than_the_kubelet_never_registers_again() -> None:
    items = lab()
    items["plugin"] = pod("device-plugin", started="2026-01-01T10:00:05Z")
    seen = judge(items)
    assert seen["restart"] == {"daemonset/device-plugin": "has not registered with the kubelet that runs now"}
    assert seen["ready"] is False


def test_a_plugin_of_an_earlier_boot_is_given_time() -> None:
    items = lab()
    items["plugin"] = pod("device-plugin", started="2026-01-01T09:00:00Z")
    seen = judge(items)
    assert seen["restart"] == {}
    assert "pod device-plugin-x has not started again since this boot" in seen["missing"]


def test_a_plugin_that_has_just_started_is_given_time() -> None:
    items = lab()
    items["node"] = node("gpu-lab", 0)
    items["plugin"] = pod("device-plugin", started="2026-01-01T10:59:50Z")
    seen = judge(items)
    assert seen["restart"] == {}
    assert seen["missing"] == ["node gpu-lab has 0 allocatable nvidia.com/gpu, wanted 2"]


def test_a_plugin_that_shows_nothing_for_long_is_restarted() -> None:
    items = lab()
    items["node"] = node("gpu-lab", 0)
    assert "daemonset/device-plugin" in judge(items)["restart"]


def test_a_plugin_in_its_back_off_is_restarted() -> None:
    items = lab()
    items["node"] = node("gpu-lab", 0)
    items["plugin"] = pod("device-plugin", started=None, waiting="CrashLoopBackOff")
    assert judge(items)["restart"] == {"daemonset/device-plugin": "waits after a failure"}


def test_a_plugin_that_is_being_made_is_given_time() -> None:
    items = lab()
    items["plugin"] = pod("device-plugin", started=None, waiting="ContainerCreating")
    seen = judge(items)
    assert seen["restart"] == {}
    assert "the plugin of node gpu-lab does not run: ContainerCreating" in seen["missing"]


def test_pods_that_end_or_have_ended_do_not_count() -> None:
    items = lab()
    ending = pod("device-plugin", started="2026-01-01T10:00:05Z")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T10:59:59Z"
    failed = pod("device-plugin", started="2026-01-01T09:00:00Z")
    failed["status"]["phase"] = "Failed"
    seen = judge({"ending": ending, "failed": failed, **items})
    assert seen["ready"] is True


def test_a_node_of_an_earlier_boot_is_not_ready() -> None:
    items = lab()
    items["node"]["status"]["nodeInfo"]["bootID"] = "the boot before"
    assert judge(items)["missing"] == ["node gpu-lab still reports an earlier boot"]


def test_a_node_without_the_product_is_not_ready() -> None:
    items = lab()
    del items["node"]["metadata"]["labels"]["nvidia.com/gpu.product"]
    assert judge(items)["missing"] == ["node gpu-lab has no label nvidia.com/gpu.product"]


def test_the_labs_node_is_put_into_the_pool() -> None:
    items = lab()
    del items["node"]["metadata"]["labels"]["run.ai/simulated-gpu-node-pool"]
    seen = judge(items)
    assert seen["unlabelled"] == ["gpu-lab"]
    assert seen["ready"] is False


def test_other_nodes_without_the_label_are_left_alone() -> None:
    other = node("other", 0)
    other["metadata"]["labels"] = {}
    seen = judge({**lab(), "other": other})
    assert (seen["unlabelled"], seen["ready"]) == ([], True)


def test_a_node_that_is_not_there_is_named() -> None:
    items = lab()
    del items["node"]
    assert judge(items)["missing"] == ["node gpu-lab is not registered"]


def test_a_node_of_kwok_has_a_topology_and_a_plugin_of_its_own() -> None:
    items = {
        **lab(4),
        "kwok": node("gpu-a", 4, kwok=True),
        "kwok_topology": topology("gpu-a", 4, kwok=True),
        "kwok_plugin": pod("kwok-gpu-device-plugin"),
    }
    assert judge(items)["missing"] == []
    items["kwok"] = node("gpu-a", 2, kwok=True)
    assert list(judge(items)["restart"]) == ["deployment/kwok-gpu-device-plugin"]


def test_a_pod_on_a_node_of_kwok_outlives_a_boot() -> None:
    items = lab()
    items["kwok"] = node("gpu-a", 2, kwok=True)
    items["kwok_topology"] = topology("gpu-a", 2, kwok=True)
    items["kwok_plugin"] = pod("kwok-gpu-device-plugin")
    items["astray"] = pod("nvidia-dcgm-exporter", started="2026-01-01T09:00:00Z")
    assert judge(items)["ready"] is False
    items["astray"]["spec"]["nodeName"] = "gpu-a"
    assert judge(items)["missing"] == []


def test_a_topology_of_kwok_without_its_annotation_is_made_again() -> None:
    items = {
        **lab(4),
        "kwok": node("gpu-a", 4, kwok=True),
        "kwok_topology": topology("gpu-a", 4),
        "kwok_plugin": pod("kwok-gpu-device-plugin"),
    }
    assert judge(items)["wrong"] == ["topology-gpu-a"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("updater", {"observedGeneration": 1}),
        ("updater", {"replicas": 2}),
        ("updater", {"availableReplicas": 0}),
        ("daemonset", {"numberAvailable": 0}),
        ("daemonset", {"updatedNumberScheduled": 0}),
    ],
)
def test_a_rollout_that_goes_on_is_not_ready(name: str, change: dict) -> None:
    items = lab()
    items[name]["status"].update(change)
    assert judge(items)["missing"] == [
        f"{items[name]['kind'].lower()}/{items[name]['metadata']['name']} has not rolled out"
    ]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda items: items["updater"]["spec"].update(replicas=0), "deployment/status-updater was scaled to 0, the release has 1"),
        (lambda items: items["updater"]["spec"].update(replicas=2), "deployment/status-updater was scaled to 2, the release has 1"),
        (lambda items: items.pop("updater"), "deployment/status-updater is gone"),
        (lambda items: items.pop("daemonset"), "daemonset/device-plugin is gone"),
    ],
)  # fmt: skip
def test_what_was_changed_behind_the_release_is_put_back(break_it, said) -> None:
    """0 of 0 replicas have rolled out, and Helm sees nothing to upgrade."""
    items = lab()
    break_it(items)
    if "updater" in items:
        count = items["updater"]["spec"]["replicas"]
        items["updater"]["status"] |= dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), count)
    seen = judge(items)
    assert (seen["drifted"], seen["upgrade"], seen["ready"]) == ([said], "", False)
    assert said in seen["missing"]


def test_an_upgrade_puts_back_what_was_changed_as_well() -> None:
    items = lab()
    items["updater"]["spec"]["replicas"] = 0
    seen = judge(items, pool_size=4)
    assert (seen["drifted"], seen["upgrade"]) == ([], "the release has other values")


def test_covers_compares_leaves() -> None:
    assert look.covers({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}})
    assert not look.covers({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})
    assert not look.covers({"a": 1}, {"a": {"b": 1}})
    assert not look.covers({"a": 2}, {"a": 4})


def test_times_of_both_writers_are_read() -> None:
    moment = datetime.datetime(2026, 1, 1, 10, 0, 10, tzinfo=datetime.timezone.utc)
    assert look.parse_time("2026-01-01T10:00:10.123456Z") == moment
    assert look.parse_time("ExecMainStartTimestamp=Thu 2026-01-01 10:00:10.999999 UTC") == moment
    assert look.parse_time("ExecMainStartTimestamp=") is None
