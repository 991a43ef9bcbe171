# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What runs on a host has to be read by its Python, the oldest of which is 3.9; what runs in the client's environment, by 3.10."""

from __future__ import annotations

import ast
import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("roles/*/files/*.py", "plugins/modules/*.py", "plugins/module_utils/*.py", "tests/hosts/picture.py")
    for path in ROOT.glob(pattern)
)


def newer_than_3_9(text):
    """What Python 3.9 would stumble over: its grammar, and `X | Y` in annotations that it evaluates."""
    tree = ast.parse(text, feature_version=(3, 9))
    postponed = any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.names[0].name == "annotations"
        for node in tree.body
    )
    hints = [
        hint
        for node in ast.walk(tree)
        for hint in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if hint is not None
    ]
    return [
        ast.unparse(hint)
        for hint in hints
        if not postponed
        and any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) for part in ast.walk(hint))
    ]


@pytest.mark.parametrize("file", FILES)
def test_python_3_9_reads_it(file):
    assert newer_than_3_9((ROOT / file).read_text(encoding="utf-8")) == []


def test_the_check_can_fail():
    assert newer_than_3_9("def f(x: int | None): ...\n") == ["int | None"]
    assert newer_than_3_9("from __future__ import annotations\n\n\ndef f(x: int | None): ...\n") == []
    with pytest.raises(SyntaxError):
        newer_than_3_9("match 1:\n    case 1: ...\n")
    assert len(FILES) > 10


# In folders where every sudo looks.
EVERYWHERE = {
    *("python3", "flock", "journalctl", "find", "pgrep", "id"),
    *("cat", "dpkg-query", "tar", "sh"),
}


def commands(tasks):
    for task in tasks or []:
        if task.get("delegate_to") == "localhost":
            continue
        for inner in ("block", "rescue", "always"):
            yield from commands(task.get(inner))
        command = task.get("ansible.builtin.command")
        if isinstance(command, str):
            yield command
        elif command:
            yield command.get("cmd") or command["argv"]


def program(command):
    """The first word, where it is not a variable's."""
    word = command.split()[0] if isinstance(command, str) else str(command[0])
    return "" if word.startswith("{{") else word


@pytest.mark.parametrize("file", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("roles/*/tasks/*.yml")))
def test_commands_are_found_by_any_sudo(file):
    """On some systems sudo does not look in /usr/local/bin, where the lab puts its commands."""
    tasks = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    named = {program(command) for command in commands(tasks)} - {""}
    assert {name for name in named if not name.startswith("/")} <= EVERYWHERE


def test_the_check_of_commands_can_fail():
    here = {"ansible.builtin.command": {"argv": ["ansible-galaxy"]}, "delegate_to": "localhost"}
    tasks = [{"block": [here, {"ansible.builtin.command": {"argv": ["kubectl", "get", "nodes"]}}]}]
    assert [program(command) for command in commands(tasks)] == ["kubectl"]
