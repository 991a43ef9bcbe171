# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The command of the image: what it takes for ready, which pods it puts back, what a login shows."""

from __future__ import annotations

import copy
import datetime
import json

import pytest

UTC = datetime.timezone.utc
WANT = {"node": "gpu-lab", "resource": "nvidia.com/gpu", "gpus": 2, "namespace": "fake-lab", "operator_namespace": "o"}
BOOTED = datetime.datetime(2026, 1, 1, 12, 0, 0, 400000, tzinfo=UTC)
HOST = {"boot_id": "this-boot", "booted": BOOTED, "begun": 0.0, "now": BOOTED + datetime.timedelta(seconds=30)}
READY = {
    "readyz": "ok",
    "node": {
        "metadata": {"labels": {"nvidia.com/gpu.product": "Tesla-K80"}},
        "status": {
            "nodeInfo": {"bootID": "this-boot"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T12:00:08Z"}],
            "allocatable": {"nvidia.com/gpu": "2"},
        },
    },
    "lease": {"spec": {"renewTime": "2026-01-01T12:00:25.000000Z"}},
    "topology": {"data": {"topology.yml": "gpus:\n- id: a\n  status: {}\n- id: b\n  status: {}\n"}},
    "plugins": [
        {
            "metadata": {},
            "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T12:00:10Z"}}}]},
        }
    ],
}


def changed(path, value):
    seen = copy.deepcopy(READY)
    at = seen
    *parents, last = path
    for step in parents:
        at = at[step]
    at[last] = value
    return seen


def test_ready(gpu_lab):
    verdict = gpu_lab.judge(READY, WANT, HOST)
    assert verdict == {"reached": list(gpu_lab.PHASES), "said": "", "gpus": 2, "product": "Tesla-K80"}


@pytest.mark.parametrize(
    ("path", "value", "last", "said"),
    [
        (("readyz",), "[-]etcd failed", "k3s", "API server"),
        (("node",), None, "api", "registers"),
        (("node", "status", "nodeInfo", "bootID"), "the-boot-before", "node", "earlier boot"),
        (
            ("node", "status", "conditions"),
            [{"type": "Ready", "status": "False", "message": "no CNI"}],
            "boot",
            "no CNI",
        ),
        (("lease", "spec", "renewTime"), "2026-01-01T11:59:59Z", "boot", "lease"),
        (("lease",), None, "boot", "lease"),
        (("topology",), None, "ready", "operator"),
        (("plugins",), [], "operator", "device plugin"),
        (
            ("plugins", 0, "status", "containerStatuses", 0, "state"),
            {"running": {"startedAt": "2026-01-01T11:59:59Z"}},
            "operator",
            "device plugin",
        ),
        (("plugins", 0, "metadata", "deletionTimestamp"), "2026-01-01T12:00:20Z", "operator", "device plugin"),
        (("node", "status", "allocatable"), {}, "plugin", "0 of 2"),
        (("node", "status", "allocatable", "nvidia.com/gpu"), "1", "plugin", "1 of 2"),
        (("node", "metadata", "labels"), {}, "gpus", "nvidia.com/gpu.product"),
    ],
)
def test_not_ready_says_what_is_awaited(gpu_lab, path, value, last, said):
    verdict = gpu_lab.judge(changed(path, value), WANT, HOST)
    assert verdict["reached"][-1] == last
    assert said in verdict["said"]


def test_after_a_restart_of_k3s_its_word_of_before_does_not_count(gpu_lab):
    """In the same boot: the node's identity, its lease and its plugin are all of this boot, and the GPUs are away."""
    before = {**HOST, "k3s": BOOTED + datetime.timedelta(seconds=2)}
    assert gpu_lab.judge(READY, WANT, before)["said"] == ""
    assert gpu_lab.judge(READY, WANT, {**HOST, "k3s": None})["said"] == "k3s is not up yet"
    after = {**HOST, "k3s": BOOTED + datetime.timedelta(seconds=20)}
    verdict = gpu_lab.judge(READY, WANT, after)
    assert (verdict["reached"][-1], verdict["said"]) == (
        "boot",
        "node gpu-lab still reports what was before k3s was started",
    )


def test_only_a_plugin_that_is_older_than_the_kubelet_starts_anew(gpu_lab):
    asked = []

    class Listener:
        def ask(self, path, method):
            asked.append((method, path))

    (plugin,) = changed(("plugins", 0, "metadata"), {"name": "device-plugin-x"})["plugins"]
    gone = {**plugin, "metadata": {"name": "gone", "deletionTimestamp": "2026-01-01T12:00:20Z"}}
    young = {**plugin, "metadata": {"name": "young"}, "status": {}}
    gpu_lab.plug_in_again(Listener(), WANT, [plugin, gone, young], BOOTED)
    assert asked == []
    gpu_lab.plug_in_again(Listener(), WANT, [plugin, gone, young], BOOTED + datetime.timedelta(seconds=20))
    assert asked == [("DELETE", "/api/v1/namespaces/o/pods/device-plugin-x")]


