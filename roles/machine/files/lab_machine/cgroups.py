# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The machine's own cgroup: the same name in every hierarchy, so that machines side by side share nothing.

Below it are two: `keeper`, and `machine`, which systemd-nspawn and everything in the machine live in.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time

ROOT = pathlib.Path("/sys/fs/cgroup")


def hierarchies() -> list[pathlib.Path]:
    """Where each hierarchy is mounted (one with cgroup v2, one for each controller with v1)."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _source, mountpoint, kind = line.split()[:3]
        path = pathlib.Path(mountpoint)
        if kind in ("cgroup", "cgroup2") and (path == ROOT or ROOT in path.parents):
            found.append(path)
    return sorted(set(found))


def _mine(mountpoint: pathlib.Path) -> str:
    """Path of this process in the hierarchy mounted there."""
    controllers = set()
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _source, where, kind, options = line.split()[:4]
        if where == str(mountpoint):
            controllers = {""} if kind == "cgroup2" else set(options.split(","))
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _number, names, path = line.split(":", 2)
        if set(names.split(",")) & controllers:
            return path
    return "/"


class Cgroup:
    """The machine's cgroup, in all hierarchies at once."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.paths: list[pathlib.Path] = []
        for mountpoint in hierarchies():
            parts = pathlib.PurePosixPath(_mine(mountpoint)).parts[1:]
            at = next(
                (index for index, part in enumerate(parts) if part in (label, f"{label}.service")),
                None,
            )
            if at is None:
                # Directly below the mount, not below the caller, whose session may end first.
                self.paths.append(mountpoint / label)
            else:
                # The service manager made it for us, or we are in it already.
                self.paths.append(mountpoint.joinpath(*parts[: at + 1]))

    def create(self) -> None:
        for path in self.paths:
            for child in (path, path / "keeper", path / "machine"):
                _make(child)
        self.enter("keeper")
        for path in self.paths:
            if path.name == self.label:
                _delegate(path.parent)
            _delegate(path)

    def enter(self, child: str) -> None:
        """Move this process; called by the keeper for itself and by its child before it becomes systemd-nspawn."""
        for path in self.paths:
            (path / child / "cgroup.procs").write_text("0", encoding="ascii")

    def processes(self, child: str = "") -> set[int]:
        found: set[int] = set()
        for path in self.paths:
            for folder, _folders, _files in os.walk(path / child):
                try:
                    text = pathlib.Path(folder, "cgroup.procs").read_text(encoding="ascii")
                except OSError:
                    continue
                found.update(int(pid) for pid in text.split())
        # 0 stands for a process outside this process's PID namespace.
        return found - {0, os.getpid()}

    def kill(self, child: str = "", seconds: float = 10) -> bool:
        """End every process in it; True when none is left."""
        deadline = time.monotonic() + seconds
        while pids := self.processes(child):
            if time.monotonic() > deadline:
                return False
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        return True

    def exists(self) -> bool:
        return any(path.exists() for path in self.paths)

    def renew(self, child: str) -> None:
        """Make it anew, without what dead pods and the last boot left in it; its processes have ended.

        The cgroup itself too: one of v2 that gave its children controllers takes no process any more.
        """
        for path in self.paths:
            _gone(path / child)
            _make(path / child)

    def remove(self) -> bool:
        """Leave it and remove it; the service manager removes what it made itself."""
        own = [path for path in self.paths if path.name == self.label]
        for path in own:
            if os.getpid() in _pids(path):
                (path.parent / "cgroup.procs").write_text("0", encoding="ascii")
        return all(_gone(path) for path in own)


def _pids(path: pathlib.Path) -> set[int]:
    found: set[int] = set()
    for folder, _folders, _files in os.walk(path):
        found.update(int(pid) for pid in pathlib.Path(folder, "cgroup.procs").read_text(encoding="ascii").split())
    return found


def _make(path: pathlib.Path) -> None:
    path.mkdir(exist_ok=True)
    clone = path / "cgroup.clone_children"
    if not (clone.exists() and (path / "cpuset.cpus").exists()):
        return
    # A v1 cpuset takes no process before it has CPUs and memory nodes of its own.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (path / name).read_text(encoding="ascii").strip():
            (path / name).write_text((path.parent / name).read_text(encoding="ascii"), encoding="ascii")
    clone.write_text("1", encoding="ascii")


def _delegate(path: pathlib.Path) -> None:
    """Let the children of a v2 cgroup use every controller it has."""
    try:
        controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
        control = path / "cgroup.subtree_control"
        for name in set(controllers) - set(control.read_text(encoding="ascii").split()):
            try:
                control.write_text(f"+{name}", encoding="ascii")
            except OSError:
                continue
    except OSError:
        return


def _gone(path: pathlib.Path, seconds: float = 5) -> bool:
    """Remove a cgroup with all below it; the kernel may take a moment to let go of the last process."""
    deadline = time.monotonic() + seconds
    while path.exists():
        for folder, _folders, _files in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
