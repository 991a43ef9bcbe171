# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What install.yml gives to its roles, and in which order it asks and changes."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
TASKS = yaml.safe_load((ROOT / "playbooks/install.yml").read_text())[-1]["tasks"]
ROLES = {task["name"]: task for task in TASKS if "ansible.builtin.include_role" in task}


def test_cgroup_v1_is_for_machines_unless_the_inventory_says_otherwise(tmp_path):
    """Variables of a task are stronger than those of an inventory, which has to be heard all the same."""
    hosts = {
        "machine": {"machine_name": "x"},
        "other": {},
        "refused": {"machine_name": "x", "host_cgroup_v1": False},
        "allowed": {"host_cgroup_v1": True},
    }
    inventory = {"all": {"hosts": hosts, "vars": {"ansible_connection": "local"}}}
    (tmp_path / "inventory.yml").write_text(json.dumps(inventory))
    say = {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }}={{ host_cgroup_v1 | bool }};"}}
    (tmp_path / "say.yml").write_text(json.dumps([say]))
    (given,) = [task["vars"] for task in ROLES.values() if "vars" in task]
    task = {"ansible.builtin.include_tasks": str(tmp_path / "say.yml"), "vars": given}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    done = subprocess.run(
        [
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "inventory.yml"),
            tmp_path / "play.yml",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert dict(re.findall(r"(\w+)=(True|False);", done.stdout)) == {
        "machine": "True",
        "other": "False",
        "refused": "False",
        "allowed": "True",
    }


def test_what_is_refused_is_refused_before_anything_is_changed():
    names = list(ROLES)
    asked = names[: names.index("Install the Kubernetes client")]
    assert asked == ["Look whether the host can hold the lab", "Ask whether the host can take this k3s"]
    assert ROLES[asked[1]]["ansible.builtin.include_role"]["tasks_from"] == "check"
    for name in ("check", "preflight"):
        modules = re.findall(r"ansible\.builtin\.(\w+):", (ROOT / f"roles/k3s/tasks/{name}.yml").read_text())
        assert set(modules) <= {"include_tasks", "assert"}
