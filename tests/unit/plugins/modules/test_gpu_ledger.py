# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The module against an API server: complete ledgers, or a failure and an untouched file."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import time

import jsonschema
import pytest

from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished

LEDGER = {"nodes": {"gpu-a": 4, "gpu-lab": 4}, "allocatable_total": 8, "requested": 4, "free": 4}


@pytest.fixture
def server():
    with api.Api(finished.lab(8)) as running:
        yield running


@pytest.fixture
def ledger(run, server):
    return lambda **options: run("gpu_ledger", host=server.url, **options)


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report.json"


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_ledger_is_returned(ledger):
    answer = ledger()
    assert (answer["ledger"], answer["changed"], answer["resource"]) == (LEDGER, False, "nvidia.com/gpu")
    assert "dest" not in answer


def test_all_pages_are_read(ledger, server):
    ledger()
    pages = {}
    for path, query in server.seen:
        if path == "/api/v1/pods":
            pages.setdefault(query["fieldSelector"], []).append(query.get("continue"))
    # This server knows no selectors: those with a node, and those promised one, are looked for among all.
    assert len(pages) == 2
    for each in pages.values():
        assert len(each) == -(-len(server.lists["/api/v1/pods"]) // server.page)
        assert each[0] is None


def test_the_file_is_written_once(ledger, report):
    first = ledger(dest=str(report))
    assert (first["changed"], first["dest"]) == (True, str(report))
    assert json.loads(report.read_text()) == LEDGER
    before = report.stat()
    second = ledger(dest=str(report))
    assert (second["changed"], second["ledger"]) == (False, LEDGER)
    after = report.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_the_file_is_two_spaces_sorted_keys_and_a_final_newline(ledger, report):
    ledger(dest=str(report))
    assert report.read_bytes() == (json.dumps(LEDGER, indent=2, sort_keys=True) + "\n").encode()


@pytest.mark.parametrize("old", ["", "{}", json.dumps(LEDGER), "no JSON", "\ufeff"])
def test_other_content_is_replaced(ledger, report, old):
    report.write_text(old)
    assert ledger(dest=str(report))["changed"]
    assert json.loads(report.read_text()) == LEDGER


def test_check_mode_tells_and_does_not_write(ledger, report):
    assert ledger(dest=str(report), check=True, mode="0600")["changed"]
    assert not report.exists()
    ledger(dest=str(report), mode="0644")
    assert not ledger(dest=str(report), check=True, mode="0644")["changed"]
    assert ledger(dest=str(report), check=True, mode="0600")["changed"]
    assert stat.S_IMODE(report.stat().st_mode) == 0o644
    report.write_text("old")
    assert ledger(dest=str(report), check=True)["changed"]
    assert report.read_text() == "old"


@pytest.mark.parametrize("check", [False, True])
def test_diff_mode(ledger, report, check):
    text = json.dumps(LEDGER, indent=2, sort_keys=True) + "\n"
    report.write_text("old\n")
    answer = ledger(dest=str(report), diff=True, check=check)
    assert answer["diff"]["before"] == "old\n"
    assert answer["diff"]["after"] == text
    report.write_text(text)
    answer = ledger(dest=str(report), diff=True, check=check)
    assert answer["diff"]["before"] == answer["diff"]["after"] == text


def test_diff_of_a_new_file_and_of_one_in_another_encoding(ledger, report):
    assert ledger(dest=str(report), diff=True)["diff"]["before"] == ""
    report.write_bytes("노드".encode("euc-kr"))
    assert "\ufffd" in ledger(dest=str(report), diff=True)["diff"]["before"]


def test_attributes_alone_are_a_change(ledger, report):
    ledger(dest=str(report), mode="0640")
    assert stat.S_IMODE(report.stat().st_mode) == 0o640
    answer = ledger(dest=str(report), mode="0600")
    assert (answer["changed"], answer["mode"]) == (True, "0600")
    assert not ledger(dest=str(report), mode="0600")["changed"]


def test_a_backup_only_when_the_file_changes(ledger, report, tmp_path):
    assert "backup_file" not in ledger(dest=str(report), backup=True)
    report.write_text("of yesterday")
    answer = ledger(dest=str(report), backup=True)
    with open(answer["backup_file"], encoding="utf-8") as handle:
        assert handle.read() == "of yesterday"
    ledger(dest=str(report), backup=True)
    assert len(list(tmp_path.glob("report.json*"))) == 2


def test_a_link_stays_a_link(ledger, report, tmp_path):
    (tmp_path / "real.json").write_text("old")
    report.symlink_to(tmp_path / "real.json")
    assert ledger(dest=str(report))["changed"]
    assert report.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == LEDGER


def test_the_mode_is_that_of_the_file_behind_a_link(ledger, report, tmp_path):
    real = tmp_path / "real.json"
    report.symlink_to(real)
    real.write_text("old")
    real.chmod(0o600)
    for changed in (True, False):
        answer = ledger(dest=str(report), mode="0640")
        assert (answer["changed"], answer["mode"], answer["path"]) == (changed, "0640", str(real))
        assert answer["size"] == real.stat().st_size
        assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert ledger(dest=str(report), mode="0600", check=True)["changed"]


def deleted(report):
    report.unlink()


def overwritten(report):
    report.write_text('{"other": 1}')


@pytest.mark.parametrize("meanwhile", [deleted, overwritten])
def test_what_becomes_of_the_file_during_the_look_counts(ledger, server, report, meanwhile):
    ledger(dest=str(report))
    report.chmod(0o600)
    server.trouble["/api/v1/nodes"] = api.once(server, "/api/v1/nodes", lambda: meanwhile(report))
    answer = ledger(dest=str(report), diff=True)
    assert answer["changed"]
    assert answer["diff"]["before"] == ('{"other": 1}' if meanwhile is overwritten else "")
    assert json.loads(report.read_text()) == LEDGER


def test_a_folder_that_goes_during_the_look_is_named(ledger, server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    server.trouble["/api/v1/nodes"] = api.once(server, "/api/v1/nodes", folder.rmdir)
    answer = ledger(dest=str(folder / "report.json"))
    assert answer["msg"] == f"dest: {folder} is not a folder; make it first"


@pytest.mark.parametrize("option", [{"owner": "nobody-of-that-name"}, {"group": "none-such"}, {"mode": "banana"}])
def test_what_cannot_be_set_is_told_before_the_file_is_replaced(ledger, report, tmp_path, option):
    report.write_text("old")
    answer = ledger(dest=str(report), **option)
    assert answer["failed"]
    assert report.read_text() == "old"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ansible", "report.json"]


def test_a_file_that_cannot_be_replaced_is_as_it_was(ledger, report, tmp_path, monkeypatch):
    report.write_text("old")

    def refuse(source, target):
        raise OSError(errno.EBUSY, "Device or resource busy", target)

    monkeypatch.setattr(os, "rename", refuse)
    answer = ledger(dest=str(report))
    assert answer["msg"] == f"dest: {report} could not be replaced and is as it was: Device or resource busy"
    assert answer["changed"] is False
    assert report.read_text() == "old"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ansible", "report.json"]
    assert ledger(dest=str(report), unsafe_writes=True)["changed"]
    assert json.loads(report.read_text()) == LEDGER


def test_nothing_is_left_beside_the_file(ledger, report, tmp_path):
    ledger(dest=str(report))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ansible", "report.json"]


@pytest.mark.parametrize("check", [False, True])
def test_places_where_no_file_can_be(ledger, tmp_path, server, check):
    (tmp_path / "file").write_text("")
    (tmp_path / "dead").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    for dest, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "report.json", "is not a folder; make it first"),
        (tmp_path / "file" / "report.json", "is not a folder; make it first"),
        (tmp_path / "dead", "is a link to nothing"),
        (tmp_path / "pipe", "is not a regular file"),
    ):
        answer = ledger(dest=str(dest), check=check)
        assert answer["failed"]
        assert why in answer["msg"]
    assert server.seen == [], "the file is looked at before the cluster is asked"


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("check", [False, True])
def test_a_folder_that_cannot_be_written_to(ledger, report, tmp_path, monkeypatch, old, check):
    if old:
        report.write_text(old)
    monkeypatch.setattr(os, "access", lambda path, *_args, **_more: path != str(tmp_path))
    assert ledger(dest=str(report), check=check)["msg"] == f"dest: {tmp_path} cannot be written to"
    if old:
        assert ledger(dest=str(report), check=check, unsafe_writes=True)["changed"]


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (401, "refused", "401 Unauthorized"),
        (403, "refused", "/api/v1/pods is forbidden"),
        (404, "missing", "404 Not Found"),
        (429, "unreachable", "429 Too Many Requests"),
        (500, "unreachable", "500 Internal Server Error"),
        (503, "unreachable", "503 Service Unavailable"),
        (api.cut, "unreachable", "Connection broken"),
        (api.prose, "answer", "did not answer with JSON"),
        (api.answering([]), "answer", "no Kubernetes object"),
        (api.answering({"kind": "Status"}), "answer", "no list"),
        (api.answering({"items": ["pod"]}), "answer", "no list"),
        (api.answering({"items": [], "metadata": {"continue": "same"}}), "answer", "again and again"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
def test_never_a_partial_ledger(ledger, server, report, path, trouble, kind, words):
    report.write_text("of yesterday")
    server.trouble[path] = trouble
    answer = ledger(dest=str(report))
    assert answer["failed"]
    assert answer["kind"] == kind
    assert words.replace("/api/v1/pods", path) in answer["msg"]
    assert "Traceback" not in answer["msg"]
    assert report.read_text() == "of yesterday"


def test_a_later_page_that_is_refused_fails_as_well(ledger, server, report):
    server.trouble["/api/v1/pods"] = lambda _handler, query: 403 if "continue" in query else None
    assert ledger(dest=str(report))["kind"] == "refused"
    assert not report.exists()


def test_a_list_whose_place_was_lost_is_read_again_from_the_start(ledger, server):
    gone = iter([410])
    server.trouble["/api/v1/pods"] = lambda _handler, query: next(gone, None) if "continue" in query else None
    assert ledger()["ledger"] == LEDGER


def test_a_list_whose_place_is_lost_again_and_again_fails(ledger, server):
    server.trouble["/api/v1/pods"] = lambda _handler, query: 410 if "continue" in query else None
    answer = ledger()
    assert (answer["failed"], answer["kind"]) == (True, "unreachable")


def test_a_server_that_drips_its_answer_is_given_up(ledger, server, report):
    server.trouble["/api/v1/pods"] = api.drip
    start = time.monotonic()
    answer = ledger(dest=str(report), timeout=1)
    assert time.monotonic() - start < 10
    assert answer["kind"] == "unreachable"
    assert "within 1 seconds" in answer["msg"]
    assert not report.exists()


def test_nobody_answers(run, report):
    answer = run("gpu_ledger", host=f"http://127.0.0.1:{closed_port()}", dest=str(report))
    assert answer["kind"] == "unreachable"
    assert "Connection refused" in answer["msg"]
    assert not report.exists()


def test_no_kubeconfig(run, report):
    answer = run("gpu_ledger", kubeconfig="/nonexistent/kubeconfig", dest=str(report))
    assert answer["kind"] == "config"
    assert "the file that the option kubeconfig names is not there" in answer["msg"]
    assert not report.exists()


def test_no_kubeconfig_at_all(run, monkeypatch):
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nonexistent/config")
    answer = run("gpu_ledger")
    assert answer["kind"] == "config"
    assert "there is no kubeconfig /nonexistent/config. Give the path of one by the option kubeconfig" in answer["msg"]


def test_a_context_that_is_not_there_is_told_with_those_that_are(run, server, kubeconfig_for):
    answer = run("gpu_ledger", kubeconfig=kubeconfig_for(server.url), context="nope")
    assert answer["kind"] == "config"
    assert "nope" in answer["msg"]
    assert "The contexts of" in answer["msg"]


def test_a_kubeconfig(run, server, kubeconfig_for):
    assert run("gpu_ledger", kubeconfig=kubeconfig_for(server.url))["ledger"] == LEDGER


def test_a_broken_kubeconfig(run, tmp_path):
    (tmp_path / "kubeconfig").write_text("clusters: [")
    assert run("gpu_ledger", kubeconfig=str(tmp_path / "kubeconfig"))["kind"] == "config"


def test_a_part_of_a_device_counts_as_one(ledger, server):
    """As the API's Value() has it."""
    server.lists["/api/v1/pods"][-1]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "500m"
    assert ledger()["ledger"] == LEDGER


@pytest.mark.parametrize("amount", ["1 ", "0x1", "many", "-1", "1Gib", "9223372036854775808"])
def test_an_amount_that_cannot_be_counted_is_named(ledger, server, report, amount):
    server.lists["/api/v1/pods"][-1]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = amount
    answer = ledger(dest=str(report))
    assert answer["failed"]
    assert "pod fake-lab/far-1, container main" in answer["msg"]
    assert not report.exists()


def test_another_resource(ledger):
    answer = ledger(resource="amd.com/gpu")
    assert answer["ledger"] == {"nodes": {}, "allocatable_total": 0, "requested": 0, "free": 0}
    assert answer["warned"] == [
        "no node advertises amd.com/gpu",
        "nodes also advertise nvidia.com/gpu, which this account does not cover",
    ]


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "memory",
        "",
        "/",
        "*/*",
        "a/",
        "/b",
        "a//b",
        "nvidia.com/gpu ",
        "nvidia.com/gpu\n",
        "Nvidia.com/gpu",
        "a/b/c",
    ],
)
def test_what_is_no_extended_resource(ledger, server, report, resource):
    answer = ledger(resource=resource, dest=str(report))
    assert answer["msg"] == f"resource: {resource!r} is no name of an extended resource, such as nvidia.com/gpu"
    assert not report.exists()
    assert server.seen == []


