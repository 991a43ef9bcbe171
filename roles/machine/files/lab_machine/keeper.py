# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The keeper: one process for each running machine. It holds the machine's lock, bridge and cgroup, starts
systemd-nspawn, starts it again when the machine reboots, and puts everything away when the machine ends."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from lab_machine.cgroups import Cgroup
from lab_machine.settings import Settings

REBOOT = 133
PR_SET_PDEATHSIG = 1


class Fault(Exception):
    """Something that ends the work, said in words for the user."""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Fault(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Lock:
    """The lock of a machine, held by its keeper from start to end."""

    def __init__(self, settings: Settings) -> None:
        self.path = settings.home / "lock"
        self.handle: int | None = None

    def take(self) -> bool:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self.handle = handle
        return True

    def note(self, **values: Any) -> None:
        assert self.handle is not None
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, json.dumps(values).encode(), 0)

    def holder(self) -> dict[str, Any] | None:
        """What the keeper noted, None when no keeper is alive. Takes no part in the locking."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                return json.loads(os.pread(handle, 65536, 0))
            except ValueError:
                return {}
        finally:
            os.close(handle)
        return None


def link_alias(name: str) -> str | None:
    """The alias of a network device, None when there is no such device."""
    try:
        return pathlib.Path(f"/sys/class/net/{name}/ifalias").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def delete_link(name: str) -> None:
    """Delete a network device, which the kernel may be doing at this moment by itself."""
    try:
        run("ip", "link", "delete", "dev", name)
    except Fault:
        if link_alias(name) is not None:
            raise


def wall(settings: Settings) -> list[str]:
    """The rule that nothing which comes from the bridge goes any further, as arguments of `ip rule`."""
    return ["unreachable", "iif", settings.bridge, "priority", "77"]


def has_wall(settings: Settings) -> bool:
    if not shutil.which("ip"):
        return False
    return f" iif {settings.bridge} " in run("ip", "-4", "rule", "show", "priority", "77")


def remove_bridge(settings: Settings) -> list[str]:
    removed = []
    if link_alias(settings.bridge) == settings.alias:
        delete_link(settings.bridge)
        removed.append(f"network device {settings.bridge}")
    while has_wall(settings):
        run("ip", "-4", "rule", "delete", *wall(settings))
        removed.append(f"routing rule for {settings.bridge}")
    return removed


def make_bridge(settings: Settings) -> None:
    name = settings.bridge
    run("ip", "link", "add", "name", name, "type", "bridge")
    run("ip", "link", "set", "dev", name, "alias", settings.alias, "addrgenmode", "none")
    # The machine has a default route to the bridge, and here it ends, whatever the host routes for others. Forwarding
    # is on for the answer alone: "no route to host", at once. Without the rule there is silence instead.
    try:
        run("ip", "-4", "rule", "add", *wall(settings))
        forwarding = "1"
    except Fault:
        forwarding = "0"
    pathlib.Path(f"/proc/sys/net/ipv4/conf/{name}/forwarding").write_text(forwarding, encoding="ascii")
    run("ip", "address", "add", f"{settings.gateway}/24", "broadcast", "+", "dev", name)
    run("ip", "link", "set", "dev", name, "up")


def clear_leftovers(settings: Settings) -> list[str]:
    """Put away what a machine left whose keeper was killed. The caller knows that no keeper is alive."""
    cleared = []
    cgroup = Cgroup(settings.label)
    if cgroup.exists() and os.getpid() not in _members(cgroup):
        if cgroup.processes():
            # systemd-nspawn is told when its keeper dies and shuts the machine down: let it end well.
            deadline = time.monotonic() + settings.stop_timeout
            while cgroup.processes() and time.monotonic() < deadline and _nspawn_alive(cgroup):
                time.sleep(0.1)
            cgroup.kill()
            cleared.append("processes of the dead machine")
        if not cgroup.remove():
            raise Fault(
                f"The cgroups of a dead machine named {settings.name} cannot be removed "
                f"(find /sys/fs/cgroup -name '{settings.label}'): end what is in them, or restart the host."
            )
        cleared.append("cgroups of the dead machine")
    if link_alias(settings.veth) is not None:
        delete_link(settings.veth)
        cleared.append(f"network device {settings.veth}")
    cleared += remove_bridge(settings)
    for mountpoint in reversed(mounts_below(settings.home)):
        run("umount", "--lazy", mountpoint)
        cleared.append(f"mount on {mountpoint}")
    return cleared


def _members(cgroup: Cgroup) -> set[int]:
    found: set[int] = set()
    for path in cgroup.paths:
        for folder in (path, path / "keeper"):
            try:
                found.update(map(int, (folder / "cgroup.procs").read_text(encoding="ascii").split()))
            except OSError:
                continue
    return found


def _nspawn_alive(cgroup: Cgroup) -> bool:
    for pid in cgroup.processes("machine"):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "systemd-nspawn":
                return True
        except OSError:
            continue
    return False


def mounts_below(folder: pathlib.Path) -> list[str]:
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        mountpoint = line.split()[1].encode().decode("unicode_escape")
        if folder in pathlib.Path(mountpoint).parents or mountpoint == str(folder):
            found.append(mountpoint)
    return found


def nspawn_command(settings: Settings, plan: dict[str, Any]) -> list[str]:
    command = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={settings.root}",
        f"--machine={settings.name}",
        f"--network-bridge={settings.bridge}",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--capability=all",
        "--system-call-filter=@keyring bpf",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
    ]
    if not plan["workarounds"]["kmsg"]:
        command.append("--bind=/dev/kmsg")
    if plan["fuse"]:
        command.append("--bind=/dev/fuse")
    if plan["modules"]:
        command.append("--bind-ro=/lib/modules")
    if plan["workarounds"]["cgroup_v1"]:
        # For PID 1: from version 256 on, systemd boots on cgroup v1 only when it is told so.
        command.append("SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")
    if plan["workarounds"]["private_run"]:
        # Where /run is a plain folder, systemd-nspawn refuses to clean up its mounts there.
        inner = 'mount -t tmpfs -o mode=0755 tmpfs /run && exec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", inner, "sh", *command]
    return command


class Keeper:
    def __init__(self, settings: Settings, plan: dict[str, Any]) -> None:
        self.settings = settings
        self.plan = plan
        self.stopping: float | None = None
        self.child: subprocess.Popen[bytes] | None = None

    def stop(self, _signal: int, _frame: Any) -> None:
        if self.stopping is None:
            self.stopping = time.monotonic()
            if self.child:
                self.child.terminate()

    def boot(self, cgroup: Cgroup) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        keeper = os.getpid()

        def enter() -> None:
            cgroup.enter("machine")
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)

        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            # Of /proc/sys only net is the machine's own; the rest belongs to the host.
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
            "SYSTEMD_NSPAWN_TMPFS_TMP": "0",
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "0" if self.plan["workarounds"]["cgroup_v1"] else "1",
        }
        with open(self.settings.home / "console.log", "ab", buffering=0) as console:
            self.child = subprocess.Popen(
                nspawn_command(self.settings, self.plan),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=environment,
                cwd="/",
                preexec_fn=enter,
            )
        if self.stopping is not None:
            self.child.terminate()
        while True:
            try:
                return self.child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                if self.stopping and time.monotonic() - self.stopping > self.settings.stop_timeout:
                    print(f"no end after {self.settings.stop_timeout} s: killing the machine", flush=True)
                    cgroup.kill("machine")

    def keep(self) -> int:
        lock = Lock(self.settings)
        if not lock.take():
            print("another keeper has this machine", flush=True)
            return 75
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self.stop)
        lock.note(pid=os.getpid(), plan=self.plan)
        for line in clear_leftovers(self.settings):
            print(f"cleared: {line}", flush=True)
        cgroup = Cgroup(self.settings.label)
        (self.settings.home / "console.log").write_bytes(b"")
        try:
            cgroup.create()
            make_bridge(self.settings)
            while True:
                code = self.boot(cgroup)
                print(f"systemd-nspawn ended with {code}", flush=True)
                cgroup.kill("machine")
                cgroup.renew("machine")
                if code != REBOOT or self.stopping is not None:
                    return 0 if code in (0, REBOOT) else 1
        finally:
            cgroup.kill("machine")
            remove_bridge(self.settings)
            cgroup.remove()


def start_keeper(settings: Settings, plan: dict[str, Any], arguments: list[str]) -> None:
    """Start the keeper, as a transient unit where systemd runs, in a session of its own elsewhere; until it has the lock."""
    command = [sys.executable, "-B", str(pathlib.Path(__file__).parent), "keep", *arguments]
    log = settings.home / "keeper.log"
    unit = f"{settings.label}.service"
    if plan["systemd"]:
        subprocess.run(["systemctl", "reset-failed", unit], capture_output=True, check=False)
        run(
            "systemd-run",
            "--quiet",
            "--collect",
            f"--unit={unit}",
            f"--description=Embedded machine {settings.name}",
            "--slice=machine.slice",
            "--property=Delegate=yes",
            "--property=KillMode=mixed",
            f"--property=TimeoutStopSec={settings.stop_timeout + 15}",
            "--property=TasksMax=infinity",
            f"--property=StandardOutput=file:{log}",
            f"--property=StandardError=file:{log}",
            "--working-directory=/",
            "--",
            *command,
        )

        def ended() -> bool:
            return subprocess.run(["systemctl", "is-active", "--quiet", unit], check=False).returncode != 0
    else:
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/"
            )

        def ended() -> bool:
            return process.poll() is not None

    lock = Lock(settings)
    while lock.holder() is None and not ended():
        time.sleep(0.05)


def stop_keeper(settings: Settings) -> bool:
    """End a running machine in good order; True when there was one."""
    lock = Lock(settings)
    holder = lock.holder()
    if holder is None:
        return False
    deadline = time.monotonic() + settings.stop_timeout + 20
    if "pid" in holder:
        os.kill(holder["pid"], signal.SIGTERM)
    while lock.holder() is not None:
        if time.monotonic() > deadline:
            raise Fault(
                f"The machine {settings.name} does not end (keeper {holder.get('pid', 'unknown')}): "
                f"look at {settings.home}/keeper.log and run the same command again."
            )
        time.sleep(0.05)
    return True
