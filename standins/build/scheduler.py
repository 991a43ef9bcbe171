# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Build parts in the order of their needs, at most two at a time; a part that is marked so gets the machine alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Task:
    """What the scheduler has to know of a part."""

    name: str
    needs: frozenset[str]
    alone: bool = False
    expected: float = 0.0


class Observer(Protocol):
    """Told what happens, always from the thread that called `run`."""

    def started(self, name: str) -> None: ...

    def finished(self, name: str, seconds: float) -> None: ...

    def failed(self, name: str, seconds: float, still_running: Collection[str]) -> None: ...

    def heartbeat(self, running: Mapping[str, float]) -> None: ...


def choose(waiting: list[Task], finished: Collection[str], running: Collection[Task], slots: int) -> Task | None:
    """The next task to start now, or None. The longest comes first; one that wants to be alone waits for silence."""
    if len(running) >= slots or any(task.alone for task in running):
        return None
    for task in sorted(waiting, key=lambda item: (-item.expected, item.name)):
        if not task.needs <= set(finished):
            continue
        if task.alone and running:
            return None
        return task
    return None


def run(
    tasks: Collection[Task],
    build: Callable[[str], None],
    observer: Observer,
    cancel: threading.Event,
    *,
    slots: int = 2,
    heartbeat: float = 25.0,
) -> None:
    """Build all tasks. After a failure nothing new is started, the others are cancelled, and the failure is raised."""
    waiting = list(tasks)
    known = {task.name for task in waiting}
    finished: set[str] = set()
    running: dict[Future[None], tuple[Task, float]] = {}
    waiting = [Task(task.name, task.needs & known, task.alone, task.expected) for task in waiting]
    told = time.monotonic()
    with ThreadPoolExecutor(max_workers=slots, thread_name_prefix="build") as pool:
        try:
            while waiting or running:
                while task := choose(waiting, finished, [item for item, _began in running.values()], slots):
                    waiting.remove(task)
                    observer.started(task.name)
                    running[pool.submit(build, task.name)] = (task, time.monotonic())
                if not running:
                    names = ", ".join(sorted(task.name for task in waiting))
                    raise ValueError(f"these parts need each other in a circle: {names}")
                pause = max(0.0, told + heartbeat - time.monotonic())
                done, _pending = wait(running, timeout=pause, return_when=FIRST_COMPLETED)
                for future in done:
                    task, began = running.pop(future)
                    seconds = time.monotonic() - began
                    failure = future.exception()
                    if failure is not None:
                        observer.failed(task.name, seconds, [item.name for item, _began in running.values()])
                        raise failure
                    finished.add(task.name)
                    observer.finished(task.name, seconds)
                if time.monotonic() - told >= heartbeat:
                    told = time.monotonic()
                    observer.heartbeat({task.name: told - began for task, began in running.values()})
        except BaseException:
            cancel.set()
            raise
