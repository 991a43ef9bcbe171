# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Who gives the steps more time, for a slow machine, gives it to each look at the cluster, too."""

from __future__ import annotations

import pathlib

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
def test_a_third_of_the_steps_time(given, seconds, play_here):
    done = play_here(PLAY, given)
    assert f"a look: <{seconds}>" in done.stdout, done.stdout + done.stderr
