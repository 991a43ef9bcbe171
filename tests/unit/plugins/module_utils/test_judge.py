# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Every check passes in the finished lab, and fails for the mistake it is there for."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _judge, _verdict
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import finished

RESOURCE = "nvidia.com/gpu"
ENVIRONMENT = finished.INSIDE.partition("Sun Mar")[0]


def judged(look, steps=_judge.STEPS, **names):
    return _judge.judge(_judge.Sight(look, _judge.Names(**names)), steps)


def found(look, kind, name, **names):
    """One check or ground by its id, in whatever step."""
    return next(one for verdict in judged(look, **names) for one in verdict[kind] if one["id"] == name)


def failing(verdict, kind="checks"):
    return [one["id"] for one in verdict[kind] if not one["ok"]]


# Ways to spoil a look


def pod_in(look, name):
    return next(pod for pod in look["pods"] if pod["metadata"]["name"] == name)


def node_in(look, name):
    return next(node for node in look["nodes"] if node["metadata"]["name"] == name)


def without_pod(name):
    def spoil(look):
        look["pods"] = [pod for pod in look["pods"] if pod["metadata"]["name"] != name]

    return spoil


def with_pod(pod):
    return lambda look: look["pods"].append(pod)


def moved_pod(name, namespace):
    return lambda look: pod_in(look, name)["metadata"].update(namespace=namespace)


def placed(name, node):
    return lambda look: pod_in(look, name)["spec"].update(nodeName=node)


def asking(name, amount):
    return lambda look: pod_in(look, name)["spec"]["containers"][0]["resources"]["limits"].update({RESOURCE: amount})


def imaged(name, image):
    return lambda look: pod_in(look, name)["spec"]["containers"][0].update(image=image)


def failed(name, reason="UnexpectedAdmissionError"):
    return lambda look: pod_in(look, name).update(status={"phase": "Failed", "reason": reason})


def looping(name, reason="CrashLoopBackOff"):
    def spoil(look):
        pod_in(look, name)["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": {"reason": reason}}}]

    return spoil


def leaving(name):
    return lambda look: pod_in(look, name)["metadata"].update(deletionTimestamp="2026-03-01T10:05:00Z")


def waiting(name, message=finished.SHORTAGE):
    def spoil(look):
        without_pod(name)(look)
        look["pods"].append(finished.waiting(name, message))

    return spoil


def file(name, text):
    return lambda look: look["files"].update({name: finished.text_file(text)})


def yaml(name, *documents):
    return lambda look: look["files"].update({name: finished.yaml_file(*documents)})


def no_file(name):
    return lambda look: look["files"].update({name: {"state": "missing"}})


def edited(name, old, new):
    def spoil(look):
        text = look["files"][name]["text"]
        assert old in text
        look["files"][name] = finished.text_file(text.replace(old, new))

    return spoil


def reported(**changes):
    return lambda look: look["files"].update(
        {"report.json": finished.json_file({**finished.report({"gpu-a": 4, "gpu-lab": 4}, 4), **changes})}
    )


def advertising(node, capacity, allocatable=None):
    def spoil(look):
        status = node_in(look, node)["status"]
        status["capacity"][RESOURCE] = str(capacity)
        status["allocatable"][RESOURCE] = str(capacity if allocatable is None else allocatable)

    return spoil


def in_manifest(file_name, *path, **changes):
    """The first document of a manifest with other values at the end of a path; None removes."""

    def spoil(look):
        (document, *others) = json.loads(json.dumps(look["files"][file_name]["documents"]))
        place = document
        for key in path:
            place = place[key]
        for key, value in changes.items():
            if value is None:
                del place[key]
            else:
                place[key] = value
        look["files"][file_name] = finished.yaml_file(document, *others)

    return spoil


def on_node(node, *path, remove):
    def spoil(look):
        place = node_in(look, node)
        for key in path:
            place = place[key]
        if isinstance(place, list):
            place.clear()
        else:
            del place[remove]

    return spoil


def release(**changes):
    return lambda look: look["release"].update(changes)


def no_release(look):
    look["release"] = None


def kept(node, count):
    def spoil(look):
        look["topology"]["nodes"][node] = count
        if count is None:
            del look["topology"]["nodes"][node]

    return spoil


