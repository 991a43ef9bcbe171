# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Contracts of what stands in for upstream: the same tests run against the real thing.

They stop, kill and restart things on the host, so the host is always named:

    pytest tests/contract/test_k3s.py --hosts=ssh://root@10.231.77.2 --ssh-identity-file=KEY
    pytest tests/contract --hosts=ansible://gpu_lab
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_configure(config):
    if not config.getoption("hosts") and not config.option.collectonly:
        raise pytest.UsageError("name the host to test: --hosts=ssh://root@ADDRESS or --hosts=ansible://gpu_lab")
    # Without an activated environment testinfra would not find Ansible's own commands.
    os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])


class Cluster:
    """What a test does on the host, with the host's own words when it fails."""

    def __init__(self, host):
        self.host = host

    def run(self, command, *args):
        result = self.host.run(command, *args)
        assert result.rc == 0, f"{result.command}: exit status {result.rc}\n{result.stdout}{result.stderr}"
        return result.stdout

    def fails(self, command, *args):
        """Runs a command that must fail, and returns what it says."""
        result = self.host.run(command, *args)
        assert result.rc != 0, f"{result.command}: succeeded\n{result.stdout}{result.stderr}"
        return result.stdout + result.stderr

    def kubectl(self, command, *args):
        return self.run(f"k3s kubectl {command}", *args)

    def json(self, command, *args):
        return json.loads(self.kubectl(f"{command} -o json", *args))

    def apply(self, manifest):
        self.run("printf %%s %s | k3s kubectl apply -f -", manifest)

    def write(self, path, content):
        self.run("printf %%s %s > %s", content, path)

    def until(self, condition, what, timeout=90, every=0.5):
        """Waits until the condition returns something true, and returns it.

        The default leaves room for a watch that backs off, up to a minute, after earlier tests restarted its API server.
        """
        deadline = time.monotonic() + timeout
        seen = None
        while time.monotonic() < deadline:
            try:
                seen = condition()
            except AssertionError as error:
                seen = error
            else:
                if seen:
                    return seen
            time.sleep(every)
        raise AssertionError(f"after {timeout} s still not so: {what}; last seen: {seen}")


@pytest.fixture(scope="module")
def cluster(host):
    return Cluster(host)
