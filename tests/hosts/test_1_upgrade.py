# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The finished lab, upgraded: k3s and KWOK by another bundle, the chart and the pool by a variable each."""

from __future__ import annotations

import json
import os
import time

import pytest
import releases

TAGS = ("--tags", "kube_client,k3s,helm,kwok,fake_gpu_operator")
LEARNERS = "gpu-1 gpu-2 gpu-3 far-1"


def versions(bundle):
    parts = json.loads((bundle / "manifest.json").read_text())["parts"]
    return {name: parts[name]["version"] for name in ("k3s", "kwok", "fake-gpu-operator")}


def ask(host, what):
    return json.loads(host.check_output(f"k3s kubectl {what} -o json"))


def kubelet(host):
    return ask(host, "get node gpu-lab")["status"]["nodeInfo"]["kubeletVersion"]


def lives(host):
    """What would be another for a pod or a node that was made or started again."""
    nodes = ask(host, "get nodes")["items"]
    pods = ask(host, f"-n fake-lab get pods {LEARNERS}")["items"]
    return {
        **{node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes},
        **{
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                [(one["restartCount"], one.get("containerID")) for one in pod["status"]["containerStatuses"]],
            )
            for pod in pods
        },
    }


@pytest.fixture(scope="module")
def lives_before(host):
    return lives(host)


@pytest.fixture(scope="module")
def upgrade(playbooks, second):
    """Arguments of the upgrade, each variable that changes."""
    chart = versions(second)["fake-gpu-operator"]
    return [
        *TAGS,
        "-e",
        f"lab_bundle_dir={second}",
        "-e",
        f"lab_chart_version={chart}",
        "-e",
        "fake_gpu_operator_pool_size=5",
    ]


def test_somebody_who_is_not_root_finds_everything_done(host, playbooks, tmp_path):
    report = tmp_path / "verdicts.json"
    outcome = playbooks.run("-e", f"verify_report={report}", playbook="playbooks/verify.yml")
    assert (outcome.status, outcome.changed) == (0, 1), outcome.output
    assert json.loads(report.read_text())["done"]
    assert report.stat().st_uid == os.geteuid()
    assert "somebody : " in host.check_output("journalctl --quiet --no-pager _COMM=sudo")


def test_a_run_that_is_killed_between_copy_and_restart_leaves_the_old_one_running(
    host, playbooks, first, second, upgrade, lives_before
):
    assert kubelet(host) == versions(first)["k3s"]
    run = playbooks.start(*upgrade)
    try:
        deadline = time.monotonic() + 180
        while versions(second)["k3s"] not in host.run("k3s --version").stdout:
            assert run.poll() is None, run.communicate()[0]
            assert time.monotonic() < deadline, "the executable was not copied"
            time.sleep(0.2)
    finally:
        playbooks.kill(run)
    assert kubelet(host) == versions(first)["k3s"]


def test_the_next_run_upgrades_everything(host, playbooks, second, upgrade):
    outcome = playbooks.run(*upgrade)
    assert outcome.status == 0, outcome.output
    wanted = versions(second)
    assert kubelet(host) == wanted["k3s"]
    (controller,) = ask(host, "-n kube-system get pods -l app=kwok-controller")["items"]
    assert controller["spec"]["containers"][0]["image"] == f"{releases.KWOK_IMAGE}:{wanted['kwok']}"
    assert controller["status"]["containerStatuses"][0]["ready"]
    (release,) = json.loads(host.check_output("helm -n gpu-operator list -o json"))
    assert (release["chart"], release["status"]) == (f"fake-gpu-operator-{wanted['fake-gpu-operator']}", "deployed")
    told = json.loads(host.check_output("cat /etc/gsb-fake-gpu-lab.json"))["versions"]
    assert {name: told[name] for name in wanted} == wanted


def test_what_was_written_belongs_to_root(host, lives_before):
    config = host.file("/etc/rancher/k3s/k3s.yaml")
    assert (config.user, config.group, config.mode) == ("root", "root", 0o600)
    folders = "/opt/gsb-fake-gpu-lab /root/gsb-fake /etc/rancher /etc/gsb-fake-gpu-lab.json /usr/local/bin"
    assert host.check_output(f"find {folders} ! -user root") == ""


def test_nodes_stay_and_have_the_size(host, lives_before):
    nodes = ask(host, "get nodes")["items"]
    assert {node["metadata"]["name"]: node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {
        "gpu-lab": "5",
        "gpu-a": "5",
    }


def test_learners_pods_have_not_noticed(host, lives_before):
    assert len(lives_before) == 6
    assert lives(host) == lives_before


def test_a_second_run_changes_nothing(playbooks, upgrade):
    outcome = playbooks.run(*upgrade)
    assert (outcome.status, outcome.changed) == (0, 0), outcome.output


def test_k3s_does_not_go_back(host, playbooks, first, second):
    outcome = playbooks.run("--tags", "k3s", "-e", f"lab_bundle_dir={first}")
    assert outcome.status != 0
    assert outcome.changed == 0
    old, new = versions(first)["k3s"], versions(second)["k3s"]
    said = " ".join(outcome.output.split())
    assert f"This host has k3s {new} and the bundle {old}: the data of a cluster do not go back" in said
    assert kubelet(host) == new


def test_a_chart_that_the_bundle_lacks_is_named(playbooks, second):
    outcome = playbooks.run(
        "--tags", "fake_gpu_operator", "-e", f"lab_bundle_dir={second}", "-e", "lab_chart_version=9.9.9"
    )
    assert outcome.status != 0
    assert outcome.changed == 0
    assert f"in version {versions(second)['fake-gpu-operator']}, and lab_chart_version is 9.9.9" in " ".join(
        outcome.output.split()
    )