def test_a_grown_pool_is_awaited_whole(gpu_lab):
    four = changed(("topology", "data", "topology.yml"), "gpus:\n" + "- id: x\n" * 4)
    assert "2 of 4" in gpu_lab.judge(four, WANT, HOST)["said"]
    four["node"]["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    assert gpu_lab.judge(four, WANT, HOST)["gpus"] == 4


def test_a_lease_that_nobody_renews_any_more_is_not_ready(gpu_lab):
    late = {**HOST, "now": BOOTED + datetime.timedelta(seconds=120)}
    assert "lease" in gpu_lab.judge(READY, WANT, late)["said"]


def pod(**status):
    return {
        "metadata": {
            "name": "gpu-1",
            "namespace": "fake-lab",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"app": "x"},
        },
        "spec": {
            "nodeName": "gpu-lab",
            "volumes": [{"name": "kube-api-access-abc"}, {"name": "mine"}],
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    "volumeMounts": [{"name": "kube-api-access-abc"}, {"name": "mine"}],
                }
            ],
        },
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", **status},
    }


def test_only_gpu_pods_that_were_turned_away_and_that_nobody_makes_again(gpu_lab):
    owned, cpu = pod(), pod()
    owned["metadata"]["ownerReferences"] = [{"kind": "Job"}]
    cpu["spec"]["containers"][0]["resources"] = {}
    pods = [pod(), pod(reason="Evicted"), pod(phase="Running"), owned, cpu]
    assert gpu_lab.rejected(pods, "nvidia.com/gpu") == [pods[0]]


def test_a_pod_is_made_again_as_its_author_wrote_it(gpu_lab):
    again = gpu_lab.born_again(pod())
    assert again["metadata"] == {"name": "gpu-1", "namespace": "fake-lab", "labels": {"app": "x"}}
    assert "nodeName" not in again["spec"]
    assert again["spec"]["volumes"] == [{"name": "mine"}]
    assert again["spec"]["containers"][0]["volumeMounts"] == [{"name": "mine"}]
    assert "status" not in again


def test_what_was_applied_wins(gpu_lab):
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu-1"}, "spec": {}}
    seen = pod()
    seen["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(written)}
    assert gpu_lab.born_again(seen) == written


def test_pods_whose_gpus_are_short_and_pods_that_initialise_with_one_count(gpu_lab):
    short, early = pod(reason="OutOfnvidia.com/gpu"), pod()
    early["spec"]["initContainers"] = early["spec"].pop("containers")
    assert gpu_lab.rejected([short, early, pod(reason="OutOfcpu")], "nvidia.com/gpu") == [short, early]


def test_a_debugged_pod_can_be_made_again(gpu_lab):
    seen = pod()
    seen["spec"]["ephemeralContainers"] = [{"name": "debugger"}]
    assert "ephemeralContainers" not in gpu_lab.born_again(seen)["spec"]


class Cluster:
    """An API server with pods and secrets; `deaf` answers nothing."""

    def __init__(self, *pods, sticky=(), deaf=(), secrets=()):
        self.pods = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in pods}
        self.sticky, self.deaf, self.secrets, self.asked = sticky, deaf, list(secrets), []

    def ask(self, path, method="GET", body=None):
        self.asked.append((method, path))
        if method in self.deaf:
            return 0, "connection refused"
        parts = path.split("?")[0].split("/")
        if path == "/readyz":
            return 200, "ok"
        if "secrets" in parts:
            if method == "DELETE":
                self.secrets = [one for one in self.secrets if one["metadata"]["name"] != parts[-1]]
            return 200, {"items": self.secrets}
        if path.startswith("/api/v1/pods?"):
            return 200, {"items": list(self.pods.values())}
        space = parts[4]
        if method == "POST":
            name = body["metadata"]["name"]
            if (space, name) in self.pods:
                return 409, {"message": "already exists"}
            self.pods[space, name] = {**body, "status": {"phase": "Pending"}}
            return 201, body
        if method == "DELETE":
            if parts[6] not in self.sticky:
                del self.pods[space, parts[6]]
            return 200, {}
        return 200, self.pods.get((space, parts[6]))

    def get(self, path):
        status, answer = self.ask(path)
        return answer if status == 200 else None

    def items(self, path):
        return (self.get(path) or {}).get("items", [])


@pytest.fixture
def cluster(gpu_lab, monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_lab, "KEPT", str(tmp_path / "kept"))

    def with_(*pods, **options):
        made = Cluster(*pods, **options)
        monkeypatch.setattr(gpu_lab, "connect", lambda: made)
        return made

    return with_


def elsewhere(name="gpu-2"):
    other = pod()
    other["metadata"].update(namespace="default", name=name)
    return other


