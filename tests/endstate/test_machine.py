# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
import ipaddress
import json
import re

import pytest

KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
# ssh, the API server and the kubelet; everything else stays on the loopback.
OPEN_PORTS = {22, 6443, 10250}
OPERATOR = "ghcr.io/run-ai/fake-gpu-operator"
PINNED = {
    # The stand-in's, and that of k3s' own archive.
    "docker.io/rancher/mirrored-coredns-coredns:1.14.2",
    "docker.io/rancher/mirrored-coredns-coredns:1.14.6",
    "registry.k8s.io/kwok/kwok:v0.8.0",
    "registry.k8s.io/e2e-test-images/busybox:1.36.1-1",
    "docker.io/library/ubuntu:24.04",
    f"{OPERATOR}/device-plugin:0.2.1",
    f"{OPERATOR}/status-updater:0.2.1",
    f"{OPERATOR}/status-exporter:0.2.1",
    f"{OPERATOR}/topology-server:0.2.1",
    f"{OPERATOR}/kwok-gpu-device-plugin:0.2.1",
    f"{OPERATOR}/mig-faker:0.2.1",
}


@pytest.fixture(scope="module")
def pods(machine):
    return machine.get("pods", "-A")["items"]


@pytest.fixture(scope="module")
def origin(machine):
    return json.loads(machine.output("cat", "/etc/gsb-fake-gpu-lab.json"))


def test_admin_kubeconfig_is_for_root_alone(host):
    kubeconfig = host.file(KUBECONFIG)
    assert (kubeconfig.user, kubeconfig.group) == ("root", "root")
    assert kubeconfig.mode == 0o600


def test_plain_kubectl_works_in_a_login_shell(host):
    answer = host.run("env -u KUBECONFIG bash -lc 'kubectl get nodes -o name'")
    assert answer.rc == 0, answer.stderr
    assert "node/gpu-lab" in answer.stdout.split()


def test_nothing_else_listens_to_the_outside(machine):
    outside = set()
    for line in machine.output("ss", "-Hltn").splitlines():
        address, port = line.split()[3].rsplit(":", 1)
        address = address.strip("[]").split("%")[0].replace("*", "::")
        if not ipaddress.ip_address(address).is_loopback:
            outside.add(int(port))
    assert outside <= OPEN_PORTS


def test_every_image_is_pinned(pods):
    images = {c["image"] for pod in pods for c in pod["spec"]["containers"] + pod["spec"].get("initContainers", [])}
    assert images <= PINNED


def test_no_pod_needs_a_registry(pods):
    pulls = {
        (pod["metadata"]["name"], c["image"])
        for pod in pods
        for c in pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        if c["imagePullPolicy"] == "Always"
    }
    assert pulls == set()


def test_system_pods_are_ready(pods):
    waiting = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if pod["metadata"]["namespace"] in ("kube-system", "gpu-operator")
        and not all(c["ready"] for c in pod["status"].get("containerStatuses", [{"ready": False}]))
    }
    assert waiting == set()


def test_cluster_is_lean(pods):
    names = " ".join(pod["metadata"]["name"] for pod in pods)
    assert not re.search(r"traefik|svclb|metrics-server|local-path", names)


def test_origin_is_told(origin):
    assert origin["origin"] in ("standin", "upstream")


def test_k3s_says_the_same_about_its_origin(machine, origin):
    version = machine.output("k3s", "--version").splitlines()[0]
    assert version.startswith("k3s version v1.36.")
    assert ("standin" in version) == (origin["origin"] == "standin")


def test_origin_file_is_readable_by_all_and_written_by_root(host):
    told = host.file("/etc/gsb-fake-gpu-lab.json")
    assert (told.user, told.mode) == ("root", 0o644)
