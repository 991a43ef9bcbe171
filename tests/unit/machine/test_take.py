# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A root folder that comes from elsewhere, and one that leaves the machine."""

from __future__ import annotations

import dataclasses

import pytest
from lab_machine import rootfs
from lab_machine.contents import BRIDGES, STAYS, contents, release, write
from lab_machine.keeper import Fault

KEYS = {"id_ed25519.pub": "a", "host_ed25519": "b", "host_ed25519.pub": "c"}
ALL = dict.fromkeys(BRIDGES, True) | {"private_run": True}


def test_nothing_of_the_machine_stays_but_what_ends_pods(settings):
    home = settings.home
    wanted = contents(settings, ALL, KEYS)
    write(home, wanted, list(wanted))
    # What the script before k3s would have written.
    written = [
        "root/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10-machine.conf",
        "root/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/10-machine.toml",
        "root/etc/rancher/k3s/config.yaml.d/10-machine.yaml",
    ]
    own = ["root/etc/fstab", "root/usr/local/bin/k3s"]
    for name in written + own:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    release(home)
    left = {str(path.relative_to(home)) for path in (home / "root").rglob("*") if path.is_symlink() or path.is_file()}
    assert left == {name for name in wanted if name.startswith("root/") and name.endswith(STAYS)} | set(own)


def test_a_root_folder_is_given_away_whole(settings, tmp_path):
    (settings.root / "etc").mkdir(parents=True)
    (tmp_path / "to/.taking-root").mkdir(parents=True)
    rootfs.give_away(settings.root, tmp_path / "to/root")
    assert (tmp_path / "to/root/etc").is_dir()
    assert not settings.root.exists() and not (tmp_path / "to/.taking-root").exists()


def test_a_base_that_is_given_is_used_and_not_made(settings, tmp_path):
    given = dataclasses.replace(settings, base_folder=str(tmp_path / "baked"))
    with pytest.raises(Fault, match="machine_base is .*baked, and there is no such folder"):
        rootfs.make_base(given)
    (tmp_path / "baked").mkdir()
    assert rootfs.make_base(given) is False
    assert given.base == tmp_path / "baked"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "E: Unable to locate package nosuch-x\nE: setup failed",
            "^Debian bookworm has no package nosuch-x: look at machine_packages",
        ),
        (
            "E: Could not connect to mirror",
            "(?s)could not be made. Look whether .apt-get update. works.*Could not connect",
        ),
    ],
)
def test_a_base_that_cannot_be_made_is_told_and_leaves_nothing(settings, monkeypatch, said, told):
    def fails(*command, log):
        (log.parent / "root/etc").mkdir(parents=True)
        raise Fault(f"mmdebstrap ended with 25:\n{said}")

    monkeypatch.setattr(rootfs, "contained", fails)
    with pytest.raises(Fault, match=told):
        rootfs.make_base(settings)
    assert list(settings.bases.iterdir()) == []