@pytest.mark.parametrize("resource", ["a/b", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "x/A_b"])
def test_what_is_an_extended_resource(ledger, resource):
    assert ledger(resource=resource)["ledger"]["nodes"] == {}


@pytest.mark.parametrize("dest", ["", "   ", "/tmp/a\0b"])
def test_what_is_no_path(ledger, server, dest):
    assert ledger(dest=dest)["msg"] == f"dest: {dest!r} is no path; leave the option out to write nothing"
    assert server.seen == []


@pytest.mark.parametrize("seconds", [0, -1, 604801, 99999999999999999999])
def test_a_time_limit_that_is_none(ledger, seconds):
    assert ledger(timeout=seconds)["msg"] == f"timeout: must be from 1 to 604800 (seconds), not {seconds}"


def test_more_held_than_offered_is_warned_of(ledger, server):
    server.lists["/api/v1/nodes"][0]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    server.lists["/api/v1/nodes"][1]["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    answer = ledger()
    assert answer["ledger"]["free"] == -3
    assert answer["warned"] == [
        "pods hold 3 more of nvidia.com/gpu than the nodes offer",
        "pods hold more than their node offers on gpu-lab",
        "nodes have devices that they do not offer, unhealthy or not served: gpu-a (3), gpu-lab (4)",
        "nodes are labelled as having nvidia.com/gpu but advertise none: gpu-lab",
    ]


def test_a_list_without_items_is_empty(ledger, server):
    server.trouble["/api/v1/pods"] = api.answering({"items": None, "metadata": {}})
    assert ledger()["ledger"]["requested"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout: must be from 1 to 604800 (seconds), not 0"),
        ({"wait_timeout": -1}, "wait_timeout: must be from 0 to 604800 (seconds), not -1"),
        ({"wait_sleep": 0}, "wait_sleep: must be from 1 to 604800 (seconds), not 0"),
        ({"wait_for": {"placeable": {"size": 0}}}, "wait_for.placeable.size: must be at least 1, not 0"),
        ({"wait_for": {"placeable": {"size": 1, "count": -2}}}, "wait_for.placeable.count: must be at least 1, not -2"),
        ({"wait_for": {"placeable": {"count": 1}}}, "missing required arguments: size found in wait_for -> placeable"),
        ({"wait_for": {"free": "many"}}, "'many'"),
        ({"wait_for": {"idle": 1}}, "wait_for.idle"),
        ({"accounting": "quota"}, "limits, scheduler, got: quota"),
        ({"details": "all"}, "none, summary, full, got: all"),
    ],
)
def test_options_that_make_no_sense(ledger, server, options, words):
    answer = ledger(**options)
    assert answer["failed"]
    assert words in answer["msg"]
    assert server.seen == []


