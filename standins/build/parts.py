# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What a part is: its inputs, which make its key, and the function that builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .command import Go, Runner, go_environment
from .mirrors import Mirrors
from .pins import Pins


@dataclass
class Job:
    """What a recipe works with while it builds."""

    pins: Pins
    arch: str
    checkout: Path
    key: str
    out: Path
    work: Path
    runner: Runner
    go: Go | None
    needs: Mapping[str, Path]
    #: Where what is not yet all there waits for the next run.
    downloads: Path
    mirrors: Mirrors
    facts: dict[str, Any] = field(default_factory=dict)
    #: Bytes that are there and bytes in all (None: nobody knows) of what is downloaded just now.
    amount: Callable[[], tuple[int, int | None]] | None = None

    def built(self, part: str, name: str) -> Path:
        """A file of a part that this one needs."""
        return self.needs[part] / name

    def go_environment(self) -> dict[str, str]:
        return go_environment(self.go, self.arch, self.work / "go")


@dataclass(frozen=True)
class Part:
    """One thing that is built on its own. Raise `recipe` when the way it is built changes its bytes."""

    name: str
    title: str
    build: Callable[[Job], None] = field(compare=False)
    recipe: int = 1
    needs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    uses_go: bool = False
    alone: bool = False
    first_time: float = 5.0
