# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the tests of the ledger share: the cluster under test, and the objects they make in it."""

from __future__ import annotations

import json
import pathlib
import re
import tempfile
import time

GPU = "nvidia.com/gpu"
NAMESPACE = "ledger"
IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"
TLS = "/var/lib/rancher/k3s/server/tls"
POOL_LABEL = "run.ai/simulated-gpu-node-pool"
KWOK_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


class Cluster:
    def __init__(self, host):
        self.host = host

    def run(self, command, *args):
        result = self.host.run(command, *args)
        assert result.rc == 0, f"{result.command}: {result.stdout}{result.stderr}"
        return result.stdout

    def kubectl(self, command, *args):
        return self.run(f"k3s kubectl {command}", *args)

    def write(self, path, content):
        """By copy: a command line may not be that long."""
        folder, _, name = path.rpartition("/")
        with tempfile.TemporaryDirectory() as here:
            local = pathlib.Path(here, name)
            local.write_text(content)
            answer = self.host.ansible("ansible.builtin.copy", f"src={local} dest={folder}/ mode=0600", check=False)
        assert "checksum" in answer, answer

    def get(self, what):
        return json.loads(self.kubectl(f"get {what} -o json"))

    def apply(self, *objects):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.write("/root/ledger-objects.json", text)
        self.kubectl("apply -f /root/ledger-objects.json")
        self.run("rm /root/ledger-objects.json")

    def until(self, condition, what, timeout=90):
        deadline = time.monotonic() + timeout
        while not (seen := condition()):
            assert time.monotonic() < deadline, f"after {timeout} s still not so: {what}"
            time.sleep(0.5)
        return seen

    def module(self, **options):
        """What the module says, run on the host by its own Python."""
        arguments = {"kubeconfig": "/etc/rancher/k3s/k3s.yaml", **options}
        interpreter = {"ansible_python_interpreter": "/opt/gsb-fake-gpu-lab/venv/bin/python"}
        return self.host.ansible(
            "gsb.fake_gpu_lab.gpu_ledger", json.dumps(arguments), check=False, extra_vars=interpreter
        )

    def ledger(self, **options):
        answer = self.module(**options)
        assert "stats" in answer, answer
        return answer

    def scheduler_metrics(self):
        """What the scheduler charges for each pod with a node, by its own /metrics/resources."""
        text = self.run(
            f"curl -sSk --max-time 10 --cert {TLS}/client-admin.crt --key {TLS}/client-admin.key"
            " https://127.0.0.1:10259/metrics/resources"
        )
        found = {}
        for labels, value in re.findall(r"^kube_pod_resource_request\{(.*)\} (\S+)$", text, re.MULTILINE):
            label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if label["resource"] == GPU and label["node"]:
                found[label["namespace"], label["pod"]] = int(float(value))
        return found


def container(gpus=0, name="main", **more):
    resources = {"resources": {"limits": {GPU: gpus}}} if gpus else {}
    command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait; done"]
    return {"name": name, "image": IMAGE, "command": command, **resources, **more}


def pod(name, *containers, namespace=NAMESPACE, init=(), labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": list(containers),
            **({"initContainers": list(init)} if init else {}),
            **spec,
        },
    }


def kwok_node(name, gpus=None, labels=None, taints=(), **amounts):
    """A node without a kubelet; KWOK takes it for its own by the annotation."""
    status = {"cpu": "8", "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus is not None else {}), **amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name, "ledger": "test", **(labels or {})},
        },
        "spec": {"taints": list(taints)},
        "status": {"capacity": status, "allocatable": status},
    }
