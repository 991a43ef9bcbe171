# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The role, its inventory and its tool agree with each other."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
import yaml
from lab_machine.keeper import nspawn_command
from lab_machine.rootfs import mmdebstrap
from lab_machine.settings import Settings

CHECKOUT = pathlib.Path(__file__).parents[3]
ROLE = CHECKOUT / "roles/machine"


def test_role_gives_every_setting_and_no_other():
    given = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__machine_settings"]
    assert set(given) == {field.name for field in dataclasses.fields(Settings)}


def test_recipe_names_the_base_root_folder(settings):
    key = settings.base_key
    assert dataclasses.replace(settings, packages=tuple(reversed(settings.packages))).base_key == key
    assert dataclasses.replace(settings, name="other", network="10.1.2.0/24").base_key == key
    for change in ({"suite": "trixie"}, {"mirror": "file:///mirror"}, {"packages": ("systemd",)}):
        assert dataclasses.replace(settings, **change).base_key != key


def test_mirror_is_given_only_when_set(settings):
    target = pathlib.Path("/target")
    assert mmdebstrap(settings, target)[-2:] == ["bookworm", "/target"]
    mirrored = dataclasses.replace(settings, mirror="file:///mirror")
    assert mmdebstrap(mirrored, target)[-3:] == ["bookworm", "/target", "file:///mirror"]


def plan(**workarounds):
    nothing = {"cgroup_v1": False, "kmsg": False, "private_run": False}
    return {"workarounds": {**nothing, **workarounds}, "fuse": True, "modules": True}


def test_nspawn_alone_where_run_is_a_tmpfs(settings):
    command = nspawn_command(settings, plan())
    assert command[0] == "systemd-nspawn"
    assert {"--bind=/dev/kmsg", "--bind=/dev/fuse", "--bind-ro=/lib/modules"} <= set(command)


def test_nspawn_in_mounts_of_its_own_where_run_is_a_folder(settings):
    command = nspawn_command(settings, plan(private_run=True))
    assert command[0] == "unshare"
    assert "systemd-nspawn" in command


def test_nspawn_binds_only_what_the_host_has(settings):
    command = nspawn_command(settings, {**plan(kmsg=True), "fuse": False, "modules": False})
    assert not [word for word in command if word.startswith("--bind")]


def test_pid_1_is_told_of_cgroup_v1_where_that_is_all_there_is(settings):
    word = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"
    assert nspawn_command(settings, plan(cgroup_v1=True, private_run=True))[-1] == word
    assert word not in nspawn_command(settings, plan())


def tool(command, program=(sys.executable, "-B"), files=ROLE / "files", **values):
    settings = {
        "name": "gsb-lab",
        "network": "10.231.77.0/24",
        "folder": "/nonexistent/machines",
        "cache": "/nonexistent/cache",
        "suite": "bookworm",
        "mirror": "",
        "packages": [],
        "disk_gib": 0,
        "memory_gib": 0,
        "start_timeout": 60,
        "stop_timeout": 30,
        **values,
    }
    done = subprocess.run(
        [*program, str(files / "lab_machine"), *command, "--settings", json.dumps(settings)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_look_at_a_machine_that_is_not_there_changes_nothing():
    seen = tool(["look"], name="nowhere")
    assert seen["changed"] is False
    assert seen["machine"] == {
        "folder": "/nonexistent/machines/nowhere",
        "made": False,
        "running": False,
        "leftovers": [],
    }
    assert not pathlib.Path("/nonexistent").exists()


@pytest.mark.parametrize("name", ["../../etc", "Nowhere", ""])
def test_look_with_a_name_that_cannot_be_used_says_so(name):
    (problem,) = tool(["look"], name=name)["problems"]
    assert "machine_name" in problem


def test_look_with_a_network_that_cannot_be_used_says_so():
    (problem,) = tool(["look"], network="10.0.0.0/8")["problems"]
    assert "machine_network" in problem


@pytest.fixture
def public_folder():
    """One that everybody can go to; above tmp_path, the next pytest that starts shuts the door."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_user_who_is_not_root_is_told_and_sees_nothing(public_folder):
    shutil.copytree(ROLE / "files", public_folder / "files")
    secret = public_folder / "secret"
    (secret / "gsb-lab/ssh").mkdir(parents=True)
    secret.chmod(0o700)
    for words in (["look"], ["down"], ["down", "--check"]):
        answer = tool(
            words,
            program=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-B"],
            files=public_folder / "files",
            folder=str(secret),
            cache=str(secret),
        )
        (problem,) = answer.get("problems") or [answer["fault"]]
        assert "only root" in problem


def test_check_says_what_would_be_done_and_does_nothing():
    assert tool(["up", "--check"], name="nowhere")["did"] == [
        "made a key for nowhere",
        "made the root folder of nowhere",
        "started nowhere",
    ]
    assert tool(["down", "--check"], name="nowhere") == {"changed": False, "did": []}
    assert not pathlib.Path("/nonexistent").exists()


@pytest.mark.parametrize("name", ["../../etc", ""])
def test_removal_with_a_name_that_cannot_be_used_is_refused(name):
    answer = tool(["down"], name=name)
    assert "machine_name" in answer["fault"]


@pytest.mark.parametrize(("name", "network"), [("gsb-lab", "10.231.77.0/24"), ("gsb-two", "10.9.8.0/24")])
def test_inventory_reaches_the_machine_by_its_name_and_network(name, network):
    values = ["-e", f"machine_name={name}", "-e", f"machine_network={network}"]
    ansible = pathlib.Path(sys.executable).with_name("ansible")
    command = [str(ansible), "-i", "inventory/machine.yml", "gpu_lab", *values, "-m", "ansible.builtin.debug", "-a"]
    message = '{"msg": "{{ ansible_host }} {{ ansible_ssh_private_key_file }} {{ ansible_ssh_common_args }}"}'
    done = subprocess.run([*command, message], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    folder = f"/var/lib/gsb-fake-gpu-lab/machines/{name}"
    address = network.replace(".0/24", ".2")
    assert f"{address} {folder}/ssh/id_ed25519 -F {folder}/ssh/config" in " ".join(done.stdout.split())
