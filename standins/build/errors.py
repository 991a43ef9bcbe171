# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What can go wrong, said in words that name the next thing to type."""

from __future__ import annotations

import errno
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


def what_to_do(problem: Exception, variable: str) -> str:
    """The hint for a folder that cannot be written; the variable chooses another one."""
    number = getattr(problem, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"make room there, or choose another folder with -e {variable}=/path; then run this again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST):
        return f"choose a folder that you may write with -e {variable}=/path"
    return ""


class Cancelled(BuildError):
    """Another part failed, or the run was stopped, while this one was being built."""
