# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Names and numbers that no cluster takes are refused by name, before anything is done."""

from __future__ import annotations

import pytest

PLAY = "[{hosts: localhost, connection: local, gather_facts: false, roles: [gsb.fake_gpu_lab.lab]}]\n"


@pytest.fixture
def refused(play_here):
    """What the role says to these values; empty when it takes them."""

    def run(**values):
        done = play_here(PLAY, values)
        if done.returncode == 0:
            return ""
        assert "Require names and numbers that a cluster takes" in done.stdout, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_defaults_are_taken(refused):
    assert refused() == ""


def test_every_wrong_value_is_named_at_once(refused):
    said = refused(
        lab_namespace="My_NS",
        lab_operator_namespace="-gpu",
        lab_release="a" * 64,
        lab_pool="dflt pool",
        lab_node="gpu\n",
        lab_kwok_node="gpu\n",
        lab_dir="gsb-fake",
        lab_pool_size=0,
        lab_pool_size_grown="-4",
    )
    for sentence in (
        "lab_namespace is My_NS: give",
        "lab_operator_namespace is -gpu: give",
        f"lab_release is {'a' * 64}: give",
        "lab_pool is dflt pool: give",
        "lab_node and lab_kwok_node are both",
        "lab_dir is gsb-fake: give",
        "lab_pool_size is 0: give",
        "lab_pool_size_grown is -4: give",
    ):
        assert sentence in said, said


@pytest.mark.parametrize("grown", [2, 1])
def test_a_pool_that_does_not_grow_is_refused(refused, grown):
    assert f"lab_pool_size_grown is {grown}: give more than lab_pool_size, which is 2." in refused(
        lab_pool_size_grown=grown
    )


def test_numbers_from_the_command_line_are_texts(refused):
    assert refused(lab_pool_size="2", lab_pool_size_grown="10") == ""
