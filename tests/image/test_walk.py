# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The eight steps inside a baked machine, with the collection and the Ansible that it carries, and its end state."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

CHECKOUT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(sys.executable).parent


def end_state(machine):
    done = subprocess.run(
        [
            str(BIN / "pytest"),
            "-q",
            "tests/endstate",
            f"--hosts=ssh://{machine.name}",
            f"--ssh-config={machine.config}",
        ],
        cwd=CHECKOUT,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_eight_steps_inside(machine):
    said = machine.out("bash -lc 'cd /root && ansible-playbook lab.yml'", timeout=900)
    assert "All 8 steps asked for are done." in said
    end_state(machine)


def test_one_step_by_its_tag_changes_nothing_any_more(machine):
    said = machine.out("bash -lc 'cd /root && ansible-playbook lab.yml --tags step6'", timeout=300)
    assert "changed=0" in said


def test_the_end_state_after_a_restart(machine):
    machine.reboot()
    machine.wait_ready()
    node = machine.json("kubectl get node gpu-lab -o json")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    machine.out(
        "timeout 60 sh -c 'until test $(kubectl -n fake-lab get pods --field-selector=status.phase=Failed -o name | wc -l) = 3; do sleep 0.5; done'"
    )
    machine.out("gpu-lab restore")
    machine.out("kubectl -n fake-lab wait --for=condition=Ready pod --all --timeout=120s")
    # The pods are others now, with other GPUs: what step 3 and step 8 wrote down of the first ones is old.
    said = machine.out("bash -lc 'cd /root && ansible-playbook lab.yml'", timeout=900)
    assert "All 8 steps asked for are done." in said
    end_state(machine)
