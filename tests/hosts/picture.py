# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A picture of a machine, as JSON on standard output: all that an installation may leave. Runs there by itself, as root."""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys

FOLDERS = ("/etc", "/home", "/opt", "/root", "/run", "/tmp", "/usr", "/var")
# What no installation of ours could be meant by: other programs' work at any time.
RESTLESS_FILES = re.compile(
    r"/run/(systemd|user|udev|log|sshd|dbus|lock|utmp|sudo)\b|/run/credentials|/run/\.\w|/var/log/(journal|wtmp|btmp|lastlog)\b"
    r"|/var/lib/systemd/(timers|random-seed)|/root/\.ansible\b|/tmp/(systemd-private|\.ansible|ansible)|/var/tmp/systemd-private"
    r"|/home/\w+/\.ansible\b|.*/__pycache__\b|.*\.pyc$"
)
RESTLESS_SETTINGS = re.compile(
    r"fs/(dentry-state|file-nr|inode-(nr|state)|aio-nr|quota/.*)|kernel/(random/.*|ns_last_pid|pty/nr|core_pattern|sched_.*)"
    r"|kernel/(hostname|tainted|cad_pid)|net/netfilter/nf_conntrack_count|net/ipv./route/flush|.*/stable_secret"
    r"|vm/(stat_refresh|compact_memory|drop_caches)|fs/binfmt_misc/.*|.*/flush"
)


def run(*argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except OSError:
        return []
    return done.stdout.decode(errors="replace").splitlines()


def files(folders):
    found = {}
    for top in folders:
        device = os.lstat(top).st_dev
        for folder, names, others in os.walk(top):
            names[:] = sorted(n for n in names if not RESTLESS_FILES.match(os.path.join(folder, n)))
            for name in names + others:
                path = os.path.join(folder, name)
                if RESTLESS_FILES.match(path):
                    continue
                try:
                    about = os.lstat(path)
                    said = f"{stat.filemode(about.st_mode)} {about.st_uid}:{about.st_gid}"
                    if stat.S_ISLNK(about.st_mode):
                        said += " -> " + os.readlink(path)
                    elif stat.S_ISREG(about.st_mode) and about.st_size < 2**24 and not path.startswith("/usr/lib"):
                        with open(path, "rb") as stream:
                            said += " " + hashlib.sha256(stream.read()).hexdigest()
                    elif stat.S_ISREG(about.st_mode):
                        said += f" {about.st_size} bytes"
                except OSError:
                    continue
                found[path] = said
            names[:] = [n for n in names if os.lstat(os.path.join(folder, n)).st_dev == device]
    return found


def settings():
    found = {}
    for folder, _names, others in os.walk("/proc/sys"):
        for name in others:
            path = os.path.join(folder, name)
            key = path[len("/proc/sys/") :]
            if RESTLESS_SETTINGS.fullmatch(key):
                continue
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    found[key] = stream.read().strip()
            except OSError:
                continue
    return found


def links():
    found = {}
    for link in json.loads("".join(run("ip", "-json", "-details", "address")) or "[]"):
        found[link["ifname"]] = " ".join(
            [link.get("linkinfo", {}).get("info_kind", link.get("link_type", "")), "mtu", str(link["mtu"])]
            + sorted(f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", []) if "local" in a)
        )
    return found


def rules():
    found = []
    for command in (["iptables-save"], ["ip6tables-save"], ["nft", "list", "ruleset"]):
        lines = [re.sub(r"\[\d+:\d+\]|packets \d+ bytes \d+", "", line).strip() for line in run(*command)]
        found += [f"{command[0]} {line}" for line in lines if line and not line.startswith("#")]
    return found


def control_groups():
    found = set()
    for folder, names, _others in os.walk("/sys/fs/cgroup"):
        names[:] = [
            n for n in names if not re.search(r"^(user|session|run)[-.@]|\.slice$|^(user|machine)", n) or "kube" in n
        ]
        found.update(re.sub(r"^/sys/fs/cgroup/", "", os.path.join(folder, name)) for name in names)
    return sorted(found)


def processes():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
        except OSError:
            continue
        name = os.path.basename(words[0].decode(errors="replace"))
        if name and not re.match(r"\(?(sshd|sd-pam|sh|bash|sleep|python|systemd|sftp|sudo|ssh)", name):
            found.add(name)
    return sorted(found)


def text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def listed(lines):
    return dict.fromkeys(lines, "")


def picture():
    units = run("systemctl", "list-unit-files", "--no-legend", "--no-pager", "--full")
    loaded = run(
        "systemctl",
        "list-units",
        "--all",
        "--no-legend",
        "--no-pager",
        "--plain",
        "--full",
        "--type=service,socket,timer",
    )
    sockets = [line.split() for line in run("ss", "-Hlntu")]
    return {
        "links": links(),
        "routes": listed(
            re.sub(r"\s+", " ", line).strip() for line in run("ip", "route", "show", "table", "all") + run("ip", "rule")
        ),
        "namespaces": listed(run("ip", "netns", "list")),
        "rules": listed(rules()),
        "mounts": {
            line.split()[1]: line.split()[2]
            for line in text("/proc/self/mounts").splitlines()
            if not line.split()[1].startswith("/run/user/")
        },
        "control groups": listed(control_groups()),
        "files": files(FOLDERS),
        "units": {line.split()[0]: " ".join(line.split()[1:2]) for line in units if line.split()},
        "failed units": listed(line.split()[0] for line in loaded if line.split()[2:3] == ["failed"]),
        "ports": listed(f"{fields[0]} {fields[4]}" for fields in sockets if len(fields) > 4),
        "processes": listed(processes()),
        "settings": settings(),
        "modules": listed(line.split()[0] for line in text("/proc/modules").splitlines()),
    }


if __name__ == "__main__":
    json.dump(picture(), sys.stdout)
