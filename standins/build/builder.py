# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""From the pins to the bundle: which parts are there, which have to be built, and building them."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import bundle, keys, pins, recipes, scheduler, upstream
from .command import Go, Runner, find_go, go_needed
from .errors import BuildError, Cancelled, what_to_do
from .mirrors import Mirrors
from .parts import Job, Part
from .store import Store, Stored

Say = Callable[[str], None]

HEARTBEAT = 25.0
HEARTBEAT_DOWNLOAD = 10.0
# Go's own caches, the modules and the parts of a cold build.
SPACE_COLD = 8 * 2**30
LONG_BUILD = 60.0


def seconds(value: float) -> str:
    """A duration as people say it."""
    whole = round(value)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"


def amount(there: int, total: int | None) -> str:
    """So much of a download."""
    return f"{there / 1e6:.1f} MB so far" if total is None else f"{there / 1e6:.1f} of {total / 1e6:.1f} MB"


def native_arch() -> str:
    names = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    machine = os.uname().machine
    if machine not in names:
        raise BuildError(f"This machine is {machine}; stand-ins are built on amd64 or arm64.")
    return names[machine]


@dataclass(frozen=True)
class Settings:
    checkout: Path
    cache: Path
    bundle: Path
    arch: str
    verify: bool = False
    rebuild: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    check: bool = False
    origin: str = "standin"
    pins_file: Path = pins.FILE
    mirrors: Mapping[str, str] = field(default_factory=dict, hash=False)
    allow_unpinned: bool = False
    slots: int = 2
    heartbeat: float = HEARTBEAT
    patience: float = 3600.0


@dataclass
class Outcome:
    """What a run did, or in check mode would do."""

    changed: bool = False
    built: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    seconds: float = 0.0
    manifest: Mapping[str, Any] = field(default_factory=dict)


