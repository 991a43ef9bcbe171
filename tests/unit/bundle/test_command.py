# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Toolchains are found or named; commands leave a log, and nothing running."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.gsb.fake_gpu_lab.standins.build import command
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError, Cancelled

COLLECTIONS = pathlib.Path(command.__file__).parents[5]


def fake_go(folder: pathlib.Path, version: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    path = folder / "go"
    path.write_text(f"#!/bin/sh\necho go version {version} linux/amd64\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.fixture
def nowhere_else(monkeypatch):
    """What is unpacked on this machine, or installed beside the Python that runs the tests, does not help."""
    monkeypatch.setattr(command.sys, "executable", "/nowhere/python")
    access = os.access
    monkeypatch.setattr(
        command.os, "access", lambda path, mode: not str(path).startswith("/usr/") and access(path, mode)
    )


def test_a_go_that_is_new_enough_is_taken(tmp_path, nowhere_else):
    go = command.find_go("1.26.8", fake_go(tmp_path / "bin", "go1.26.8"))
    assert (go.version, go.path) == ("go1.26.8", str(tmp_path / "bin/go"))
    assert command.find_go("1.26", fake_go(tmp_path / "bin", "go1.30rc1")).version == "go1.30rc1"


def test_a_go_that_is_too_old_is_named_with_the_way_out(tmp_path, nowhere_else):
    with pytest.raises(BuildError) as caught:
        command.find_go("1.26", fake_go(tmp_path / "bin", "go1.19.8"))
    text = str(caught.value)
    assert "Go 1.26 or newer" in text
    assert f"go1.19.8 at {tmp_path}/bin/go" in text
    assert "Next: " in text


def test_a_go_beside_the_python_that_runs_is_found(tmp_path, nowhere_else, monkeypatch):
    fake_go(tmp_path / "venv", "go1.27.3")
    monkeypatch.setattr(command.sys, "executable", str(tmp_path / "venv/python"))
    assert command.find_go("1.26", {"PATH": "/nowhere"}).version == "go1.27.3"


def test_a_go_that_is_missing_is_named_with_the_way_out(tmp_path, nowhere_else):
    with pytest.raises(BuildError, match="there is none on PATH"):
        command.find_go("1.26", {"PATH": str(tmp_path)})


def test_the_newest_go_line_decides(tmp_path):
    for name, version in {"a": "1.26.0", "b": "1.26.10", "c": "1.26.9"}.items():
        (tmp_path / name).write_text(f"module {name}\n\ngo {version}\n")
    assert command.go_needed(tmp_path.iterdir()) == "1.26.10"


def test_the_callers_go_settings_do_not_reach_a_build(tmp_path, monkeypatch):
    for name, value in {
        "GOFLAGS": "-mod=vendor -tags=x",
        "GOARCH": "riscv64",
        "GOEXPERIMENT": "x",
        "CGO_CFLAGS": "-x",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GOPROXY", "file:///mirror")
    environment = command.go_environment(command.Go("/opt/go/bin/go", "go1.26.8"), "arm64", tmp_path / "scratch")
    assert environment["GOFLAGS"] == "-mod=readonly"
    assert environment["GOARCH"] == "arm64"
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["CGO_ENABLED"] == "0"
    assert environment["GOPROXY"] == "file:///mirror", "where modules come from is the caller's business"
    assert not {"GOEXPERIMENT", "CGO_CFLAGS"} & set(environment)


@pytest.fixture
def runner(tmp_path):
    return command.Runner("helm v3", tmp_path / "logs/helm.log", threading.Event())


def test_a_failure_shows_the_end_of_the_log_its_path_and_what_to_do(runner):
    script = "for n in $(seq 40); do echo line $n; done; echo broken >&2; exit 3"
    with pytest.raises(BuildError) as caught:
        runner.run(["sh", "-c", script], hint="do this")
    text = str(caught.value)
    assert "helm v3 could not be built: sh ended with status 3" in text
    assert "  | broken" in text and "  | line 40" in text and "| line 1\n" not in text
    assert f"The whole log: {runner.log}" in text
    assert text.endswith("Next: do this")
    assert "line 1\n" in runner.log.read_text()


def test_a_failure_always_says_what_to_type(runner):
    with pytest.raises(BuildError) as caught:
        runner.run(["false"])
    assert str(caught.value).endswith(f"Next: less {runner.log}")


def test_output_can_go_to_a_file(runner, tmp_path):
    runner.run(["sh", "-c", "echo out; echo err >&2"], output=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "out\n"
    assert "err" in runner.log.read_text()


def test_a_command_that_is_not_installed_is_named(runner):
    with pytest.raises(BuildError, match="the command no-such-tool is not installed") as caught:
        runner.run(["no-such-tool"])
    assert "apt-get install no-such-tool" in str(caught.value)


def gone(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def wait_until(condition, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_cancelled_build_leaves_no_process(runner, tmp_path):
    note = tmp_path / "pids"
    cancelled = []

    def work():
        try:
            runner.run(["sh", "-c", f"sleep 60 & echo $$ $! > {note}; wait"])
        except Cancelled as stopped:
            cancelled.append(stopped)

    thread = threading.Thread(target=work)
    thread.start()
    assert wait_until(lambda: note.exists() and len(note.read_text().split()) == 2)
    runner._cancel.set()
    thread.join(10)
    assert cancelled
    assert all(wait_until(lambda pid=pid: gone(int(pid))) for pid in note.read_text().split())


def test_a_build_ends_with_the_run_that_is_killed_outright(tmp_path):
    note = tmp_path / "pid"
    script = (
        "import pathlib, threading\n"
        "from ansible_collections.gsb.fake_gpu_lab.standins.build.command import Runner\n"
        f"Runner('x', pathlib.Path('{tmp_path}/log'), threading.Event()).run(['sh', '-c', 'echo $$ > {note}; exec sleep 60'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(COLLECTIONS)})
    assert wait_until(lambda: note.exists() and note.read_text().strip())
    process.kill()
    process.wait()
    assert wait_until(lambda: gone(int(note.read_text())))


@pytest.mark.parametrize("password", ["s3cret", "s3@cret", "s3%zzcret"])
def test_the_end_of_a_log_shows_no_password_of_a_proxy(tmp_path, password):
    log = tmp_path / "log"
    log.write_text(f'time="x" level=fatal msg="invalid proxy address \\"http://me:{password}@proxy.example:3128\\""\n')
    said = command.tail_of(log)
    assert "proxy.example:3128" in said
    assert "cret" not in said
    assert "me:" not in said
