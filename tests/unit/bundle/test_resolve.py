# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Pins that are filled in: what was null and nothing else."""

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.standins.build import pins, resolve
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEXT = (ROOT / pins.FILE).read_text()
CHART = json.dumps({"layers": [{"mediaType": resolve.CHART_LAYER, "digest": f"sha256:{'c' * 64}"}]}).encode()
INDEX = json.dumps(
    {
        "manifests": [
            {"digest": f"sha256:{'a' * 64}", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": f"sha256:{'b' * 64}", "platform": {"os": "linux", "architecture": "arm64"}},
            {"digest": f"sha256:{'d' * 64}", "platform": {"os": "unknown", "architecture": "unknown"}},
        ]
    }
).encode()
NOWHERE = Mirrors({})


def load(text):
    return pins.Pins(yaml.safe_load(text)[pins.VARIABLE])


def fetch(reference):
    return CHART if "fake-gpu-operator/fake-gpu-operator:" in reference else INDEX


def test_everything_that_was_null_is_pinned_and_nothing_else_changes():
    known = load(TEXT)
    after = resolve.filled_in(TEXT, resolve.missing(known, fetch, NOWHERE))
    filled = load(after)
    assert known.unpinned("amd64")
    assert filled.unpinned("amd64") == filled.unpinned("arm64") == []
    chart = filled.chart()
    assert (chart.sha256, chart.digest) == ("c" * 64, f"sha256:{hashlib.sha256(CHART).hexdigest()}")
    image = next(image for image in filled.upstream_images("arm64") if "mig-faker" in image.ref)
    assert (image.digest, image.platform) == (f"sha256:{hashlib.sha256(INDEX).hexdigest()}", f"sha256:{'b' * 64}")
    changed = [(old, new) for old, new in zip(TEXT.splitlines(), after.splitlines()) if old != new]
    assert len(TEXT.splitlines()) == len(after.splitlines())
    assert all(old.endswith(": null") for old, _new in changed)
    # Carried by k3s' archive: nobody asks for its platforms.
    assert "amd64: null" in after


def test_what_is_pinned_is_not_asked_for():
    after = resolve.filled_in(TEXT, resolve.missing(load(TEXT), fetch, NOWHERE))
    assert resolve.missing(load(after), lambda reference: pytest.fail(reference), NOWHERE) == {}


def test_mirrors_are_asked_instead():
    asked = []
    resolve.missing(
        load(TEXT), lambda reference: asked.append(reference) or fetch(reference), Mirrors({"ghcr.io": "r.example/g"})
    )
    assert asked
    assert all(reference.startswith("r.example/g/run-ai/") for reference in asked)


def test_what_is_no_chart_is_refused():
    with pytest.raises(BuildError, match="is no Helm chart"):
        resolve.chart_figures("ghcr.io/x:1", lambda _reference: INDEX)


def test_a_registry_that_does_not_answer_is_told():
    with pytest.raises(BuildError) as raised:
        resolve.by_skopeo("registry.invalid/x:1")
    said, hint = str(raised.value).splitlines()
    assert said.startswith("registry.invalid/x:1 could not be asked for: ")
    # Not as skopeo logs it.
    assert "registry.invalid" in said.partition(": ")[2] and "level=" not in said and "\\" not in said
    assert hint.startswith("Next: check the network, or name a mirror") and '"registry.invalid"' in hint
