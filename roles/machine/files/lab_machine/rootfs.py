# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The base root folder, made once for all machines, and a machine's own folder and copy of it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator

from lab_machine.keeper import PR_SET_PDEATHSIG, Fault
from lab_machine.settings import Settings

# What a machine never looks at: it makes the folder smaller and copying it quicker.
LEAVE_OUT = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
# Whoever passes a package on has to pass these on, too.
BUT_NOT = ("/usr/share/doc/*/copyright",)
# Each machine gets its own.
IDENTITY = (
    "etc/hostname",
    "etc/resolv.conf",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
)


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Hold a folder, made if need be, against other runs; freed by the kernel when this run is killed."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(os.fstat(handle), os.stat(folder))
            except FileNotFoundError:
                same = False
            if same:
                yield
                return
        finally:
            os.close(handle)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def contained(*command: str, log: pathlib.Path | None = None) -> None:
    """Run in PID and mount namespaces of its own: nothing outlives a run that is killed, nothing stays mounted."""
    inside = [
        "unshare", "--mount", "--pid", "--propagation", "private", "--fork", "--kill-child", "--mount-proc", "--",
    ]  # fmt: skip
    with open(log, "wb") if log else contextlib.nullcontext(subprocess.PIPE) as output:
        done = subprocess.run(
            [*inside, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,
            check=False,
        )
    if done.returncode:
        said = (log.read_bytes() if log else done.stdout).decode(errors="replace").strip().splitlines()
        raise Fault(f"{command[0]} ended with {done.returncode}:\n" + "\n".join(said[-15:]))


def mmdebstrap(settings: Settings, target: pathlib.Path) -> list[str]:
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(settings.packages)}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEAVE_OUT]
    command += [f"--dpkgopt=path-include={pattern}" for pattern in BUT_NOT]
    command += [f'--customize-hook=chroot "$1" rm -f {" ".join("/" + name for name in IDENTITY)}']
    command += ['--customize-hook=chroot "$1" sh -c "rm -f /etc/ssh/ssh_host_*"']
    # Empty, not absent: an absent one makes systemd treat the boot as the first and preset every unit.
    command += ['--customize-hook=: > "$1/etc/machine-id"']
    command += [settings.suite, str(target)]
    return command + ([settings.mirror] if settings.mirror else [])


def make_base(settings: Settings) -> bool:
    if settings.base.is_dir():
        return False
    if settings.base_folder:
        raise Fault(
            f"machine_base is {settings.base}, and there is no such folder: name a root folder, or leave it empty."
        )
    with locked(settings.bases):
        if settings.base.is_dir():
            return False
        for half_made in settings.bases.glob(".making-*"):
            _delete(half_made)
        making = pathlib.Path(tempfile.mkdtemp(prefix=".making-", dir=settings.bases))
        try:
            contained(*mmdebstrap(settings, making / "root"), log=making / "log")
        except Fault as fault:
            shutil.rmtree(making, ignore_errors=True)
            if unknown := sorted(set(re.findall(r"Unable to locate package (\S+)", str(fault)))):
                raise Fault(
                    f"Debian {settings.suite} has no package {', '.join(unknown)}: look at machine_packages (of an image: "
                    "image_packages)."
                ) from fault
            raise Fault(
                f"The base root folder (Debian {settings.suite}) could not be made. Look whether `apt-get update` works "
                f"on this host, or set machine_mirror to a Debian mirror that does. The last words:\n{fault}"
            ) from fault
        (making / "root").rename(settings.base)
        _delete(making)
    return True


def missing(settings: Settings) -> list[str]:
    """What make_machine would make."""
    return [
        what
        for what, path in (
            (f"a key for {settings.name}", settings.ssh),
            (f"the root folder of {settings.name}", settings.root),
        )
        if not path.is_dir()
    ]


def make_machine(settings: Settings) -> None:
    """Make what is missing of the machine's folder: its keys, its root folder. Each is whole or not there."""
    settings.home.chmod(0o700)
    if not settings.ssh.is_dir():
        new = settings.home / "ssh.new"
        _delete(new)
        new.mkdir(mode=0o700)
        _keygen(new / "id_ed25519", f"root@{settings.name}")
        _keygen(new / "host_ed25519", settings.name)
        new.rename(settings.ssh)
    if not settings.root.is_dir():
        new = settings.home / "root.new"
        _delete(new)
        contained("cp", "--archive", "--reflink=auto", str(settings.base), str(new))
        (new / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        if not settings.base_folder:
            machine_id = new / "etc/machine-id"
            machine_id.write_text(uuid.uuid4().hex + "\n", encoding="ascii")
            machine_id.chmod(0o444)
        (settings.home / "base").write_text(f"{settings.base_folder or settings.base_key}\n", encoding="ascii")
        new.rename(settings.root)


def give_away(root: pathlib.Path, to: pathlib.Path) -> None:
    """Move a root folder, to another file system too; it is whole there or not there at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    new = to.parent / f".taking-{to.name}"
    _delete(new)
    try:
        root.rename(new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        contained("cp", "--archive", str(root), str(new))
    new.rename(to)


def keys(settings: Settings) -> dict[str, str]:
    names = ("id_ed25519.pub", "host_ed25519", "host_ed25519.pub")
    return {name: (settings.ssh / name).read_text(encoding="ascii") for name in names}


def delete_machine(settings: Settings) -> bool:
    """Delete the machine's folder, and the folder of all machines when it was the last."""
    if not settings.home.exists():
        return False
    _delete(settings.home)
    for folder in (settings.home.parent, settings.home.parent.parent):
        if folder.name not in ("machines", "gsb-fake-gpu-lab"):
            break
        try:
            folder.rmdir()
        except OSError:
            break
    return True


def _keygen(path: pathlib.Path, comment: str) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _delete(path: pathlib.Path) -> None:
    """Delete a folder, across no mount; attributes that forbid it (immutable files) are a fault to be told."""
    if path.exists():
        shutil.rmtree(path)
