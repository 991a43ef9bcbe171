# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the tests of the operator share: its names, how to ask about it, and how to put a pool back."""

from __future__ import annotations

import json
import shlex
import time

import yaml

NAMESPACE = "gpu-operator"
RELEASE = "gpu-operator"
CHART = "/opt/gsb-fake-gpu-lab/charts/fake-gpu-operator-0.2.1.tgz"
GPU = "nvidia.com/gpu"
POOL_LABEL = "run.ai/simulated-gpu-node-pool"
KWOK_NODE = "contract-kwok"
PODS = "contract-operator"
POD_IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"
POOL_SIZE = 2


class Operator:
    """The operator on a cluster with one real node."""

    def __init__(self, cluster):
        self.cluster = cluster
        (node,) = cluster.json("get nodes -l '!type'")["items"]
        self.node = node["metadata"]["name"]

    def get(self, what):
        return self.cluster.json(f"-n {NAMESPACE} get {what}")

    def names(self, what):
        """Names of what there is; none is no error."""
        return self.cluster.kubectl(f"-n {NAMESPACE} get {what} -o name --ignore-not-found").split()

    def labels(self, node):
        return self.cluster.json(f"get node {node}")["metadata"]["labels"]

    def gpus(self, node=None):
        """Capacity and allocatable, as the API server says."""
        status = self.cluster.json(f"get node {node or self.node}")["status"]
        return tuple(int(status[kind].get(GPU, 0)) for kind in ("capacity", "allocatable"))

    def topology(self, node=None):
        """Content of the node's ConfigMap, None without one."""
        name = f"configmap/topology-{node or self.node}"
        if not self.names(name):
            return None
        return yaml.safe_load(self.get(name)["data"]["topology.yml"])

    def topology_size(self, node=None):
        topology = self.topology(node)
        return topology and len(topology["gpus"])

    def holders(self, node=None):
        """The pods that the topology says have a card."""
        return {
            (gpu["status"]["allocatedBy"]["namespace"], gpu["status"]["allocatedBy"]["pod"])
            for gpu in self.topology(node)["gpus"]
            if gpu["status"]["allocatedBy"]["pod"]
        }

    def pods(self, app):
        """Pods of a workload that are not on their way out."""
        return [pod for pod in self.get(f"pods -l app={app}")["items"] if "deletionTimestamp" not in pod["metadata"]]

    def values(self):
        return json.loads(self.cluster.run(f"helm -n {NAMESPACE} get values {RELEASE} --all -o json"))

    def pool_size(self):
        return self.values()["topology"]["nodePools"]["default"]["gpuCount"]

    def upgrade(self, *settings):
        sets = " ".join(f"--set {shlex.quote(setting)}" for setting in settings)
        self.cluster.run(f"helm -n {NAMESPACE} upgrade {RELEASE} {CHART} --reuse-values {sets} --wait --timeout 120s")

    def resize(self, size):
        self.upgrade(f"topology.nodePools.default.gpuCount={size}")

    def delete_topology(self):
        self.cluster.kubectl(f"-n {NAMESPACE} delete configmap topology-{self.node}")

    def restart(self, workload, wait=True):
        self.cluster.kubectl(f"-n {NAMESPACE} rollout restart {workload}")
        if wait:
            self.rolled_out(workload)

    def rolled_out(self, workload):
        self.cluster.kubectl(f"-n {NAMESPACE} rollout status {workload} --timeout=90s")

    def wait_for(self, size, timeout=60):
        """Waits until the node advertises so many, all of them healthy."""
        self.cluster.until(
            lambda: self.gpus() == (size, size), f"{self.node} advertises {size}/{size}; it has {self.gpus()}", timeout
        )

    def in_order(self, size):
        """A node's way to another size, in the order that works."""
        self.delete_topology()
        self.restart("deployment/status-updater")
        self.cluster.until(lambda: self.topology_size() == size, f"the topology holds {size}")
        self.restart("daemonset/device-plugin")
        self.wait_for(size)

    def put_back(self):
        """Pool, topology and plugin as the roles left them."""
        if self.pool_size() != POOL_SIZE:
            self.resize(POOL_SIZE)
        for workload in ("deployment/status-updater", "deployment/topology-server", "daemonset/nvidia-dcgm-exporter"):
            self.rolled_out(workload)
        if self.topology_size() != POOL_SIZE or self.gpus() != (POOL_SIZE, POOL_SIZE):
            if self.topology_size() is not None:
                self.delete_topology()
            self.restart("deployment/status-updater")
            self.cluster.until(lambda: self.topology_size() == POOL_SIZE, f"the topology holds {POOL_SIZE}")
            self.restart("daemonset/device-plugin")
            self.wait_for(POOL_SIZE, timeout=120)

    # Pods of the tests

    def create_namespace(self):
        """Also after a run that was killed."""
        self.delete_namespace()
        self.cluster.kubectl(f"create namespace {PODS}")

    def delete_namespace(self):
        self.cluster.kubectl(f"delete namespace {PODS} --ignore-not-found --timeout=90s")

    def create_pod(self, name, gpus=1, node=None):
        node = node or self.node
        self.cluster.apply(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": PODS},
                    "spec": {
                        "nodeSelector": {"kubernetes.io/hostname": node},
                        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                        "containers": [
                            {
                                "name": "main",
                                "image": POD_IMAGE,
                                "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait; done"],
                                "resources": {"limits": {GPU: gpus}},
                            }
                        ],
                    },
                }
            )
        )

    def run_pod(self, name, gpus=1, node=None):
        self.create_pod(name, gpus, node)
        self.cluster.kubectl(f"-n {PODS} wait pod/{name} --for=condition=Ready --timeout=60s")

    def pod(self, name):
        return self.cluster.json(f"-n {PODS} get pod {name}")

    def exec(self, name, command):
        return self.cluster.kubectl(f"-n {PODS} exec {name} -- {command}")

    def env(self, name):
        """Environment of the pod's container."""
        return dict(line.split("=", 1) for line in self.exec(name, "env").splitlines() if "=" in line)

    def devices(self, name):
        """Ids of the cards that the pod's container got."""
        return self.env(name)["MOCK_NVIDIA_VISIBLE_DEVICES"].split(",")

    def delete_pod(self, name):
        self.cluster.kubectl(f"-n {PODS} delete pod {name} --ignore-not-found --timeout=60s")

    # A KWOK node

    def create_kwok_node(self):
        self.cluster.apply(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": KWOK_NODE,
                        "annotations": {"kwok.x-k8s.io/node": "fake"},
                        "labels": {"type": "kwok", POOL_LABEL: "default", "kubernetes.io/hostname": KWOK_NODE},
                    },
                    "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
                    "status": {
                        kind: {"cpu": "32", "memory": "256Gi", "pods": "110"} for kind in ("capacity", "allocatable")
                    },
                }
            )
        )
        self.cluster.until(lambda: self.gpus(KWOK_NODE) == (POOL_SIZE, POOL_SIZE), f"{KWOK_NODE} has its GPUs")

    def delete_kwok_node(self):
        self.cluster.kubectl(f"delete node {KWOK_NODE} --ignore-not-found")
        self.cluster.until(lambda: self.topology(KWOK_NODE) is None, f"the topology of {KWOK_NODE} is gone")


class Watch:
    """Records, on the host, every capacity/allocatable of the node that the API server tells of."""

    def __init__(self, operator):
        self.operator = operator

    def __enter__(self):
        path = "{.status.capacity['nvidia\\.com/gpu']}/{.status.allocatable['nvidia\\.com/gpu']}{\"\\n\"}"
        watch = f"timeout 300 k3s kubectl get node {self.operator.node} --watch -o {shlex.quote('jsonpath=' + path)}"
        self.file, self.pid = self.operator.cluster.run(
            f"file=$(mktemp); echo $file; nohup setsid {watch} > $file 2>&1 < /dev/null & echo $!"
        ).split()
        self.operator.cluster.until(self.seen, "the watch has told of the node once", 15)
        return self

    def __exit__(self, *_):
        self.operator.cluster.host.run(f"kill {self.pid}; rm -f {self.file}")

    def seen(self):
        """The different states one after the other."""
        states = []
        for line in self.operator.cluster.run(f"cat {self.file}").split():
            if not states or states[-1] != line:
                states.append(line)
        return states


def stays(condition, what, seconds):
    """Asserts that a condition holds all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"not for {seconds} s: {what}"
        time.sleep(1)
