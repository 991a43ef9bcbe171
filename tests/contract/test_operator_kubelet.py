# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""GPUs after a restart of the kubelet."""

from __future__ import annotations

import time

import pytest
from operator_lab import POOL_SIZE, Operator, stays


@pytest.fixture
def operator(cluster):
    operator = Operator(cluster)
    operator.put_back()
    operator.create_namespace()
    yield operator
    cluster.until(lambda: cluster.kubectl("get --raw /readyz") == "ok", "the API server is ready", 120)
    operator.delete_namespace()
    operator.put_back()


def test_no_gpus_after_a_restart_until_the_plugin_restarts(operator, cluster):
    operator.run_pod("gpu-pod")
    before = operator.pod("gpu-pod")["status"]["containerStatuses"][0]
    (plugin,) = operator.pods("device-plugin")

    cluster.run("systemctl restart k3s")
    cluster.until(lambda: operator.gpus() == (0, 0), "the node advertises 0/0", 120)
    stays(lambda: operator.gpus() == (0, 0), "the plugin does not register again by itself", 10)
    (same,) = operator.pods("device-plugin")
    assert same["metadata"]["uid"] == plugin["metadata"]["uid"]
    assert same["status"]["phase"] == "Running"

    after = operator.pod("gpu-pod")["status"]
    assert after["phase"] == "Running"
    assert after["containerStatuses"][0]["containerID"] == before["containerID"]
    assert after["containerStatuses"][0]["restartCount"] == 0
    assert operator.env("gpu-pod")["HOSTNAME"] == "gpu-pod"

    operator.restart("daemonset/device-plugin")
    begun = time.monotonic()
    operator.wait_for(POOL_SIZE, timeout=30)
    print(f"advertised {time.monotonic() - begun:.1f} s after the plugin's pod was ready")
