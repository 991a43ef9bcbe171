# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The module's account: two definitions, details and their file, and a promise for every key it returns."""

from __future__ import annotations

import json
import resource
import stat

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _kube
from ansible_collections.gsb.fake_gpu_lab.plugins.modules import gpu_ledger
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
RETURN = yaml.safe_load(gpu_ledger.RETURN)
OPTIONS = yaml.safe_load(gpu_ledger.DOCUMENTATION)["options"]


def busy():
    """A lab with something for every list of the details."""
    look = finished.lab(8)
    nodes, pods = look["nodes"], look["pods"]
    nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "3"
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    train = finished.pod("train")
    train["spec"]["initContainers"] = [sidecar]
    old = finished.pod("old", node="gpu-a")
    old["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    pods += [train, old, finished.pod("lost", node="gone"), finished.waiting("more")]
    return look


@pytest.fixture
def server():
    with api.Api(busy()) as running:
        yield running


@pytest.fixture
def ledger(run, server):
    return lambda **options: run("gpu_ledger", host=server.url, **options)


@pytest.fixture
def account(tmp_path):
    return tmp_path / "account.json"


def text(document):
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# Accounting


def test_the_two_definitions_side_by_side(ledger):
    answer = ledger()
    assert answer["ledger"] == {"nodes": {"gpu-a": 4, "gpu-lab": 3}, "allocatable_total": 7, "requested": 7, "free": 0}
    assert answer["scheduler"] == {
        "nodes": {"gpu-a": 4, "gpu-lab": 3},
        "allocatable_total": 7,
        "requested": 7,
        "free": 0,
        "usable": 0,
        "tainted": 2,
        "nominated": 0,
        "orphaned": 1,
        "dra": 0,
    }
    assert (answer["placeable"], answer["largest_free"]) == ({"1": 0, "2": 0, "4": 0, "8": 0}, 0)


@pytest.mark.parametrize(("accounting", "requested"), [("limits", 4), ("scheduler", 5)])
def test_accounting_chooses_what_is_returned_and_written(ledger, server, tmp_path, accounting, requested):
    server.lists["/api/v1/pods"][:] = finished.lab(8)["pods"]
    container = server.lists["/api/v1/pods"][-1]["spec"]["containers"][0]
    server.lists["/api/v1/pods"][-1]["spec"]["initContainers"] = [
        {
            **container,
            "name": "warm",
            "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}},
        }
    ]
    dest = tmp_path / "report.json"
    answer = ledger(accounting=accounting, dest=str(dest))
    assert answer["ledger"]["requested"] == requested
    assert answer["scheduler"]["requested"] == 5
    assert json.loads(dest.read_text()) == answer["ledger"]
    assert set(answer["ledger"]) == {"nodes", "allocatable_total", "requested", "free"}


# Details


def test_without_details_there_are_none_and_device_classes_are_not_asked_for(ledger, server):
    assert "details" not in ledger()
    assert CLASSES not in [path for path, _query in server.seen]


def test_details_tell_what_is_behind_the_sums(ledger):
    found = ledger(details="full")["details"]
    assert [(one["name"], one["scheduler_free"], one["unhealthy"]) for one in found["nodes"]] == [
        ("gpu-a", 2, 0),
        ("gpu-lab", -2, 1),
    ]
    assert [(one["name"], one["limits"], one["scheduler"], one["reasons"]) for one in found["differences"]] == [
        ("lost", 1, 0, ["orphan"]),
        ("train", 1, 2, ["sidecar"]),
    ]
    assert [one["name"] for one in found["overcommitted"]] == ["gpu-lab"]
    assert [(one["name"], one["node"]) for one in found["orphans"]] == [("lost", "gone")]
    assert [(one["name"], one["until"]) for one in found["terminating"]] == [("old", "2026-03-01T10:00:00Z")]
    (more,) = found["waiting"]
    assert more["name"] == "more"
    assert more["message"].startswith("asks for 1 of nvidia.com/gpu: ")
    assert more["scheduler_message"] == finished.SHORTAGE
    assert {name: len(found[name]) for name in gpu_ledger.LISTS} == found["counts"]


def test_the_sums_are_the_same_with_details_and_without(ledger):
    plain, full = ledger(), ledger(details="full")
    for key in ("ledger", "scheduler", "placeable", "largest_free", "warned"):
        assert plain[key] == full[key]


def test_a_summary_is_cut_and_its_counts_are_not(ledger, server):
    server.lists["/api/v1/pods"] += [finished.waiting(f"wait-{number:02}") for number in range(29)]
    server.page = 500
    summary, full = (ledger(details=level)["details"] for level in ("summary", "full"))
    assert summary["counts"] == full["counts"]
    assert full["counts"]["waiting"] == len(full["waiting"]) == 30
    assert summary["waiting"] == full["waiting"][:20]
    for name in set(gpu_ledger.LISTS) - {"waiting"}:
        assert summary[name] == full[name]


def test_device_classes_that_may_not_be_listed_are_a_remark(ledger, server):
    server.trouble[CLASSES] = 403
    answer = ledger(details="full")
    assert answer["details"]["counts"]["waiting"] == 1
    assert answer["warned"][-1].startswith("whether nvidia.com/gpu may come from ResourceClaims was not looked at: ")
    assert "deviceclasses" in answer["warned"][-1]


def test_device_classes_that_break_off_are_a_failure(ledger, server, account):
    server.trouble[CLASSES] = 500
    answer = ledger(details="full", details_dest=str(account))
    assert (answer["failed"], answer["kind"]) == (True, "unreachable")
    assert not account.exists()


def test_device_classes_are_not_asked_for_when_nothing_waits(ledger, server):
    server.lists["/api/v1/pods"][:] = finished.lab(8)["pods"]
    server.trouble[CLASSES] = 403
    assert not ledger(details="full")["details"]["waiting"]
    assert CLASSES not in [path for path, _query in server.seen]


def test_a_device_class_that_stands_for_the_resource(ledger, server):
    server.lists[CLASSES] = [{"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}]
    server.lists["/api/v1/nodes"][0]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    (more,) = ledger(details="full")["details"]["waiting"]
    assert "dra" in [one["reason"] for one in more["reasons"]]


# The file of the details


def test_details_are_written_as_they_are_returned_and_once(ledger, account):
    first = ledger(details="full", details_dest=str(account))
    assert (first["changed"], first["details_dest"], "dest" in first) == (True, str(account), False)
    assert account.read_text() == text(first["details"])
    before = account.stat()
    assert not ledger(details="full", details_dest=str(account))["changed"]
    after = account.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert ledger(details="full", details_dest=str(account), mode="0600")["changed"]
    assert stat.S_IMODE(account.stat().st_mode) == 0o600


def test_both_files_their_modes_backups_and_differences(ledger, account, tmp_path):
    report = tmp_path / "report.json"
    for file in (report, account):
        file.write_text(f"old {file.name}\n")
    options = {"details": "full", "dest": str(report), "details_dest": str(account), "mode": "0640"}
    for check in (True, False):
        answer = ledger(**options, backup=True, diff=True, check=check)
        assert answer["changed"]
        assert [one["before"] for one in answer["diff"]] == ["old report.json\n", "old account.json\n"]
        assert [one["after"] for one in answer["diff"]] == [text(answer["ledger"]), text(answer["details"])]
        assert [one["after_header"] for one in answer["diff"]] == [str(report), str(account)]
        if check:
            assert report.read_text() == "old report.json\n"
            assert account.read_text() == "old account.json\n"
            assert not {"backup_file", "details_backup_file"} & set(answer)
    for file, key in ((report, "backup_file"), (account, "details_backup_file")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        with open(answer[key], encoding="utf-8") as handle:
            assert handle.read() == f"old {file.name}\n"
    account.write_text("spoilt")
    answer = ledger(**options, backup=True)
    assert answer["changed"]
    assert set(answer) & {"backup_file", "details_backup_file"} == {"details_backup_file"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "details_dest: there are no details to write"),
        ({"details": "none"}, "set details to summary or full"),
        ({"details": "full", "dest": "{account}"}, "is the file of dest, too"),
        ({"details": "full", "dest": "{folder}/../{folder.name}/account.json"}, "is the file of dest, too"),
        ({"details": "full", "dest": "{folder}/link"}, "is the file of dest, too"),
    ],
)
def test_a_file_for_details_that_makes_no_sense(ledger, server, account, tmp_path, options, words):
    (tmp_path / "link").symlink_to(account)
    options = {name: value.format(account=account, folder=tmp_path) for name, value in options.items()}
    answer = ledger(details_dest=str(account), **options)
    assert answer["failed"]
    assert words in answer["msg"]
    assert server.seen == []


def test_a_place_where_no_details_can_be_is_named_and_nothing_is_written(ledger, tmp_path):
    report = tmp_path / "report.json"
    answer = ledger(details="full", dest=str(report), details_dest=str(tmp_path))
    assert answer["msg"].startswith("details_dest: ")
    assert not report.exists()


@pytest.fixture
def little_room():
    """No file may become larger than the report is: the details do not fit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_room_for_one_file_leaves_both_as_they_were(ledger, account, tmp_path, little_room):
    report = tmp_path / "report.json"
    files = (report, account)
    for file in files:
        file.write_text("old\n")
    answer = ledger(details="full", dest=str(report), details_dest=str(account), backup=True)
    assert answer["failed"]
    assert answer["msg"].startswith(f"details_dest: {account} was not written and is as it was: its new content")
    assert [file.read_text() for file in files] == ["old\n", "old\n"]
    assert sorted(file.name for file in tmp_path.glob("*.json*")) == sorted(file.name for file in files)


# What is promised


def undocumented(documented, real, where=""):
    """Keys that are returned and not documented, or documented and not returned, at any depth that 'contains' tells of."""
    wrong = [f"{where}{key}" for key in sorted(set(documented) ^ set(real))]
    for key in set(documented) & set(real):
        about, value = documented[key], real[key]
        if about["type"] != {bool: "bool", int: "int", str: "str", list: "list", dict: "dict"}[type(value)]:
            wrong.append(f"{where}{key}: {about['type']}")
        if "contains" in about:
            wrong += undocumented(about["contains"], value, f"{where}{key}.")
        elif isinstance(about["sample"], list) and value:
            wrong += [f"{where}{key}[].{one}" for one in sorted(set(about["sample"][0]) ^ set(value[0]))]
    return wrong


def test_every_key_returned_is_documented_and_every_key_documented_returned(ledger, tmp_path, account):
    report = tmp_path / "report.json"
    for file in (report, account):
        file.write_text("old")
    answer = ledger(details="full", dest=str(report), details_dest=str(account), backup=True)
    assert all(answer["details"][name] for name in gpu_ledger.LISTS)
    for common in ("changed", "invocation", "warned", "warnings", "diff"):
        answer.pop(common, None)
    # Of failures, and of a link.
    others = ("kind", "path")
    assert undocumented({key: about for key, about in RETURN.items() if key not in others}, answer) == []
    (entry,) = answer["details"]["waiting"]
    (sample,) = RETURN["details"]["contains"]["waiting"]["sample"]
    assert set(entry["reasons"][0]) == set(sample["reasons"][0])
    assert set(answer["stats"]) == set(RETURN["stats"]["sample"])


def test_what_a_failure_returns_is_documented(ledger, server):
    server.trouble["/api/v1/nodes"] = 403
    answer = ledger()
    kinds = yaml.safe_dump(RETURN["kind"]["description"])
    assert all(f"V({kind})" in kinds for kind in _kube.KubeError.KINDS if kind != "expired")
    assert set(answer) - {"changed", "failed", "msg", "invocation", "warned", "exception"} == {"kind"}


def test_the_reasons_are_documented():
    waiting = yaml.safe_dump(RETURN["details"]["contains"]["waiting"]["description"])
    differences = yaml.safe_dump(RETURN["details"]["contains"]["differences"]["description"])
    assert [one for one in gpu_ledger._explain.REASONS if f"V({one})" not in waiting] == []
    assert [one for one in gpu_ledger._account._DIFFERENCE if f"V({one})" not in differences] == []


def agree(documented, spec, where=""):
    assert set(documented) == set(spec), where
    for name, about in documented.items():
        real = spec[name]
        assert about["type"] == real.get("type", "str"), f"{where}{name}"
        assert about.get("default") == real.get("default"), f"{where}{name}"
        assert about.get("required", False) == real.get("required", False), f"{where}{name}"
        assert list(about.get("choices", [])) == list(real.get("choices", [])), f"{where}{name}"
        agree(about.get("suboptions", {}), real.get("options", {}), f"{where}{name}.")


def test_the_options_are_those_that_are_documented(monkeypatch):
    seen = {}

    class Spied(Exception):
        pass

    def spy(**arguments):
        seen.update(arguments)
        raise Spied

    monkeypatch.setattr(gpu_ledger, "AnsibleModule", spy)
    with pytest.raises(Spied):
        gpu_ledger.main()
    own = {name: about for name, about in seen["argument_spec"].items() if name not in _kube.connection_options()}
    agree(OPTIONS, own)
    assert seen["supports_check_mode"]
    assert seen["add_file_common_args"]


def test_the_examples_have_options_that_exist():
    known = {*OPTIONS, *_kube.connection_options(), "mode", "owner", "group"}
    for task in yaml.safe_load(gpu_ledger.EXAMPLES):
        options = task.get("gsb.fake_gpu_lab.gpu_ledger", {}) or {}
        assert set(options) <= known, task["name"]
