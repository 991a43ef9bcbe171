# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is documented, with the fragments, is what the actions take."""

from __future__ import annotations

import importlib
import pathlib

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.plugins.doc_fragments import bundle as fragments

ROOT = pathlib.Path(__file__).resolve().parents[3]
COLLECTION = "ansible_collections.gsb.fake_gpu_lab.plugins"
NAMES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*bundle*.py"))


def documented(name):
    text = importlib.import_module(f"{COLLECTION}.modules.{name}").DOCUMENTATION
    document = yaml.safe_load(text)
    options = dict(document.get("options", {}))
    for fragment in document.get("extends_documentation_fragment", []):
        part = fragment.removeprefix("gsb.fake_gpu_lab.bundle").lstrip(".").upper() or "DOCUMENTATION"
        shared = yaml.safe_load(getattr(fragments.ModuleDocFragment, part))["options"]
        assert not shared.keys() & options.keys()
        options |= shared
    return options


def essence(option):
    """Without the words, and without what is so when nothing is said."""
    found = {
        key: value for key, value in option.items() if key in ("type", "default", "required", "choices", "elements")
    }
    if "choices" in found:
        found["choices"] = sorted(found["choices"])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_options(name):
    taken = importlib.import_module(f"{COLLECTION}.action.{name}").ActionModule.ARGUMENTS
    assert {key: essence(option) for key, option in documented(name).items()} == {
        key: essence(option) for key, option in taken.items()
    }


def test_nothing_is_documented_twice():
    seen = {}
    for name in NAMES:
        text = yaml.safe_load(importlib.import_module(f"{COLLECTION}.modules.{name}").DOCUMENTATION)
        for key, option in text.get("options", {}).items():
            seen.setdefault((key, str(option["description"])), []).append(name)
    assert {what: names for what, names in seen.items() if len(names) > 1} == {}
