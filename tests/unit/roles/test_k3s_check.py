# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the role k3s refuses, each in a sentence with what to do, run by Ansible itself; nothing is installed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
OTHER = {"amd64": "arm64", "arm64": "amd64"}[ARCH]


def test_each_refusal_is_a_sentence(tmp_path):
    hosts = {
        "good": ({}, ""),
        "other_arch": ({"arch": OTHER}, f"the bundle is made for {OTHER}. Next: make one for the host"),
        "no_version": ({"version": "latest"}, "names its k3s latest, which is no version of k3s"),
        "data_dir": ({"k3s_config": {"data-dir": "/data"}}, "k3s_config has data-dir"),
        "node_name": ({"k3s_config": {"node_name": "x", "tls-san": ["y"]}}, "k3s_config has node-name"),
        "other_origin": (
            {"origin": "upstream"},
            "runs k3s of the origin upstream and the bundle is of the origin standin",
        ),
    }
    inventory = {}
    for name, (what, _words) in hosts.items():
        folder = tmp_path / name
        folder.mkdir()
        version = what.get("version", "v1.36.4+k3s1")
        manifest = {"arch": what.get("arch", ARCH), "origin": "standin", "parts": {"k3s": {"version": version}}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if "origin" in what:
            (folder / "origin.json").write_text(json.dumps({"origin": what["origin"]}))
        inventory[name] = {"k3s_config": what.get("k3s_config", {})}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": inventory}}))
    task = {"ansible.builtin.include_role": {"name": "gsb.fake_gpu_lab.k3s", "tasks_from": "check"}}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    here = f"{tmp_path}/{{{{ inventory_hostname }}}}"
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "k3s_bundle_dir": here,
        "lab_origin_file": f"{here}/origin.json",
    }
    done = subprocess.run(
        [
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "inventory.yml"),
            *("-e", json.dumps(variables), tmp_path / "play.yml"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = dict(re.findall(r"^fatal: \[(\w+)\]: FAILED! => *\n((?:  .*\n)+)", done.stdout, re.MULTILINE))
    assert said.keys() == hosts.keys() - {"good"}, done.stdout
    for name, text in said.items():
        assert hosts[name][1] in " ".join(text.split()), name
    assert re.findall(r"changed=(\d+)", done.stdout) == ["0"] * len(hosts)
