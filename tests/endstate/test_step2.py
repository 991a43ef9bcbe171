# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from lab_machine import GPU, NAMESPACE, POD_IMAGE, gpu_limits, is_running


def test_manifest_asks_for_one_gpu_by_limits(machine):
    pod = machine.manifest("gpu-1.yaml")
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "gpu-1")
    assert pod["metadata"]["namespace"] == NAMESPACE
    assert [str(limit) for limit in gpu_limits(pod)] == ["1"]
    assert [c["image"] for c in pod["spec"]["containers"]] == [POD_IMAGE]


def test_manifest_ends_on_sigterm(machine):
    command = " ".join(machine.manifest("gpu-1.yaml")["spec"]["containers"][0]["command"])
    assert "trap" in command and "TERM" in command


def test_gpu_1_runs_on_the_real_node(machine, real_node):
    pod = machine.pod("gpu-1")
    assert is_running(pod), pod["status"]
    assert pod["spec"]["nodeName"] == real_node["metadata"]["name"]


def test_gpu_1_holds_one_gpu(machine):
    resources = machine.pod("gpu-1")["spec"]["containers"][0]["resources"]
    assert resources["limits"][GPU] == "1"
    assert resources["requests"][GPU] == "1"


def test_gpu_1_is_what_the_manifest_says(machine):
    difference = machine.run("kubectl", "diff", "-f", "/root/gsb-fake/gpu-1.yaml")
    assert difference.rc == 0, difference.stdout + difference.stderr


def test_the_trap_ends_the_container_at_once(machine):
    command = machine.manifest("gpu-1.yaml")["spec"]["containers"][0]["command"]
    # The same command, as a process of the machine: exit code 0 within two seconds of SIGTERM.
    ended = machine.run("timeout", "--preserve-status", "--signal=TERM", "--kill-after=2", "1", *command)
    assert ended.rc == 0
