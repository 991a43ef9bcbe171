# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the end-state tests share: names, and how to ask the machine."""

from __future__ import annotations

import json
import shlex

import yaml

GPU = "nvidia.com/gpu"
NAMESPACE = "fake-lab"
KWOK_NODE = "gpu-a"
DIRECTORY = "/root/gsb-fake"
POD_IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"


class Machine:
    def __init__(self, host):
        self.host = host

    def run(self, *argv):
        return self.host.run(shlex.join(argv))

    def output(self, *argv):
        result = self.run(*argv)
        assert result.rc == 0, f"{shlex.join(argv)}: {result.stderr.strip()}"
        return result.stdout

    def get(self, *what):
        return json.loads(self.output("kubectl", "get", *what, "-o", "json"))

    def file(self, name):
        return self.output("cat", f"{DIRECTORY}/{name}")

    def manifest(self, name):
        documents = [part for part in yaml.safe_load_all(self.file(name)) if part]
        assert len(documents) == 1, f"{name} holds {len(documents)} objects"
        return documents[0]

    def pod(self, name):
        return self.get("pod", name, "-n", NAMESPACE)

    def real_node(self):
        nodes = self.get("nodes", "-l", "!type")["items"]
        assert len(nodes) == 1, [node["metadata"]["name"] for node in nodes]
        return nodes[0]


def gpu_limits(pod):
    return [c.get("resources", {}).get("limits", {}).get(GPU) for c in pod["spec"]["containers"]]


def condition(thing, kind):
    for entry in thing["status"].get("conditions", []):
        if entry["type"] == kind:
            return entry
    return {}


def is_running(pod):
    return pod["status"]["phase"] == "Running" and condition(pod, "Ready").get("status") == "True"
