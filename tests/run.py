#!/usr/bin/env python3
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the project's checks, stage by stage, with the time of each.

A stage that fails does not stop the later ones, unless they stand on it. Clusters wait more than they work, so some
of the long stages run beside the others, one after the other, and print what they have to say at the end. The last
line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gotool

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsb-fake-gpu-lab"
WORK = CACHE / "test"
GO_MODULES = sorted(p.parent for p in (ROOT / "standins").rglob("go.mod") if "tools" not in p.parts)


class StageFailed(Exception):
    """A command of a stage ended with another status than 0."""


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> None:
    line = " ".join(str(part) for part in command)
    print(f"   $ {line}", flush=True)
    environment = {**os.environ, "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}", **env}
    status = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, stdin=subprocess.DEVNULL
    ).returncode
    if status:
        raise StageFailed(f"{line}: exit status {status}")


def lint() -> None:
    run("yamllint", "--strict", ".")
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("ansible-lint", "--offline", "--strict")
    # Not by way of what happens to be installed here: its own rules are the same everywhere.
    actionlint = gotool.program("actionlint", "github.com/rhysd/actionlint/cmd/actionlint")
    run(actionlint, "-shellcheck=", "-pyflakes=", *sorted((ROOT / ".github" / "workflows").glob("*.yml")))


def unit() -> None:
    run("pytest", "-q", "-n", "2", "tests/unit", PYTHONPATH=str(VENV / "collections"))


def collection() -> None:
    """Builds the tarball and installs it apart from the checkout, for this stage and for `sanity`."""
    shutil.rmtree(WORK / "collections", ignore_errors=True)
    dist = WORK / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run("ansible-galaxy", "collection", "build", "--force", "--output-path", dist)
    (tarball,) = dist.glob("gsb-fake_gpu_lab-*.tar.gz")
    run(
        "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        "--no-deps",
        "--force",
        "-p",
        WORK / "collections",
        tarball,
    )
    # As on a controller that knows nothing of this checkout.
    config = WORK / "ansible.cfg"
    config.write_text("[defaults]\n")
    installed = {"ANSIBLE_COLLECTIONS_PATH": str(WORK / "collections"), "ANSIBLE_CONFIG": str(config)}
    for playbook in sorted(p.stem for p in (ROOT / "playbooks").glob("*.yml")):
        run(
            "ansible-playbook",
            "-i",
            ROOT / "inventory" / "machine.yml",
            "--syntax-check",
            f"gsb.fake_gpu_lab.{playbook}",
            cwd=WORK,
            **installed,
        )
    for plugin in sorted(p.stem for p in (ROOT / "plugins" / "modules").glob("*.py")):
        run("ansible-doc", "-t", "module", "--json", f"gsb.fake_gpu_lab.{plugin}", cwd=WORK, **installed)
    run("antsibull-changelog", "lint")


def sanity() -> None:
    # ansible-test fetches pip's installer for its own environments; the same work is done by ensurepip,
    # which also serves where only package registries can be reached.
    installer = Path.home() / ".ansible" / "test" / "cache" / "get_pip_24_2.py"
    if not installer.exists():
        installer.parent.mkdir(parents=True, exist_ok=True)
        installer.write_text("import ensurepip\nensurepip.bootstrap(upgrade=True, default_pip=True)\n")
    collections = WORK / "collections" / "ansible_collections"
    # ansible-test looks beside the collection for those that it depends on; the PyPI package `ansible` has them.
    (packaged,) = VENV.glob("lib/python3*/site-packages/ansible_collections/kubernetes")
    beside = collections / "kubernetes"
    beside.unlink(missing_ok=True)
    beside.symlink_to(packaged)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # standins/ is no part of Ansible: its Helm templates are no YAML yet.
    run(
        *("ansible-test", "sanity", "--python", version, "--color", "no", "--exclude", "standins/"),
        cwd=collections / "gsb" / "fake_gpu_lab",
    )


def go() -> None:
    flags = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath", "GOTOOLCHAIN": "local"}
    for module in GO_MODULES:
        unformatted = subprocess.run(
            ["gofmt", "-l", "."], cwd=module, capture_output=True, text=True, check=True
        ).stdout
        if unformatted:
            raise StageFailed(f"gofmt would change in {module.relative_to(ROOT)}: {' '.join(unformatted.split())}")
        run("go", "vet", "./...", cwd=module, **flags)
        if any(module.rglob("*_test.go")):
            run("go", "test", "./...", cwd=module, **flags)


def bundle() -> None:
    run("ansible-playbook", "lab.yml", "--tags", "bundle")


def upstream() -> None:
    run("pytest", "-q", "tests/upstream", PYTHONPATH=str(VENV / "collections"))
    molecule("upstream")()


def machine() -> None:
    run("pytest", "-q", "tests/machine", PYTHONPATH=str(VENV / "collections"))


def molecule(scenario: str) -> Callable[[], None]:
    def stage() -> None:
        run("molecule", "test", "--no-command-borders", "-s", scenario)

    return stage


@dataclass(frozen=True)
class Stage:
    name: str
    what: str
    action: Callable[[], None]
    needs: tuple[str, ...] = ()
    beside: bool = False


