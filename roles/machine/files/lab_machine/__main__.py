# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The tool behind the role `machine`. Each command prints one JSON object, with a `fault` in words when it could not
do what it was asked; the role decides what to call."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lab_machine import facts, rootfs
from lab_machine.cgroups import Cgroup
from lab_machine.contents import contents, differing, release, write
from lab_machine.keeper import (
    Fault,
    Keeper,
    Lock,
    clear_leftovers,
    has_wall,
    link_alias,
    mounts_below,
    start_keeper,
    stop_keeper,
)
from lab_machine.settings import Settings


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


def runs_here(settings: Settings) -> bool:
    """Whether it runs, and in this network."""
    plan = (Lock(settings).holder() or {}).get("plan") or {}
    return plan.get("network") == settings.network


def leftovers(settings: Settings) -> list[str]:
    found = []
    cgroup = Cgroup(settings.label)
    if cgroup.exists():
        found.append("cgroups")
    if link_alias(settings.bridge) == settings.alias:
        found.append(settings.bridge)
    if link_alias(settings.veth) is not None:
        found.append(settings.veth)
    if has_wall(settings):
        found.append(f"routing rule for {settings.bridge}")
    return found + mounts_below(settings.home)


def look(settings: Settings) -> dict[str, Any]:
    found = facts.gather(settings)
    named = facts.name_problem(settings.name) is None
    # The machine's folder is for root's eyes alone.
    named = named and found["root"]
    running = named and Lock(settings).holder() is not None
    made = named and not rootfs.missing(settings)
    return {
        "changed": False,
        "found": found,
        "workarounds": facts.workarounds(found),
        "problems": facts.problems(settings, found, made, named and runs_here(settings)),
        "packages": facts.missing_packages(found, os.path.isdir(settings.base)),
        "base": {"path": str(settings.base), "made": os.path.isdir(settings.base)},
        "machine": {
            "folder": str(settings.home),
            "made": made,
            "running": running,
            "leftovers": leftovers(settings) if named and not running else [],
        },
    }


def base(settings: Settings) -> dict[str, Any]:
    return {"changed": rootfs.make_base(settings)}


def up(settings: Settings, arguments: list[str], check: bool) -> dict[str, Any]:
    """Make what is missing, write what differs, start what does not run, wait until it answers."""
    began = time.monotonic()
    found = facts.gather(settings)
    plan = plan_for(found, settings)
    lock = Lock(settings)
    did = [f"made {what}" for what in rootfs.missing(settings)]
    if check:
        if not did:
            wanted = contents(settings, facts.workarounds(found), rootfs.keys(settings))
            did += [f"wrote {name}" for name in differing(settings.home, wanted)]
        if (lock.holder() or {}).get("plan") != plan:
            did.append(f"started {settings.name}")
        return {"changed": bool(did), "did": did}
    # Again, and now with all tools at hand: others may have taken what was free.
    if problems := facts.problems(settings, found, made=not did, running=runs_here(settings)):
        raise Fault("\n".join(problems))
    with rootfs.locked(settings.home):
        did = [f"made {what}" for what in rootfs.missing(settings)]
        rootfs.make_machine(settings)
        wanted = contents(settings, facts.workarounds(found), rootfs.keys(settings))
        names = differing(settings.home, wanted)
        holder = lock.holder()
        if holder is not None and holder.get("plan") != plan:
            stop_keeper(settings)
            did.append(f"stopped {settings.name}, which ran by another plan")
            holder = None
        if holder is None:
            did += [f"cleared {what}" for what in clear_leftovers(settings)]
        write(settings.home, wanted, names)
        did += [f"wrote {name}" for name in names]
        if holder is None:
            start_keeper(settings, plan, arguments)
            did.append(f"started {settings.name}")
        _wait(settings)
    return {"changed": bool(did), "did": did, "seconds": round(time.monotonic() - began, 1)}


