# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The download as it is typed, where upstream's own names answer: in a network namespace, from what the stand-ins have.

Needs root and a bundle of stand-ins (lab.yml --tags bundle). The single failures are among the unit tests.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import internet as upstream

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = upstream.CACHE / "bundle"


@pytest.fixture(scope="module")
def internet(tmp_path_factory):
    there = upstream.Internet(tmp_path_factory.mktemp("internet"), BUNDLE)
    there.fill()
    with there:
        yield there


@pytest.fixture
def start(internet, tmp_path):
    """Starts lab.yml --tags bundle in the namespace, with a cache of its own; its process."""

    def run(*arguments, **variables):
        variables = {
            "bundle_pins_file": str(internet.pins_file),
            "bundle_cache_dir": str(tmp_path / "cache"),
            "bundle_dir": str(tmp_path / "bundle"),
            **variables,
        }
        playbook = pathlib.Path(sys.executable).with_name("ansible-playbook")
        return subprocess.Popen(
            [
                *("ip", "netns", "exec", upstream.NAMESPACE, str(playbook), "-i", "localhost,", str(ROOT / "lab.yml")),
                *("--tags", "bundle", "-e", json.dumps(variables), *arguments),
            ],
            cwd=ROOT,
            env={**internet.environment(), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return run


@pytest.fixture
def bundle(start):
    """Runs it to its end: status and output."""

    def run(*arguments, **variables):
        process = start(*arguments, **variables)
        output = process.communicate(timeout=600)[0]
        return process.returncode, output

    return run


def changed(output):
    return int(re.search(r"localhost\s.*changed=(\d+)", output)[1])


def test_upstream_is_chosen_downloaded_and_not_downloaded_again(bundle, internet, tmp_path):
    status, output = bundle()
    assert status == 0, output
    assert "upstream can be reached" in output
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text())
    assert manifest["origin"] == "upstream"
    assert manifest["unpinned"] == []
    for part in manifest["parts"].values():
        for file in part["files"]:
            assert upstream.sha256(tmp_path / "bundle" / file["path"]) == file["sha256"]
    # What stands behind upstream's names here is what the stand-ins are.
    assert upstream.sha256(tmp_path / "bundle/bin/helm") == upstream.sha256(BUNDLE / "bin/helm")
    status, output = bundle(bundle_source="upstream")
    assert (status, changed(output)) == (0, 0), output


def test_a_run_that_is_killed_is_gone_on_with(start, bundle, tmp_path):
    process = start(bundle_source="upstream")
    # As soon as something was begun.
    deadline = time.monotonic() + 60
    while not any((tmp_path / "cache").glob("downloads/*")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    status, output = bundle(bundle_source="upstream")
    assert status == 0, output
    assert json.loads((tmp_path / "bundle/manifest.json").read_text())["origin"] == "upstream"
    assert list((tmp_path / "cache/downloads").iterdir()) == []


def test_a_full_disk_is_told_and_nothing_is_broken(bundle, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(cache)], check=True)
    try:
        status, output = bundle(bundle_source="upstream")
    finally:
        subprocess.run(["umount", str(cache)], check=True)
    assert status == 2
    assert re.search("No space left|write error|Failure writing", output), output
    assert not (tmp_path / "bundle").exists()
    status, output = bundle(bundle_source="upstream")
    assert status == 0, output
