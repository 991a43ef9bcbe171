# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""verify.yml and ledger.yml as they are typed, on this machine, against an API server on loopback."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished


@pytest.fixture
def play(request, tmp_path):
    """play(name, look, **variables) runs a playbook for a lab that looks so."""
    root = request.config.rootpath
    folder = tmp_path / "gsb-fake"
    folder.mkdir()
    (tmp_path / "origin.json").write_text('{"origin": "standin", "versions": {"k3s": "v1.36.3+standin1"}}')

    def run(name, look, *arguments, **variables):
        for file, about in look["files"].items():
            if about["state"] == "ok":
                (folder / file).write_text(about["text"])
                os.utime(folder / file, (about["mtime"], about["mtime"]))
        with api.Api(look) as server:
            config = {
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
                "clusters": [{"name": "lab", "cluster": {"server": server.url}}],
                "users": [{"name": "lab", "user": {"token": "token-of-the-learner"}}],
            }
            (tmp_path / "kubeconfig").write_text(json.dumps(config))
            variables = {
                "lab_python": sys.executable,
                "lab_kubeconfig": str(tmp_path / "kubeconfig"),
                "lab_dir": str(folder),
                "lab_origin_file": str(tmp_path / "origin.json"),
                **variables,
            }
            return subprocess.run(
                [
                    str(pathlib.Path(sys.executable).parent / "ansible-playbook"),
                    "-i",
                    "inventory/localhost.yml",
                    f"playbooks/{name}.yml",
                    *arguments,
                    "-e",
                    json.dumps(variables),
                ],
                cwd=root,
                env={**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
                text=True,
                capture_output=True,
                timeout=300,
                check=False,
            )

    return run


def changed(outcome):
    return int(re.search(r"changed=(\d+)", outcome.stdout)[1])


def test_verify_says_the_origin_the_verdicts_and_the_ledger(play):
    outcome = play("verify", finished.lab(8))
    assert outcome.returncode == 0, outcome.stdout
    assert changed(outcome) == 0
    lines = [line.strip() for line in outcome.stdout.splitlines()]
    start = lines.index("Origin: standin (k3s v1.36.3+standin1)")
    assert lines[start + 2] == "step  verdict  checks  what"
    assert [line.split()[1] for line in lines[start + 3 : start + 11]] == ["done"] * 8
    assert "free                   4" in lines
    assert "All 8 steps asked for are done." in lines


def test_verify_fails_at_the_end_with_the_first_thing_to_do_and_still_reports(play, tmp_path):
    report, junit = tmp_path / "lab.json", tmp_path / "lab.xml"
    outcome = play("verify", finished.lab(5), verify_lang="both", verify_report=str(report), verify_junit=str(junit))
    assert outcome.returncode == 2, outcome.stdout
    told = outcome.stdout.split("TASK [Require that the steps are done]")[1]
    assert "5 of 8 steps are done." in told
    assert "Begin with step 6: There is no file" in told
    assert "ansible-playbook lab.yml --tags step6" in told
    assert "6단계부터 하세요: 「" in told
    verdicts = json.loads(report.read_text())
    assert set(verdicts) == {"done", "look", "origin", "steps"}
    assert [verdict["done"] for verdict in verdicts["steps"]] == [True] * 5 + [False] * 3
    assert "노드가 광고하는 GPU 를 읽는다" in report.read_text()
    tree = ElementTree.fromstring(junit.read_text())
    assert [int(suite.get("failures")) > 0 for suite in tree] == [False] * 5 + [True] * 3


@pytest.mark.parametrize("steps", ["[1,5]", "1, 5"])
def test_verify_judges_the_steps_asked_for(play, steps):
    outcome = play("verify", finished.lab(5), verify_steps=steps)
    assert outcome.returncode == 0, outcome.stdout
    assert "WARNING" not in outcome.stdout + outcome.stderr
    assert "All 2 steps asked for are done." in outcome.stdout


@pytest.mark.parametrize("steps", ["abc", "9", ""])
def test_verify_of_no_step_of_the_lab_is_no_success(play, steps):
    outcome = play("verify", finished.lab(8), verify_steps=steps)
    assert outcome.returncode == 2, outcome.stdout
    assert "steps" in outcome.stdout
    assert f"{steps}" in outcome.stdout


def test_verify_in_check_mode(play):
    outcome = play("verify", finished.lab(8), "--check", "--diff")
    assert outcome.returncode == 0, outcome.stdout
    assert changed(outcome) == 0


def test_verify_of_a_host_without_the_client_says_to_install(play, tmp_path):
    outcome = play("verify", finished.lab(8), lab_python="/nonexistent/python", lab_kubeconfig=str(tmp_path / "none"))
    assert outcome.returncode == 2
    assert "ansible-playbook lab.yml --tags install" in outcome.stdout
    assert "Traceback" not in outcome.stdout


#: Nobody listens there.
NOBODY = "http://127.0.0.1:9"


def kubeconfig(**servers):
    """A context for each; the first is the current one."""
    config = {
        "current-context": next(iter(servers)),
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in servers],
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "users": [{"name": "me", "user": {"token": "mine"}}],
    }
    return json.dumps(config)


