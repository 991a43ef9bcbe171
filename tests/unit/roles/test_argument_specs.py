# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The argument specs of every role say the same as its defaults and know every task file that others may enter by."""

from __future__ import annotations

import pathlib

import pytest
import yaml

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
TYPES = {
    "str": str,
    "path": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
    "raw": object,
}


def load(path: pathlib.Path) -> dict:
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def is_template(value: object) -> bool:
    return isinstance(value, str) and "{{" in value


def wrong_type(option: dict, value: object) -> bool:
    kind = option.get("type", "str")
    if value is None or is_template(value):
        return False
    if kind in ("int", "float") and isinstance(value, bool):
        return True
    return not isinstance(value, TYPES[kind])


def findings(role: str, defaults: dict, specs: dict) -> list[str]:
    """Name everything in which the defaults of a role and its argument specs do not agree."""
    found = []
    documented: dict[str, dict] = {}
    for entry, spec in specs.items():
        if not spec.get("short_description"):
            found.append(f"{entry}: no short_description")
        for name, option in (spec.get("options") or {}).items():
            documented.setdefault(name, option)
            if not option.get("description"):
                found.append(f"{entry}: {name}: no description")
            if "type" not in option:
                found.append(f"{entry}: {name}: no type")
            if option.get("type") == "list" and "elements" not in option:
                found.append(f"{entry}: {name}: no elements")
            if not name.startswith(f"{role}_"):
                found.append(f"{entry}: {name}: does not start with {role}_")
            if option.get("required") and name in defaults:
                found.append(f"{entry}: {name}: is required and has a default")
            if "default" not in option:
                if name in defaults:
                    found.append(f"{entry}: {name}: the default is not documented")
                continue
            if name not in defaults:
                found.append(f"{entry}: {name}: is not in defaults/main.yml")
            elif (type(option["default"]), option["default"]) != (type(defaults[name]), defaults[name]):
                found.append(f"{entry}: {name}: {option['default']!r} is documented, {defaults[name]!r} is the default")
            if wrong_type(option, option["default"]):
                found.append(f"{entry}: {name}: {option['default']!r} is no {option.get('type')}")
            choices = option.get("choices")
            values = option["default"] if isinstance(option["default"], list) else [option["default"]]
            if choices and not all(is_template(value) or value in choices for value in values):
                found.append(f"{entry}: {name}: {option['default']!r} is none of {choices}")
    found += [f"{name}: is not in the argument specs" for name in defaults if name not in documented]
    return found


ALL = sorted(path.name for path in ROLES.iterdir() if (path / "meta").is_dir() or (path / "tasks").is_dir())


def test_there_are_roles() -> None:
    assert {"lab", "kube_client", "k3s", "helm", "kwok", "fake_gpu_operator"} <= set(ALL)


@pytest.mark.parametrize("role", ALL)
def test_the_specs_and_the_defaults_agree(role: str) -> None:
    specs = load(ROLES / role / "meta" / "argument_specs.yml").get("argument_specs", {})
    assert "main" in specs or not (ROLES / role / "tasks" / "main.yml").exists(), "no entry point main"
    assert findings(role, load(ROLES / role / "defaults" / "main.yml"), specs) == []


@pytest.mark.parametrize("role", ALL)
def test_each_entry_point_is_a_task_file(role: str) -> None:
    specs = load(ROLES / role / "meta" / "argument_specs.yml").get("argument_specs", {})
    tasks = ROLES / role / "tasks"
    assert [entry for entry in specs if not (tasks / f"{entry}.yml").exists() and tasks.exists()] == []


@pytest.mark.parametrize("role", ALL)
def test_the_role_has_a_readme_with_an_example(role: str) -> None:
    text = (ROLES / role / "README.md").read_text(encoding="utf-8")
    assert f"gsb.fake_gpu_lab.{role}" in text
    assert "```yaml" in text


def spec(**options: dict) -> dict:
    return {"main": {"short_description": "x", "options": options}}


OPTION = {"description": "x", "type": "int", "default": 2}


@pytest.mark.parametrize(
    ("defaults", "specs"),
    [
        pytest.param({"demo_size": 3}, spec(demo_size=OPTION), id="another value"),
        pytest.param({"demo_size": "2"}, spec(demo_size=OPTION), id="another type of value"),
        pytest.param({"demo_size": True}, spec(demo_size={**OPTION, "default": 1}), id="true is not 1"),
        pytest.param({}, spec(demo_size=OPTION), id="default only documented"),
        pytest.param({"demo_size": 2}, spec(), id="default not documented"),
        pytest.param({"demo_size": 2}, spec(demo_size={"description": "x", "type": "int"}), id="value not documented"),
        pytest.param({"demo_size": 2}, spec(demo_size={**OPTION, "required": True}), id="required with a default"),
        pytest.param({"size": 2}, spec(size=OPTION), id="not named after the role"),
        pytest.param({"demo_size": "x"}, spec(demo_size={**OPTION, "default": "x"}), id="value is not of its type"),
        pytest.param({"demo_size": 2}, spec(demo_size={**OPTION, "choices": [3]}), id="value is not a choice"),
        pytest.param({"demo_size": 2}, spec(demo_size={"type": "int", "default": 2}), id="no description"),
        pytest.param({"demo_size": 2}, spec(demo_size={"description": "x", "default": 2}), id="no type"),
        pytest.param(
            {"demo_l": []}, spec(demo_l={"description": "x", "type": "list", "default": []}), id="list of what"
        ),
    ],
)
def test_a_difference_is_found(defaults: dict, specs: dict) -> None:
    assert findings("demo", defaults, specs)


def test_agreement_is_no_finding() -> None:
    assert (
        findings("demo", {"demo_size": 2}, spec(demo_size=OPTION, demo_other={"description": "x", "type": "str"})) == []
    )
