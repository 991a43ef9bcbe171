# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The end state of the lab, read on the machine itself.

Everything here asks kubectl, helm and the files on the machine. It shares no code with
the lab_info module, so that each can catch the other's mistakes. From a checkout:

    pytest tests/endstate                                      all of it, on the embedded machine
    pytest tests/endstate/test_step6.py                        one step
    pytest tests/endstate --hosts=ssh://root@lab.example.org   another machine
    pytest tests/endstate --ansible-inventory=hosts.yml        the group gpu_lab of an inventory
"""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab_machine import Machine


def pytest_configure(config):
    options = config.option
    if not options.hosts and options.ansible_inventory:
        options.hosts = "ansible://gpu_lab"
    elif not options.hosts:
        options.hosts = "ssh://gsb-lab"
        options.ssh_config = "/var/lib/gsb-fake-gpu-lab/machines/gsb-lab/ssh/config"
    # Without an activated environment testinfra would not find Ansible's own commands.
    os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="module")
def machine(host):
    return Machine(host)


@pytest.fixture(scope="module")
def real_node(machine):
    return machine.real_node()
