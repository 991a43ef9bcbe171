# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's playbooks, for the host under test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playbooks import Playbooks


@pytest.fixture(scope="session")
def playbooks(request: pytest.FixtureRequest) -> Playbooks:
    inventory = request.config.getoption("--ansible-inventory")
    assert inventory, "give the inventory of the machine under test: --connection=ansible --ansible-inventory=FILE"
    return Playbooks(str(Path(inventory).resolve()))
