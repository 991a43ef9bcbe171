# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of make: what they become, and that a wrong one ends before anything is made."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make(folder, *words, **environment):
    left = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "BUNDLE_SOURCE"))}
    return subprocess.run(
        ["make", *words], cwd=folder, env={**left, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", ["lab", "bundle", "venv"])
@pytest.mark.parametrize("value", ["upstrea", "auto upstream", "Upstream", 'x"; touch oops; "'])
def test_an_origin_that_does_not_exist_is_refused_before_anything_is_made(tmp_path, target, value):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for done in (make(tmp_path, target, f"BUNDLE_SOURCE={value}"), make(tmp_path, target, BUNDLE_SOURCE=value)):
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f'BUNDLE_SOURCE is one of auto upstream standin, not "{value}"; nothing was done.' in line
        assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


@pytest.mark.parametrize("target", ["lab", "bundle"])
@pytest.mark.parametrize("value", ["auto", "upstream", "standin"])
def test_an_origin_becomes_the_variable_of_the_role(target, value):
    done = make(ROOT, "--dry-run", target, f"BUNDLE_SOURCE={value}", "ARGS=-v")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(f" -e bundle_source={value} -v")


def test_the_lab_from_our_own_server_is_that_of_make_lab_and_nothing_runs_unasked():
    done = make(ROOT, "--dry-run", "try-upstream", 'ARGS=-e \'{"a": "b c"}\'', XDG_CACHE_HOME="/nowhere")
    served, typed = done.stdout.replace("\\\n", "").splitlines()[-1].split(" --proxy -- ")
    assert "tests/upstream/internet.py --folder /nowhere/" in served
    given = "-e bundle_source=upstream -e @/nowhere/gsb-fake-gpu-lab/test/internet/variables.json"
    assert typed.split(maxsplit=2) == ["make", "--no-print-directory", f"lab BUNDLE='{given}'"]
    done = make(ROOT, "--dry-run", "lab", f"BUNDLE={given}", "ARGS=-v")
    assert done.stdout.splitlines()[-1].endswith(f" lab.yml {given} -v")


def test_without_one_the_role_chooses():
    assert "bundle_source" not in make(ROOT, "--dry-run", "lab").stdout
