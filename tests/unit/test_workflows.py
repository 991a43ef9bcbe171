# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no linter of workflows sees: a hosted runner must outlive the tests that run on it, and a failure must count."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def scripts(path):
    """Each script with the shell that runs it."""
    workflow = yaml.safe_load(path.read_text())
    usual = workflow.get("defaults", {}).get("run", {}).get("shell", "")
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                yield step["run"], step.get("shell", usual)


def test_no_test_on_a_runner_reboots_it():
    rebooting = [path for path in (ROOT / "tests/contract").glob("test_*.py") if "systemctl reboot" in path.read_text()]
    assert rebooting
    (script,) = [
        script for script, _shell in scripts(ROOT / ".github/workflows/upstream.yml") if "tests/contract" in script
    ]
    assert {f"--ignore={path.relative_to(ROOT)}" for path in rebooting} == set(re.findall(r"--ignore=\S+", script))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_pipe_does_not_hide_a_failure(path):
    for script, shell in scripts(path):
        # Actions' own bash has pipefail only where it is named.
        assert "|" not in script or shell == "bash" or "pipefail" in shell, script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_is_run_is_there(path):
    for script, _shell in scripts(path):
        for name in re.findall(r"\b(?:playbooks|tests|inventory)/[\w/.-]+", script):
            assert (ROOT / name).exists(), name
        for target in re.findall(r"\bmake ([a-z-]+)", script):
            assert re.search(rf"(?m)^{target}:", (ROOT / "Makefile").read_text()), target
