# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The baked root folder, and embedded machines made from copies of it. Needs root.

pytest tests/image/test_root.py     the folder as it lies there
pytest tests/image/test_boot.py     two machines from it: ready, different, restarted
pytest tests/image/test_walk.py     the eight steps inside one, and the end state, before and after a restart
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

CHECKOUT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(sys.executable).parent
FOLDER = pathlib.Path("/var/lib/gsb-fake-gpu-lab/machines")


def pytest_collection_modifyitems(items):
    if os.geteuid():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="only root can make a machine"))


def play(*arguments, timeout=1800):
    done = subprocess.run(
        [str(BIN / "ansible-playbook"), *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


class Machine:
    """A machine from a copy of the root folder."""

    def __init__(self, name, network, root):
        self.name = name
        self.values = ["-e", f"machine_name={name}", "-e", f"machine_network={network}", "-e", f"machine_base={root}"]
        self.config = FOLDER / name / "ssh/config"

    def up(self):
        play("playbooks/machine.yml", *self.values)

    def down(self):
        play("playbooks/machine.yml", *self.values, "-e", "machine_state=absent")

    def run(self, command, timeout=300):
        return subprocess.run(
            ["ssh", "-F", str(self.config), "-o", "ConnectTimeout=10", self.name, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def out(self, command, timeout=300):
        done = self.run(command, timeout)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-2000:]}"
        return done.stdout.strip()

    def json(self, command):
        return json.loads(self.out(command))

    def reboot(self, seconds=180):
        boot = self.out("cat /proc/sys/kernel/random/boot_id")
        self.run("systemctl reboot")
        deadline = time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, f"{self.name} is not back after {seconds} s"
            try:
                now = self.run("cat /proc/sys/kernel/random/boot_id", timeout=15)
            except subprocess.TimeoutExpired:
                continue
            if now.returncode == 0 and now.stdout.strip() != boot:
                return
            time.sleep(0.5)

    def wait_ready(self, seconds=300):
        self.out(
            f"timeout {seconds} sh -c 'until systemctl is-active --quiet gpu-lab-ready.target; do sleep 0.5; done'",
            seconds + 30,
        )


@pytest.fixture(scope="session")
def root():
    """The root folder, baked when it is not there yet."""
    play(
        "playbooks/bake.yml",
        "-e",
        "bake_until=root",
        "-e",
        "image_machine=gsb-image-o",
        "-e",
        "image_network=10.231.76.0/24",
    )
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "gsb-fake-gpu-lab/image"
    return max((path for path in cache.glob("*/root")), key=lambda path: path.stat().st_mtime)


def made(root, *places):
    machines = [Machine(name, network, root) for name, network in places]
    try:
        for machine in machines:
            machine.down()
        for machine in machines:
            machine.up()
        for machine in machines:
            machine.wait_ready()
        yield machines
    finally:
        for machine in machines:
            machine.down()


@pytest.fixture(scope="module")
def machines(root):
    yield from made(root, ("gsb-image-a", "10.231.95.0/24"), ("gsb-image-b", "10.231.96.0/24"))


@pytest.fixture(scope="module")
def machine(root):
    for (one,) in made(root, ("gsb-image-w", "10.231.97.0/24")):
        yield one
