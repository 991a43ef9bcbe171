# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each step alone by its tag, in order, on a machine with the stack and none of the steps."""

from __future__ import annotations

import pytest

STEPS = range(1, 9)
# The step that must come first where a step cannot be done on a fresh stack.
GROUND = {3: "step2", 5: "step2", 6: "step5"}


@pytest.mark.parametrize("step", GROUND)
def test_a_step_without_its_ground_names_the_tag_to_run(playbooks, step):
    outcome = playbooks.run("--tags", f"step{step}")
    assert outcome.status != 0, outcome.output
    assert f"--tags {GROUND[step]}" in outcome.output, outcome.output
    assert outcome.changed == 0, outcome.output


@pytest.mark.parametrize("step", STEPS)
def test_a_step_does_its_own_work_once(playbooks, step):
    before, _ = playbooks.endstate(f"test_step{step}.py")
    assert not before, f"the end-state test of step {step} passes before the step was done"

    first = playbooks.run("--tags", f"step{step}")
    assert first.status == 0, first.output
    assert first.changed > 0, first.output

    after, report = playbooks.endstate(f"test_step{step}.py")
    assert after, report

    second = playbooks.run("--tags", f"step{step}")
    assert second.status == 0, second.output
    assert second.changed == 0, second.output
    assert second.ok > 0, second.output
    print(f"\nstep {step}: {first.seconds:.1f} s, again {second.seconds:.1f} s")


def test_earlier_steps_stay_done_after_the_last(playbooks):
    outcome = playbooks.run("--tags", "steps")
    assert outcome.status == 0, outcome.output
    assert outcome.changed == 0, outcome.output
    for step in STEPS:
        passes, report = playbooks.endstate(f"test_step{step}.py")
        assert passes, report


def test_check_mode_of_the_finished_lab_changes_nothing(playbooks):
    outcome = playbooks.run("--check", "--diff")
    assert outcome.status == 0, outcome.output
    assert outcome.changed == 0, outcome.output


def test_verify_prints_eight_verdicts_and_fails_on_a_broken_step(playbooks, host):
    good = playbooks.run(playbook="playbooks/verify.yml")
    assert good.status == 0, good.output
    assert good.changed == 0, good.output
    host.run_expect([0], "mv /root/gsb-fake/report.json /root/gsb-fake/report.json.aside")
    try:
        bad = playbooks.run(playbook="playbooks/verify.yml")
    finally:
        host.run_expect([0], "mv /root/gsb-fake/report.json.aside /root/gsb-fake/report.json")
    assert bad.status != 0, bad.output
    assert "--tags step8" in bad.output, bad.output