STAGES = (
    Stage("bundle", "all that the lab is installed from", bundle),
    Stage("collection", "the tarball: built, installed, its playbooks and documentation read", collection, beside=True),
    Stage("sanity", "ansible-test sanity", sanity, ("collection",), beside=True),
    Stage("go", "gofmt, go vet, go test of the stand-ins", go, beside=True),
    Stage("contract", "molecule: what the stand-ins promise", molecule("contract"), ("bundle",), beside=True),
    Stage(
        "ledger",
        "molecule: gpu_ledger on a real cluster, also a wide one",
        molecule("ledger"),
        ("bundle",),
        beside=True,
    ),
    Stage("upstream", "the download by upstream's names, and the lab from it", upstream, ("bundle",), beside=True),
    Stage("lint", "yamllint, ruff, ansible-lint (production), actionlint", lint),
    Stage("unit", "unit tests", unit),
    Stage("machine", "the embedded machine: side by side, killed, rebooted, removed", machine),
    Stage("default", "molecule: bare machine to report.json, reboot, repair", molecule("default"), ("bundle",)),
    Stage("steps", "molecule: each step alone by its tag", molecule("steps"), ("bundle",)),
)


def attempt(action: Callable[[], None]) -> str:
    """Runs it, and says `ok` or what went wrong."""
    try:
        action()
    except (StageFailed, OSError, subprocess.CalledProcessError, ValueError) as error:
        return str(error)
    return "ok"


def command(stage: Stage) -> list[str]:
    """What runs one stage as a process of its own."""
    return [sys.executable, __file__, "--only", stage.name]


class Beside:
    """Stages as processes of their own, one at a time, each with its output in a file until somebody asks for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._begun: list[tuple[Stage, Future[tuple[str, float]]]] = []
        self._verdicts: dict[str, str] = {}

    def add(self, stage: Stage) -> None:
        self._begun.append((stage, self._pool.submit(self._run, stage)))

    def log(self, stage: Stage) -> Path:
        return WORK / f"{stage.name}.log"

    def _run(self, stage: Stage) -> tuple[str, float]:
        """Verdict and seconds."""
        begun = time.monotonic()
        self.log(stage).parent.mkdir(parents=True, exist_ok=True)
        broken = [name for name in stage.needs if self._verdicts.get(name, "ok") != "ok"]
        if broken:
            self.log(stage).write_text("")
            return f"not run, needs {', '.join(broken)}", 0.0
        with self.log(stage).open("wb") as log:
            self._process = subprocess.Popen(
                command(stage), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        if self._stopped:
            self._process.terminate()
        status = self._process.wait()
        self._verdicts[stage.name] = f"exit status {status}; what it printed is above" if status else "ok"
        return self._verdicts[stage.name], time.monotonic() - begun

    def results(self) -> dict[str, tuple[str, float]]:
        """Waits for each, prints what it printed, and gives its verdict and seconds."""
        found = {}
        for stage, future in self._begun:
            verdict, seconds = future.result()
            printed, _, rest = self.log(stage).read_text(errors="replace").rpartition("\nstage ")
            # What follows is a summary of its own, of one stage.
            print(f"\n{(printed or rest).strip()}", flush=True)
            found[stage.name] = (verdict, seconds)
        return found

    def stop(self) -> None:
        self._stopped = True
        if self._process is not None:
            self._process.terminate()
        self._pool.shutdown(cancel_futures=True)


def run_stages(stages: list[Stage]) -> dict[str, tuple[str, float]]:
    """Verdict and seconds of each stage; a stage beside the others is judged at the end."""
    results: dict[str, tuple[str, float]] = {}
    alone = all(stage.beside for stage in stages)
    beside = Beside()
    try:
        for stage in stages:
            print(f"\n== {stage.name}: {stage.what}", flush=True)
            start = time.monotonic()
            broken = [name for name in stage.needs if results.get(name, ("ok", 0))[0] != "ok"]
            if broken:
                verdict = f"not run, needs {', '.join(broken)}"
            elif stage.beside and not alone:
                beside.add(stage)
                print(
                    f"== {stage.name}: runs beside the next ones; its output, now in {beside.log(stage)}, follows them"
                )
                continue
            else:
                verdict = attempt(stage.action)
            results[stage.name] = (verdict, time.monotonic() - start)
            print(f"== {stage.name}: {verdict} ({results[stage.name][1]:.1f} s)", flush=True)
        results.update(beside.results())
    finally:
        beside.stop()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="comma-separated stages; others are left out")
    parser.add_argument("--list", action="store_true", help="print the stages and end")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    unknown = wanted - {stage.name for stage in STAGES}
    if unknown:
        parser.error(f"unknown stage: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in STAGES)}")
    if options.list:
        for stage in STAGES:
            print(f"{stage.name:12} {stage.what}")
        return 0
    # A stopped run stops what it started: the children are in this process group.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    results = run_stages([stage for stage in STAGES if not wanted or stage.name in wanted])
    failed = sum(verdict != "ok" for verdict, _ in results.values())
    print(f"\n{'stage':12} {'seconds':>8}  result")
    for name, (verdict, seconds) in results.items():
        print(f"{name:12} {seconds:8.1f}  {verdict}")
    print(f"{'all':12} {time.monotonic() - begun:8.1f}\n")
    print(f"{len(results) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