@pytest.fixture
def page(request, tmp_path):
    """page(server, *arguments) runs ledger.yml as someone does who has a kubeconfig, and maybe no lab."""
    root = request.config.rootpath
    file = tmp_path / "current"

    def run(url, *arguments):
        file.write_text(kubeconfig(team=url))
        return subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "playbooks/ledger.yml", *arguments],
            cwd=root,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "KUBECONFIG": str(file),
            },
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def cluster():
    look = finished.lab(8)
    look["pods"].append(finished.waiting("more"))
    look["pods"][-1]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "64"
    with api.Api(look) as server:
        yield server.url


def test_ledger_of_the_lab_prints_and_writes_once(play, tmp_path):
    dest = tmp_path / "gpus.json"
    outcome = play("ledger", finished.lab(8), ledger_lang="ko", ledger_dest=str(dest))
    assert outcome.returncode == 0, outcome.stdout
    assert "광고 합계        8" in outcome.stdout
    assert "gpu-lab     4     3     1  [###.]" in outcome.stdout
    assert changed(outcome) == 1
    assert json.loads(dest.read_text())["free"] == 4
    again = play("ledger", finished.lab(8), ledger_dest=str(dest))
    assert changed(again) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["-e", "ledger_host=nowhere"],
            "ledger_host is nowhere: choose localhost or a host of the inventory (gsb-lab).",
        ),
        (["-e", "ledger_lang=fr"], "ledger_lang is fr: choose en, ko or both."),
        (
            [],
            "There is no machine gsb-none. Make it, and the lab in it, with: ansible-playbook lab.yml -e machine_name=gsb-none",
        ),
    ],
)
def test_ledger_of_what_is_not_there_says_what_to_do(page, cluster, arguments, words):
    machine = ["-e", "machine_name=gsb-none", "-e", "machine_network=10.231.99.0/24"]
    outcome = page(cluster, "-i", "inventory/machine.yml", *machine, *arguments)
    assert outcome.returncode == 2
    assert words in " ".join(outcome.stdout.split())


def test_verify_in_another_language_is_refused_before_anything_is_judged(play):
    outcome = play("verify", finished.lab(8), verify_lang="fr")
    assert outcome.returncode == 2
    assert "verify_lang is fr: choose en, ko or both." in outcome.stdout
    assert "Look at the lab" not in outcome.stdout


def test_ledger_of_the_current_kubeconfig_beside_a_lab(page, cluster):
    """The lab of this inventory is not there: nobody asks it."""
    outcome = page(cluster, "-i", "inventory/machine.yml", "-e", "ledger_host=localhost")
    assert outcome.returncode == 0, outcome.stdout
    assert changed(outcome) == 0
    assert outcome.stderr == ""
    assert "gpu-lab     4          3     1  [###.]" in outcome.stdout
    assert "fake-lab/more: asks for 64 of nvidia.com/gpu: no node has as many as 64" in outcome.stdout


def test_ledger_without_a_lab_in_another_kubeconfig_and_context_in_check_mode(page, cluster, tmp_path):
    other, dest, account = tmp_path / "other", tmp_path / "gpus.json", tmp_path / "account.json"
    variables = {
        "ledger_kubeconfig": str(other),
        "ledger_context": "mine",
        "ledger_dest": str(dest),
        "ledger_details_dest": str(account),
    }
    other.write_text(kubeconfig(elsewhere=NOBODY, mine=cluster))
    outcome = page(NOBODY, "-i", "localhost,", "--check", "-e", json.dumps(variables))
    assert outcome.returncode == 0, outcome.stdout
    assert changed(outcome) == 1
    assert "allocatable in all  8" in outcome.stdout
    assert not dest.exists()
    assert not account.exists()


def test_ledger_of_an_api_that_does_not_answer_is_one_sentence(page):
    outcome = page(NOBODY, "-i", "localhost,")
    assert outcome.returncode == 2
    told = " ".join(outcome.stdout.split())
    assert "The GPUs were not counted: GET /api/v1/nodes: http://127.0.0.1:9: " in told
    assert "Connection refused" in told
    assert "Traceback" not in outcome.stdout + outcome.stderr


def test_ledger_of_a_host_without_the_client_says_to_install(play):
    outcome = play("ledger", finished.lab(8), lab_python="/nonexistent/python")
    assert outcome.returncode == 2
    assert "ansible-playbook lab.yml --tags install" in outcome.stdout
