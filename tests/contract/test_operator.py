# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What fake-gpu-operator leaves in the cluster, and what a container finds that got a card."""

from __future__ import annotations

import json
import re
import uuid

import pytest
import yaml
from operator_lab import CHART, GPU, KWOK_NODE, NAMESPACE, POD_IMAGE, PODS, POOL_LABEL, POOL_SIZE, Operator, stays

EXPORTED = {
    f"{GPU}.count": str(POOL_SIZE),
    f"{GPU}.memory": "11441",
    f"{GPU}.present": "true",
    f"{GPU}.product": "Tesla-K80",
    "nvidia.com/mig.strategy": "mixed",
    "run.ai/fake.gpu": "true",
}
DEPLOY = {
    f"{GPU}.deploy.{what}": "true"
    for what in ("device-plugin", "dcgm-exporter", "compute-domain-dra-plugin", "dra-plugin-gpu")
}


@pytest.fixture(scope="module")
def operator(cluster):
    operator = Operator(cluster)
    operator.put_back()
    operator.create_namespace()
    yield operator
    operator.delete_namespace()


@pytest.fixture
def kwok_node(operator):
    operator.create_kwok_node()
    yield KWOK_NODE
    operator.delete_kwok_node()


@pytest.fixture
def run_pod(operator):
    names = []

    def run(name, **options):
        names.append(name)
        operator.run_pod(name, **options)
        return name

    yield run
    for name in names:
        operator.delete_pod(name)
    operator.cluster.until(lambda: operator.holders() == set(), "the topology has no cards of deleted pods")


@pytest.fixture
def gpu_pod(run_pod):
    return run_pod("gpu-pod")


def operators(labels):
    return {
        name: value
        for name, value in labels.items()
        if name.startswith("nvidia.com/") or (name.startswith("run.ai/") and name != POOL_LABEL)
    }


def has_labels(operator, node, wanted):
    def same():
        assert operators(operator.labels(node)) == wanted
        return True

    operator.cluster.until(same, f"labels of {node}")


def test_labels_of_the_real_node(operator, cluster):
    has_labels(operator, operator.node, {**DEPLOY, **EXPORTED})


def test_kwok_node(operator, cluster, kwok_node):
    has_labels(operator, kwok_node, {f"{GPU}.deploy.dcgm-exporter": "true", **EXPORTED})
    cluster.kubectl(f"wait node/{kwok_node} --for=condition=Ready --timeout=30s")
    status = cluster.json(f"get node {kwok_node}")["status"]
    assert status["capacity"]["cpu"] == "32"

    # A new plugin sees the ConfigMap as new: its patch lands after KWOK has written.
    operator.restart("deployment/kwok-gpu-device-plugin")

    def blank():
        status = cluster.json(f"get node {kwok_node}")["status"]
        return not any(status["nodeInfo"].values()) and not status["daemonEndpoints"]["kubeletEndpoint"]["Port"]

    cluster.until(blank, "nodeInfo is blank and the kubelet's port 0")


def test_kwok_plugin_looks_at_new_config_maps_only(operator, cluster, kwok_node):
    topology = operator.topology(kwok_node)
    topology["gpus"].append({**topology["gpus"][0], "id": "GPU-one-more"})
    patch = json.dumps({"data": {"topology.yml": yaml.safe_dump(topology)}})
    cluster.kubectl(f"-n {NAMESPACE} patch configmap topology-{kwok_node} --type=merge -p %s", patch)
    assert operator.topology_size(kwok_node) == POOL_SIZE + 1
    stays(lambda: operator.gpus(kwok_node) == (POOL_SIZE, POOL_SIZE), "the changed ConfigMap changes nothing", 5)
    operator.restart("deployment/kwok-gpu-device-plugin")
    cluster.until(lambda: operator.gpus(kwok_node) == (POOL_SIZE + 1,) * 2, "a new plugin reads it")


def test_kwok_pod(operator, cluster, kwok_node, run_pod):
    far = run_pod("far", node=kwok_node)
    cluster.until(lambda: operator.holders(kwok_node) == {(PODS, far)}, "the topology says who has the card")
    operator.delete_pod(far)
    cluster.until(lambda: operator.holders(kwok_node) == set(), "the card is free again")


