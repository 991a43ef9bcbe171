# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Changing the size of a pool, in each order that a learner may try."""

from __future__ import annotations

import pytest
from operator_lab import NAMESPACE, POOL_SIZE, Operator, Watch, stays

GROWN = POOL_SIZE + 2


@pytest.fixture
def operator(cluster):
    operator = Operator(cluster)
    operator.put_back()
    yield operator
    operator.put_back()


def ended_plugin(operator):
    """Exit status and last words of a plugin whose container has ended; None while none has."""
    for pod in operator.pods("device-plugin"):
        for status in pod["status"].get("containerStatuses", []):
            ended = status["state"].get("terminated") or status["lastState"].get("terminated")
            if ended:
                name = pod["metadata"]["name"]
                said = [
                    operator.cluster.host.run(f"k3s kubectl -n {NAMESPACE} logs {name} {which}").stdout
                    for which in ("", "--previous")
                ]
                return ended["exitCode"], "".join(said)
    return None


def without_topology(operator):
    """The ConfigMap is deleted and the plugin restarted: the wrong order, up to its dead end."""
    operator.resize(GROWN)
    operator.wait_for(POOL_SIZE)
    operator.delete_topology()
    operator.restart("daemonset/device-plugin", wait=False)
    return operator.cluster.until(lambda: ended_plugin(operator), "the plugin has ended", 60)


def upgrade_settled(operator):
    """Resizes the pool in the chart's values only, and waits until the plugin that this replaces has registered again."""

    def plugins():
        return [pod["metadata"]["uid"] for pod in operator.pods("device-plugin")]

    (before,) = plugins()
    operator.resize(GROWN)
    operator.cluster.until(lambda: plugins() not in ([], [before]), "the plugin was replaced", 30)
    operator.rolled_out("daemonset/device-plugin")
    operator.wait_for(POOL_SIZE)


def test_helm_upgrade_alone_restarts_the_plugin_and_changes_nothing(operator):
    with Watch(operator) as watch:
        upgrade_settled(operator)
        stays(lambda: operator.gpus()[0] == POOL_SIZE, "the node advertises the old size", 10)
        # A plugin that is back before the kubelet's next node status leaves no 2/0 in between.
        assert watch.seen()[-1] == "2/2"
        assert set(watch.seen()) <= {"2/2", "2/0"}
    assert operator.topology_size() == POOL_SIZE
    assert operator.pool_size() == GROWN


def test_plugin_before_status_updater_is_a_dead_end(operator, cluster):
    status, said = without_topology(operator)
    assert status == 1
    assert f'Failed to get topology: configmaps "topology-{operator.node}" not found' in said
    cluster.until(lambda: operator.gpus()[1] == 0, "nothing is allocatable", 30)

    def looping():
        (pod,) = operator.pods("device-plugin")
        # Between two starts the kubelet shows the state as CrashLoopBackOff or as terminated; it tells of each back-off.
        events = operator.get(f"events --field-selector reason=BackOff,involvedObject.name={pod['metadata']['name']}")
        return events["items"] and pod["status"]["containerStatuses"][0]["restartCount"]

    cluster.until(looping, "the plugin is in its crash loop", 60)
    stays(lambda: operator.topology() is None, "the ConfigMap does not come back by itself", 15)
    assert operator.gpus()[1] == 0


def test_status_updater_leads_out_of_the_dead_end(operator, cluster):
    without_topology(operator)
    operator.restart("deployment/status-updater")
    cluster.until(lambda: operator.topology_size() == GROWN, f"the ConfigMap is back with {GROWN}", 30)
    # Nobody touches the plugin: its back-off, 10, 20, 40 seconds, has to pass.
    operator.wait_for(GROWN, timeout=120)


def test_plugin_before_the_config_map_is_deleted_keeps_the_old_size(operator):
    operator.resize(GROWN)
    operator.restart("daemonset/device-plugin")
    operator.wait_for(POOL_SIZE)
    operator.restart("deployment/status-updater")
    stays(lambda: operator.topology_size() == POOL_SIZE, "a topology that exists is never computed again", 8)
    assert operator.gpus() == (POOL_SIZE, POOL_SIZE)


def test_the_order_that_works(operator, cluster):
    upgrade_settled(operator)
    with Watch(operator) as watch:
        operator.in_order(GROWN)
        cluster.until(lambda: watch.seen()[-1] == "4/4", f"4/4; seen {watch.seen()}", 30)
        assert [state for state in watch.seen() if state != "2/0"] == ["2/2", "4/4"]
    # and back again, as far as the learner's own values file goes
    operator.resize(POOL_SIZE)
    operator.in_order(POOL_SIZE)
