# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def play_here(tmp_path):
    """Runs a play on this host, by this checkout's settings, with these values as extra variables."""

    def run(text, values):
        play = tmp_path / "play.yml"
        play.write_text(text)
        program = pathlib.Path(sys.executable).with_name("ansible-playbook")
        return subprocess.run(
            [str(program), "-i", "localhost,", str(play), "-e", json.dumps(values)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