def not_ready(node):
    def spoil(look):
        node_in(look, node)["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]

    return spoil


def selecting(**spec):
    """far-1 with another node selection."""

    def spoil(look):
        pod = pod_in(look, "far-1")
        del pod["spec"]["nodeSelector"]
        pod["spec"].update(spec)

    return spoil


def in_turn(*spoils):
    def spoil(look):
        for one in spoils:
            one(look)

    return spoil


def helm_upgrade_alone(look):
    """The release says 4; the node's topology was never computed again."""
    kept("gpu-lab", 2)(look)
    advertising("gpu-lab", 2)(look)
    waiting("gpu-3")(look)


def plugin_not_restarted(look):
    advertising("gpu-lab", 2)(look)
    waiting("gpu-3")(look)


def plugin_cannot_pull(look):
    plugin_not_restarted(look)
    looping("device-plugin-x1x2x", "ImagePullBackOff")(look)


def plugin_crashes(look):
    advertising("gpu-lab", 4, 0)(look)
    looping("device-plugin-x1x2x")(look)


def tolerating_nothing(look):
    pod_in(look, "far-1")["spec"]["tolerations"] = []


def remade_gpu_1(look):
    """inside.txt is of an earlier gpu-1, and the containers run on another machine."""
    look["devices"] = {}
    look["files"]["inside.txt"]["mtime"] = finished.WRITTEN - 3600


def other_device(look):
    look["devices"] = {finished.REAL_UID: "5d0d1b5e-0000-4000-8000-000000000000"}


# id, the mistake, words of the English hint
MISTAKES = [
    ("advertised.file", no_file("advertised.txt"), "no file"),
    ("advertised.file", file("advertised.txt", " \n"), "empty"),
    (
        "advertised.file",
        lambda look: look["files"].update({"advertised.txt": {"state": "not a file"}}),
        "no regular file",
    ),
    ("advertised.file", lambda look: look["files"].update({"advertised.txt": {"state": "too large"}}), "too large"),
    ("advertised.file", lambda look: look["files"].update({"advertised.txt": {"state": "not UTF-8"}}), "UTF-8"),
    ("advertised.file", lambda look: look["files"].update({"advertised.txt": {"state": "unreadable"}}), "permissions"),
    ("advertised.lines", edited("advertised.txt", "product=Tesla-K80\n", ""), "four lines"),
    ("advertised.lines", edited("advertised.txt", "node=", "node = "), "blanks"),
    ("advertised.lines", edited("advertised.txt", "node=gpu-lab\n", "node=gpu-lab\nnode=gpu-a\n"), "four lines"),
    ("advertised.lines", edited("advertised.txt", "=", ": "), "four lines"),
    ("advertised.node", edited("advertised.txt", "node=gpu-lab", "node=gpu-a"), "KWOK node"),
    ("advertised.node", edited("advertised.txt", "node=gpu-lab", "node=gpu-lab gpu-a"), "real node"),
    ("advertised.capacity", edited("advertised.txt", "capacity=2", "capacity="), "backslash"),
    ("advertised.capacity", edited("advertised.txt", "capacity=2", "capacity=8"), "not what the node advertised"),
    ("advertised.allocatable", edited("advertised.txt", "allocatable=2", "allocatable="), "backslash"),
    ("advertised.allocatable", edited("advertised.txt", "allocatable=2", "allocatable=0"), "before the plugin"),
    ("advertised.allocatable", edited("advertised.txt", "allocatable=2", "allocatable=4"), "not what the node"),
    ("advertised.product", edited("advertised.txt", "Tesla-K80", "Tesla-T4"), "label"),
    ("advertised.product", edited("advertised.txt", "Tesla-K80", ""), "label"),
    ("gpu1.file", no_file("gpu-1.yaml"), "no file"),
    (
        "gpu1.file",
        lambda look: look["files"]["gpu-1.yaml"].update(documents=[], yaml_error="mapping values are not allowed"),
        "indentation",
    ),
    ("gpu1.manifest", yaml("gpu-1.yaml", finished.manifest("gpu-2")), "describe the Pod gpu-1"),
    ("gpu1.manifest", yaml("gpu-1.yaml", "just text"), "describe the Pod gpu-1"),
    ("gpu1.manifest", in_manifest("gpu-1.yaml", "metadata", namespace="default"), "namespace fake-lab"),
    (
        "gpu1.manifest-limit",
        in_manifest("gpu-1.yaml", "spec", "containers", 0, resources={"requests": {RESOURCE: 1}}),
        "limits",
    ),
    (
        "gpu1.manifest-limit",
        in_manifest("gpu-1.yaml", "spec", "containers", 0, resources={"limits": {RESOURCE: 2}}),
        "limits",
    ),
    (
        "gpu1.manifest-limit",
        in_manifest("gpu-1.yaml", "spec", "containers", 0, resources={"limits": {RESOURCE: 0.5}}),
        "limits",
    ),
    (
        "gpu1.manifest-image",
        in_manifest("gpu-1.yaml", "spec", "containers", 0, image="busybox:latest"),
        "busybox:1.36.1-1",
    ),
    ("gpu1.pod", without_pod("gpu-1"), "no Pod gpu-1"),
    ("gpu1.pod", moved_pod("gpu-1", "default"), "namespace default"),
    ("gpu1.image", imaged("gpu-1", "docker.io/library/busybox:1.36.1-1"), "another image"),
    ("gpu1.limit", asking("gpu-1", "2"), "exactly one GPU"),
    ("gpu1.running", failed("gpu-1"), "does not come back by itself"),
    ("gpu1.running", failed("gpu-1", "Error"), "has ended"),
    ("gpu1.running", looping("gpu-1"), "sleeps"),
    ("gpu1.running", looping("gpu-1", "ImagePullBackOff"), "cannot be pulled"),
    ("gpu1.running", looping("gpu-1", "ContainerCreating"), "describe pod gpu-1"),
    ("gpu1.running", leaving("gpu-1"), "being deleted"),
    ("gpu1.running", waiting("gpu-1"), "fake-lab/gpu-2, fake-lab/gpu-3"),
    ("gpu1.node", placed("gpu-1", "gpu-a"), "real node"),
    ("inside.file", no_file("inside.txt"), "no file"),
    (
        "inside.devices",
        edited("inside.txt", "MOCK_NVIDIA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
        "Save all variables",
    ),
    ("inside.devices", edited("inside.txt", finished.DEVICE, finished.DEVICE + ",another"), "exactly one device"),
    ("inside.devices", edited("inside.txt", finished.DEVICE, ""), "exactly one device"),
    ("inside.hostname", edited("inside.txt", "HOSTNAME=gpu-1", "HOSTNAME=gpu-lab"), "not on the node"),
    ("inside.variables", edited("inside.txt", "KUBERNETES_SERVICE_HOST", "SERVICE_HOST"), "not a selection"),
    ("inside.nvidia-smi", file("inside.txt", ENVIRONMENT), "missing"),
    (
        "inside.nvidia-smi",
        file(
            "inside.txt",
            ENVIRONMENT + "NVIDIA-SMI has failed because it couldn't communicate with the topology server.\n",
        ),
        "topology-server",
    ),
    ("inside.current", other_device, "before the gpu-1 that runs now"),
    ("inside.current", remade_gpu_1, "before the gpu-1 that runs now"),
    ("inside.current", without_pod("gpu-1"), "does not run"),
    ("rules.file", file("rules.txt", ""), "2>&1"),
    ("rules.equal", file("rules.txt", finished.REFUSAL_B), "requests nvidia.com/gpu: 1 and limits nvidia.com/gpu: 2"),
    ("rules.equal", file("rules.txt", "must be less than or equal to cpu limit of 1"), "2>&1"),
    ("rules.integer", file("rules.txt", finished.REFUSAL_A), "limits nvidia.com/gpu: 0.5"),
    (
        "rules.integer",
        file("rules.txt", 'Error from server (NotFound): namespaces "fake-lab" not found'),
        "missing namespace",
    ),
    ("rules.refused", with_pod(finished.pod("bad-a", gpus=None)), "delete pod bad-a"),
    ("rules.refused", with_pod(finished.pod("half", gpus="1")), "delete pod half"),
    (
        "rules.refused",
        in_turn(edited("rules.txt", '"bad-b"', '"fraction"'), with_pod(finished.pod("fraction", gpus=None))),
        "delete pod fraction",
    ),
    ("gpu2.pod", moved_pod("gpu-2", "default"), "namespace default"),
    ("gpu2.limit", asking("gpu-2", "2"), "exactly one GPU"),
    ("gpu2.running", failed("gpu-2"), "does not come back"),
    ("gpu2.node", placed("gpu-2", "gpu-a"), "real node"),
    ("gpu3.pod", without_pod("gpu-3"), "no Pod gpu-3"),
    ("gpu3.limit", asking("gpu-3", "3"), "exactly one GPU"),
    ("gpu3.waits", in_turn(without_pod("gpu-2"), no_file("pending.txt")), "without having waited"),
    ("gpu3.waits", waiting("gpu-3", "0/1 nodes are available: 1 Insufficient cpu."), "not for a GPU"),
    ("gpu3.waits", failed("gpu-3"), "does not come back"),
    ("gpu3.waits", leaving("gpu-3"), "being deleted"),
    ("pending.file", no_file("pending.txt"), "no file"),
    ("pending.reason", file("pending.txt", "gpu-3   0/1   Pending   0   5s\n"), "PodScheduled"),
    ("values.file", no_file("values.yaml"), "no file"),
    ("values.pool", yaml("values.yaml", finished.values(2)), "plain number 4"),
    ("values.pool", yaml("values.yaml", finished.values("4")), "plain number 4"),
    ("values.pool", yaml("values.yaml", {"runtimeClass": {"enabled": False}, "gpuCount": 4}), "topology.nodePools"),
    ("values.pool", yaml("values.yaml", ["topology"]), "topology.nodePools"),
    ("values.runtime-class", in_manifest("values.yaml", runtimeClass=None), "runtimeClass.enabled"),
    ("values.runtime-class", in_manifest("values.yaml", "runtimeClass", enabled="false"), "runtimeClass.enabled"),
    ("release.deployed", release(status="pending-upgrade"), "helm -n gpu-operator history"),
    ("release.deployed", no_release, "history"),
    (
        "release.deployed",
        lambda look: look.update(release={"revision": 2, "error": "not as Helm writes it"}),
        "history",
    ),
    ("release.chart", release(version="0.2.0"), "0.2.1"),
    ("release.pool", release(values=finished.values(2)), "helm upgrade"),
    ("release.pool", release(values={}), "helm upgrade"),
    ("release.runtime-class", release(values={"topology": finished.values()["topology"]}), "runtimeClass.enabled"),
    ("topology.node", helm_upgrade_alone, "helm upgrade alone"),
    ("topology.node", kept("gpu-lab", None), "restarted status-updater makes it again"),
    ("node.grown", plugin_not_restarted, "only once, at its start"),
    ("node.grown", plugin_cannot_pull, "--reuse-values"),
    ("node.grown", plugin_crashes, "CrashLoopBackOff"),
    ("gpu3.released-pod", without_pod("gpu-3"), "no Pod gpu-3"),
    ("gpu3.running", waiting("gpu-3"), "found no node"),
    ("gpu3.node", placed("gpu-3", "gpu-a"), "real node"),
    ("kwok.file", no_file("kwok-node.yaml"), "no file"),
    ("kwok.manifest", yaml("kwok-node.yaml", {**finished.kwok_manifest(), "kind": "Pod"}), "Node gpu-a"),
    (
        "kwok.manifest-label",
        in_manifest("kwok-node.yaml", "metadata", "labels", **{"run.ai/simulated-gpu-node-pool": "big"}),
        "fake-gpu-operator",
    ),
    ("kwok.manifest-annotation", in_manifest("kwok-node.yaml", "metadata", annotations=None), "annotation"),
    ("kwok.manifest-taint", in_manifest("kwok-node.yaml", "spec", taints=None), "taint"),
    ("kwok.node", lambda look: look["nodes"].pop(), "kubectl apply"),
    (
        "kwok.label",
        on_node("gpu-a", "metadata", "labels", remove="run.ai/simulated-gpu-node-pool"),
        "fake-gpu-operator",
    ),
    ("kwok.annotation", on_node("gpu-a", "metadata", "annotations", remove="kwok.x-k8s.io/node"), "not a label"),
    ("kwok.taint", on_node("gpu-a", "spec", "taints", remove=None), "ordinary pods"),
    ("kwok.ready", not_ready("gpu-a"), "KWOK controller"),
    ("kwok.gpus", advertising("gpu-a", 0), "Delete the node"),
    ("far1.pod", moved_pod("far-1", "default"), "namespace default"),
    ("far1.limit", asking("far-1", "2"), "exactly one GPU"),
    ("far1.toleration", tolerating_nothing, "toleration"),
    ("far1.selection", selecting(), "does not choose"),
    ("far1.selection", selecting(nodeSelector={"kubernetes.io/os": "linux"}), "fits gpu-a alone"),
    ("far1.selection", selecting(nodeSelector={"type": "kwuk"}), "fits gpu-a alone"),
    ("far1.node", in_turn(selecting(), placed("far-1", "gpu-lab")), "far-1 went to gpu-lab"),
    ("far1.node", waiting("far-1", "0/2 nodes are available"), "found no node"),
    ("far1.running", failed("far-1", "Error"), "has ended"),
    ("report.file", no_file("report.json"), "no file"),
    ("report.json", file("report.json", "nodes: {}"), "not a JSON object"),
    ("report.json", file("report.json", "[4, 4]"), "not a JSON object"),
    ("report.json", file("report.json", '{"free": 4, "free": 5}'), "not a JSON object"),
    ("report.json", file("report.json", '{"free": NaN}'), "not a JSON object"),
    ("report.json", file("report.json", "[" * 100000), "not a JSON object"),
    ("report.keys", reported(resource=RESOURCE), "no others"),
    ("report.keys", file("report.json", '{"nodes": {}, "free": 4}'), "four keys"),
    ("report.types", reported(free=4.0), "decimal point"),
    ("report.types", reported(requested="4"), "quotes"),
    ("report.types", reported(nodes={"gpu-a": "4", "gpu-lab": 4}), "quotes"),
    ("report.types", reported(nodes=["gpu-a", "gpu-lab"]), "maps node names"),
    ("report.types", reported(free=True), "whole number"),
    ("report.nodes", reported(nodes={"gpu-lab": 4}), "gpu-a"),
    ("report.nodes", reported(nodes={"gpu-lab": 2, "gpu-a": 4}), "status.allocatable"),
    (
        "report.nodes",
        in_turn(with_pod(finished.pod("x", gpus=None)), reported(nodes={"gpu-lab": 4, "gpu-a": 4, "cpu-1": 0})),
        "no GPUs",
    ),
    ("report.allocatable-total", reported(allocatable_total=4), "sum of the values"),
    ("report.requested", in_turn(with_pod(finished.waiting("more")), reported(requested=5)), "no node yet"),
    (
        "report.requested",
        in_turn(with_pod(finished.pod("over", phase="Succeeded")), reported(requested=5)),
        "have ended",
    ),
    (
        "report.requested",
        in_turn(with_pod(finished.pod("other", namespace="team")), reported(requested=4)),
        "all namespaces",
    ),
    ("report.requested", reported(requested=3), "KWOK node hold GPUs too"),
    ("report.requested", reported(requested=7), "Add up the container limits"),
    ("report.requested", asking("gpu-2", "half"), "cannot be counted"),
    ("report.free", reported(free=0), "minus requested"),
]

# id, end of which step, what is missing, the tag to run first, words of the English hint
LACKS = [
    ("node.ready", 0, not_ready("gpu-lab"), "install", "Finish the installation"),
    ("node.ready", 0, lambda look: look["nodes"].clear(), "install", "Finish the installation"),
    ("node.gpus", 0, advertising("gpu-lab", 2, 0), "install", "device plugin must be restarted"),
    ("node.product", 0, on_node("gpu-lab", "metadata", "labels", remove="nvidia.com/gpu.product"), "install", "dcgm"),
    ("gpu1.running", 1, lambda look: None, "step2", "--tags step2"),
    ("namespace", 1, lambda look: None, "step2", "--tags step2"),
    ("node.full", 4, advertising("gpu-lab", 4), "fake_gpu_operator", "fake_gpu_operator_pool_size=2"),
    ("release", 5, no_release, "install", "--tags install"),
    ("release", 5, release(status="failed"), "install", "--tags install"),
    ("release", 5, release(status="pending-install"), "install", "--tags install"),
    ("release", 5, lambda look: look.update(release={"revision": 2, "error": "?"}), "install", "--tags install"),
    ("gpu3.waits", 4, lambda look: None, "step5", "--tags step5"),
    ("gpu3.waits", 6, failed("gpu-3"), "step5", "--tags step5"),
    ("pending.reason", 5, no_file("pending.txt"), "step5", "--tags step5"),
    ("kwok.controller", 6, without_pod("kwok-controller-5c8c7"), "install", "KWOK controller"),
    ("kwok.stages", 6, lambda look: look.update(stages=None), "install", "stages"),
]


@pytest.mark.parametrize("step", range(9))
def test_the_steps_done_so_far_are_done_and_no_others(step):
    done = [verdict["step"] for verdict in judged(finished.lab(step)) if verdict["done"]]
    assert done == list(range(1, step + 1))


@pytest.mark.parametrize("step", range(1, 9))
def test_the_ground_of_the_next_step_is_there(step):
    (verdict,) = judged(finished.lab(step - 1), [step])
    assert failing(verdict, "ground") == []


@pytest.mark.parametrize("step", range(1, 9))
def test_all_is_fine_in_the_finished_lab(step):
    (verdict,) = judged(finished.lab(8), [step])
    assert failing(verdict) == failing(verdict, "ground") == []
    assert all(one["hint"] == {"ko": "", "en": ""} for one in verdict["checks"] + verdict["ground"])


@pytest.mark.parametrize(("name", "spoil", "words"), MISTAKES, ids=[f"{m[0]}-{n}" for n, m in enumerate(MISTAKES)])
def test_a_mistake_is_seen_and_explained(name, spoil, words):
    look = finished.lab(8)
    assert found(look, "checks", name)["ok"]
    spoil(look)
    check = found(look, "checks", name)
    assert not check["ok"]
    assert check["because"] is None
    assert words in check["hint"]["en"]
    assert re.search("[가-힣]", check["hint"]["ko"])
    assert check["seen"] != check["expected"]


@pytest.mark.parametrize(
    ("name", "step", "spoil", "tag", "words"), LACKS, ids=[f"{lack[0]}-{n}" for n, lack in enumerate(LACKS)]
)
def test_missing_ground_names_the_tag_to_run_first(name, step, spoil, tag, words):
    look = finished.lab(step)
    spoil(look)
    ground = found(look, "ground", name)
    assert not ground["ok"]
    assert ground["tag"] == tag
    assert words in ground["hint"]["en"]
    assert re.search("[가-힣]", ground["hint"]["ko"])


def ids(kind):
    return {one["id"] for verdict in judged(finished.lab(8)) for one in verdict[kind]}


def test_every_check_has_a_mistake_it_is_there_for():
    assert ids("checks") == {name for name, _spoil, _words in MISTAKES}


def test_every_ground_has_a_case_in_which_it_is_missing():
    assert ids("ground") == {lack[0] for lack in LACKS}


def test_check_ids_are_unique_among_all_steps():
    names = [check["id"] for verdict in judged(finished.lab(8)) for check in verdict["checks"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("stage", range(9))
def test_verdicts_have_the_same_checks_at_every_stage(stage):
    """So that a report can be compared with the one before."""
    assert [[c["id"] for c in v["checks"]] for v in judged(finished.lab(stage))] == [
        [c["id"] for c in v["checks"]] for v in judged(finished.lab(8))
    ]


@pytest.mark.parametrize("stage", range(9))
def test_verdicts_are_plain_short_lines(stage):
    for verdict in judged(finished.lab(stage)):
        json.dumps(verdict)
        for one in verdict["checks"] + verdict["ground"]:
            for text in (one["seen"], one["expected"]):
                assert isinstance(text, str)
                assert "\n" not in text
                assert len(text) <= _verdict.LINE


def test_a_check_that_waits_for_another_names_the_first_that_failed():
    look = finished.lab(8)
    no_file("report.json")(look)
    (verdict,) = judged(look, [8])
    assert {check["id"]: check["because"] for check in verdict["checks"]} == {
        "report.file": None,
        "report.json": "report.file",
        "report.keys": "report.file",
        "report.types": "report.file",
        "report.nodes": "report.file",
        "report.allocatable-total": "report.file",
        "report.requested": "report.file",
        "report.free": "report.file",
    }
    assert not any(check["ok"] for check in verdict["checks"])


# What later steps change does not undo earlier ones


@pytest.mark.parametrize("size", [2, 4])
def test_advertised_may_tell_of_either_size(size):
    look = finished.lab(8)
    file("advertised.txt", f"node=gpu-lab\ncapacity={size}\nallocatable={size}\nproduct=Tesla-K80\n")(look)
    assert judged(look, [1])[0]["done"]


def test_a_plugin_that_is_down_undoes_step_6_but_not_step_1_or_5():
    look = finished.lab(8)
    advertising("gpu-lab", 0)(look)
    assert [verdict["step"] for verdict in judged(look, [1, 2, 3, 4, 5, 6, 7]) if verdict["done"]] == [1, 2, 3, 4, 5, 7]


def test_step_5_can_be_repaired_after_a_reboot_with_the_grown_pool():
    look = finished.lab(8)
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        failed(name)(look)
    (verdict,) = judged(look, [5])
    assert not verdict["done"]
    assert failing(verdict, "ground") == ["gpu1.running"]


def test_step_5_cannot_be_done_again_once_the_pool_has_grown():
    look = finished.lab(6)
    no_file("pending.txt")(look)
    assert "node.full" in failing(judged(look, [5])[0], "ground")


def test_step_6_can_be_repaired_without_a_reason_that_is_lost_anyway():
    look = finished.lab(6)
    no_file("pending.txt")(look)
    no_file("values.yaml")(look)
    assert failing(judged(look, [6])[0], "ground") == []


@pytest.mark.parametrize("status", ["failed", "pending-upgrade", "pending-rollback"])
def test_step_6_can_do_an_upgrade_again_that_was_broken_off(status):
    look = finished.lab(5)
    release(status=status, revision=2)(look)
    (verdict,) = judged(look, [6])
    assert failing(verdict, "ground") == []
    assert "release.deployed" in failing(verdict)


def test_a_second_line_of_refusals_is_no_pod_left_behind():
    look = finished.lab(8)
    edited("rules.txt", '"bad-a"', '"gpu-1"')(look)
    assert judged(look, [4])[0]["done"]


def test_a_pod_without_gpus_beside_the_lab_is_no_mistake():
    look = finished.lab(8)
    with_pod(finished.pod("shell", gpus=None))(look)
    assert all(verdict["done"] for verdict in judged(look))


def test_gpu_3_has_waited_though_gpu_2_is_gone_from_the_grown_pool():
    """What is wrong is gpu-2 alone; to make gpu-3 again would prove nothing, the pool has room for both."""
    look = finished.lab(8)
    without_pod("gpu-2")(look)
    (verdict,) = judged(look, [5])
    checks = {check["id"]: check["ok"] for check in verdict["checks"]}
    assert checks["gpu3.waits"]
    assert not checks["gpu2.pod"]


def test_inside_counts_by_its_time_where_the_containers_cannot_be_seen():
    look = finished.lab(8)
    look["devices"] = {}
    assert judged(look, [3])[0]["done"]


def test_a_digest_behind_the_image_tag_is_the_same_image():
    look = finished.lab(8)
    imaged("gpu-1", finished.IMAGE + "@sha256:a9155b13325b2abef48e71de77bb8ac015412a566829f621d06bfae5c699b1b9")(look)
    assert judged(look, [2])[0]["done"]


@pytest.mark.parametrize(
    "affinity",
    [
        {"matchExpressions": [{"key": "type", "operator": "In", "values": ["kwok"]}]},
        {"matchExpressions": [{"key": "type", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]},
    ],
)
def test_far_1_may_choose_its_node_by_affinity(affinity):
    look = finished.lab(8)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
    selecting(affinity={"nodeAffinity": required})(look)
    assert judged(look, [7])[0]["done"]


def test_a_preferred_affinity_does_not_choose():
    look = finished.lab(8)
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": "type", "operator": "Exists"}]}}
    selecting(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}})(look)
    assert "far1.selection" in failing(judged(look, [7])[0])


def test_manifests_may_hold_several_objects_and_lists():
    look = finished.lab(8)
    namespace = {"kind": "Namespace", "metadata": {"name": "fake-lab"}}
    yaml("gpu-1.yaml", namespace, {"kind": "List", "items": [finished.manifest()]})(look)
    assert judged(look, [2])[0]["done"]


def test_the_manifest_may_leave_the_namespace_to_kubectl():
    look = finished.lab(8)
    in_manifest("gpu-1.yaml", "metadata", namespace=None)(look)
    assert judged(look, [2])[0]["done"]


def test_other_names_and_numbers():
    """The lab's own constants are arguments, not letters in the judge."""
    text = json.dumps(finished.lab(8))
    for old, new in (
        ("fake-lab", "gpu-class"),
        ("gpu-lab", "worker"),
        ("gpu-a", "far-away"),
        ("nvidia.com", "acme.org"),
    ):
        text = text.replace(old, new)
    names = {"namespace": "gpu-class", "node": "worker", "kwok_node": "far-away", "gpu_resource": "acme.org/gpu"}
    assert all(verdict["done"] for verdict in judged(json.loads(text), **names))
    assert not any(verdict["done"] for verdict in judged(finished.lab(8), [2, 3, 5, 6, 7, 8], **names))


@pytest.mark.parametrize("kind", ["library", "config", "refused", "unreachable", "answer"])
def test_silence_leaves_nothing_done_and_says_what_to_do(kind):
    verdicts = _judge.judge_silence(kind, "connection refused", [1, 6])
    assert [verdict["step"] for verdict in verdicts] == [1, 6]
    for verdict in verdicts:
        assert not verdict["done"]
        assert verdict["checks"] == []
        (ground,) = verdict["ground"]
        assert (ground["id"], ground["ok"], ground["tag"]) == ("api", False, "install")
        assert ground["seen"] == "connection refused"
        assert "--tags install" in ground["hint"]["en"]
        assert "--tags install" in ground["hint"]["ko"]


def test_an_empty_look_is_judged_without_a_crash():
    for verdict in judged({}):
        assert not verdict["done"]
        assert verdict["ground"]


@pytest.mark.parametrize(
    ("word", "particles", "expected"),
    [
        ("gpu-1", "이/가", "gpu-1 이"),
        ("gpu-2", "이/가", "gpu-2 가"),
        ("gpu-3", "을/를", "gpu-3 을"),
        ("far-1", "은/는", "far-1 은"),
        ("gpu-a", "이/가", "gpu-a 가"),
        ("gpu-n", "이/가", "gpu-n 이"),
        ("gpu-lab", "으로/로", "gpu-lab 으로"),
        ("fake-lab", "을/를", "fake-lab 을"),
        ("gpu-operator", "이/가", "gpu-operator 가"),
        ("4", "으로/로", "4 로"),
        ("1", "으로/로", "1 로"),
        ("노드", "이/가", "노드 가"),
        ("값", "으로/로", "값 으로"),
        ("풀", "으로/로", "풀 로"),
        ("", "이/가", " 가"),
    ],
)
def test_particles(word, particles, expected):
    assert _verdict.josa(word, particles) == expected


def test_a_report_that_was_right_once_is_to_be_written_again():
    """It agrees with itself: the cluster may have changed since."""
    look = finished.lab(8)
    without_pod("gpu-2")(look)
    wrong = [check for check in judged(look, [8])[0]["checks"] if not check["ok"]]
    assert [check["id"] for check in wrong] == ["report.requested", "report.free"]
    for check in wrong:
        assert "If the cluster has changed since it was written, write it again." in check["hint"]["en"]
    assert "The subtraction is right" in wrong[1]["hint"]["en"]


def test_on_the_grown_pool_gpu_3_is_not_asked_to_wait_again():
    look = finished.lab(8)
    failed("gpu-3")(look)
    check = next(check for check in judged(look, [5])[0]["checks"] if check["id"] == "gpu3.waits")
    assert (check["ok"], check["expected"]) == (False, "Running")
    assert "sed s/gpu-1/gpu-3/" in check["hint"]["en"]
