# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the stages: no stage that failed or did not run may count as passed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parent.parent / "run.py"


@pytest.fixture
def run(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("run", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "WORK", tmp_path)
    return module


def good():
    pass


def verdicts(results):
    return {name: verdict for name, (verdict, _) in results.items()}


def beside(run, monkeypatch, code):
    monkeypatch.setattr(run.Beside, "command", lambda self: [sys.executable, "-c", code])
    return run.Stage("beside", "-", good, beside=True)


def test_a_failed_stage_stops_those_alone_that_stand_on_it(run):
    def bad():
        run.run("false")

    results = run.run_stages(
        [
            run.Stage("bad", "-", bad),
            run.Stage("on it", "-", good, ("bad",)),
            run.Stage("on that", "-", good, ("on it",)),
            run.Stage("other", "-", good),
        ]
    )
    assert verdicts(results) == {
        "bad": "false: exit status 1",
        "on it": "not run, needs bad",
        "on that": "not run, needs on it",
        "other": "ok",
    }


def test_a_stage_beside_the_others_prints_after_them(run, monkeypatch, capfd):
    slow = "import time; time.sleep(0.3); print('it works'); print(); print('stage  seconds'); print('1 passed')"
    results = run.run_stages([beside(run, monkeypatch, slow), run.Stage("next", "-", good)])
    assert verdicts(results) == {"next": "ok", "beside": "ok"}
    assert results["beside"][1] >= 0.25
    printed = capfd.readouterr().out
    assert printed.index("== next: ok") < printed.index("it works")
    assert "1 passed" not in printed


def test_a_stage_beside_the_others_that_fails_has_failed(run, monkeypatch, capfd):
    failing = "print('what went wrong'); raise SystemExit(1)"
    results = run.run_stages([beside(run, monkeypatch, failing), run.Stage("next", "-", good)])
    assert results["beside"][0].startswith("exit status 1")
    assert "what went wrong" in capfd.readouterr().out


def test_a_stopped_run_stops_the_stage_beside(run, monkeypatch):
    processes = []
    begin = run.Beside.__init__

    def noted(self, stage):
        begin(self, stage)
        processes.append(self.process)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Beside, "__init__", noted)
    stage = beside(run, monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        run.run_stages([stage, run.Stage("next", "-", interrupted)])
    assert processes[0].poll() is not None
