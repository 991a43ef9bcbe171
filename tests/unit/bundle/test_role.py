# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The role and its plugins, run by Ansible itself where nothing is built."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder

ROOT = pathlib.Path(__file__).resolve().parents[3]


def play(
    tmp_path: pathlib.Path,
    tasks: list[dict],
    *options: str,
    path: str = "",
    only_path: str = "",
    env: dict | None = None,
    **variables,
) -> tuple[int, str]:
    playbook = tmp_path / "play.yml"
    # A playbook in JSON is a playbook in YAML.
    playbook.write_text(
        json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}])
    )
    answer = subprocess.run(
        [
            pathlib.Path(sys.executable).parent / "ansible-playbook",
            *("-i", "localhost,", "-e", json.dumps(variables), *options, playbook),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": only_path or f"{path}:{os.environ['PATH']}",
            "ANSIBLE_FORCE_COLOR": "0",
            **(env or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout + answer.stderr


ROLE = [{"ansible.builtin.include_role": {"name": "gsb.fake_gpu_lab.bundle"}}]


def test_upstream_without_pins_is_refused_in_a_sentence(tmp_path):
    status, text = play(
        tmp_path,
        ROLE,
        bundle_source="upstream",
        bundle_cache_dir=str(tmp_path / "cache"),
        bundle_dir=str(tmp_path / "b"),
    )
    assert status == 2
    assert "No checksum is pinned for the chart" in text
    assert "bundle_allow_unpinned=true" in text
    assert not (tmp_path / "cache").exists()


def test_another_source_is_refused_by_the_argument_specs(tmp_path):
    status, text = play(tmp_path, ROLE, bundle_source="somewhere")
    assert status == 2
    assert "auto, upstream, standin" in text


@pytest.fixture
def no_umoci(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dpkg-query").write_text(
        "#!/bin/sh\necho ca-certificates installed\necho skopeo config-files\nexit 1\n",
    )
    (folder / "dpkg-query").chmod(0o755)
    return str(folder)


def test_missing_packages_are_named_when_none_may_be_installed(tmp_path, no_umoci):
    status, text = play(
        tmp_path,
        ROLE,
        path=no_umoci,
        bundle_source="standin",
        bundle_install_packages=False,
        bundle_cache_dir=str(tmp_path / "cache"),
    )
    assert status == 2
    assert "apt-get install curl skopeo umoci" in text
    assert "ca-certificates" not in text.split("apt-get install")[1].split("\n")[0]


def test_a_rehearsal_names_missing_packages_and_goes_on(tmp_path, no_umoci):
    status, text = play(
        tmp_path, ROLE, "--check", path=no_umoci, bundle_source="standin", bundle_cache_dir=str(tmp_path / "cache")
    )
    assert status == 0, text
    assert "apt would install curl, skopeo, umoci" in text
    assert "Kubernetes v1.36.3: would be built (not there yet)" in text
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("source", "missing"), [("upstream", "skopeo"), ("standin", "skopeo, umoci")])
def test_missing_commands_are_named_where_there_is_no_dpkg(tmp_path, source, missing):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "id", "curl"):
        (folder / name).symlink_to(shutil.which(name) or "/bin/true")
    status, text = play(
        tmp_path,
        ROLE,
        only_path=str(folder),
        bundle_source=source,
        bundle_allow_unpinned=True,
        bundle_cache_dir=str(tmp_path / "cache"),
    )
    assert status == 2
    assert f"The bundle is made with commands that are not here: {missing}. Next: install them" in " ".join(
        text.split()
    )
    assert not (tmp_path / "cache").exists()


def test_an_archive_that_has_no_folder_is_told_before_anything_is_built(tmp_path):
    done = subprocess.run(
        [
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), ROOT / "playbooks/bundle.yml"),
            *("-e", f"bundle_archive_dest={tmp_path}/usb/lab.tar", "-e", f"bundle_cache_dir={tmp_path}/cache"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"{tmp_path}/usb is not a folder. Next: mkdir -p {tmp_path}/usb" in " ".join(done.stdout.split())
    assert not (tmp_path / "cache").exists()


def test_what_goes_wrong_in_the_builder_is_the_tasks_message(tmp_path):
    task = {
        "gsb.fake_gpu_lab.standin_bundle": {
            "bundle_dir": str(tmp_path / "bundle"),
            "cache_dir": str(tmp_path / "cache"),
            "rebuild": ["no-such-part"],
        }
    }
    status, text = play(tmp_path, [task])
    assert status == 2
    assert "There is no part no-such-part" in text
    assert "Next: one of: " in text


def test_stand_ins_for_another_architecture_are_refused_before_anything_is_built(tmp_path):
    other = {"amd64": "arm64", "arm64": "amd64"}[builder.native_arch()]
    status, text = play(
        tmp_path, ROLE, bundle_source="standin", bundle_arch=other, bundle_cache_dir=str(tmp_path / "cache")
    )
    assert status == 2
    assert f"stand-ins are for this machine's own {builder.native_arch()}, not for {other}" in " ".join(text.split())
    assert not (tmp_path / "cache").exists()


def test_a_controller_of_another_distribution_may_download(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "python3", "curl", "skopeo"):
        (folder / name).symlink_to(shutil.which(name) or "/bin/true")
    status, text = play(
        tmp_path,
        ROLE,
        "--check",
        only_path=str(folder),
        bundle_source="upstream",
        bundle_allow_unpinned=True,
        bundle_cache_dir=str(tmp_path / "cache"),
    )
    assert status == 0, text
    assert "would be downloaded" in text


def test_a_file_of_pins_is_looked_for_where_the_command_is_typed(tmp_path):
    (tmp_path / "my-pins.yml").write_text("bundle_pins: {k3s: {}}\n")
    status, text = play(
        tmp_path, ROLE, env={"PWD": str(tmp_path)}, bundle_source="upstream", bundle_pins_file="my-pins.yml"
    )
    assert status == 2
    said = " ".join(text.split())
    assert f"The pins {tmp_path}/my-pins.yml are not of the form of roles/bundle/vars/pins.yml" in said
    assert "Next: begin with a copy" in said
