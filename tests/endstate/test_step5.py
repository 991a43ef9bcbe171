# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import re

import pytest
from lab_machine import GPU, POD_IMAGE, condition, gpu_limits, is_running


@pytest.mark.parametrize("name", ["gpu-2", "gpu-3"])
def test_each_asks_for_one_gpu(machine, name):
    pod = machine.pod(name)
    assert gpu_limits(pod) == ["1"]
    assert [c["image"] for c in pod["spec"]["containers"]] == [POD_IMAGE]


def test_gpu_2_came_first_and_runs(machine):
    second, third = machine.pod("gpu-2"), machine.pod("gpu-3")
    assert is_running(second), second["status"]
    assert second["metadata"]["creationTimestamp"] <= third["metadata"]["creationTimestamp"]


def test_gpu_3_waits_exactly_as_long_as_the_node_is_full(machine, real_node):
    pod = machine.pod("gpu-3")
    if int(real_node["status"]["allocatable"][GPU]) <= 2:
        assert pod["status"]["phase"] == "Pending"
        said = condition(pod, "PodScheduled")
        assert said["reason"] == "Unschedulable"
        assert f"Insufficient {GPU}" in said["message"]
    else:
        assert is_running(pod), pod["status"]


def test_reason_is_the_schedulers(machine):
    reason = machine.file("pending.txt")
    assert re.search(r"0/[0-9]+ nodes are available", reason)
    assert f"Insufficient {GPU}" in reason
