# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The end state of the lab, read on the machine itself.

Everything here asks kubectl, helm and the files on the machine. It shares no code with
the lab_info module, so that each can catch the other's mistakes. From a checkout:

    pytest tests/endstate                        all of it, on the machine of ansible.cfg
    pytest tests/endstate/test_step6.py          one step
    pytest tests/endstate --hosts=ssh://root@vm  another machine
"""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from lab_machine import Machine


def pytest_configure(config):
    if not config.getoption("hosts"):
        config.option.hosts = "ansible://gpu_lab"


@pytest.fixture(scope="module")
def machine(host):
    return Machine(host)


@pytest.fixture(scope="module")
def real_node(machine):
    return machine.real_node()
