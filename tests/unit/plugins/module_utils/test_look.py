# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Files as learners leave them, releases as Helm keeps them, processes as the kernel shows them."""

from __future__ import annotations

import base64
import errno
import gzip
import os
import socket

import pytest

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _kube, _look, _sight
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import api, finished


def test_a_file(tmp_path):
    path = tmp_path / "advertised.txt"
    path.write_text("노드=gpu-lab\n", encoding="utf-8")
    os.utime(path, (100, 100))
    assert _look.read_text(str(path)) == {
        "state": "ok",
        "text": "노드=gpu-lab\n",
        "size": path.stat().st_size,
        "mtime": 100.0,
    }


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfnode=")
    assert _look.read_text(str(tmp_path / "f"))["text"] == "node="


def test_a_link_is_followed_and_a_dead_one_is_missing(tmp_path):
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    (tmp_path / "dead").symlink_to(tmp_path / "gone")
    assert _look.read_text(str(tmp_path / "link"))["text"] == "x"
    assert _look.read_text(str(tmp_path / "dead"))["state"] == "missing"


def test_nothing_there(tmp_path):
    (tmp_path / "f").write_text("x")
    assert _look.read_text(str(tmp_path / "none"))["state"] == "missing"
    assert _look.read_text(str(tmp_path / "f" / "below"))["state"] == "missing"


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        states = {name: _look.read_text(str(tmp_path / name))["state"] for name in ("pipe", "socket", ".")}
    assert set(states.values()) == {"not a file"}
    assert _look.read_text("/dev/zero")["state"] == "not a file"


def test_a_large_file_is_not_read_to_its_end(tmp_path):
    with open(tmp_path / "f", "wb") as handle:
        handle.truncate(2**40)
    assert _look.read_text(str(tmp_path / "f"))["state"] == "too large"


def test_the_limit_itself_is_not_too_large(tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 10)
    assert _look.read_text(str(tmp_path / "f"), limit=10)["state"] == "ok"
    assert _look.read_text(str(tmp_path / "f"), limit=9)["state"] == "too large"


def test_a_file_in_another_encoding(tmp_path):
    (tmp_path / "f").write_bytes("노드".encode("euc-kr"))
    assert _look.read_text(str(tmp_path / "f"))["state"] == "not UTF-8"
    (tmp_path / "f").write_bytes("node".encode("utf-16"))
    assert _look.read_text(str(tmp_path / "f"))["state"] == "not UTF-8"


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_look.os, "open", refuse)
    assert _look.read_text(str(tmp_path / "f")) == {"state": "unreadable", "detail": "Permission denied"}


def test_a_file_that_breaks_while_it_is_read(tmp_path, monkeypatch):
    def fail(*_args):
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "f").write_text("x")
    monkeypatch.setattr(_look.os, "read", fail)
    assert _look.read_text(str(tmp_path / "f")) == {"state": "unreadable", "detail": "Input/output error"}


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a: 1\n", [{"a": 1}]),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\n---\n# nothing\n", []),
        ("words", ["words"]),
    ],
)
def test_yaml(text, documents):
    assert _look.with_documents(finished.text_file(text))["documents"] == documents


@pytest.mark.parametrize(
    "text", ["a: [", "a: 1\n b: 2\n", "\tx: 1", "{" * 20000, "when: 2026-13-45", "!!python/object/apply:os.getcwd []"]
)
def test_what_is_no_yaml(text):
    file = _look.with_documents(finished.text_file(text))
    assert file["yaml_error"]
    assert "documents" not in file


def test_all_files_of_the_learner(tmp_path):
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "values.yaml").write_text("a: 1")
    files = _look.files_in(str(tmp_path))
    assert set(files) == set(finished.lab(8)["files"])
    assert {name for name, about in files.items() if about["state"] == "ok"} == {"report.json", "values.yaml"}
    assert files["values.yaml"]["documents"] == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "origin"), [('{"origin": "standin"}', {"origin": "standin"}), ("{", None), ("[" * 100000, None)]
)
def test_origin(tmp_path, text, origin):
    (tmp_path / "origin.json").write_text(text)
    assert _look.origin_in(str(tmp_path / "origin.json")) == origin
    assert _look.origin_in(str(tmp_path / "none")) is None


def test_the_newest_revision_counts():
    release = finished.lab(6)["release"]
    older = [api.release_secret({**release, "revision": number, "status": "superseded"}) for number in (1, 9)]
    newest = _look.newest_release([older[1], api.release_secret({**release, "revision": 10}), older[0]])
    assert newest == {**release, "revision": 10}


def test_no_release():
    assert _look.newest_release([]) is None
    assert _look.newest_release([{"metadata": {"name": "token"}}]) is None