@pytest.mark.parametrize("cluster", [{}, {"gpus": "0"}, {"gpus": "1"}, {"gpus": "16"}])
def test_the_file_is_of_the_schema_and_adds_up(request, ledger, server, report, cluster):
    schema = json.loads((request.config.rootpath / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for field in ("capacity", "allocatable"):
        if cluster:
            server.lists["/api/v1/nodes"][0]["status"][field]["nvidia.com/gpu"] = cluster["gpus"]
    for accounting in ("limits", "scheduler"):
        ledger(dest=str(report), accounting=accounting)
        written = json.loads(report.read_text())
        jsonschema.validate(written, schema)
        assert written["allocatable_total"] == sum(written["nodes"].values())
        assert written["free"] == written["allocatable_total"] - written["requested"]


@pytest.mark.parametrize(
    "spoil",
    [
        {"note": ""},
        {"nodes": {"gpu-a": 0}},
        {"nodes": {"gpu-a": "4"}},
        {"nodes": ["gpu-a"]},
        {"requested": -1},
        {"free": 1.5},
        {"free": None},
    ],
)
def test_the_schema_refuses_what_is_no_ledger(request, spoil):
    schema = json.loads((request.config.rootpath / "docs" / "report.schema.json").read_text())
    jsonschema.validate(LEDGER, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**LEDGER, **spoil}, schema)
