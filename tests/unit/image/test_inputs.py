# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Each variable of the image that cannot be used is told in one sentence, before anything is done."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from lab_image import inputs


def key(kind="ssh-ed25519"):
    raw = len(kind).to_bytes(4, "big") + kind.encode() + b"\0\0\0\x20" + b"k" * 32
    return f"{kind} {base64.b64encode(raw).decode()}"


USER = {"name": "ada", "groups": ["sudo"], "authorized_keys": [key() + " ada@home"]}


@pytest.fixture
def wanted(tmp_path):
    return {
        "name": "lab", "arch": "amd64", "formats": ["qcow2"], "size_gib": 4.0, "dest": str(tmp_path / "new/folder"),
        "hostname": "gpu-lab", "packages": ["tmux", "libstdc++6"], "authorized_keys": [], "users": [USER], "until": "files",
    }  # fmt: skip


def test_what_can_be_used(wanted):
    assert inputs.problems(wanted, "amd64") == []


@pytest.mark.parametrize(
    "line",
    [
        key(),
        key("ssh-rsa") + " me",
        key("sk-ssh-ed25519@openssh.com"),
        f'from="10.0.0.0/8",command="/bin/true x" {key()} me',
        key() + " me\n",
    ],
)
def test_public_keys(line):
    assert inputs.key_problem(line) == ""


WRONG = [
    ("formats", "qcow2", "has to be a list"),
    ("formats", [], "is empty"),
    ("packages", "tmux", "has to be a list"),
    ("packages", ["tmux,vim"], "no name of a Debian package"),
    ("packages", ["--purge"], "no name of a Debian package"),
    ("size_gib", 1, "takes 2"),
    ("size_gib", -4, "takes 2"),
    ("size_gib", float("nan"), "takes 2"),
    ("size_gib", 1e9, "at most 1024"),
    ("hostname", "", "give a host name"),
    ("hostname", "GPU_Lab", "give a host name"),
    ("hostname", "-lab", "give a host name"),
    ("hostname", "lab\nx", "give a host name"),
    ("hostname", "a." * 33 + "b", "give a host name"),
    ("name", "a/b", "no folder"),
    ("name", "", "no folder"),
    ("arch", "arm64", "this host is amd64"),
    ("until", "rot", "choose root or files"),
    ("dest", "images", "absolute path"),
    ("dest", "~/images", "absolute path"),
    ("dest", "/proc/self/stat/x", "is no folder"),
    ("authorized_keys", "ssh-ed25519 AAAA me", "has to be a list"),
    ("authorized_keys", [""], "entry 1, is empty"),
    ("authorized_keys", [key(), "ssh-ed25519 AAAA me"], "entry 2, is not a public ssh key"),
    ("authorized_keys", ["/root/.ssh/id_ed25519.pub"], "is not a public ssh key"),
    ("authorized_keys", [key() + "\n" + key()], "several lines"),
    ("authorized_keys", ["-----BEGIN OPENSSH PRIVATE KEY-----\nabc"], "is a private key"),
    ("authorized_keys", [{"key": 1}], "is empty"),
    ("users", {"name": "ada"}, "has to be a list"),
    ("users", ["ada"], "entry 1, has no name"),
    ("users", [{"name": "Ada B"}], "a letter first"),
    ("users", [{"name": "root"}], "image_authorized_keys"),
    ("users", [{"name": "sudo"}], "a user or group of that name"),
    ("users", [USER, USER], "given twice"),
    ("users", [{"name": "ada", "keys": []}], "no field keys"),
    ("users", [{"name": "ada", "groups": "sudo"}], "groups has to be a list"),
    ("users", [{"name": "ada", "authorized_keys": "ssh-ed25519"}], "has to be a list"),
    ("users", [{"name": "ada", "authorized_keys": ["x"]}], "(ada), authorized_keys, entry 1"),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG, ids=[f"{name}-{said}" for name, _, said in WRONG])
def test_what_cannot_be_used_is_one_sentence(wanted, name, value, said):
    (problem,) = inputs.problems({**wanted, name: value}, "amd64")
    assert said in problem
    assert "image_" in problem or name == "until"
    assert "\n" not in problem


def test_a_private_key_is_not_printed(wanted):
    (problem,) = inputs.problems(
        {**wanted, "authorized_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0"]}, "amd64"
    )
    assert "BEGIN" not in problem and "c2VjcmV0" not in problem


def test_all_is_told_at_once(wanted):
    assert len(inputs.problems({**wanted, "size_gib": 0, "hostname": "A"}, "amd64")) == 2


def test_what_a_living_run_bakes_is_not_taken(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        owner = {"pid": other.pid, "started": inputs.started(other.pid)}
        assert inputs.claim(tmp_path, ["key", "machine"], owner) == ""
        assert inputs.claim(tmp_path, ["key", "machine"], owner) == "", "its own"
        mine = {"pid": os.getpid(), "started": inputs.started(os.getpid())}
        assert f"process {other.pid}" in inputs.claim(tmp_path, ["other", "machine"], mine)
        assert inputs.claim(tmp_path, ["other"], mine) == ""
    finally:
        other.communicate()
    assert inputs.claim(tmp_path, ["key", "machine"], mine) == "", "that run has ended"


def test_a_process_of_the_same_number_is_another_one(tmp_path):
    assert inputs.claim(tmp_path, ["key"], {"pid": os.getpid(), "started": 1}) == ""
    assert inputs.claim(tmp_path, ["key"], inputs.runner()) == ""


def test_the_run_is_the_uppermost_ansible_playbook(tmp_path):
    """Tasks run below workers, which are processes of the same name."""
    script = tmp_path / "ansible-playbook"
    script.write_text(
        "import os, subprocess, sys\n"
        f"sys.path.insert(0, {str(inputs.__file__.rpartition('/lab_image')[0])!r})\n"
        "if sys.argv[1:]:\n"
        "    code = 'import sys; sys.path.insert(0, sys.argv[1]); from lab_image import inputs; print(inputs.runner()[\"pid\"])'\n"
        "    print(subprocess.run(['sh', '-c', '\"$@\"; true', 'sh', sys.executable, '-c', code, sys.path[0]], capture_output=True, text=True).stdout)\n"
        "else:\n"
        "    print(os.getpid(), subprocess.run([sys.executable, __file__, 'worker'], capture_output=True, text=True).stdout)\n"
    )
    main, seen = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert main == seen
