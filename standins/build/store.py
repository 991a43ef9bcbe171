# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Where built parts are kept: one folder for each part and content key, complete or absent."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from .errors import BuildError

SCHEMA = 1
RECORD = "part.json"
SEEN = ".seen.json"


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write beside the file, then rename: a reader meets the old text or the new one, never a part of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def read_json(path: Path) -> Any:
    """The file's content, or None when it is absent or cannot be understood."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class File:
    """One file of a part, as its record tells."""

    path: str
    sha256: str
    size: int
    mode: str

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "sha256": self.sha256, "size": self.size, "mode": self.mode}


@dataclass(frozen=True)
class Stored:
    """A part that is in the cache, complete."""

    folder: Path
    record: Mapping[str, Any] = field(hash=False)

    @property
    def files(self) -> list[File]:
        return [File(**entry) for entry in self.record["files"]]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What only the build could know (versions of packages, digests)."""
        return self.record.get("facts", {})


class Store:
    """The part cache below one folder. Everything that writes needs the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parts = root / "parts"
        # Emptied by each run: no name that a folder of somebody else may have.
        self.scratch = root / ".gsb-work"
        self.logs = root / "logs"
        self.downloads = root / "downloads"
        self._timings = root / "timings.json"

    @contextmanager
    def lock(self, say: Callable[[str], None], *, patience: float = 3600, heartbeat: float = 25) -> Iterator[None]:
        """Be the only run that builds below this folder; the lock goes when the run ends, however it ends."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("a+", encoding="utf-8") as stream:
            self._wait_for(stream, say, patience, heartbeat)
            stream.seek(0)
            stream.truncate()
            stream.write(f"{os.getpid()}\n")
            stream.flush()
            self._sweep()
            yield

    @staticmethod
    def _wait_for(stream: TextIO, say: Callable[[str], None], patience: float, heartbeat: float) -> None:
        began = time.monotonic()
        told = -heartbeat
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                waited = time.monotonic() - began
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            if waited >= patience:
                raise BuildError(
                    f"Another run (process {holder}) has been building the bundle for more than {patience:.0f} s.",
                    hint=f"ps -fp {holder}   # wait for it or end it, then run this again",
                )
            if waited - told >= heartbeat:
                say(f"another run (process {holder}) is building the bundle; waiting for it, {waited:.0f} s so far")
                told = waited
            time.sleep(min(0.5, heartbeat))

    def _sweep(self) -> None:
        """What a killed run left behind."""
        if self.scratch.exists():
            remove_tree(self.scratch)
        for folder in (self.scratch, self.parts, self.logs):
            folder.mkdir(parents=True, exist_ok=True)

    def folder(self, name: str, key: str) -> Path:
        return self.parts / f"{name}-{key}"

    def find(self, name: str, key: str, *, verify: bool = False, remember: bool = True) -> tuple[Stored | None, str]:
        """The part, when it is there and whole; else None and what is wrong with it ('' when it is just absent).

        A file is trusted without reading it when its size, time and inode are those of the last time it was read and
        found right. `verify` reads everything; without `remember` nothing is noted for the next time.
        """
        folder = self.folder(name, key)
        if not folder.is_dir():
            return None, ""
        record = read_json(folder / RECORD)
        if not isinstance(record, dict) or record.get("schema") != SCHEMA or record.get("key") != key:
            return None, "its record is missing or cannot be read"
        stored = Stored(folder, record)
        seen = read_json(folder / SEEN)
        seen = seen if isinstance(seen, dict) else {}
        now: dict[str, list[int]] = {}
        for file in stored.files:
            path = folder / file.path
            try:
                status = path.lstat()
            except OSError:
                return None, f"{file.path} is missing"
            now[file.path] = [status.st_size, status.st_mtime_ns, status.st_ino]
            if status.st_size != file.size:
                return None, f"{file.path} has {status.st_size} bytes instead of {file.size}"
            if (verify or seen.get(file.path) != now[file.path]) and sha256_of(path) != file.sha256:
                return None, f"{file.path} does not have its sha256"
        if remember and seen != now:
            with suppress(OSError):
                write_atomically(folder / SEEN, json.dumps(now))
        return stored, ""

    def last_inputs(self, name: str) -> Mapping[str, Any] | None:
        """The inputs of the newest build of a part, to say what has changed since."""
        newest = max(self._folders(name), key=lambda folder: folder.stat().st_mtime, default=None)
        record = read_json(newest / RECORD) if newest else None
        return record.get("inputs") if isinstance(record, dict) else None

    def _folders(self, name: str) -> list[Path]:
        # image-kwok-* also finds what belongs to image-kwok-gpu-device-plugin.
        return [folder for folder in self.parts.glob(f"{name}-*") if folder.name.rpartition("-")[0] == name]

    @contextmanager
    def workspace(self, name: str) -> Iterator[tuple[Path, Path]]:
        """Two empty folders, one for what is built and one for the rest. Both are gone afterwards."""
        base = self.scratch / f"{name}-{os.getpid()}"
        out, rest = base / "out", base / "work"
        out.mkdir(parents=True)
        rest.mkdir()
        try:
            yield out, rest
        finally:
            remove_tree(base)

    def keep(self, name: str, key: str, out: Path, inputs: Mapping[str, Any], facts: Mapping[str, Any]) -> Stored:
        """Take a finished folder into the cache, in one rename."""
        files = []
        for path in sorted(item for item in out.rglob("*") if item.is_file() and not item.is_symlink()):
            mode = "0755" if path.stat().st_mode & 0o100 else "0644"
            path.chmod(int(mode, 8))
            files.append(File(path.relative_to(out).as_posix(), sha256_of(path), path.stat().st_size, mode))
        record = {
            "schema": SCHEMA,
            "name": name,
            "key": key,
            "inputs": inputs,
            "facts": facts,
            "files": [file.as_json() for file in files],
        }
        (out / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
        final = self.folder(name, key)
        if final.exists():
            remove_tree(final)
        out.rename(final)
        stored, wrong = self.find(name, key)
        if stored is None:
            raise BuildError(f"{name}: what was just built is not whole: {wrong}.")
        return stored

    def prune(self, current: Mapping[str, str], keep: int = 1) -> None:
        """Forget old builds; of each part, the `keep` newest beside the current one stay."""
        for name, key in current.items():
            others = [folder for folder in self._folders(name) if folder.name != f"{name}-{key}"]
            others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
            for folder in others[keep:]:
                remove_tree(folder)

    def timings(self) -> dict[str, float]:
        """How long each part's last build took, in seconds."""
        known = read_json(self._timings)
        return {str(name): float(value) for name, value in known.items()} if isinstance(known, dict) else {}

    def remember_timing(self, name: str, seconds: float) -> None:
        known = self.timings()
        known[name] = round(seconds, 1)
        write_atomically(self._timings, json.dumps(known, indent=1, sort_keys=True) + "\n")


def remove_tree(path: Path) -> None:
    """Remove a folder even where it holds read-only folders, or a killed run's last process still adds to it."""

    def make_writable(function: Callable[..., Any], name: str, _error: Any) -> None:
        # Only folders: a file may be a hard link to one that stays.
        for folder in (Path(name).parent, Path(name)):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o755)
        function(name)

    for _turn in range(5):
        with suppress(OSError):
            shutil.rmtree(path, onerror=make_writable)
            return
        time.sleep(0.2)
    shutil.rmtree(path, onerror=make_writable)
