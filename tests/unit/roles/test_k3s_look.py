# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rungs of readiness of the role k3s, and what its look finds on a host."""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import os
import pathlib

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "roles" / "k3s" / "files" / "look.py"
SPEC = importlib.util.spec_from_file_location("k3s_look", SCRIPT)
look = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(look)

VERSION = "v1.36.4+k3s1"
SINCE = look.parse_time("2026-01-01T10:00:10.500000Z")
LEASE = {"spec": {"renewTime": "2026-01-01T10:00:11.000000Z"}}


def node(**changes: object) -> dict:
    info = {"bootID": "this-boot", "kubeletVersion": VERSION, **changes}
    ready = info.pop("ready", {"type": "Ready", "status": "True"})
    return {"status": {"nodeInfo": info, "conditions": [ready]}}


def rung(seen: dict | None, lease: dict | None = LEASE) -> tuple[bool, str]:
    return look.node_rung(seen, lease, "gpu-lab", VERSION, "this-boot", SINCE)


def test_a_node_of_this_boot_and_version_with_a_fresh_lease_is_ready() -> None:
    assert rung(node()) == (True, f"node gpu-lab is Ready, {VERSION}")


@pytest.mark.parametrize(
    ("seen", "lease", "said"),
    [
        pytest.param(None, LEASE, "is not registered", id="no node"),
        pytest.param(node(bootID="the boot before"), LEASE, "reports an earlier boot", id="stale node"),
        pytest.param(node(kubeletVersion="v1.35.1+k3s1"), LEASE, f"v1.35.1+k3s1, wanted {VERSION}", id="old version"),
        pytest.param(
            node(ready={"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no cni"}),
            LEASE,
            "KubeletNotReady: no cni",
            id="not ready",
        ),
        pytest.param(node(), None, "lease", id="no lease"),
        pytest.param(node(), {"spec": {"renewTime": "2026-01-01T10:00:10.499999Z"}}, "lease", id="old lease"),
    ],
)
def test_a_node_that_is_not_ready_says_why(seen: dict | None, lease: dict | None, said: str) -> None:
    ok, words = rung(seen, lease)
    assert not ok
    assert said in words


@pytest.mark.parametrize(
    ("service", "ok"),
    [
        ({"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Job": ""}, True),
        ({"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Job": "0"}, True),
        ({"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Job": "812"}, False),
        ({"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "3"}, False),
        ({"LoadState": "not-found", "ActiveState": "inactive"}, False),
        ({}, False),
    ],
)
def test_the_service_counts_when_it_is_active_and_no_job_waits(service: dict, ok: bool) -> None:
    assert look.service_rung(service)[0] is ok


def test_a_service_that_keeps_failing_says_how_often() -> None:
    said = look.service_rung(
        {"ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "3", "Result": "exit-code"}
    )[1]
    assert "restarted 3 times" in said
    assert "exit-code" in said


@pytest.mark.parametrize(
    ("answer", "ok"),
    [((0, "ok", ""), True), ((0, "ok\n", ""), True), ((1, "", "connection refused"), False), ((0, "no", ""), False)],
)
def test_the_api_is_ready_when_it_says_so(answer: tuple, ok: bool) -> None:
    assert look.api_rung(answer)[0] is ok


def coredns(status: str = "True", started: str = "2026-01-01T10:00:05Z", ready: str = "True") -> list[dict]:
    return [
        {"kind": "Deployment", "status": {"conditions": [{"type": "Available", "status": status, "message": "min"}]}},
        {
            "kind": "Pod",
            "metadata": {"name": "coredns-x"},
            "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{"state": {"running": {"startedAt": started}}}],
            },
        },
    ]


BOOTED = look.parse_time("2026-01-01T10:00:05.900000Z")


def test_coredns_is_available_through_a_pod_of_this_boot() -> None:
    assert look.coredns_rung(coredns(), BOOTED)[0] is True


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([], id="no deployment"),
        pytest.param(coredns(status="False"), id="not available"),
        pytest.param(coredns(started="2026-01-01T10:00:04Z"), id="pod of an earlier boot"),
        pytest.param(coredns(ready="False"), id="pod not ready"),
    ],
)
def test_coredns_is_not_available(items: list[dict]) -> None:
    assert look.coredns_rung(items, BOOTED)[0] is False


