# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Two machines from one root folder, without a network: both ready, no secret in common, ready again after a restart."""

from __future__ import annotations

import pytest

POD = """
apiVersion: v1
kind: Pod
metadata: {name: holder, namespace: fake-lab}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: registry.k8s.io/e2e-test-images/busybox:1.36.1-1
    command: [sleep, "100000"]
    resources: {limits: {nvidia.com/gpu: 1}}
"""
SECRETS = {
    "machine-id": "cat /etc/machine-id",
    "ssh host key": "cat /etc/ssh/ssh_host_ecdsa_key.pub",
    "certificate authority": "sha256sum < /var/lib/rancher/k3s/server/tls/server-ca.crt",
    "token": "sha256sum < /var/lib/rancher/k3s/server/token",
    "service account key": "sha256sum < /var/lib/rancher/k3s/server/tls/service.key",
    "kubeconfig": "sha256sum < /etc/rancher/k3s/k3s.yaml",
}


def gpus(machine):
    node = machine.json("kubectl get node gpu-lab -o json")
    return node["status"]["allocatable"].get("nvidia.com/gpu"), node["metadata"]["labels"].get("nvidia.com/gpu.product")


def test_both_advertise_two_gpus(machines):
    for machine in machines:
        assert gpus(machine) == ("2", "Tesla-K80")


def test_no_unit_failed(machines):
    for machine in machines:
        assert machine.out("systemctl --failed --no-legend") == ""


@pytest.mark.parametrize("what", SECRETS)
def test_no_secret_in_common(machines, what):
    seen = [machine.out(SECRETS[what]) for machine in machines]
    assert all(seen) and len(set(seen)) == len(machines)


def test_the_status_line_tells_where_it_is(machines):
    line = machines[0].out("systemctl show gpu-lab-ready --property=StatusText --value")
    assert line.startswith("ready: 2 nvidia.com/gpu (Tesla-K80) on gpu-lab, ")


def test_the_address_is_the_labs_own(machines):
    for machine in machines:
        node = machine.json("kubectl get node gpu-lab -o json")
        assert [entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"] == [
            "203.0.113.254"
        ]


def test_the_idle_lab_wakes_little(machines):
    for program in ("kube-apiserver", "kubelet", "containerd", "coredns"):
        assert machines[0].out(f"cat /proc/$(pgrep -xo {program})/timerslack_ns").strip() == "5000000", program
    period = machines[0].out("grep -r stats_collect_period /var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d")
    assert "10m" in period
    assert "stats_collect_period" not in machines[0].out("journalctl -b -u k3s -o cat | grep -i 'unknown key' || true")


def test_a_processor_that_is_not_emulated_needs_no_more_time(machines):
    assert "60-emulated.conf" not in machines[0].out("ls /var/lib/rancher/k3s/agent/etc/kubelet.conf.d")


def test_images_are_pinned_and_none_is_collected(machines):
    images = machines[0].json("crictl images -o json")["images"]
    assert len(images) >= 10
    assert [image["repoTags"] for image in images if not image.get("pinned")] == []


def test_the_login_speaks_both_languages(machines):
    said = machines[0].out("gpu-lab motd")
    assert "준비됨: gpu-lab 노드에 nvidia.com/gpu 2개 (Tesla-K80)" in said
    assert "Ready:  node gpu-lab has 2 nvidia.com/gpu (Tesla-K80)" in said
    assert "(standin)" in said or "(upstream)" in said


def test_nothing_is_set_up_twice(machines):
    machine = machines[0]
    machine.out("timeout 120 sh -c 'until test -e /var/lib/gsb-fake-gpu-lab/first-boot.done; do sleep 0.5; done'")
    machine.out("kubectl -n kube-system rollout status deployment/kwok-controller --timeout=120s")
    before = machine.json("helm list -n gpu-operator -o json")[0]["revision"]
    machine.out("systemctl start gpu-lab-first-boot")
    assert machine.json("helm list -n gpu-operator -o json")[0]["revision"] == before == "1"


def test_ready_is_proven_anew_after_a_restart_of_k3s(machines):
    machine = machines[1]
    machine.out("systemctl restart k3s")
    machine.wait_ready()
    # The kubelet forgot the GPUs, and their plugin tells it of them once.
    assert gpus(machine) == ("2", "Tesla-K80")
    assert machine.run("gpu-lab status").returncode == 0


def test_a_restart_is_ready_again_and_says_which_pods_were_rejected(machines):
    machine = machines[0]
    machine.out("kubectl create namespace fake-lab")
    machine.out(f"kubectl apply -f - << 'END'{POD}END")
    machine.out("kubectl -n fake-lab wait --for=condition=Ready pod/holder --timeout=120s")
    # As a power cut may leave it.
    machine.out(": > /etc/ssh/ssh_host_ecdsa_key")
    machine.reboot()
    machine.wait_ready()
    assert gpus(machine) == ("2", "Tesla-K80")
    machine.out("ssh-keygen -l -f /etc/ssh/ssh_host_ecdsa_key")
    machine.out(
        "timeout 60 sh -c 'until kubectl -n fake-lab get pod holder -o jsonpath={.status.reason} | grep -q Unexpected; do sleep 0.5; done'"
    )
    said = machine.out("gpu-lab motd")
    assert "holder" in said and "gpu-lab restore" in said and "되살리기" in said
    assert machine.out("gpu-lab restore") == "holder: made again"
    machine.out("kubectl -n fake-lab wait --for=condition=Ready pod/holder --timeout=120s")
    assert machine.out("gpu-lab restore") == "There is no rejected GPU pod."
    assert "restore" not in machine.out("gpu-lab motd")


def test_ready_is_not_said_while_the_gpus_are_away(machines):
    machine = machines[1]
    machine.out("kubectl -n gpu-operator scale deployment status-updater --replicas=0")
    machine.out("kubectl -n gpu-operator delete configmap topology-gpu-lab")
    assert machine.run("gpu-lab status").returncode == 1
    assert "Ready:" not in machine.out("gpu-lab motd")
