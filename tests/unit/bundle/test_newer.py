# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Pins beside what upstream lists today: newer, the same, or plainly unknown."""

from __future__ import annotations

import json
import pathlib
import shutil
import socket

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import newer, pins, proxy
from ansible_collections.gsb.fake_gpu_lab.tests.unit.bundle.upstream_server import Upstream, refusing
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import apiserver

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOSTS = ("api.github.com", "ghcr.io", "registry.k8s.io", "docker.io")
K3S, HELM, KWOK = (f"/repos/{name}/releases" for name in ("k3s-io/k3s", "helm/helm", "kubernetes-sigs/kwok"))
CHART = "/v2/run-ai/fake-gpu-operator/fake-gpu-operator/tags/list"
IMAGE = "/v2/kwok/kwok/tags/list"

needs_tools = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("skopeo")),
    reason="needs curl and skopeo, which the bundle role installs",
)


def listed(*names, **more):
    return json.dumps([{"tag_name": name, "draft": False, "prerelease": False, **more} for name in names]).encode()


def tagged(*names):
    return json.dumps({"name": "x", "tags": list(names)}).encode()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Lists what is pinned and nothing else."""
    newer._reach.cache_clear()
    for name in (*proxy.NAMES, *proxy.EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)
    authority = apiserver.Authority(tmp_path)
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, authority.file)
    with Upstream(authority.server_context()) as upstream:
        upstream.files |= {K3S: listed("v1.36.4+k3s1"), HELM: listed("v3.22.0"), KWOK: listed("v0.8.0")}
        for question in newer.questions(pins.Pins.load(ROOT / pins.FILE), newer.Mirrors({})):
            if question.name.count("/"):
                upstream.files[f"/v2/{question.name.partition('/')[2]}/tags/list"] = tagged(question.pinned)
        upstream.files[CHART] = tagged("0.2.1")
        yield upstream


@pytest.fixture
def check(server, capsys):
    """The line of each name, and the last line."""

    def run(**places):
        words = {**dict.fromkeys(HOSTS, server.place), **places}
        assert newer.main([word for name, place in words.items() for word in ("--mirror", f"{name}={place}")]) == 0
        lines = capsys.readouterr().out.splitlines()
        names = [question.name for question in newer.questions(pins.Pins.load(ROOT / pins.FILE), newer.Mirrors({}))]
        found = {name: line.split(maxsplit=1 + name.count(" "))[-1] for name, line in zip(names, lines[2:])}
        return {name: line.split(maxsplit=1)[1] for name, line in found.items()}, lines[-1]

    return run


@needs_tools
def test_what_is_pinned_is_the_newest(check):
    said, count = check()
    bound = "comes with k3s-airgap-images.tar.zst"
    assert {name for name, words in said.items() if words == bound} == {
        "docker.io/rancher/mirrored-pause",
        "docker.io/rancher/mirrored-coredns-coredns",
    }
    assert {words for words in said.values() if words != bound} == {"nothing newer"}
    assert count == f"0 with something newer, {len(said) - 2} without, 0 that cannot be told"


@needs_tools
def test_what_is_newer_is_named(check, server):
    server.files[K3S] = listed("v1.36.5-rc1+k3s1", "v1.36.4+k3s2", "v1.35.9+k3s1", "v1.36.4+k3s1")
    server.files[HELM] = listed("v4.1.0", "v3.22.1", "v3.23.0-rc.1", "v3.9.4")
    server.files[KWOK] = json.dumps(
        [
            {"tag_name": "v0.9.0", "draft": False, "prerelease": True},
            {"tag_name": "v0.8.2", "draft": True, "prerelease": False},
            {"tag_name": "v0.8.1", "draft": False, "prerelease": False},
        ]
    ).encode()
    server.files[CHART] = tagged("0.2.1", "0.10.0", "0.9.0", "1.0.0-alpha", "latest", "sha256-00.sig")
    server.files["/v2/library/ubuntu/tags/list"] = tagged("24.04", "26.04", "22.04", "noble", "20261101")
    server.files["/v2/e2e-test-images/busybox/tags/list"] = tagged("1.36.1-1", "1.36.1-2", "1.37.0", "latest")
    said, count = check()
    assert said["k3s"] == "v1.36.4+k3s2"
    assert said["helm"] == "v3.22.1; v4.1.0, of another major version"
    assert said["kwok"] == "v0.8.1"
    assert said["chart fake-gpu-operator"] == "0.10.0"
    assert said["docker.io/library/ubuntu"] == "26.04, of another major version"
    assert said["registry.k8s.io/e2e-test-images/busybox"] == "1.36.1-2"
    assert count.startswith("6 with something newer, ")


@pytest.fixture
def release(server):
    """What is said of one release."""

    def ask(pinned="v1.36.4+k3s1"):
        url = f"https://{server.place}{K3S}"
        return newer.answer(newer.Question("k3s", pinned, lambda: newer.releases(url), "")).words

    return ask


@pytest.fixture
def image(server):
    def ask(pinned="v0.8.0"):
        repository = f"{server.place}/kwok/kwok"
        return newer.answer(newer.Question("kwok", pinned, lambda: newer.tags(repository), "")).words

    return ask


@needs_tools
@pytest.mark.parametrize("status", [403, 429])
def test_who_asks_too_often_is_not_told(release, image, server, status):
    for path in (K3S, IMAGE):
        server.trouble[path].extend([refusing(status, Retry_After="0")] * 9)
    wanted = f"cannot tell: {server.place} was asked too often, or refuses (HTTP {status}); try again in an hour"
    assert release() == image() == wanted


@needs_tools
@pytest.mark.parametrize(
    "garbage", [b"<html>welcome to the hotel</html>", b"", b"{}", b"[1]", b'[{"name": "x"}]', b'{"tags": 7}', b"null"]
)
def test_garbage_is_no_listing(release, image, server, garbage):
    server.files |= {K3S: garbage, IMAGE: garbage}
    for words in (release(), image()):
        assert words.startswith("cannot tell: ")
        assert "newer" not in words


@needs_tools
def test_a_listing_without_anything_alike_tells_nothing(release, image, server):
    server.files |= {K3S: listed("nightly"), IMAGE: tagged("latest", "v0.9")}
    assert release() == "cannot tell: its listing has nothing of the form of v1.36.4+k3s1"
    assert image() == "cannot tell: its listing has nothing of the form of v0.8.0"


@needs_tools
def test_a_pin_that_is_not_listed_itself_is_said(release, server):
    server.files[K3S] = listed("v1.36.3+k3s1")
    assert release() == "nothing newer, but v1.36.4+k3s1 itself is not listed"


@needs_tools
@pytest.mark.parametrize("status", [404, 500])
def test_other_statuses(release, server, status):
    server.trouble[K3S].append(refusing(status))
    assert release() == f"cannot tell: {server.place} answers HTTP {status}"


def test_offline_it_says_so_for_each_name(check):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = f"127.0.0.1:{closed.getsockname()[1]}"
    said, count = check(**{**dict.fromkeys(HOSTS, place), "ghcr.io": "ghcr.invalid"})
    asked = {name: words for name, words in said.items() if not words.startswith("comes with")}
    assert all(words.startswith("cannot tell: ") for words in asked.values())
    assert said["k3s"] == f"cannot tell: {place}: Connection refused"
    assert said["chart fake-gpu-operator"] == "cannot tell: ghcr.invalid: its name is not known"
    assert count == f"0 with something newer, 0 without, {len(asked)} that cannot be told"


def test_a_tool_that_is_missing_is_named(check, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    said, _count = check()
    assert said["k3s"] == "cannot tell: the command curl is not installed"
    assert said["docker.io/library/ubuntu"] == "cannot tell: the command skopeo is not installed"


def test_pins_that_cannot_be_read_end_in_a_sentence(tmp_path, capsys):
    assert newer.main(["--pins", str(tmp_path / "none.yml")]) == 1
    assert "none.yml cannot be read" in capsys.readouterr().err


def test_a_mirror_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        newer.main(["--mirror", "ghcr.io"])
    assert ended.value.code == 2
    assert "--mirror ghcr.io: give it as NAME=PLACE" in capsys.readouterr().err


def test_every_release_that_is_pinned_is_asked_about():
    known = pins.Pins.load(ROOT / pins.FILE)
    names = {question.name for question in newer.questions(known, newer.Mirrors({}))}
    assert {"k3s", "helm", "kwok", "chart fake-gpu-operator"} <= names
    assert {image.ref.rpartition(":")[0] for image in known.images()} <= names
