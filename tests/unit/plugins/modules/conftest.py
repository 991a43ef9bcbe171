# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Runs a module as Ansible does, in this process, against an API server on loopback."""

from __future__ import annotations

import importlib
import json

import kubernetes
import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _kube

TOKEN = "token-of-the-learner"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Tries again as often as in earnest, but at once."""
    monkeypatch.setattr(_kube, "PAUSES", (0, 0))


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """run(module, **options) gives what the module answered."""
    for name in ("HOME", "KUBECONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    temporary = tmp_path / "ansible"
    temporary.mkdir()

    warned = []
    # Where a test has imported controller code, warnings go to Ansible's display and not into the answer.
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warned.append(text))

    def call(name, *, check=False, diff=False, **options):
        module = importlib.import_module(f"ansible_collections.gsb.fake_gpu_lab.plugins.modules.{name}")
        # The client keeps the last kubeconfig for the whole process.
        kubernetes.client.Configuration.set_default(None)
        capsys.readouterr()
        warned.clear()
        if "host" in options:
            options["api_key"] = TOKEN
        options.update(_ansible_check_mode=check, _ansible_diff=diff, _ansible_tmpdir=str(temporary))
        with patch_module_args(options), pytest.raises(SystemExit):
            module.main()
        answer = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        return {**answer, "warned": list(warned)}

    return call


def kubeconfig(path, server, token=TOKEN):
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
                "clusters": [{"name": "lab", "cluster": {"server": server}}],
                "users": [{"name": "lab", "user": {"token": token}}],
            }
        )
    )
    return str(path)


@pytest.fixture
def kubeconfig_for(tmp_path):
    return lambda server: kubeconfig(tmp_path / "kubeconfig", server)
