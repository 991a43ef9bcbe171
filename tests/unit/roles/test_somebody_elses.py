# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A host that has a k3s or a Helm already: neither is taken over, and neither is removed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOOKS = []
for role in ("host", "k3s"):
    spec = importlib.util.spec_from_file_location(f"{role}_look", ROOT / f"roles/{role}/files/look.py")
    LOOKS.append(importlib.util.module_from_spec(spec))
    spec.loader.exec_module(LOOKS[-1])
UNITS, DATA, ORIGIN = "etc/systemd/system", "var/lib/rancher/k3s/server", "etc/gsb-fake-gpu-lab.json"
OURS = (ROOT / "roles/k3s/templates/k3s.service.j2").read_text()
CONFIG = "etc/rancher/k3s/config.yaml"
OUR_CONFIG = (ROOT / "roles/k3s/templates/config.yaml.j2").read_text()
THEIRS = "[Unit]\nDescription=Lightweight Kubernetes\n"


@pytest.mark.parametrize("look", LOOKS, ids=["host", "k3s"])
@pytest.mark.parametrize(
    ("there", "found"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({f"{UNITS}/k3s.service": OURS, f"{DATA}/token": "", ORIGIN: "{}"}, "", id="the lab's"),
        pytest.param({f"{UNITS}/k3s.service": OURS, f"{DATA}/token": ""}, "", id="killed before it was ready"),
        pytest.param({f"{DATA}/token": "", ORIGIN: "{}"}, "", id="killed while it was removed"),
        pytest.param({"usr/local/bin/k3s": "", "var/lib/rancher/k3s/agent/images/a": ""}, "", id="killed at the files"),
        pytest.param({f"{UNITS}/k3s.service": THEIRS}, f"{UNITS}/k3s.service", id="a server"),
        pytest.param({f"{UNITS}/k3s.service": THEIRS, ORIGIN: "{}"}, f"{UNITS}/k3s.service", id="after the lab's"),
        pytest.param({f"{UNITS}/k3s-agent.service": THEIRS}, f"{UNITS}/k3s-agent.service", id="an agent"),
        pytest.param({f"{DATA}/token": ""}, DATA, id="data without a unit"),
        pytest.param({CONFIG: "disable: [traefik]\n"}, CONFIG, id="what an administrator has prepared"),
        pytest.param({CONFIG: OUR_CONFIG}, "", id="killed before the unit"),
        pytest.param({CONFIG: "by hand\n", f"{UNITS}/k3s.service": OURS}, "", id="the lab's, changed by hand"),
        pytest.param({CONFIG: "by hand\n", ORIGIN: "{}"}, "", id="changed by hand, killed while it was removed"),
    ],
)
def test_a_k3s_of_somebody_else(tmp_path, look, there, found):
    for path, content in there.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    seen = look.somebody_elses(str(tmp_path / ORIGIN), str(tmp_path))
    assert seen == (str(tmp_path / found) if found else "")


@pytest.mark.parametrize(
    ("there", "found"),
    [((), False), (("helm",), True), (("helm", "record"), False), (("helm", "origin"), False), (("record",), False)],
)
def test_a_helm_of_somebody_else_is_told_at_first(tmp_path, there, found):
    for name in there:
        (tmp_path / name).write_text("")
    path = str(tmp_path / "helm")
    seen = LOOKS[0].somebody_elses_commands({path: str(tmp_path / "record")}, str(tmp_path / "origin"))
    assert seen == [path] * found


def test_a_helm_of_somebody_else(tmp_path):
    """Refused, left by the removal, and replaced once the lab's record has it: one playbook, for each costs seconds."""
    path, home = tmp_path / "helm", tmp_path / "home"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/helm").write_text("ours")
    path.write_text("theirs")
    ours, theirs = (hashlib.sha256(content).hexdigest() for content in (b"ours", b"theirs"))
    files = [{"path": "bin/helm", "sha256": ours}]
    (tmp_path / "manifest.json").write_text(json.dumps({"parts": {"helm": {"version": "v3.22.0", "files": files}}}))

    def role(**variables):
        return {"ansible.builtin.include_role": {"name": "gsb.fake_gpu_lab.helm"}, "vars": variables}

    read = {"ansible.builtin.debug": {"msg": f"{{{{ lookup('ansible.builtin.file', '{path}') }}}} is there"}}
    tasks = [
        {"block": [role()], "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}]},
        role(helm_state="absent"),
        read,
        {"ansible.builtin.file": {"path": str(home), "state": "directory", "mode": "0755"}},
        {"ansible.builtin.copy": {"dest": str(home / "helm.sha256"), "content": f"{theirs}\n", "mode": "0644"}},
        role(),
    ]
    given = {"helm_bundle_dir": str(tmp_path), "helm_path": str(path), "lab_home": str(home)}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": given, "tasks": tasks}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", tmp_path / "play.yml"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout
    assert f"{path} is there already and is not the lab's" in said
    assert "msg: refused" in said
    assert "msg: theirs is there" in said
    assert path.read_text() == "ours"
    assert (home / "helm.sha256").read_text().split() == [theirs, ours]
