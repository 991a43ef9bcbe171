# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import re

import pytest
from lab_machine import NAMESPACE


@pytest.fixture(scope="module")
def inside(machine):
    return machine.file("inside.txt")


def variables(text):
    return dict(re.findall(r"^([A-Za-z_][A-Za-z0-9_]*)=(.*)$", text, re.MULTILINE))


def test_whole_environment_of_the_gpu_1_that_runs_now(machine, inside):
    now = variables(machine.output("kubectl", "exec", "-n", NAMESPACE, "gpu-1", "--", "env"))
    then = variables(inside)
    missing = {name: value for name, value in now.items() if then.get(name) != value}
    # kubectl exec may add TERM and HOME of its own; all that the pod was given must be there.
    assert not {name for name in missing if name not in {"TERM", "HOME"}}, missing
    assert then["HOSTNAME"] == "gpu-1"


def test_device_given_by_the_plugin(inside, real_node):
    given = variables(inside)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", given["MOCK_NVIDIA_VISIBLE_DEVICES"])
    assert given["NODE_NAME"] == real_node["metadata"]["name"]


def test_nvidia_smi_table(inside, real_node):
    assert re.search(r"NVIDIA-SMI \S+ +Driver Version: \S+ +CUDA Version: \S+", inside)
    product = real_node["metadata"]["labels"]["nvidia.com/gpu.product"]
    assert product[:12] in inside.split("NVIDIA-SMI", 1)[1]
