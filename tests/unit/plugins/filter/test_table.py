# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What people and CI systems get to see of the verdicts and the ledger."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gsb.fake_gpu_lab.plugins.filter import lab as filters
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _judge
from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _table
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import finished

ORIGIN = {"origin": "standin", "versions": {"k3s": "v1.36.3+standin1", "helm": "v3.22.0"}}
LEDGER = {"nodes": {"gpu-lab": 4, "gpu-a": 4}, "allocatable_total": 8, "requested": 4, "free": 4}


def result(step=8, spoil=None, origin=None):
    look = finished.lab(step)
    if spoil:
        spoil(look)
    verdicts = _judge.judge(_judge.Sight(look, _judge.Names()), _judge.STEPS)
    return {"done": all(one["done"] for one in verdicts), "origin": origin, "steps": verdicts}


def silence():
    return {"done": False, "origin": None, "steps": _judge.judge_silence("unreachable", "refused", _judge.STEPS)}


def upgraded_only(look):
    look["nodes"][0] = finished.real_node(2)
    look["topology"]["nodes"]["gpu-lab"] = 2


def test_the_finished_lab_is_eight_lines_under_its_origin():
    assert _table.verdict_lines(result(origin=ORIGIN)) == [
        "Origin: standin (helm v3.22.0, k3s v1.36.3+standin1)",
        "",
        "step  verdict  checks  what",
        "   1  done        6/6  Read how many GPUs the node advertises",
        "   2  done        9/9  Give one GPU to one pod",
        "   3  done        6/6  See what the container was given",
        "   4  done        4/4  Break the two rules of extended resources on purpose",
        "   5  done        9/9  Fill the node until a pod stays Pending",
        "   6  done      12/12  Advertise more GPUs and let the waiting pod run",
        "   7  done      17/17  Put GPUs on a node that has no kubelet",
        "   8  done        8/8  Work out the GPU ledger",
    ]


def test_korean_letters_keep_the_columns():
    lines = _table.verdict_lines(result(), "ko")
    assert lines[2] == "단계  판정   검사  할 일"
    assert lines[3] == "   1  완료    6/6  노드가 광고하는 GPU 를 읽는다"
    starts = {
        _table.width(line[: line.index(title)])
        for line, title in zip(lines[3:], [v[0] for v in _judge.TITLES.values()])
    }
    assert len(starts) == 1


def test_a_step_that_is_not_done_says_where_what_and_how():
    lines = _table.verdict_lines(result(spoil=upgraded_only))
    at = next(number for number, line in enumerate(lines) if line.startswith("   6"))
    assert lines[at : at + 5] == [
        "   6  NOT DONE   10/12  Advertise more GPUs and let the waiting pod run",
        "      x ConfigMap gpu-operator/topology-gpu-lab [topology.node]",
        "          seen:     2",
        "          expected: 4",
        "          to do:    helm upgrade alone does not change a node that is registered. Delete its ConfigMap, then "
        "restart status-updater: kubectl -n gpu-operator delete cm topology-gpu-lab && kubectl -n gpu-operator rollout "
        "restart deploy/status-updater",
    ]


def test_checks_that_wait_for_others_are_not_listed():
    text = "\n".join(_table.verdict_lines(result(spoil=upgraded_only)))
    assert "topology.node" in text
    assert "node.grown" not in text


def test_missing_ground_comes_first():
    lines = _table.verdict_lines(result(1))
    at = next(number for number, line in enumerate(lines) if line.startswith("   3"))
    assert lines[at + 1].startswith("      ! first: gpu-1 is not Running. Do step 2 first:")
    assert lines[at + 2] == "        seen: (none)"


def test_without_an_answer_the_reason_is_said_once():
    lines = _table.verdict_lines(silence())
    assert lines[0] == "Origin: not recorded on this host"
    assert lines[2].startswith("! first: k3s does not answer, or not in time.")
    assert sum("does not answer" in line for line in lines) == 1
    assert sum("NOT DONE       -" in line for line in lines) == 8


def test_both_languages():
    text = "\n".join(_table.verdict_lines(result(7), "both"))
    assert "Work out the GPU ledger / GPU 장부를 직접 계산한다" in text
    assert "There is no file /root/gsb-fake/report.json yet." in text
    assert "「/root/gsb-fake/report.json」 파일이 아직 없습니다." in text


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "Origin: not recorded on this host"),
        ({}, "Origin: not recorded on this host"),
        ("standin", "Origin: not recorded on this host"),
        ({"origin": "upstream"}, "Origin: upstream"),
        ({"origin": "upstream", "versions": None}, "Origin: upstream"),
        (ORIGIN, "Origin: standin (helm v3.22.0, k3s v1.36.3+standin1)"),
    ],
)
def test_origin(origin, line):
    assert _table.origin_line(origin) == line


def test_the_summary_of_a_finished_lab():
    assert _table.summary(result()) == "All 8 steps asked for are done."
    assert _table.summary(result(), "ko") == "판정을 요청한 단계(8개)를 모두 마쳤습니다."