def packed(body):
    return base64.b64encode(base64.b64encode(gzip.compress(body))).decode()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"release": "%%%"},
        {"release": base64.b64encode(b"%%%").decode()},
        {"release": base64.b64encode(base64.b64encode(b"not gzip")).decode()},
        {"release": packed(b"not JSON")},
        {"release": packed(b"[]")},
        {"release": packed(b'{"chart": {}, "info": {}}')},
        {"release": packed(b" " * (_look.RELEASE_LIMIT + 1))},
    ],
)
def test_a_release_that_cannot_be_read_says_so(data):
    release = _look.newest_release([{"metadata": {"name": "sh.helm.release.v1.gpu-operator.v3"}, "data": data}])
    assert release["revision"] == 3
    assert "sh.helm.release.v1.gpu-operator.v3" in release["error"]


def test_topology():
    look = finished.lab(8)
    assert _look.topology(api.topology_maps(look["topology"])) == look["topology"]


@pytest.mark.parametrize("text", ["", "[", "words", "gpus: 4", "nodePools: [default]", "nodePools: {default: 4}"])
def test_topology_that_cannot_be_read_counts_nothing(text):
    maps = [{"metadata": {"name": name}, "data": {"topology.yml": text}} for name in ("topology", "topology-gpu-lab")]
    found = _look.topology([*maps, {"metadata": {"name": "topology-x"}}])
    assert found["nodes"] == {}
    assert not any(found["pools"].values())


def process(root, number, cgroup, *variables):
    folder = root / str(number)
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(b"\0".join(variables) + b"\0")


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/kubepods/besteffort/pod{uid}/0f0e\n",
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice/cri-containerd-0f0e.scope\n",
        "12:devices:/kubepods/besteffort/pod{uid}/0f0e\n1:name=systemd:/kubepods/besteffort/pod{uid}/0f0e\n",
    ],
)
def test_devices_of_a_container_on_this_machine(tmp_path, cgroup):
    uid = finished.REAL_UID
    here = cgroup.format(uid=uid, under=uid.replace("-", "_"))
    process(tmp_path, 1, "0::/init.scope\n", b"MOCK_NVIDIA_VISIBLE_DEVICES=of-another")
    process(tmp_path, 20, here, b"PATH=/pause")
    process(tmp_path, 21, here, b"HOSTNAME=gpu-1", b"MOCK_NVIDIA_VISIBLE_DEVICES=" + finished.DEVICE.encode())
    (tmp_path / "22").mkdir()
    (tmp_path / "self").mkdir()
    assert _look.devices_of([uid], str(tmp_path)) == {uid: finished.DEVICE}


def test_devices_of_a_container_elsewhere(tmp_path):
    process(tmp_path, 1, "0::/init.scope\n")
    assert _look.devices_of([finished.REAL_UID], str(tmp_path)) == {}
    assert _look.devices_of([finished.REAL_UID], str(tmp_path / "none")) == {}
    assert _look.devices_of([]) == {}


class Reader:
    """Answers from a look, except where it is told to refuse."""

    def __init__(self, look, **refusals):
        self.look, self.refusals = look, refusals

    def answer(self, name, value):
        if name in self.refusals:
            raise _kube.KubeError(self.refusals[name], f"no {name}")
        return value

    def nodes(self):
        return self.answer("nodes", self.look["nodes"])

    def pods(self):
        return self.answer("pods", self.look["pods"])

    def namespace(self, _name):
        return self.answer("namespace", {} if self.look["namespace"] else None)

    def config_maps(self, _namespace):
        return self.answer("config_maps", api.topology_maps(self.look["topology"]))

    def release_secrets(self, _namespace, _release):
        return self.answer("secrets", [api.release_secret(self.look["release"])])

    def custom(self, *_kind):
        return self.answer("custom", [{}] * self.look["stages"])


def test_one_look_at_the_cluster():
    look = finished.lab(8)
    seen = _look.cluster(Reader(look), _sight.Names())
    assert seen == {key: look[key] for key in look if key not in ("files", "devices")}


def test_what_only_some_checks_need_may_be_refused():
    seen = _look.cluster(Reader(finished.lab(8), secrets="refused", custom="refused"), _sight.Names())
    assert seen["errors"] == {"release": "no secrets", "stages": "no custom"}
    assert (seen["release"], seen["stages"]) == (None, None)


@pytest.mark.parametrize(
    "refusals", [{"nodes": "refused"}, {"pods": "refused"}, {"namespace": "refused"}, {"secrets": "unreachable"}]
)
def test_what_all_checks_need_may_not(refusals):
    with pytest.raises(_kube.KubeError):
        _look.cluster(Reader(finished.lab(8), **refusals), _sight.Names())
