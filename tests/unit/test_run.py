# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the stages: no stage that failed or did not run may count as passed."""

from __future__ import annotations

import importlib.util
import sys
import time
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


def beside(run, monkeypatch, code, name="beside"):
    monkeypatch.setattr(run, "command", lambda stage: [sys.executable, "-c", code, stage.name])
    return run.Stage(name, "-", good, beside=True)


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


def test_stages_beside_the_others_come_one_after_the_other(run, monkeypatch, tmp_path):
    begins = f"import sys, time; open({str(tmp_path / 'order')!r}, 'a').write('+' + sys.argv[1]);"
    ends = f"time.sleep(0.2); open({str(tmp_path / 'order')!r}, 'a').write('-' + sys.argv[1])"
    stages = [beside(run, monkeypatch, begins + ends, name) for name in ("a", "b")]
    results = run.run_stages([*stages, run.Stage("next", "-", good)])
    assert verdicts(results) == {"next": "ok", "a": "ok", "b": "ok"}
    assert (tmp_path / "order").read_text() == "+a-a+b-b"


def test_a_stage_beside_the_others_is_not_run_on_one_that_failed(run, monkeypatch):
    stages = [beside(run, monkeypatch, "raise SystemExit(1)", name) for name in ("a", "b", "c")]
    stages[1] = run.Stage("b", "-", good, ("a",), beside=True)
    results = run.run_stages([*stages, run.Stage("next", "-", good)])
    assert results["a"][0].startswith("exit status 1")
    assert results["b"][0] == "not run, needs a"
    assert results["c"][0].startswith("exit status 1")


def test_stages_that_need_not_be_beside_anything_print_at_once(run, monkeypatch, capfd):
    never = beside(run, monkeypatch, "raise SystemExit(1)")
    assert verdicts(run.run_stages([never])) == {"beside": "ok"}


def test_a_stopped_run_stops_the_stage_beside_and_begins_no_other(run, monkeypatch, tmp_path):
    begun = tmp_path / "begun"
    code = f"import sys, time; open({str(begun)!r}, 'a').write(sys.argv[1]); time.sleep(60)"

    def interrupted():
        deadline = time.monotonic() + 30
        while not (begun.exists() and begun.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise KeyboardInterrupt

    stages = [beside(run, monkeypatch, code, name) for name in ("a", "b")]
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run.run_stages([*stages, run.Stage("next", "-", interrupted)])
    assert time.monotonic() - before < 30
    assert begun.read_text() == "a"
