# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""GPUs and their pods after a reboot of the machine. The tests look at one reboot, each at another side of it."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from operator_lab import KWOK_NODE, NAMESPACE, PODS, POOL_SIZE, Operator, stays

UNIT = "contract-operator-look"
LOG = "/root/contract-operator-look.jsonl"
SCRIPT = "/root/contract-operator-look"
# Looks from the first moment of the boot on: what the API server says before the kubelet has said anything is over too
# soon for somebody who comes by ssh.
LOOK = f"""#!/bin/sh
for i in $(seq 600); do
  node=$(k3s kubectl get --raw '/api/v1/nodes?labelSelector=%21type' 2>/dev/null | tr -d '\\n')
  pods=$(k3s kubectl get --raw '/api/v1/namespaces/{PODS}/pods' 2>/dev/null | tr -d '\\n')
  [ -z "$node" ] || [ -z "$pods" ] || printf '{{"node":%s,"pods":%s}}\\n' "$node" "$pods" >> {LOG}
  sleep 0.3
done
"""
SERVICE = f"""[Service]
ExecStart={SCRIPT}
[Install]
WantedBy=multi-user.target
"""


class Reboot:
    """What was before, during and after."""


def boot(cluster):
    """What tells one boot from another; None while the machine does not answer.

    A machine that shares its host's kernel has the boot id of its host: there the first process is another one.
    """
    try:
        result = cluster.host.run("stat -c %Z /proc/1; cat /proc/sys/kernel/random/boot_id")
    except RuntimeError:  # ssh finds nobody
        return None
    return result.stdout if result.rc == 0 else None


@pytest.fixture(scope="module")
def reboot(cluster):
    operator = Operator(cluster)
    operator.put_back()
    seen = Reboot()
    seen.operator = operator
    try:
        operator.create_namespace()
        operator.create_kwok_node()
        for name in ("gpu-1", "gpu-2"):
            operator.run_pod(name)
        operator.run_pod("far-1", node=KWOK_NODE)
        seen.far = operator.pod("far-1")
        seen.restarts = restarts(operator)
        cluster.write(SCRIPT, LOOK)
        cluster.write(f"/etc/systemd/system/{UNIT}.service", SERVICE)
        cluster.run(f"chmod 0755 {SCRIPT} && systemctl enable {UNIT}")
        old = boot(cluster)

        begun = time.monotonic()
        with contextlib.suppress(RuntimeError):  # the machine may be gone before it has answered
            cluster.host.run("systemctl reboot")
        cluster.until(lambda: boot(cluster) not in (None, old), "the machine is up again", 240, every=1)
        seen.seconds_up = time.monotonic() - begun
        cluster.until(lambda: cluster.kubectl("get --raw /readyz") == "ok", "the API server is ready", 240)
        cluster.until(
            lambda: all(operator.pod(name)["status"]["phase"] == "Failed" for name in ("gpu-1", "gpu-2")),
            "the GPU pods have failed",
            240,
        )
        cluster.until(
            lambda: operator.gpus() == (POOL_SIZE, POOL_SIZE) and restarts(operator).keys() == seen.restarts.keys(),
            "the GPUs are back",
            240,
        )
        seen.seconds_ready = time.monotonic() - begun
        cluster.run(f"systemctl stop {UNIT}")
        seen.looks = [json.loads(line) for line in cluster.run(f"cat {LOG}").splitlines()]
        print(f"up after {seen.seconds_up:.0f} s, GPUs after {seen.seconds_ready:.0f} s, {len(seen.looks)} looks")
        yield seen
    finally:
        cluster.run(
            f"systemctl disable --now {UNIT}; rm -f /etc/systemd/system/{UNIT}.service {SCRIPT} {LOG};"
            " systemctl daemon-reload"
        )
        operator.delete_namespace()
        operator.delete_kwok_node()
        operator.put_back()


def restarts(operator):
    """Restarts of the operator's containers, by the name of the pod."""
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in operator.get("pods")["items"]
        if pod["status"]["phase"] == "Running"
    }


def node_of(look):
    (node,) = look["node"]["items"]
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    gpus = tuple(int(node["status"][kind].get("nvidia.com/gpu", 0)) for kind in ("capacity", "allocatable"))
    return node["status"]["nodeInfo"]["bootID"], ready, gpus


def test_what_the_api_server_says_first_is_stale(reboot):
    _, ready, gpus = node_of(reboot.looks[0])
    assert ready["status"] == "True"
    assert gpus == (POOL_SIZE, POOL_SIZE)
    pods = {pod["metadata"]["name"]: pod["status"] for pod in reboot.looks[0]["pods"]["items"]}
    for name in ("gpu-1", "gpu-2"):
        assert pods[name]["phase"] == "Running", "the kubelet had reported already when the first look was taken"
        assert pods[name]["containerStatuses"][0]["restartCount"] == 0
    last = node_of(reboot.looks[-1])
    assert last[1]["lastHeartbeatTime"] > ready["lastHeartbeatTime"]


def test_operator_comes_back_by_itself(reboot):
    now = restarts(reboot.operator)
    assert now == {name: count + 1 for name, count in reboot.restarts.items()}
    assert reboot.operator.gpus() == (POOL_SIZE, POOL_SIZE)


def test_bare_gpu_pods_have_failed_and_stay_so(reboot):
    for name in ("gpu-1", "gpu-2"):
        status = reboot.operator.pod(name)["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert "no healthy devices present" in status["message"]
    stays(lambda: reboot.operator.pod("gpu-1")["status"]["phase"] == "Failed", "gpu-1 does not come back", 8)
    assert reboot.operator.holders() == set()


def test_pod_on_the_kwok_node_survives(reboot):
    far = reboot.operator.pod("far-1")
    assert far["metadata"]["uid"] == reboot.far["metadata"]["uid"]
    assert far["status"]["phase"] == "Running"
    assert reboot.operator.gpus(KWOK_NODE) == (POOL_SIZE, POOL_SIZE)
    assert reboot.operator.holders(KWOK_NODE) == {(PODS, "far-1")}


def test_a_pod_made_again_runs(reboot):
    reboot.operator.delete_pod("gpu-1")
    reboot.operator.run_pod("gpu-1")
    assert len(reboot.operator.devices("gpu-1")) == 1


def test_cgroups_of_dead_pods_are_gone(reboot, cluster):
    """A machine that shares its host's kernel keeps them over a reboot, and the kubelet spends minutes on them."""
    alive = {pod["metadata"]["uid"] for pod in cluster.json("get pods -A")["items"]}
    uid = "pod[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
    found = cluster.run(f"find /sys/fs/cgroup -type d -path '*kubepods*' | grep -oE '{uid}' | sort -u").split()
    assert found, "no cgroup of a pod at all: the test looks in the wrong place"
    dead = {name.removeprefix("pod").replace("_", "-") for name in found} - alive
    assert not dead


def test_reboot_is_quick(reboot):
    assert reboot.seconds_up < 60, "shutting down waits for something: containerd's shims in the unit's cgroup?"
    assert reboot.seconds_ready < 180


def test_nothing_of_the_operator_is_missing(reboot):
    running = {name.rsplit("-", 1)[0] for name in restarts(reboot.operator)}
    assert len(restarts(reboot.operator)) == len(reboot.restarts), running
    assert reboot.operator.get(f"configmap topology-{reboot.operator.node}")["metadata"]["namespace"] == NAMESPACE
