# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Content keys: a part is built again exactly when something that decides its bytes has changed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

KEY_LENGTH = 20

# Files that never end up in what is built.
_IGNORED_SUFFIXES = ("_test.go", ".md", ".pyc", "~", ".swp")
_IGNORED_FOLDERS = frozenset({"testdata", "__pycache__"})


def source_files(root: Path) -> Iterator[Path]:
    """Every file under `root` that can decide the result, in a fixed order.

    A folder below `root` with a go.mod of its own is another module: it is left out.
    """
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _IGNORED_FOLDERS and not (here / name / "go.mod").exists()
        )
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(_IGNORED_SUFFIXES):
                yield here / name


def hash_sources(checkout: Path, sources: Iterable[str]) -> str:
    """One sha256 over the names, executable bits and contents of the sources, given relative to the checkout."""
    total = hashlib.sha256()
    for source in sources:
        root = checkout / source
        if not root.exists():
            raise FileNotFoundError(root)
        for path in source_files(root):
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(checkout)}\0{executable:d}\0{content}\n".encode())
    return total.hexdigest()


def content_key(inputs: Mapping[str, Any]) -> str:
    """The key of a part: everything that decides its bytes, in one short hash."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def why_changed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """In a few words, what made a part's key differ from that of its last build."""
    if before is None:
        return "not there yet"
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    words = {"needs": "a part that it is made from has changed", "sources": "its sources have changed"}
    return "; ".join(words.get(name, f"{name} has changed") for name in names) or "its folder is gone"