def _wait(settings: Settings) -> None:
    """Until ssh answers and systemd in the machine has done its work."""
    began = time.monotonic()
    deadline = began + settings.start_timeout
    lock = Lock(settings)
    said = ""
    while time.monotonic() < deadline:
        if lock.holder() is None:
            raise Fault(_story(settings, "The machine ended while it was starting."))
        try:
            # From the bridge's own address: before there is a bridge, the host would ask its default route for it.
            socket.create_connection((settings.address, 22), timeout=0.5, source_address=(settings.gateway, 0)).close()
        except OSError:
            time.sleep(0.05)
            continue
        left = max(1, int(deadline - time.monotonic()))
        done = subprocess.run(
            [
                "ssh",
                "-F",
                str(settings.ssh / "config"),
                "-o",
                "ControlPath=none",
                "-o",
                "ConnectTimeout=10",
                settings.name,
                f"timeout {left} systemctl is-system-running --wait",
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
        _story(
            settings,
            f"The machine was not ready after {settings.start_timeout} s (ssh to {settings.address}: {said or 'no answer'}).",
        )
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


def down(settings: Settings, check: bool) -> dict[str, Any]:
    """Stop the machine and remove it with everything that belongs to it."""
    if problem := facts.name_problem(settings.name):
        raise Fault(problem)
    if os.geteuid():
        raise Fault(facts.NOT_ROOT)
    if check:
        did = [f"cleared {what}" for what in leftovers(settings)] if Lock(settings).holder() is None else []
        if settings.home.exists():
            did.append(f"deleted {settings.home}")
        return {"changed": bool(did), "did": did}
    did = []
    if settings.home.is_dir():
        with rootfs.locked(settings.home):
            if stop_keeper(settings):
                did.append(f"stopped {settings.name}")
            did += [f"cleared {what}" for what in clear_leftovers(settings)]
            end_connections(settings)
            rootfs.delete_machine(settings)
            did.append(f"deleted {settings.home}")
    else:
        did += [f"cleared {what}" for what in clear_leftovers(settings)]
    return {"changed": bool(did), "did": did}


def take(settings: Settings, to: pathlib.Path, check: bool) -> dict[str, Any]:
    """End the machine and give its root folder away, without what made it a machine of this host."""
    if to.exists() or check:
        return {"changed": not to.exists(), "did": []}
    if not settings.root.is_dir():
        raise Fault(f"There is no machine {settings.name} whose root folder could be taken ({settings.root}).")
    with rootfs.locked(settings.home):
        stop_keeper(settings)
        clear_leftovers(settings)
        release(settings.home)
        rootfs.give_away(settings.root, to)
    down(settings, check=False)
    return {"changed": True, "did": [f"made {to}"]}


def end_connections(settings: Settings) -> None:
    """End the ssh connections that are kept open for the next task."""
    for path in settings.ssh.glob("mux-*"):
        subprocess.run(
            ["ssh", "-o", f"ControlPath={path}", "-O", "exit", settings.name],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("look", "base", "up", "down", "take", "keep"))
    parser.add_argument("--settings", required=True, help="the role's variables, as JSON")
    parser.add_argument("--check", action="store_true", help="change nothing, say what would be done")
    parser.add_argument("--to", type=pathlib.Path, help="take: where the root folder goes")
    options = parser.parse_args()
    settings = Settings.from_json(options.settings)
    try:
        if options.command == "keep":
            return Keeper(settings, plan_for(facts.gather(settings), settings)).keep()
        if options.command == "look":
            answer = look(settings)
        elif options.command == "base":
            answer = base(settings)
        elif options.command == "up":
            answer = up(settings, ["--settings", options.settings], options.check)
        elif options.command == "take":
            answer = take(settings, options.to, options.check)
        else:
            answer = down(settings, options.check)
    except Fault as fault:
        answer = {"changed": False, "fault": str(fault)}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
