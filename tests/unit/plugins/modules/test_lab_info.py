# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The module against an API server and a folder: verdicts whatever happens, never a traceback."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import time

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _kube, _sight
from ansible_collections.gsb.fake_gpu_lab.plugins.modules import gpu_ledger, lab_info
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished


def write_files(folder, files):
    for name, about in files.items():
        if about["state"] == "ok":
            (folder / name).write_text(about["text"])
            os.utime(folder / name, (about["mtime"], about["mtime"]))


@pytest.fixture
def lab(run, tmp_path):
    """lab(step, **options) judges the lab as it is at the end of a step; trouble spoils the server first."""

    def judge(step, trouble=None, **options):
        look = finished.lab(step)
        folder = tmp_path / "gsb-fake"
        folder.mkdir(exist_ok=True)
        write_files(folder, look["files"])
        with api.Api(look) as server:
            server.trouble.update(trouble or {})
            options = {"host": server.url, "dir": str(folder), "origin_file": str(tmp_path / "origin.json"), **options}
            answer = run("lab_info", **options)
            answer["requests"] = [path for path, _query in server.seen]
        return answer

    return judge


def test_the_finished_lab(lab, tmp_path):
    (tmp_path / "origin.json").write_text('{"origin": "standin"}')
    answer = lab(8)
    assert [check for verdict in answer["steps"] for check in verdict["checks"] if not check["ok"]] == []
    assert (answer["done"], answer["changed"]) == (True, False)
    assert answer["origin"] == {"origin": "standin"}
    assert answer["look"]["ledger"] == {
        "nodes": {"gpu-a": 4, "gpu-lab": 4},
        "allocatable_total": 8,
        "requested": 4,
        "free": 4,
    }


@pytest.mark.parametrize("step", range(8))
def test_the_lab_on_its_way(lab, step):
    answer = lab(step)
    assert [verdict["step"] for verdict in answer["steps"] if verdict["done"]] == list(range(1, step + 1))
    assert not answer["done"]
    assert answer["origin"] is None


def test_some_steps_only(lab):
    answer = lab(5, steps=[5, 1, 5])
    assert [verdict["step"] for verdict in answer["steps"]] == [1, 5]
    assert answer["done"]


@pytest.mark.parametrize("step", [0, 9, -1])
def test_a_step_that_does_not_exist(lab, step):
    answer = lab(0, steps=[1, step])
    assert f"there is no step {step}" in answer["msg"]


def test_no_step_at_all_is_no_lab_that_is_done(lab):
    assert "name at least one" in lab(8, steps=[])["msg"]


def test_check_mode_gives_the_same(lab):
    real, check = lab(6), lab(6, check=True)
    assert real["steps"] == check["steps"]


def test_the_look_costs_six_lists(lab):
    assert set(lab(8)["requests"]) == {
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces/fake-lab",
        "/api/v1/namespaces/gpu-operator/configmaps",
        "/api/v1/namespaces/gpu-operator/secrets",
        "/apis/kwok.x-k8s.io/v1alpha1/stages",
    }


def silent(answer):
    """The verdicts when the cluster does not answer, and the one ground that all steps then lack."""
    assert not answer.get("failed")
    assert not answer["done"]
    assert answer["look"].keys() == {"started"}
    grounds = [ground for verdict in answer["steps"] for ground in verdict["ground"]]
    assert len(grounds) == len(answer["steps"]) == 8
    assert {ground["id"] for ground in grounds} == {"api"}
    assert {ground["tag"] for ground in grounds} == {"install"}
    return grounds[0]


def test_nobody_answers(lab):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ground = silent(lab(8, host=f"http://127.0.0.1:{port}"))
    assert "Connection refused" in ground["seen"]
    assert "k3s does not answer, or not in time" in ground["hint"]["en"]
    assert "k3s 가 응답하지 않거나" in ground["hint"]["ko"]


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces/fake-lab"])
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (403, "does not let"),
        (401, "does not let"),
        (503, "does not answer"),
        (api.cut, "not answer"),
        (api.prose, "not answer"),
    ],
)
def test_no_whole_look_no_verdict(lab, path, trouble, words):
    assert words in silent(lab(8, {path: trouble}))["hint"]["en"]


def test_a_server_that_drips_its_answer_is_given_up(lab):
    start = time.monotonic()
    assert "within 1 seconds" in silent(lab(8, {"/api/v1/pods": api.drip}, timeout=1))["seen"]
    assert time.monotonic() - start < 10


def test_no_kubeconfig(run):
    assert "kubeconfig" in silent(run("lab_info", kubeconfig="/nonexistent/kubeconfig"))["hint"]["en"]


def test_no_client(run, monkeypatch):
    monkeypatch.setattr(_kube, "IMPORT_ERROR", "No module named 'kubernetes'")
    ground = silent(run("lab_info", kubeconfig="/etc/rancher/k3s/k3s.yaml"))
    assert "No module named 'kubernetes'" in ground["seen"]
    assert "client for Python is not installed" in ground["hint"]["en"]


def test_secrets_that_may_not_be_read_fail_only_what_needs_them(lab):
    answer = lab(8, {"/api/v1/namespaces/gpu-operator/secrets": 403})
    assert [verdict["step"] for verdict in answer["steps"] if not verdict["done"]] == [6]
    (deployed,) = [check for check in answer["steps"][5]["checks"] if check["id"] == "release.deployed"]
    assert "403 Forbidden" in deployed["seen"]
    assert "403 Forbidden" in answer["look"]["errors"]["release"]


def test_a_cluster_without_kwok(lab):
    answer = lab(6, {"/apis/kwok.x-k8s.io/v1alpha1/stages": 404}, steps=[7])
    assert [ground["id"] for ground in answer["steps"][0]["ground"] if not ground["ok"]] == ["kwok.stages"]


def test_a_token_is_never_told(lab):
    assert "token-of-the-learner" not in json.dumps(lab(8))


def test_the_timeout_must_be_positive(lab):
    assert "timeout" in lab(8, timeout=-1)["msg"]


@pytest.mark.parametrize("module", [lab_info, gpu_ledger])
def test_the_examples_and_documents_are_yaml(module):
    for text in (module.DOCUMENTATION, module.EXAMPLES, module.RETURN):
        assert yaml.safe_load(text)


def test_the_defaults_are_those_of_the_role(request):
    """One truth: roles/lab."""
    defaults = yaml.safe_load((request.config.rootpath / "roles" / "lab" / "defaults" / "main.yml").read_text())
    options = lab_info.options()
    shared = {name for name in options if f"lab_{name}" in defaults} - {"kubeconfig"}
    assert {name: options[name]["default"] for name in shared} == {name: defaults[f"lab_{name}"] for name in shared}
    assert shared == {field.name for field in dataclasses.fields(_sight.Names)} | {"origin_file"}
