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

from ansible_collections.gsb.fake_gpu_lab.standins.build import pins as pinned

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = upstream.BUNDLE


@pytest.fixture(scope="module")
def internet(tmp_path_factory):
    there = upstream.Internet(tmp_path_factory.mktemp("internet"), BUNDLE)
    there.fill()
    with there:
        yield there


@pytest.fixture
def start(internet, tmp_path):
    """Starts `make bundle BUNDLE_SOURCE=source` in the namespace, with a cache of its own; its process."""

    def run(source="", **variables):
        variables = {
            "bundle_pins_file": str(internet.pins_file),
            "bundle_cache_dir": str(tmp_path / "cache"),
            "bundle_dir": str(tmp_path / "bundle"),
            **variables,
        }
        given = tmp_path / "variables.json"
        given.write_text(json.dumps(variables))
        return subprocess.Popen(
            [
                *(internet.inside() if internet.proxy is None else []),
                *("make", "bundle", f"BUNDLE_SOURCE={source}", f"ARGS=-e @{given}"),
            ],
            cwd=ROOT,
            env={**internet.environment(), "ANSIBLE_NOCOLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return run


@pytest.fixture
def bundle(start):
    """Runs it to its end: status and output."""

    def run(source="", **variables):
        process = start(source, **variables)
        output = process.communicate(timeout=600)[0]
        return process.returncode, output

    return run


def changed(output):
    return int(re.search(r"localhost\s.*changed=(\d+)", output)[1])


def compare(downloaded, built):
    """The same parts of the same content; an image has the same digest, or is in the archive of k3s."""
    assert downloaded["parts"].keys() == built["parts"].keys()
    for name, part in downloaded["parts"].items():
        if name != "images":
            ours, theirs = (
                {file["path"]: file["sha256"] for file in one["files"]} for one in (part, built["parts"][name])
            )
            assert ours == theirs
    of_one, in_archive = {}, set()
    for file in downloaded["parts"]["images"]["files"]:
        if "digest" in file:
            of_one[file["refs"][0]] = file["digest"]
        else:
            in_archive |= set(file["refs"])
    theirs = {file["refs"][0]: file["digest"] for file in built["parts"]["images"]["files"]}
    assert of_one == {ref: digest for ref, digest in theirs.items() if ref not in in_archive}
    assert in_archive == theirs.keys() - of_one.keys()


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
    compare(manifest, json.loads((BUNDLE / "manifest.json").read_text()))
    status, output = bundle("upstream")
    assert (status, changed(output)) == (0, 0), output


def test_a_run_that_is_killed_is_gone_on_with(start, bundle, tmp_path):
    process = start("upstream")
    # As soon as something was begun.
    deadline = time.monotonic() + 60
    while not any((tmp_path / "cache").glob("downloads/*")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    status, output = bundle("upstream")
    assert status == 0, output
    assert json.loads((tmp_path / "bundle/manifest.json").read_text())["origin"] == "upstream"
    assert list((tmp_path / "cache/downloads").iterdir()) == []


def test_a_full_disk_is_told_and_nothing_is_broken(bundle, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(cache)], check=True)
    try:
        status, output = bundle("upstream")
    finally:
        subprocess.run(["umount", str(cache)], check=True)
    assert status == 2
    assert re.search(r"could not be written, \d+ MB are free there", output), output
    assert not (tmp_path / "bundle").exists()
    status, output = bundle("upstream")
    assert status == 0, output


def by_hand(*words):
    return subprocess.run(
        [sys.executable, upstream.__file__, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_outside_of_the_namespace_a_proxy_leads_to_it(internet):
    """So does `make try-upstream`; the machine that it makes is outside."""
    (kwok,) = (file for file in internet.pins["kwok"]["upstream"] if file["name"] == "kwok.yaml")
    urls = (kwok["url"], "https://ghcr.io/v2/", "https://elsewhere.example/")
    asked = [word for url in urls for word in ("--output", os.devnull, url)]
    ask = ("curl", "--silent", "--write-out", r"%{http_connect} %{http_code}\n", *asked)
    done = by_hand("--folder", internet.folder, "--proxy", "--", *ask)
    assert done.stdout.splitlines()[1:] == ["200 200", "200 200", "502 000"], done.stdout + done.stderr
    own = by_hand("--folder", internet.folder, "--proxy", "--", "readlink", "/proc/self/ns/net")
    assert own.stdout.splitlines()[1:] == [os.readlink("/proc/self/ns/net")]


def test_no_folder_of_somebody_else_is_emptied(tmp_path):
    (tmp_path / "mine").write_text("")
    done = by_hand("--folder", tmp_path, "--", "true")
    assert (done.returncode, done.stderr) == (
        1,
        f"internet: {tmp_path} has something else in it: name another folder, or remove it\n",
    )
    assert (tmp_path / "mine").exists()


def test_only_stand_ins_are_served(tmp_path):
    done = by_hand("--bundle", tmp_path, "--", "true")
    assert done.returncode == 1
    assert f"{tmp_path} holds nothing" in done.stderr and "make bundle BUNDLE_SOURCE=standin" in done.stderr
    (tmp_path / "manifest.json").write_text('{"origin": "upstream"}')
    assert f"{tmp_path} holds upstream" in by_hand("--bundle", tmp_path, "--", "true").stderr


def test_another_run_has_a_namespace_of_its_own_and_takes_what_a_killed_one_left(internet, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    killed = f"gsb-upstream-{ended.pid}"
    subprocess.run(["ip", "netns", "add", killed], check=True)
    lost = subprocess.Popen(["ip", "netns", "exec", killed, "sleep", "600"])
    (upstream.ETC / killed).mkdir(parents=True)
    asked = ("curl", "--silent", "--output", os.devnull, "--write-out", "%{http_code}", "https://ghcr.io/v2/")
    other = by_hand("--folder", internet.folder, "--", *asked)
    assert other.stdout.splitlines()[-1] == "200", other.stdout + other.stderr
    assert lost.wait(timeout=5) == -signal.SIGKILL
    there = [path.name for folder in (upstream.NETNS, upstream.ETC) for path in folder.glob("gsb-upstream-*")]
    assert killed not in there
    # This one goes on.
    assert there.count(internet.namespace) == 2
    internet.within("curl", "--silent", "--fail", "--output", os.devnull, "https://ghcr.io/v2/")


def test_pins_are_filled_in_from_what_the_registry_has(internet, tmp_path):
    """As it is typed once before a release; what it wrote is what the download takes."""
    path = tmp_path / "pins.yml"
    before = (ROOT / pinned.FILE).read_text()
    path.write_text(before)

    def pin(*options):
        done = internet.within(
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), ROOT / "playbooks/pin.yml", *options),
            *("-e", f"bundle_pins_file={path}"),
            capture_output=True,
            cwd=ROOT,
        )
        return changed(done.stdout)

    known = pinned.Pins.load(path)
    assert known.unpinned("amd64")
    assert (pin("--check"), path.read_text()) == (1, before)
    assert pin() == 1
    filled = pinned.Pins.load(path)
    assert filled.unpinned("amd64") == filled.unpinned("arm64") == []
    there = pinned.Pins(internet.pins)
    assert filled.chart() == there.chart()
    asked = {image.ref for image in known.upstream_images("amd64") if not image.digest and not image.carried_by}
    assert len(asked) == 6
    for arch in pinned.ARCHITECTURES:
        ours, theirs = ({image.ref: image for image in one.upstream_images(arch)} for one in (filled, there))
        assert {ref: ours[ref] for ref in asked} == {ref: theirs[ref] for ref in asked}
        assert {ref: ours[ref] for ref in ours.keys() - asked} == {
            image.ref: image for image in known.upstream_images(arch) if image.ref not in asked
        }
    after = path.read_text()
    assert (pin(), path.read_text()) == (0, after)
