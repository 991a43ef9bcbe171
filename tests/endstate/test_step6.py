# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import json

import yaml
from lab_machine import GPU, is_running

PARTS = ["devicePlugin", "statusUpdater", "topologyServer", "statusExporter", "kwokGpuDevicePlugin", "migFaker"]


def released(machine):
    return json.loads(machine.output("helm", "get", "values", "gpu-operator", "-n", "gpu-operator", "-o", "json"))


def pool_size(values):
    return values["topology"]["nodePools"]["default"]["gpuCount"]


def test_values_file(machine):
    values = machine.manifest("values.yaml")
    assert pool_size(values) == 4
    assert values["runtimeClass"]["enabled"] is False
    # Without a network an image that must be pulled again never comes.
    assert {values[part]["image"]["pullPolicy"] for part in PARTS} == {"IfNotPresent"}


def test_release_was_upgraded_with_that_file(machine):
    values = released(machine)
    for key, value in machine.manifest("values.yaml").items():
        assert values[key] == value, key


def test_release_is_the_pinned_chart(machine):
    releases = json.loads(machine.output("helm", "list", "-n", "gpu-operator", "-o", "json"))
    assert [(r["name"], r["status"], r["chart"]) for r in releases] == [
        ("gpu-operator", "deployed", "fake-gpu-operator-0.2.1")
    ]
    assert int(releases[0]["revision"]) >= 2


def test_topology_of_the_node_was_computed_again(machine, real_node):
    name = "topology-" + real_node["metadata"]["name"]
    topology = yaml.safe_load(machine.get("configmap", name, "-n", "gpu-operator")["data"]["topology.yml"])
    assert len({gpu["id"] for gpu in topology["gpus"]}) == 4


def test_node_advertises_four(real_node):
    assert real_node["status"]["capacity"][GPU] == "4"
    assert real_node["status"]["allocatable"][GPU] == "4"


def test_gpu_3_runs(machine, real_node):
    pod = machine.pod("gpu-3")
    assert is_running(pod), pod["status"]
    assert pod["spec"]["nodeName"] == real_node["metadata"]["name"]