def test_device_plugin_daemon_set(operator):
    spec = operator.get("daemonset device-plugin")["spec"]
    assert spec["selector"]["matchLabels"] == {"app": "device-plugin", "component": "device-plugin"}
    assert spec["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {f"{GPU}.deploy.device-plugin": "true"}
    assert [(t["key"], t["effect"]) for t in pod["tolerations"]] == [(GPU, "NoSchedule")]
    assert pod["serviceAccountName"] == "nvidia-device-plugin"
    assert {volume["hostPath"]["path"] for volume in pod["volumes"]} == {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/runai/bin",
        "/var/lib/runai/shared",
    }
    (container,) = pod["containers"]
    assert container["securityContext"]["privileged"] is True
    env = {variable["name"]: variable for variable in container["env"]}
    assert env["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert env["TOPOLOGY_CM_NAME"]["value"] == "topology"
    assert env["TOPOLOGY_CM_NAMESPACE"]["value"] == NAMESPACE


@pytest.mark.parametrize(
    ("kind", "name", "app", "pods"),
    [
        ("deployment", "status-updater", "status-updater", 1),
        ("deployment", "kwok-gpu-device-plugin", "kwok-gpu-device-plugin", 1),
        ("deployment", "topology-server", "topology-server", 1),
        ("deployment", "nvidia-dcgm-exporter-kwok", "nvidia-dcgm-exporter-kwok", 1),
        ("deployment", "gpu-operator", "gpu-operator", 0),
        ("deployment", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter", 0),
        ("daemonset", "device-plugin", "device-plugin", 1),
        ("daemonset", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter", 1),
        ("daemonset", "mig-faker", "mig-faker", 0),
    ],
)
def test_workloads(operator, kind, name, app, pods):
    workload = operator.get(f"{kind} {name}")
    assert workload["spec"]["template"]["metadata"]["labels"]["app"] == app
    assert workload["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "gcr-secret"}]
    if kind == "deployment":
        assert workload["spec"]["replicas"] == pods
        assert workload["status"].get("readyReplicas", 0) == pods
    else:
        assert workload["status"]["desiredNumberScheduled"] == pods
        assert workload["status"]["numberReady"] == pods


def test_topology_server_service(operator, cluster):
    service = operator.get("service topology-server")
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(80, 8080)]
    assert service["spec"]["selector"] == {"app": "topology-server"}
    answer = cluster.run(f"curl -sS --max-time 10 http://{service['spec']['clusterIP']}/topology/nodes/{operator.node}")
    assert f'"gpuProduct":"{EXPORTED[f"{GPU}.product"]}"' in answer


def test_exporter_needs_bash_in_the_image_of_its_init_container(operator, cluster):
    (init,) = operator.get("daemonset nvidia-dcgm-exporter")["spec"]["template"]["spec"]["initContainers"]
    assert init["command"][0] == "/bin/bash"
    assert init["image"].endswith("ubuntu:24.04")
    repository, _, tag = POD_IMAGE.rpartition(":")
    product = f"{GPU}.product"
    before = operator.values()["ubuntu"]["image"]
    # Without --wait: the exporter would never become ready.
    cluster.run(
        f"helm -n {NAMESPACE} upgrade gpu-operator {CHART} --reuse-values"
        f" --set ubuntu.image.repository={repository} --set ubuntu.image.tag={tag}"
    )
    try:

        def broken():
            for pod in operator.pods("nvidia-dcgm-exporter"):
                for status in pod["status"].get("initContainerStatuses", []):
                    if status["restartCount"] >= 1 and "running" not in status["state"]:
                        return status["state"]
            return None

        cluster.until(broken, "the init container fails and is started again", 90)
        cluster.kubectl(f"label node {operator.node} {product}-")
        stays(lambda: product not in operator.labels(operator.node), f"{product} stays away", 12)
    finally:
        operator.upgrade(f"ubuntu.image.repository={before['repository']}", f"ubuntu.image.tag={before['tag']}")
        operator.rolled_out("daemonset/nvidia-dcgm-exporter")
    cluster.until(lambda: operator.labels(operator.node).get(product) == "Tesla-K80", f"{product} is back")


def test_checksums_of_the_pod_templates(operator):
    def annotations(workload):
        return operator.get(workload)["spec"]["template"]["metadata"].get("annotations", {})

    checksums = {
        annotations(workload)["checksum/topology"]
        for workload in (
            "daemonset device-plugin",
            "daemonset mig-faker",
            "deployment status-updater",
            "deployment kwok-gpu-device-plugin",
        )
    }
    assert len(checksums) == 1
    assert re.fullmatch("[0-9a-f]{64}", checksums.pop())
    assert re.fullmatch(
        "[0-9a-f]{64}", annotations("daemonset nvidia-dcgm-exporter")["checksum/hostpath-init-configmap"]
    )
    assert "checksum/topology" not in annotations("deployment topology-server")


def test_config_map_of_a_node(operator):
    metadata = operator.get(f"configmap topology-{operator.node}")["metadata"]
    assert metadata["labels"] == {"node-name": operator.node, "node-topology": "true"}
    assert "annotations" not in metadata
    assert "ownerReferences" not in metadata
    topology = operator.topology()
    assert (topology["gpuMemory"], topology["gpuProduct"], topology["migStrategy"]) == (11441, "Tesla-K80", "mixed")
    assert [gpu["id"] for gpu in topology["gpus"]] == [
        f"GPU-{uuid.uuid5(uuid.UUID(int=0), f'{operator.node}-{index}')}" for index in range(POOL_SIZE)
    ]
    for gpu in topology["gpus"]:
        assert gpu["status"] == {
            "allocatedBy": {"namespace": "", "pod": "", "container": ""},
            "podGpuUsageStatus": {},
        }


def test_config_map_of_a_kwok_node(operator, kwok_node):
    metadata = operator.get(f"configmap topology-{kwok_node}")["metadata"]
    assert metadata["labels"] == {"node-name": kwok_node, "node-topology": "true"}
    assert metadata["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert "ownerReferences" not in metadata


def test_missing_pull_secret_is_told_and_harmless(operator, cluster):
    operator.restart("deployment/topology-server")
    (pod,) = operator.pods("topology-server")
    name = pod["metadata"]["name"]

    def told():
        events = operator.get(f"events --field-selector involvedObject.name={name}")["items"]
        return [event for event in events if event["reason"] == "FailedToRetrieveImagePullSecret"]

    events = cluster.until(told, f"an event of {name}", 20)
    assert all("gcr-secret" in event["message"] for event in events)


def test_pool_label_decides(operator, cluster):
    """A node that leaves its pool loses topology and deploy labels, and gets both back with the label."""
    cluster.kubectl(f"label node {operator.node} {POOL_LABEL}-")
    try:
        cluster.until(lambda: operator.topology() is None, "the topology is gone")
        cluster.until(lambda: not DEPLOY.keys() & operator.labels(operator.node).keys(), "no deploy labels")
        cluster.until(lambda: not operator.pods("device-plugin"), "no plugin runs")
    finally:
        cluster.kubectl(f"label node {operator.node} {POOL_LABEL}=default")
    cluster.until(lambda: operator.topology_size() == POOL_SIZE, "the topology is back")
    operator.wait_for(POOL_SIZE)


def test_inside_a_container(operator, cluster, gpu_pod):
    env = operator.env(gpu_pod)
    assert uuid.UUID(env["MOCK_NVIDIA_VISIBLE_DEVICES"]).version == 4
    assert env["NODE_NAME"] == operator.node
    assert env["HOSTNAME"] == gpu_pod
    cluster.until(lambda: operator.holders() == {(PODS, gpu_pod)}, "the topology says who has the card")
    table = operator.exec(gpu_pod, "nvidia-smi")
    assert "NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4" in table
    assert "|   0  Tesla-K80   " in table
    assert "|  11441MiB / 11441MiB |" in table
    assert "|   1  " not in table


def test_two_cards_for_one_container(operator, cluster, run_pod):
    run_pod("both", gpus=2)
    assert len({uuid.UUID(device) for device in operator.devices("both")}) == 2
    cluster.until(
        lambda: [gpu["status"]["allocatedBy"]["pod"] for gpu in operator.topology()["gpus"]] == ["both", "both"],
        "both cards are the pod's",
    )
    table = operator.exec("both", "nvidia-smi")
    assert "|   0  Tesla-K80 " in table
    assert "|   1  Tesla-K80 " in table


def test_device_ids_are_new_after_a_restart_of_the_plugin(operator, run_pod):
    run_pod("before")
    before = operator.devices("before")
    operator.restart("daemonset/device-plugin")
    operator.wait_for(POOL_SIZE)
    # The pod that runs keeps the id it got, which the node no longer has.
    assert operator.devices("before") == before
    run_pod("after")
    assert operator.devices("after") != before


def test_nvidia_smi_without_a_topology_server(operator, cluster, gpu_pod):
    cluster.kubectl(f"-n {NAMESPACE} scale deployment topology-server --replicas=0")
    try:
        cluster.until(lambda: not operator.get("pods -l app=topology-server")["items"], "no server runs", 60)
        said = cluster.fails(f"k3s kubectl -n {PODS} exec {gpu_pod} -- nvidia-smi")
        assert "NVIDIA-SMI has failed because it couldn't communicate with the topology server." in said
        assert "exit code 1" in said
    finally:
        cluster.kubectl(f"-n {NAMESPACE} scale deployment topology-server --replicas=1")
        operator.rolled_out("deployment/topology-server")


def test_nvidia_smi_without_a_topology(operator, cluster, gpu_pod):
    # The status-updater would answer the events of a pod, so it is away while there is no topology.
    cluster.kubectl(f"-n {NAMESPACE} scale deployment status-updater --replicas=0")
    cluster.until(lambda: not operator.get("pods -l app=status-updater")["items"], "no updater runs", 60)
    operator.delete_topology()
    try:
        said = cluster.fails(f"k3s kubectl -n {PODS} exec {gpu_pod} -- nvidia-smi")
        assert "No devices were found" in said
        assert "returned 404 Not Found: Node topology not found" in said
        assert "exit code 1" in said
    finally:
        cluster.kubectl(f"-n {NAMESPACE} scale deployment status-updater --replicas=1")
        operator.rolled_out("deployment/status-updater")
    cluster.until(lambda: operator.topology_size() == POOL_SIZE, "the topology is back")


def test_metrics(operator, cluster, gpu_pod):
    address = operator.get("service nvidia-dcgm-exporter")["spec"]["clusterIP"]
    wanted = re.compile(r'^DCGM_FI_DEV_FB_USED\{.*pod="gpu-pod".*\} 11441$', re.M)
    cluster.until(
        lambda: wanted.search(cluster.run(f"curl -sS --max-time 10 http://{address}:9400/metrics")),
        "the exporter tells of the pod's card",
    )
