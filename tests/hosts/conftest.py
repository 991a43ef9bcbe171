# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A host with the finished lab: upgraded, then without it. The tests run in the order of their files, and end with no lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import releases

from playbooks import Playbooks

SCENARIO = Path(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", "."))


@pytest.fixture(scope="session")
def playbooks(request, tmp_path_factory):
    """The playbooks as the user somebody types them, who is not root and whose sudo finds no /usr/local/bin."""
    inventory = request.config.getoption("--ansible-inventory")
    assert inventory, "give the inventory of the host under test: --connection=ansible --ansible-inventory=FILE"
    listed = subprocess.run(
        ["ansible-inventory", "-i", inventory, "--list"], capture_output=True, text=True, check=True
    )
    somebody = {"ansible_user": "somebody", "ansible_become": True}
    hosts = dict.fromkeys(json.loads(listed.stdout)["gpu_lab"]["hosts"], somebody)
    more = tmp_path_factory.mktemp("inventory") / "somebody.yml"
    more.write_text(json.dumps({"gpu_lab": {"hosts": hosts}}))
    return Playbooks(str(Path(inventory).resolve()), str(more))


@pytest.fixture(scope="session")
def first():
    """The bundle that the host was installed from."""
    bundle = SCENARIO / "bundle"
    return bundle if bundle.is_dir() else releases.CACHE / "bundle"


@pytest.fixture(scope="session")
def second(first, tmp_path_factory):
    return releases.next_bundle(first, tmp_path_factory.mktemp("second"))


@pytest.fixture(scope="session")
def before():
    """The picture that the scenario took of the host when nothing was installed."""
    return json.loads((SCENARIO / "before.json").read_text())
