# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A tag runs its own step and nothing else.

An include without ``apply`` would run no task under its tag and still end well, and an import would
validate the arguments of all eight steps whatever tag was asked for.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS = range(1, 9)
INCLUDE = re.compile(r"Do step (\d)\b")
EXECUTED = re.compile(r"^TASK \[(?:gsb\.fake_gpu_lab\.)?steps : (.*)\]", re.MULTILINE)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory):
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(
        "gpu_lab: {hosts: {bare: {ansible_connection: local, ansible_python_interpreter: "
        f"{sys.executable}, lab_home: /nonexistent}}}}}}\n"
    )
    return path


def playbook(inventory, *arguments, status=0):
    command = [
        str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        str(inventory),
        str(ROOT / "lab.yml"),
        *arguments,
    ]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def steps_in(output):
    return [int(number) for number in INCLUDE.findall(output)]


def test_every_step_lists_its_own_tag_and_no_other_steps(inventory):
    listed = playbook(inventory, "--list-tasks")
    for number in STEPS:
        (tags,) = re.findall(rf"Do step {number}\b.*TAGS: \[(.*)\]", listed)
        assert set(tags.split(", ")) == {"steps", f"step{number}"}
    assert steps_in(listed) == list(STEPS)


def test_several_tags_make_a_range(inventory):
    assert steps_in(playbook(inventory, "--tags", "step2,step3,step4", "--list-tasks")) == [2, 3, 4]


def test_every_tag_is_offered(inventory):
    offered = set(re.findall(r"[\w-]+", playbook(inventory, "--list-tags")))
    expected = {f"step{number}" for number in STEPS} | {"bundle", "machine", "install", "steps", "verify"}
    assert expected <= offered


def test_a_tag_that_nothing_has_is_refused_and_the_others_are_named(inventory):
    output = playbook(inventory, "--tags", "step9,step1", "--check", status=2)
    assert "There is no tag step9." in output
    assert not steps_in(output)


def test_a_tag_that_nothing_has_may_be_skipped(inventory):
    """Molecule skips notest and molecule-notest whatever it runs."""
    playbook(inventory, "--tags", "step1", "--skip-tags", "notest,molecule-notest", "--check")


def test_the_tags_that_are_named_are_those_of_the_tasks(inventory):
    listed = playbook(inventory, "--list-tags")
    offered = {tag for tags in re.findall(r"TASK TAGS: \[(.*)\]", listed) for tag in tags.split(", ") if tag}
    plays = yaml.safe_load((ROOT / "playbooks" / "lab.yml").read_text())
    assert set(plays[0]["tasks"][0]["vars"]["__lab_tags"]) == offered - {"always"}


@pytest.mark.parametrize("number", STEPS)
def test_a_tag_executes_its_step_alone_and_validates_only_its_arguments(inventory, number):
    """A rehearsal on a host without a lab looks for the lab and stops there: enough to see what is executed."""
    output = playbook(inventory, "--tags", f"step{number}", "--check")
    assert steps_in(output) == [number]
    executed = EXECUTED.findall(output)
    validated = [name for name in executed if name.startswith("Validating arguments")]
    assert len(validated) == 1
    assert f"step{number}" in validated[0]
    assert len(executed) > len(validated)
