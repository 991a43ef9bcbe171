# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What can go wrong, said in words that name the next thing to type."""

from __future__ import annotations

from pathlib import Path


class BuildError(Exception):
    """The bundle cannot be made. The text says why; `hint` says what to do next."""

    def __init__(self, text: str, *, hint: str = "", log: Path | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.hint = hint
        self.log = log

    def __str__(self) -> str:
        lines = [self.text]
        if self.log is not None:
            lines.append(f"The whole log: {self.log}")
        if self.hint:
            lines.append(f"Next: {self.hint}")
        return "\n".join(lines)


class Cancelled(BuildError):
    """Another part failed, or the run was stopped, while this one was being built."""
