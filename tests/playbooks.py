# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Runs the lab's playbooks against the host under test, as its users do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Outcome:
    """One run of ansible-playbook.

    Attributes:
        status: exit status.
        changed: tasks that reported a change, over all hosts.
        ok: tasks that ran, over all hosts.
        output: standard output and error, as a person sees them.
        seconds: wall time.
    """

    status: int
    changed: int
    ok: int
    output: str
    seconds: float

    @classmethod
    def of(cls, status: int, output: str, seconds: float) -> Outcome:
        recap = output.rpartition("PLAY RECAP")[2]
        assert re.search(r"\bok=\d+ +changed=\d+", recap), f"no recap to read in:\n{output}"
        changed, ok = (sum(map(int, re.findall(rf"\b{word}=(\d+)", recap))) for word in ("changed", "ok"))
        return cls(status, changed, ok, output, seconds)


class Playbooks:
    def __init__(self, inventory: str, *more: str) -> None:
        self.inventory = inventory
        self.inventories = [word for one in (inventory, *more) for word in ("-i", one)]

    def start(self, *arguments: str, playbook: str = "lab.yml", **env: str) -> subprocess.Popen[str]:
        """A run in a session of its own, so that it can be killed with all that it started."""
        return subprocess.Popen(
            ["ansible-playbook", *self.inventories, playbook, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_FORCE_COLOR": "0",
                "ANSIBLE_NOCOLOR": "1",
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, playbook: str = "lab.yml", **env: str) -> Outcome:
        begun = time.monotonic()
        run = self.start(*arguments, playbook=playbook, **env)
        try:
            output, _none = run.communicate(timeout=900)
        except BaseException:
            self.kill(run)
            raise
        return Outcome.of(run.returncode, output, time.monotonic() - begun)

    @staticmethod
    def kill(run: subprocess.Popen[str]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()

    def run_inside(self, host, command: str) -> Outcome:
        """Runs an ansible-playbook command in the machine itself."""
        begun = time.monotonic()
        done = host.run(command)
        return Outcome.of(done.rc, done.stdout + done.stderr, time.monotonic() - begun)

    def endstate(self, test: str) -> tuple[bool, str]:
        """Whether the end-state tests of one file pass, and what they print."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--connection=ansible",
                f"--ansible-inventory={self.inventory}",
                str(ROOT / "tests" / "endstate" / test),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode in (0, 1), f"pytest could not run {test}:\n{done.stdout}"
        return done.returncode == 0, done.stdout