def test_the_summary_names_the_first_thing_to_do_and_the_tag():
    assert _table.summary(result(7)).splitlines() == [
        "7 of 8 steps are done.",
        "Begin with step 8: There is no file /root/gsb-fake/report.json yet.",
        "Or let the lab do it: ansible-playbook lab.yml --tags step8",
    ]


@pytest.mark.parametrize(("started", "told"), [(20, True), (3600, False), (None, False)])
def test_a_machine_that_has_just_started_is_not_judged_too_early(started, told):
    fresh = {**result(7), "look": {"started": started}}
    lines = _table.summary(fresh, "both").splitlines()
    assert lines[0].startswith("The machine started 20 s ago") is told
    assert ("머신이 켜진 지 20초" in lines[1]) is told
    assert _table.summary({**result(), "look": {"started": started}}) == "All 8 steps asked for are done."


def test_the_summary_names_missing_ground_before_the_step_itself():
    some = result(4)
    some["steps"] = some["steps"][5:]
    lines = _table.summary(some).splitlines()
    assert lines[0] == "0 of 3 steps are done."
    assert lines[1].startswith("Begin with step 6: There is no gpu-3 waiting")
    assert lines[1].endswith("--tags step5")
    assert len(lines) == 2


def test_the_summary_of_silence():
    lines = _table.summary(silence(), "both").splitlines()
    assert lines[0] == "0 of 8 steps are done."
    assert lines[2] == "8개 단계 중 0개를 마쳤습니다."


def test_the_ledger_as_a_table():
    assert _table.ledger_lines(LEDGER) == [
        "node                GPUs",
        "------------------------",
        "gpu-a                  4",
        "gpu-lab                4",
        "------------------------",
        "allocatable in all     8",
        "requested              4",
        "free                   4",
    ]


def test_an_empty_and_an_overdrawn_ledger():
    assert "(no node advertises any)" in _table.ledger_lines({**LEDGER, "nodes": {}})
    assert _table.ledger_lines({**LEDGER, "free": -12})[-1].endswith(" -12")


def test_junit_counts_checks_by_steps():
    tree = ElementTree.fromstring(_table.junit(result(spoil=upgraded_only), "gsb-lab").encode())
    assert (tree.get("tests"), tree.get("failures"), tree.get("skipped"), tree.get("errors")) == ("71", "4", "1", "0")
    assert len(tree) == 8
    suite = tree[5]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("12", "1", "1")
    assert suite.get("hostname") == "gsb-lab"
    failed = {case.get("name"): case for case in suite if case.find("failure") is not None}
    assert set(failed) == {"topology.node"}
    failure = failed["topology.node"].find("failure")
    assert failure.get("message").startswith("helm upgrade alone")
    assert failure.text == "where: ConfigMap gpu-operator/topology-gpu-lab\nseen: 2\nexpected: 4"
    (skipped,) = [case for case in suite if case.find("skipped") is not None]
    assert skipped.find("skipped").get("message").startswith("topology.node: ")


def test_junit_of_silence_is_an_error_in_each_step():
    tree = ElementTree.fromstring(_table.junit(silence(), lang="ko").encode())
    assert (tree.get("tests"), tree.get("errors"), tree.get("failures")) == ("8", "8", "0")
    assert all(suite[0].find("error").get("message").startswith("k3s 가") for suite in tree)


def test_junit_survives_what_xml_cannot_hold():
    broken = result(
        spoil=lambda look: look["files"].update({"pending.txt": finished.text_file("\x1b[31m\x00<&>\ufffe")})
    )
    case = ElementTree.fromstring(_table.junit(broken).encode()).find(".//testcase[@name='pending.reason']")
    assert "[31m" in case.find("failure").text
    assert "<&>" in case.find("failure").text


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("abc", 3), ("노드", 4), ("e\u0301", 1), ("ｗ", 2)])
def test_width(text, columns):
    assert _table.width(text) == columns


@pytest.mark.parametrize(
    "render", [filters.verdict_table, filters.verdict_summary, filters.verdict_junit, filters.ledger_table]
)
@pytest.mark.parametrize("value", [None, "text", {}, {"steps": [{}]}, {"nodes": None}])
def test_filters_refuse_what_no_module_returned(render, value):
    with pytest.raises(AnsibleFilterError, match="not what the module returns"):
        render(value)


@pytest.mark.parametrize("render", [filters.verdict_table, filters.verdict_summary])
def test_filters_refuse_another_language(render):
    with pytest.raises(AnsibleFilterError, match="'de' is no language of the lab"):
        render(result(), "de")


def test_every_filter_is_documented():
    folder = pathlib.Path(filters.__file__).parent
    for name in filters.FilterModule().filters():
        document = yaml.safe_load((folder / f"{name}.yml").read_text())
        assert document["DOCUMENTATION"]["name"] == name
        assert document["EXAMPLES"]
