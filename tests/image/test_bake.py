# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The playbook before it bakes: what it refuses, and its rehearsal on a host that has nothing yet."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

CHECKOUT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(sys.executable).parent


def bake(home, *arguments):
    return subprocess.run(
        [str(BIN / "ansible-playbook"), "playbooks/bake.yml", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "XDG_CACHE_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_rehearsal_where_there_is_nothing_yet(tmp_path):
    done = bake(tmp_path / "cache", "--check")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_used_ends_it_at_once(tmp_path):
    done = bake(tmp_path / "cache", "-e", "image_dest=images", "-e", "image_hostname=GPU_Lab")
    assert done.returncode != 0
    assert "image_dest is 'images': give an absolute path" in done.stdout + done.stderr
    assert "image_hostname is 'GPU_Lab'" in done.stdout + done.stderr
    assert "gsb.fake_gpu_lab.bundle" not in done.stdout
    assert not (tmp_path / "cache").exists()
