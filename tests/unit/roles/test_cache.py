# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The cache is the builder's: each of its runs sweeps what it did not make, whoever is using it."""

from __future__ import annotations

import pathlib

import pytest

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
#: lab names it; bundle hands it to the builder; machine keeps its base root folders there, under a lock of its own;
#: image keeps baked ones, each whole or not there.
OWNERS = {"lab", "bundle", "machine", "image"}


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if path.name not in OWNERS))
def test_no_other_role_keeps_anything_in_the_cache(role):
    files = [path for path in (ROLES / role).rglob("*") if path.suffix in (".yml", ".j2", ".py")]
    assert files
    assert [str(path) for path in files if "lab_cache_dir" in path.read_text()] == []
