# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The tool behind the role `machine`. Each command prints one JSON object; the role decides what to call."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import facts  # noqa: E402
import rootfs  # noqa: E402
from cgroups import Cgroup  # noqa: E402
from keeper import (  # noqa: E402
    Fault,
    Keeper,
    Lock,
    clear_leftovers,
    link_alias,
    mounts_below,
    start_keeper,
    stop_keeper,
)
from settings import Settings  # noqa: E402


def plan_for(found: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """All that a boot of the machine depends on. A machine that runs by another plan is started again."""
    needed = facts.workarounds(found)
    return {
        "network": settings.network,
        "workarounds": {name: needed[name] for name in ("cgroup_v1", "kmsg", "private_run")},
        "systemd": found["systemd"],
        "modules": found["modules"],
        "fuse": found["fuse"],
    }


def leftovers(settings: Settings) -> list[str]:
    found = []
    cgroup = Cgroup(settings.label)
    if cgroup.exists():
        found.append("cgroups")
    if link_alias(settings.bridge) is not None:
        found.append(settings.bridge)
    if link_alias(settings.veth) is not None:
        found.append(settings.veth)
    return found + mounts_below(settings.home)


def look(settings: Settings) -> dict[str, Any]:
    found = facts.gather(settings)
    made = rootfs.made(settings)
    named = facts.name_problem(settings.name) is None
    holder = Lock(settings).holder() if named else None
    return {
        "changed": False,
        "found": found,
        "workarounds": facts.workarounds(found),
        "plan": plan_for(found, settings),
        "problems": facts.problems(settings, found, made, holder is not None),
        "packages": facts.missing_packages(found),
        "base": {"path": str(settings.base), "made": settings.base.is_dir()},
        "machine": {
            "folder": str(settings.home),
            "exists": settings.home.exists(),
            "made": made and settings.ssh.is_dir(),
            "running": holder is not None,
            "plan": (holder or {}).get("plan"),
            "leftovers": leftovers(settings) if named and holder is None else [],
        },
        "address": settings.address if not facts.network_problem(settings.network) else None,
        "gateway": settings.gateway if not facts.network_problem(settings.network) else None,
    }


def base(settings: Settings) -> dict[str, Any]:
    return {"changed": rootfs.make_base(settings)}


def make(settings: Settings) -> dict[str, Any]:
    with rootfs.locked(settings.home):
        did = rootfs.make_machine(settings)
    return {"changed": bool(did), "did": did}


def start(settings: Settings, arguments: list[str]) -> dict[str, Any]:
    did = []
    began = time.monotonic()
    with rootfs.locked(settings.home):
        plan = plan_for(facts.gather(settings), settings)
        lock = Lock(settings)
        holder = lock.holder()
        if holder is not None and holder.get("plan") != plan:
            stop_keeper(settings)
            did.append(f"stopped {settings.name}: it ran by another plan")
            holder = None
        if holder is None:
            did += [f"cleared {what}" for what in clear_leftovers(settings)]
            start_keeper(settings, plan, arguments)
            did.append(f"started {settings.name}")
        _wait(settings, began)
    return {"changed": bool(did), "did": did, "seconds": round(time.monotonic() - began, 1)}


def _wait(settings: Settings, began: float) -> None:
    """Until ssh answers and systemd in the machine has done its work."""
    deadline = began + settings.start_timeout
    lock = Lock(settings)
    said = ""
    seen = False
    while time.monotonic() < deadline:
        alive = lock.holder() is not None
        seen = seen or alive
        if (seen and not alive) or (not seen and time.monotonic() > began + 10):
            raise Fault(_story(settings, "The machine ended while it was starting."))
        try:
            socket.create_connection((settings.address, 22), timeout=0.5).close()
        except OSError:
            time.sleep(0.05)
            continue
        left = max(1, int(deadline - time.monotonic()))
        done = subprocess.run(
            [
                "ssh", "-F", str(settings.ssh / "config"), "-o", "ControlPath=none", "-o", f"ConnectTimeout={left}",
                settings.name, f"timeout {left} systemctl is-system-running --wait",
            ],  # fmt: skip
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = (done.stdout or done.stderr).strip()
        if said in ("running", "degraded"):
            return
        time.sleep(0.2)
    raise Fault(
        _story(settings, f"The machine was not ready after {settings.start_timeout} s (ssh to {settings.address}: {said or 'no answer'}).")
    )


def _story(settings: Settings, headline: str) -> str:
    lines = [headline]
    for name in ("keeper.log", "console.log"):
        path = settings.home / name
        if path.exists():
            tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
            lines.append(f"--- the end of {path}")
            lines += tail
    lines.append("Run the same command again; if it ends so twice, begin afresh with machine_state=absent.")
    return "\n".join(lines)


def stop(settings: Settings) -> dict[str, Any]:
    did = []
    if settings.home.is_dir():
        with rootfs.locked(settings.home):
            if stop_keeper(settings):
                did.append(f"stopped {settings.name}")
    did += [f"cleared {what}" for what in clear_leftovers(settings)]
    return {"changed": bool(did), "did": did}


def remove(settings: Settings) -> dict[str, Any]:
    did = stop(settings)["did"]
    if settings.home.is_dir():
        with rootfs.locked(settings.home):
            if rootfs.delete_machine(settings):
                did.append(f"deleted {settings.home}")
    return {"changed": bool(did), "did": did}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("look", "base", "make", "start", "keep", "stop", "remove"))
    parser.add_argument("--settings", required=True, help="the role's variables, as JSON")
    options = parser.parse_args()
    settings = Settings.from_json(options.settings)
    arguments = ["--settings", options.settings]
    try:
        if options.command == "keep":
            return Keeper(settings, plan_for(facts.gather(settings), settings)).keep()
        if options.command == "start":
            answer = start(settings, arguments)
        else:
            answer = {"look": look, "base": base, "make": make, "stop": stop, "remove": remove}[options.command](settings)
    except Fault as fault:
        print(json.dumps({"failed": True, "changed": False, "msg": str(fault)}))
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
