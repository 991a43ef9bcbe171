# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Changing the size of a pool, in each order that a learner may try."""

from __future__ import annotations

import pytest
from operator_lab import NAMESPACE, POOL_SIZE, Operator, Watch, stays

GROWN = POOL_SIZE + 2


@pytest.fixture(scope="module")
def one_operator(cluster):
    operator = Operator(cluster)
    operator.put_back()
    return operator


@pytest.fixture
def operator(one_operator):
    yield one_operator
    one_operator.put_back()


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


@pytest.fixture(scope="class")
def dead_end(one_operator, cluster):
    """The ConfigMap is deleted and the plugin restarted before the status-updater: the wrong order, up to its dead end."""
    one_operator.resize(GROWN)
    one_operator.wait_for(POOL_SIZE)
    one_operator.delete_topology()
    one_operator.restart("daemonset/device-plugin", wait=False)
    yield cluster.until(lambda: ended_plugin(one_operator), "the plugin has ended", 60)
    one_operator.put_back()


class TestDeadEnd:
    """Plugin before status-updater; the second test goes on where the first ended."""

    def test_the_plugin_cannot_start(self, one_operator, cluster, dead_end):
        status, said = dead_end
        assert status == 1
        assert f'Failed to get topology: configmaps "topology-{one_operator.node}" not found' in said
        cluster.until(lambda: one_operator.gpus()[1] == 0, "nothing is allocatable", 30)

        def looping():
            (pod,) = one_operator.pods("device-plugin")
            # Between two starts the kubelet shows the state as CrashLoopBackOff or as terminated; it tells of each back-off.
            name = pod["metadata"]["name"]
            events = one_operator.get(f"events --field-selector reason=BackOff,involvedObject.name={name}")
            return events["items"] and pod["status"]["containerStatuses"][0]["restartCount"]

        cluster.until(looping, "the plugin is in its crash loop", 60)
        stays(lambda: one_operator.topology() is None, "the ConfigMap does not come back by itself", 15)
        assert one_operator.gpus()[1] == 0

    def test_status_updater_leads_out(self, one_operator, cluster, dead_end):
        one_operator.restart("deployment/status-updater")
        cluster.until(lambda: one_operator.topology_size() == GROWN, f"the ConfigMap is back with {GROWN}", 30)
        # Nobody touches the plugin: its back-off, 10, 20, 40 seconds, has to pass.
        one_operator.wait_for(GROWN, timeout=120)


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