def test_pods_of_all_namespaces_are_put_back(gpu_lab, cluster, capsys, tmp_path):
    made = cluster(pod(), elsewhere())
    assert gpu_lab.restore(WANT) == 0
    assert capsys.readouterr().out == "default/gpu-2: made again\ngpu-1: made again\n"
    assert {one["status"]["phase"] for one in made.pods.values()} == {"Pending"}
    assert list((tmp_path / "kept").iterdir()) == []


def test_nothing_to_put_back(gpu_lab, cluster, capsys):
    cluster(pod(phase="Running"))
    assert gpu_lab.restore(WANT) == 0
    assert capsys.readouterr().out == "There is no rejected GPU pod.\n"


@pytest.mark.parametrize("options", [{"sticky": ("gpu-1",)}, {"deaf": ("DELETE",)}, {"deaf": ("POST",)}])
def test_a_pod_that_is_not_put_back_is_kept_and_told_until_it_is(gpu_lab, cluster, capsys, tmp_path, options):
    made = cluster(pod(), **options)
    assert gpu_lab.restore(WANT) == 1
    assert "gpu-1: not made again" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["fake-lab.gpu-1.json"]
    made.sticky = made.deaf = ()
    assert gpu_lab.restore(WANT) == 0
    assert capsys.readouterr().out == "gpu-1: made again\n"
    assert list((tmp_path / "kept").iterdir()) == []


def test_an_api_that_is_away_is_told(gpu_lab, cluster, monkeypatch):
    cluster(deaf=("GET",))
    with pytest.raises(SystemExit, match="does not answer"):
        gpu_lab.restore(WANT)
    monkeypatch.setattr(gpu_lab, "connect", lambda: None)
    with pytest.raises(SystemExit, match="does not answer"):
        gpu_lab.restore(WANT)


@pytest.mark.parametrize("command", ["status", "restore", "motd", "wait", "first-boot"])
def test_only_root_can_look(gpu_lab, monkeypatch, command):
    monkeypatch.setattr(gpu_lab.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(gpu_lab.sys, "argv", ["gpu-lab", command])
    with pytest.raises(SystemExit, match=f"sudo gpu-lab {command}"):
        gpu_lab.main()


def test_a_helm_that_was_cut_off_is_forgotten(gpu_lab, cluster):
    releases = [
        {"metadata": {"name": f"sh.helm.release.v1.gpu-operator.v{number}", "labels": {"status": status}}}
        for number, status in enumerate(("deployed", "pending-install", "pending-upgrade"), 1)
    ]
    made = cluster(secrets=releases)
    gpu_lab.forget_half_done(made, {**WANT, "release": "gpu-operator"})
    assert [one["metadata"]["labels"]["status"] for one in made.secrets] == ["deployed"]


def test_a_clock_that_was_set_back_does_not_hold_up_the_lab(gpu_lab):
    an_hour = datetime.timedelta(hours=1)
    now = BOOTED + datetime.timedelta(seconds=30) - an_hour
    begun = gpu_lab.begun_by(now, BOOTED, 30)
    assert begun == BOOTED - an_hour
    after = {**HOST, "now": now, "booted": begun}
    seen = changed(("lease", "spec", "renewTime"), "2026-01-01T11:00:29Z")
    assert gpu_lab.judge(seen, WANT, after)["said"] == ""
    # One that was set forward says nothing about when the boot was.
    assert gpu_lab.begun_by(BOOTED + an_hour, BOOTED, 30) == BOOTED
    assert gpu_lab.begun_by(BOOTED, None, 30) == BOOTED - datetime.timedelta(seconds=30)


def test_the_login_tells_both_languages_and_the_rejected_pods(gpu_lab):
    verdict = gpu_lab.judge(READY, WANT, HOST)
    said = gpu_lab.motd(verdict, ["gpu-1"], WANT, 17.3, "k3s v1 (standin)")
    assert "준비됨: gpu-lab 노드에 nvidia.com/gpu 2개 (Tesla-K80), 부팅 17초 뒤" in said
    assert "Ready:  node gpu-lab has 2 nvidia.com/gpu (Tesla-K80), 17 s after power-on" in said
    assert "gpu-lab restore" in said
    assert "standin" in said


def test_the_login_does_not_call_ready_what_is_not(gpu_lab):
    verdict = gpu_lab.judge(changed(("node", "status", "allocatable"), {}), WANT, HOST)
    said = gpu_lab.motd(verdict, [], WANT, 0.0, "")
    assert "Not ready yet (7/9): node gpu-lab has 0 of 2" in said
    assert "Ready:" not in said and "restore" not in said


@pytest.mark.parametrize(("cpu", "pause"), [(0.01, 0.2), (1.5, 4.5)])
def test_a_slow_machine_is_asked_less_often(gpu_lab, monkeypatch, cpu, pause):
    slept = []
    monkeypatch.setattr(gpu_lab.time, "sleep", slept.append)
    monkeypatch.setattr(gpu_lab.time, "process_time", lambda: 7 + cpu)
    gpu_lab.rest(7, 0.2)
    assert slept == [pytest.approx(pause)]
