# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""`-e name=false` gives a text. Modules make a boolean of it by themselves, conditions and templates do not."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
BOOLEANS = sorted(
    {
        name
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        for name, option in entry.get("options", {}).items()
        if option.get("type") == "bool"
    }
)
FILES = [
    path
    for pattern in ("roles/*/tasks/*.yml", "roles/*/vars/*.yml", "roles/*/templates/*", "playbooks/*.yml")
    for path in sorted(ROOT.glob(pattern))
]


def raw(name, text, is_tasks):
    """The lines where a boolean is taken as it was given."""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", f"{name}:")) or not re.search(rf"\b{name}\b(?!\s*\|\s*bool)", line):
            continue
        if not (is_tasks and re.fullmatch(rf'\s+\w+: "\{{\{{ {name} \}}\}}"', line)):
            yield line.strip()


@pytest.mark.parametrize("name", BOOLEANS)
def test_a_boolean_of_the_command_line_is_one(name):
    found = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if (lines := list(raw(name, path.read_text(encoding="utf-8"), path.parent.name == "tasks")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("  when: not a_b", 1),
        ("    - a_b", 1),
        ("  when: not a_b | bool", 0),
        ('    verify: "{{ a_b }}"', 0),
        ("# a_b", 0),
        ("  a_b: true", 0),
    ],
)
def test_the_search_can_fail(line, count):
    assert len(list(raw("a_b", line, True))) == count
    if "{{" in line:
        assert len(list(raw("a_b", line, False))) == 1
