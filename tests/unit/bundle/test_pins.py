# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The pins are complete, and the checkout's Go modules say the same."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.standins.build import pins, recipes
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

ROOT = pathlib.Path(__file__).resolve().parents[3]
PINS = pins.Pins.load(ROOT / pins.FILE)
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
RELEASES = ["k3s", "helm", "kwok", "fake-gpu-operator"]


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_has_a_version_a_url_and_a_checksum_or_an_explicit_null(name):
    entry = PINS.data[name]
    assert isinstance(entry["version"], str) and isinstance(entry["standin"]["version"], str)
    assert entry["standin"]["made_of"]
    for file in entry["upstream"]:
        assert set(file) <= {"name", "arch", "url", "sha256", "digest"}
        assert re.match(r"(https|oci)://", file["url"])
        assert file["sha256"] is None or SHA256.fullmatch(file["sha256"])
        assert file["arch"] in (*pins.ARCHITECTURES, "any")
    names = {file["name"] for file in entry["upstream"]}
    for file_name in names:
        covered = {file["arch"] for file in entry["upstream"] if file["name"] == file_name}
        assert covered in ({"any"}, set(pins.ARCHITECTURES))


def test_only_the_operator_lacks_figures():
    lacking = {name for name in RELEASES for file in PINS.data[name]["upstream"] if file["sha256"] is None} | {
        image["ref"].rpartition("/")[0] for image in PINS.data["images"] if image["upstream"]["digest"] is None
    }
    assert lacking == {"fake-gpu-operator", "ghcr.io/run-ai/fake-gpu-operator"}


def test_versions_appear_in_the_urls():
    for name in ("k3s", "helm", "kwok"):
        for file in PINS.data[name]["upstream"]:
            assert PINS.data[name]["version"].replace("+", "%2B") in file["url"]


def test_every_image_has_its_upstream_digest_and_its_stand_in():
    for image in PINS.data["images"]:
        assert set(image["upstream"]) - {"carried_by"} == {"digest", *pins.ARCHITECTURES}
        for value in (image["upstream"][key] for key in ("digest", *pins.ARCHITECTURES)):
            assert value is None or DIGEST.fullmatch(value)
        assert image["standin"]["name"] and image["standin"]["made_of"]


def test_the_references_are_those_the_lab_uses():
    operator = "ghcr.io/run-ai/fake-gpu-operator/{}:0.2.1"
    programs = [
        "device-plugin",
        "status-updater",
        "status-exporter",
        "topology-server",
        "kwok-gpu-device-plugin",
        "mig-faker",
    ]
    assert sorted(image.ref for image in PINS.images()) == sorted(
        [
            "docker.io/rancher/mirrored-pause:3.10.2",
            "docker.io/rancher/mirrored-coredns-coredns:1.14.2",
            "registry.k8s.io/kwok/kwok:v0.8.0",
            "registry.k8s.io/e2e-test-images/busybox:1.36.1-1",
            "docker.io/library/ubuntu:24.04",
            *(operator.format(program) for program in programs),
        ]
    )


@pytest.mark.parametrize("arch", pins.ARCHITECTURES)
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_wheel_is_there_once_for_each_python(arch, python):
    wheels = PINS.wheels(arch)
    names = {wheel.name for wheel in wheels}
    usable = [wheel.name for wheel in wheels if wheel.python in (python, "any")]
    assert sorted(usable) == sorted(names)
    assert {"kubernetes", "pyyaml", "urllib3"} <= names
    assert all(SHA256.fullmatch(wheel.sha256) for wheel in wheels)
    assert {wheel.version for wheel in wheels if wheel.name == "kubernetes"} == {PINS.kube_client}


def test_the_client_is_the_one_the_controller_has():
    assert f"kubernetes=={PINS.kube_client}" in (ROOT / "requirements.txt").read_text()


def test_every_pinned_module_is_required_at_its_version_somewhere():
    go_mods = "\n".join(path.read_text() for path in (ROOT / "standins").rglob("go.mod"))
    for module, version in PINS.modules().items():
        assert re.search(rf"^\s*(require\s+)?{re.escape(module)} {re.escape(version)}\b", go_mods, re.MULTILINE), module


def test_a_go_mod_that_says_otherwise_is_refused(tmp_path):
    path = tmp_path / "go.mod"
    path.write_text("module x\n\nrequire (\n\thelm.sh/helm/v3 v3.21.0 // indirect\n)\n")
    with pytest.raises(BuildError, match=r"requires helm.sh/helm/v3 v3.21.0, the pins say v3.22.0"):
        recipes.check_versions(path, {"helm.sh/helm/v3": "v3.22.0"})
    with pytest.raises(BuildError, match="nowhere"):
        recipes.check_versions(path, {"sigs.k8s.io/kwok": "v0.8.0"})
    recipes.check_versions(path, {"helm.sh/helm/v3": "v3.21.0"})


def test_the_names_to_reach_come_out_of_the_pins():
    assert PINS.upstream_hosts() == [
        "get.helm.sh",
        "ghcr.io",
        "github.com",
        "registry-1.docker.io",
        "registry.k8s.io",
    ]


def test_pins_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(BuildError, match="cannot be read"):
        pins.Pins.load(tmp_path / "absent.yml")


def test_the_lab_speaks_of_the_pinned_versions():
    lab = yaml.safe_load((ROOT / "roles/lab/defaults/main.yml").read_text())
    assert lab["lab_chart_version"] == PINS.standin_version("fake-gpu-operator")
    assert lab["lab_pod_image"] in [image.ref for image in PINS.images()]


def without(*path):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def given(value, *path):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("images"), "KeyError 'images'"),
        (without("k3s", "version"), "KeyError 'version'"),
        (without("k3s", "upstream", 0, "url"), "KeyError 'url'"),
        (without("helm", "standin"), "KeyError 'standin'"),
        (given(None, "kwok", "upstream"), "are not of the form"),
        (given("x", "images", 0, "upstream"), "are not of the form"),
        (given([], "fake-gpu-operator", "upstream"), "are not of the form"),
        (given([], "kube-client"), "are not of the form"),
        (given("A" * 64, "k3s", "upstream", 0, "sha256"), "which is no sha256"),
        (given(f"sha512:{'a' * 128}", "images", 3, "upstream", "digest"), "which is no sha256"),
        (given(12, "kube-client", "wheels", 0, "files", 0, "sha256"), "have 12 for"),
    ],
)
def test_pins_of_another_form_are_told_when_they_are_read(tmp_path, change, words):
    content = yaml.safe_load((ROOT / pins.FILE).read_text())
    change(content[pins.VARIABLE])
    path = tmp_path / "pins.yml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(BuildError) as raised:
        pins.Pins.load(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
