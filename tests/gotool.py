# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Programs that only tests need, out of published Go modules: standins/tools/NAME/go.mod says which and in what version."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "standins" / "tools"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsb-fake-gpu-lab" / "test"


def program(name: str, package: str) -> Path:
    """Built once for its go.mod and go.sum."""
    source = TOOLS / name
    key = hashlib.sha256((source / "go.mod").read_bytes() + (source / "go.sum").read_bytes()).hexdigest()[:16]
    built = CACHE / f"{name}-{key}"
    if not built.exists():
        print(f"building {name} (up to two minutes the first time)", flush=True)
        built.parent.mkdir(parents=True, exist_ok=True)
        beside = built.with_suffix(f".{os.getpid()}")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        command = ["go", "build", "-C", source, "-trimpath", "-o", beside, package]
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
        beside.replace(built)
    return built