def test_the_words_of_a_waiting_pod_are_passed_on() -> None:
    items = coredns(status="False")
    items[1]["status"]["containerStatuses"] = [
        {"state": {"waiting": {"reason": "ErrImagePull", "message": "no route"}}}
    ]
    assert "coredns-x: ErrImagePull no route" in look.coredns_rung(items, BOOTED)[1]


def test_files_that_differ_in_content_mode_or_existence_are_named(tmp_path: pathlib.Path) -> None:
    wanted = []
    for name, content, mode in [("same", b"a", 0o644), ("content", b"b", 0o644), ("mode", b"a", 0o600)]:
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(mode)
        wanted.append({"path": str(path), "sha256": hashlib.sha256(b"a").hexdigest(), "mode": "0644"})
    wanted.append({"path": str(tmp_path / "none"), "sha256": "", "mode": "0644"})
    assert [pathlib.Path(path).name for path in look.differing(wanted)] == ["content", "mode", "none"]


def test_a_file_newer_than_the_process_has_not_been_read(tmp_path: pathlib.Path) -> None:
    started = datetime.datetime.now(look.UTC)
    for name, offset in [("older", -5), ("newer", 5)]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (started.timestamp() + offset,) * 2)
    paths = [str(tmp_path / name) for name in ("older", "newer", "none")]
    assert look.unread(paths, started) == [str(tmp_path / "newer")]
    assert look.unread(paths, None) == []


def test_links_are_right_free_or_foreign(tmp_path: pathlib.Path) -> None:
    (tmp_path / "right").symlink_to("k3s")
    (tmp_path / "elsewhere").symlink_to("/usr/bin/true")
    (tmp_path / "file").touch()
    wanted = {str(tmp_path / name): "k3s" for name in ("right", "elsewhere", "file", "none")}
    assert list(look.links(wanted).values()) == ["right", "foreign", "foreign", "free"]


@pytest.mark.parametrize(
    "text", ["Thu 2026-01-01 10:00:10.500000 UTC", "2026-01-01T10:00:10.5Z", "2026-01-01T10:00:10.500000Z"]
)
def test_times_are_read_with_their_fraction(text: str) -> None:
    assert look.parse_time(text) == SINCE


@pytest.mark.parametrize("text", ["", "n/a", None])
def test_no_time_is_no_time(text: str | None) -> None:
    assert look.parse_time(text) is None


def test_the_api_names_only_what_is_not_ok() -> None:
    answer = (1, "", 'Error from server (InternalError): an error on the server ("[+]ping ok\\n[-]etcd failed: no\\n")')
    assert look.api_rung(answer) == (False, "/readyz: not ok yet: etcd")


def climb(monkeypatch: pytest.MonkeyPatch, restarts: list[int]) -> int:
    """Return how often the service was looked at when it never becomes active."""
    seen = iter(restarts)
    looks = 0

    def readiness(_wanted: dict) -> dict:
        nonlocal looks
        looks += 1
        return {"rungs": [], "ready": False, "active": False, "restarts": next(seen)}

    monkeypatch.setattr(look, "readiness", readiness)
    monkeypatch.setattr(look, "service_properties", dict)
    monkeypatch.setattr(look, "PAUSE", 0)
    look.look({**look.DEFAULTS, "wait": 60})
    return looks


def test_a_service_that_fails_again_and_again_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert climb(monkeypatch, [0, 1, 2, 3, 4, 5, 6]) == 6


def test_failures_of_an_earlier_run_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert climb(monkeypatch, [10, 10, 11, 0, 1, 2, 3, 4, 5, 6]) == 9
