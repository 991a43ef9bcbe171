# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Who gives the steps more time, for a slow machine, gives it to each look at the cluster, too."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOOK = "gsb.fake_gpu_lab.lab_info"
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  roles: [gsb.fake_gpu_lab.lab]
  tasks: [{ansible.builtin.debug: {msg: "a look: <{{ __lab_look_timeout }}>"}}]
"""


def tasks(entries):
    for entry in entries or []:
        yield entry
        for part in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            yield from tasks(entry.get(part))


def test_every_look_has_it():
    looks = {
        path.relative_to(ROOT): task[LOOK].get("timeout")
        for pattern in ("roles/*/tasks/*.yml", "playbooks/*.yml", "playbooks/tasks/*.yml")
        for path in ROOT.glob(pattern)
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
        if LOOK in task
    }
    assert len(looks) >= 2
    assert set(looks.values()) == {"{{ __lab_look_timeout }}"}, looks


@pytest.mark.parametrize(
    ("given", "seconds"), [({}, 30), ({"steps_timeout": 10}, 30), ({"steps_timeout": "1800"}, 600)]
)
def test_a_third_of_the_steps_time(given, seconds, tmp_path):
    play = tmp_path / "play.yml"
    play.write_text(PLAY)
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(program), "-i", "localhost,", str(play), "-e", json.dumps(given)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"a look: <{seconds}>" in done.stdout, done.stdout + done.stderr