class Builder:
    """One run over one bundle."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self.settings = settings
        self.say = say
        self.pins = pins.Pins.load(settings.checkout / settings.pins_file)
        if settings.origin == "upstream":
            Mirrors(settings.mirrors).require(self.pins.upstream_hosts())
            self.unpinned = upstream.require_pins(self.pins, settings.arch, settings.allow_unpinned)
            self.parts = upstream.all_parts(self.pins, settings.arch)
        else:
            self.parts = recipes.all_parts(self.pins, settings.checkout, settings.arch)
        self.store = Store(settings.cache)
        self.keys: dict[str, str] = {}
        self.inputs: dict[str, dict[str, Any]] = {}
        self.ready: dict[str, Stored] = {}
        self.jobs: dict[str, Job] = {}
        #: What happens to a part.
        self.done_to, self.doing = (
            ("downloaded", "downloading") if settings.origin == "upstream" else ("built", "building")
        )
        self._cancel = threading.Event()
        self._check_names()
        self.go = self._find_go()

    def _check_names(self) -> None:
        for name in sorted(self.settings.rebuild | self.settings.only):
            if name not in self.parts:
                raise BuildError(f"There is no part {name}.", hint=f"one of: {', '.join(sorted(self.parts))}")

    def _find_go(self) -> Go | None:
        modules = {source for part in self.parts.values() if part.uses_go for source in part.sources}
        if not modules:
            return None
        return find_go(go_needed(self.settings.checkout / module / "go.mod" for module in sorted(modules)))

    def _compute_keys(self) -> None:
        sources: dict[tuple[str, ...], str] = {}
        for name in order(self.parts):
            part = self.parts[name]
            if part.sources not in sources:
                try:
                    sources[part.sources] = keys.hash_sources(self.settings.checkout, part.sources)
                except FileNotFoundError as missing:
                    raise BuildError(f"{part.title}: its sources {missing} are not there.") from missing
            self.inputs[name] = {
                "part": name,
                "recipe": part.recipe,
                "arch": self.settings.arch,
                "settings": dict(part.settings),
                "sources": sources[part.sources],
                "needs": {need: self.keys[need] for need in part.needs},
                "toolchain": self.go.version if self.go and part.uses_go else "",
            }
            self.keys[name] = keys.content_key(self.inputs[name])

    def run(self) -> Outcome:
        """Bring the bundle up to date. Nothing is written in check mode."""
        began = time.monotonic()
        try:
            if not self.settings.only:
                bundle.require_place(self.settings.bundle)
            outcome = self._run()
        except OSError as problem:
            at = Path(str(problem.filename2 or problem.filename or ""))
            cache = self.settings.cache
            variable = "lab_cache_dir" if at.is_relative_to(cache) or cache.is_relative_to(at) else "lab_bundle_dir"
            raise BuildError(f"The bundle cannot be made: {problem}.", hint=what_to_do(problem, variable)) from problem
        outcome.seconds = time.monotonic() - began
        return outcome

    def _run(self) -> Outcome:
        if self.settings.check:
            self._compute_keys()
            return self._look_only()
        with self.store.lock(self.say, patience=self.settings.patience, heartbeat=self.settings.heartbeat):
            # Only now: waiting for another run may take long, and sources are edited meanwhile.
            self._compute_keys()
            return self._bring_up_to_date()

    def _wanted(self) -> list[str]:
        """The parts of this run, each after what it needs."""
        if not self.settings.only:
            return order(self.parts)
        wanted: set[str] = set()
        todo = list(self.settings.only)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo += self.parts[name].needs
        return [name for name in order(self.parts) if name in wanted]

    def _missing(self) -> dict[str, str]:
        """The parts that have to be built, each with the reason."""
        missing: dict[str, str] = {}
        asked = self._made_of(self.settings.rebuild)
        forced = set(asked)
        for name in self._wanted():
            if name in asked:
                missing[name] = "asked for"
                continue
            stored, wrong = self.store.find(
                name, self.keys[name], verify=self.settings.verify, remember=not self.settings.check
            )
            if stored is not None:
                self.ready[name] = stored
            elif wrong:
                missing[name] = f"broken: {wrong}"
                forced.add(name)
            else:
                missing[name] = keys.why_changed(self.store.last_inputs(name), self.inputs[name])
        # What is only an ingredient need not be there when everything made of it is.
        ingredients = {need for part in self.parts.values() for need in part.needs}
        needed: set[str] = set()
        todo = [name for name in missing if name not in ingredients or name in forced or name in self.settings.only]
        while todo:
            name = todo.pop()
            if name in missing and name not in needed:
                needed.add(name)
                todo += self.parts[name].needs
        return {name: why for name, why in missing.items() if name in needed}

    def listing(self) -> list[tuple[str, str, str]]:
        """Every part with its key and whether it is there."""
        self._compute_keys()
        missing = self._missing()
        return [(name, self.keys[name], missing.get(name, "there")) for name in order(self.parts)]

    def _look_only(self) -> Outcome:
        missing = self._missing()
        for name, why in missing.items():
            self.say(f"{self.parts[name].title}: would be {self.done_to} ({why})")
        changed = bool(missing)
        if not missing and not self.settings.only:
            manifest, entries = self._describe()
            if differs := bundle.what_differs(self.settings.bundle, manifest, entries, verify=self.settings.verify):
                self.say(f"the bundle would be put together again: {differs}")
                changed = True
        return Outcome(changed, built=list(missing), reused=list(self.ready))

    def _bring_up_to_date(self) -> Outcome:
        missing = self._missing()
        if missing:
            self._announce(missing)
            self._build(missing)
        outcome = Outcome(
            bool(missing), built=list(missing), reused=[name for name in self.ready if name not in missing]
        )
        for stored in self.ready.values():
            os.utime(stored.folder)
        if self.settings.only:
            return outcome
        manifest, entries = self._describe()
        if differs := bundle.what_differs(self.settings.bundle, manifest, entries, verify=self.settings.verify):
            bundle.assemble(self.settings.bundle, manifest, entries)
            size = sum(entry.described["size"] for entry in entries)
            self.say(
                f"bundle put together in {self.settings.bundle}: {len(entries)} files, {size / 1e6:.0f} MB ({differs})"
            )
            outcome.changed = True
        self.store.prune(self.keys)
        outcome.manifest = manifest
        return outcome

    def expected(self, name: str) -> float:
        return self.store.timings().get(name, self.parts[name].first_time)

    def _announce(self, missing: Mapping[str, str]) -> None:
        known = self.store.timings()
        total = sum(self.expected(name) for name in missing)
        ready = len(self._wanted()) - len(missing)
        self.say(
            f"{len(missing)} of {ready + len(missing)} parts have to be {self.done_to}, about {seconds(total)} of work:"
        )
        for name, why in missing.items():
            time_taken = (
                f"last time {seconds(known[name])}" if name in known else f"about {seconds(self.expected(name))}"
            )
            self.say(f"  {self.parts[name].title}: {why}; {time_taken}")
        free = bundle.free_space(self.settings.cache)
        if total > 600 and free < SPACE_COLD:
            raise BuildError(
                f"A first build needs {SPACE_COLD / 2**30:.0f} GiB below {self.settings.cache}; "
                f"{free / 2**30:.1f} GiB are free.",
                hint="make room, or choose another folder with -e lab_cache_dir=/path",
            )

    def _build(self, missing: Mapping[str, str]) -> None:
        tasks = [
            scheduler.Task(
                name,
                frozenset(self.parts[name].needs),
                # Alone only while it is long: a part that comes out of Go's cache in seconds may have company.
                self.parts[name].alone and self.expected(name) > LONG_BUILD,
                self.expected(name),
            )
            for name in missing
        ]
        scheduler.run(
            tasks,
            self._build_one,
            _Progress(self, len(tasks)),
            self._cancel,
            slots=self.settings.slots,
            heartbeat=self.settings.heartbeat,
        )

    def _build_one(self, name: str) -> None:
        part = self.parts[name]
        runner = Runner(part.title, self.store.logs / f"{name}.log", self._cancel)
        with self.store.workspace(name) as (out, work):
            job = Job(
                pins=self.pins,
                arch=self.settings.arch,
                checkout=self.settings.checkout,
                key=self.keys[name],
                out=out,
                work=work,
                runner=runner,
                go=self.go,
                needs={need: self.ready[need].folder for need in part.needs},
                downloads=self.store.downloads,
                mirrors=Mirrors(self.settings.mirrors),
            )
            self.jobs[name] = job
            began = time.monotonic()
            try:
                part.build(job)
            except (OSError, ValueError, subprocess.SubprocessError, shutil.Error) as problem:
                raise BuildError(
                    f"{part.title} could not be {self.done_to}: {problem}",
                    hint=what_to_do(problem, "lab_cache_dir"),
                    log=runner.log,
                ) from problem
            taken = time.monotonic() - began
            self._check_sources(part)
            if self._cancel.is_set():
                raise Cancelled(f"{part.title}: stopped.", log=runner.log)
            self.ready[name] = self.store.keep(name, self.keys[name], out, self.inputs[name], job.facts)
        with _TIMINGS:
            self.store.remember_timing(name, taken)

    def _check_sources(self, part: Part) -> None:
        """What was edited while it was built must not be kept under the key of what it was before."""
        if keys.hash_sources(self.settings.checkout, part.sources) != self.inputs[part.name]["sources"]:
            raise BuildError(
                f"{part.title}: its sources changed while it was being built.", hint="run this again; the rest is kept"
            )

    def _describe(self) -> tuple[dict[str, Any], list[bundle.Entry]]:
        if self.settings.origin == "upstream":
            return bundle.describe_upstream(self.pins, self.ready, self.settings.arch, self.unpinned)
        return bundle.describe(self.pins, self.ready, self.settings.arch)

    def _made_of(self, names: Collection[str]) -> set[str]:
        """These parts and all that is made of them."""
        found = set(names)
        for name in order(self.parts):
            if found.intersection(self.parts[name].needs):
                found.add(name)
        return found


_TIMINGS = threading.Lock()


class _Progress:
    """Says what the scheduler does."""

    def __init__(self, builder: Builder, total: int) -> None:
        self._builder = builder
        self._total = total
        self._done = 0

    def _title(self, name: str) -> str:
        return self._builder.parts[name].title

    def started(self, name: str) -> None:
        known = self._builder.store.timings().get(name)
        expected = (
            f"took {seconds(known)} last time"
            if known is not None
            else f"about {seconds(self._builder.parts[name].first_time)}"
        )
        self._builder.say(f"{self._builder.doing} {self._title(name)} ({expected})")

    def finished(self, name: str, taken: float) -> None:
        self._done += 1
        size = sum(file.size for file in self._builder.ready[name].files)
        self._builder.say(
            f"{self._title(name)}: done in {seconds(taken)}, {size / 1e6:.1f} MB [{self._done} of {self._total}]"
        )

    def failed(self, name: str, taken: float, still_running: Collection[str]) -> None:
        others = f"; stopping {', '.join(self._title(other) for other in still_running)}" if still_running else ""
        self._builder.say(f"{self._title(name)}: failed after {seconds(taken)}{others}")

    def heartbeat(self, running: Mapping[str, float]) -> None:
        states = [f"{self._title(name)} {self._state(name, taken)}" for name, taken in running.items()]
        if states:
            self._builder.say(f"still {self._builder.doing}: " + "; ".join(states))

    def _state(self, name: str, taken: float) -> str:
        job = self._builder.jobs.get(name)
        if job is not None and job.amount is not None:
            # The files are moved while this looks.
            with suppress(OSError):
                return f"{amount(*job.amount())} in {seconds(taken)}"
        expected = self._builder.expected(name)
        against = f"of about {seconds(expected)}" if taken <= expected else f"(expected {seconds(expected)})"
        return f"{seconds(taken)} {against}"


def order(parts: Mapping[str, Part]) -> list[str]:
    """The names, each after those it needs."""
    done: list[str] = []

    def visit(name: str, path: Sequence[str]) -> None:
        if name in path:
            raise ValueError(f"these parts need each other in a circle: {', '.join(path)}")
        if name not in done:
            for need in parts[name].needs:
                visit(need, [*path, name])
            done.append(name)

    for name in parts:
        visit(name, [])
    return done
