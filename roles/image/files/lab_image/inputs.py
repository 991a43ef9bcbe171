# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is wrong with the role's variables, each in one sentence, before anything long is done."""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

SMALLEST_GIB = 2
LISTS = {
    "formats": '["qcow2"]',
    "packages": '["tmux"]',
    "authorized_keys": '["ssh-ed25519 AAAA... me"]',
    "users": '[{"name": "ada", "groups": ["sudo"], "authorized_keys": ["ssh-ed25519 AAAA... ada"]}]',
}
HOST = r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*"
USER_FIELDS = ("name", "groups", "authorized_keys")
# Of the distribution, and not to be taken over.
USERS_THERE = {
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data", "backup",
    "list", "irc", "_apt", "nobody", "systemd-network", "messagebus", "sshd", "adm", "tty", "disk", "kmem", "dialout",
    "fax", "voice", "cdrom", "floppy", "tape", "sudo", "audio", "dip", "operator", "src", "shadow", "utmp", "video",
    "sasl", "plugdev", "staff", "users", "nogroup", "systemd-journal", "_ssh", "input", "sgx", "kvm", "render",
}  # fmt: skip


def key_problem(key: Any) -> str:
    """Why a line is not a public ssh key; empty when it is one."""
    if not isinstance(key, str) or not key.strip():
        return "is empty"
    if "PRIVATE KEY" in key:
        return "is a private key: give the public one, of the file that ends in .pub"
    if "\n" in key.strip():
        return "has several lines: give one key in each entry"
    # Options may stand before it.
    for kind, word in re.findall(
        r"(?:^|[ \t])([a-z][a-z0-9@.-]+)[ \t]+(AAAA[A-Za-z0-9+/]+={0,2})(?=[ \t]|$)", key.strip()
    ):
        try:
            raw = base64.b64decode(word, validate=True)
        except (binascii.Error, ValueError):
            continue
        length = int.from_bytes(raw[:4], "big")
        if raw[4 : 4 + length] == kind.encode() and len(raw) > 4 + length:
            return ""
    return "is not a public ssh key, such as ssh-ed25519 AAAA... me"


def _keys(name: str, keys: Any) -> Iterator[str]:
    if not isinstance(keys, list):
        yield f"{name} has to be a list of public ssh keys."
        return
    for number, key in enumerate(keys, 1):
        if why := key_problem(key):
            said = key if isinstance(key, str) and "PRIVATE" not in key else ""
            yield f"{name}, entry {number}, {why}{f' (it is {said[:40]!r})' if said.strip() else ''}."


def _users(users: list[Any]) -> Iterator[str]:
    seen = set()
    for number, user in enumerate(users, 1):
        which = f"image_users, entry {number}"
        if not isinstance(user, dict) or not isinstance(user.get("name"), str):
            yield f"{which}, has no name: give {LISTS['users'][1:-1]}."
            continue
        name = user["name"]
        which += f" ({name})"
        if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", name):
            yield f"{which}: a user's name has 1 to 32 lower-case letters, digits, dashes and underscores, a letter first."
        elif name in USERS_THERE:
            yield f"{which}: Debian has a user or group of that name; take another. For root: image_authorized_keys."
        elif name in seen:
            yield f"{which}: that name is given twice."
        seen.add(name)
        for field in sorted(set(user) - set(USER_FIELDS)):
            yield f"{which}: there is no field {field}; there are {', '.join(USER_FIELDS)}."
        groups = user.get("groups", [])
        if not isinstance(groups, list) or not all(isinstance(group, str) and group for group in groups):
            yield f"{which}: groups has to be a list of names, such as [sudo]."
        yield from _keys(f"{which}, authorized_keys", user.get("authorized_keys", []))


def _folder(dest: str) -> Iterator[str]:
    if not os.path.isabs(dest):
        yield f"image_dest is {dest!r}: give an absolute path, such as /srv/images."
        return
    there = pathlib.Path(dest)
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        yield f"image_dest is {dest}, and {there} is no folder: name another one."
    elif not os.access(there, os.W_OK | os.X_OK):
        yield f"image_dest is {dest}, and {there} is not writable: name another folder."


def problems(wanted: dict[str, Any], machine: str) -> list[str]:
    """Everything that is wrong with the role's variables (without their image_)."""
    says = []
    for name, example in LISTS.items():
        if not isinstance(wanted[name], list):
            says.append(f"image_{name} is {wanted[name]!r} and has to be a list: -e '{{\"image_{name}\": {example}}}'")
    if says:
        return says
    if not wanted["formats"]:
        says.append("image_formats is empty: name qcow2, raw.zst or both.")
    for package in wanted["packages"]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?", str(package)):
            says.append(f"image_packages has {package!r}, which is no name of a Debian package.")
    size = float(wanted["size_gib"])
    if math.isnan(size) or size < SMALLEST_GIB:
        says.append(f"image_size_gib is {wanted['size_gib']}: the lab alone takes {SMALLEST_GIB}.")
    elif size > 1024:
        says.append(
            f"image_size_gib is {wanted['size_gib']}: give at most 1024; the file system grows on a larger disk."
        )
    if not re.fullmatch(HOST, wanted["hostname"]) or len(wanted["hostname"]) > 64:
        says.append(
            f"image_hostname is {wanted['hostname']!r}: give a host name of at most 64 lower-case letters, digits and "
            "dashes, such as gpu-lab."
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", wanted["name"]):
        says.append(
            f"image_name is {wanted['name']!r}: take letters, digits and . _ + - for the files' name; no folder."
        )
    if wanted["arch"] != machine:
        says.append(f"image_arch is {wanted['arch']}, and this host is {machine}: bake on a host of that architecture.")
    if wanted["until"] not in ("root", "files"):
        says.append(f"bake_until is {wanted['until']!r}: choose root or files.")
    says += _folder(wanted["dest"])
    says += _keys("image_authorized_keys", wanted["authorized_keys"])
    says += _users(wanted["users"])
    return says


def claims(folder: pathlib.Path) -> dict[str, dict[str, int]]:
    """What is taken, by processes that still run."""
    try:
        found = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return {name: owner for name, owner in found.items() if started(owner["pid"]) == owner["started"]}


def claim(folder: pathlib.Path, names: list[str], owner: dict[str, int]) -> str:
    """Take names for as long as the owner runs; why not, when somebody else has one."""
    taken = claims(folder)
    for name in names:
        if taken.get(name, owner) != owner:
            return (
                f"Another run (process {taken[name]['pid']}) is baking {name}: wait until it has ended and run the same "
                "command again, or give image_machine and image_network other values and bake something else."
            )
    new = folder / ".claims.json"
    new.write_text(json.dumps({**taken, **dict.fromkeys(names, owner)}), encoding="utf-8")
    new.replace(folder / "claims.json")
    return ""


def _process(pid: int) -> tuple[list[str], int, int]:
    """Command line, parent and start of a process."""
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return words, int(fields[1]), int(fields[19])


def started(pid: int) -> int:
    try:
        return _process(pid)[2]
    except OSError:
        return 0


def runner() -> dict[str, int]:
    """The ansible-playbook that called this program: the uppermost of its processes."""
    pid, found = os.getppid(), 0
    while pid > 1:
        try:
            words, parent, _started = _process(pid)
        except OSError:
            break
        if any(os.path.basename(word).startswith("ansible-playbook") for word in words[:2]):
            found = pid
        elif found:
            break
        pid = parent
    found = found or os.getppid()
    return {"pid": found, "started": started(found)}
