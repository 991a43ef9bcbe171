# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Boots the image in a virtual machine of qemu, with KVM when it truly works, and talks to its serial console."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
from typing import Any

from lab_image.pack import Fault, run

FIRMWARE = {
    "amd64": (
        ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
        ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ),
    "arm64": (("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),),
}
PROGRAM = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
PACKAGES = {
    "amd64": {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "firmware": "ovmf"},
    "arm64": {"qemu-system-aarch64": "qemu-system-arm", "qemu-img": "qemu-utils", "firmware": "qemu-efi-aarch64"},
}
EMULATED = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/60-emulated.conf"
FILES = {"disk.qcow2", "vars.fd", "serial", "serial.log", "pid"}
READY = re.compile(r"ready: (\d+) nvidia\.com/gpu \(([^)]+)\) on \S+, ([\d.]+) s after power-on")
REACHED = re.compile(r"(\d)/9 after [\d.]+ s: ")


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def firmware(arch: str) -> tuple[str, str] | None:
    return next((pair for pair in FIRMWARE[arch] if all(map(os.path.exists, pair))), None)


def missing_packages(arch: str) -> list[str]:
    names = PACKAGES[arch]
    found = [package for tool, package in names.items() if tool != "firmware" and not shutil.which(tool)]
    return sorted(found + ([] if firmware(arch) else [names["firmware"]]))


def kvm_problem(arch: str, cpuinfo: str, device: str = "/dev/kvm") -> str:
    """Why KVM cannot be used here; empty when it can. A device that opens says nothing: the processor has to take part."""
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device} is not there or not writable"
    if arch == "amd64" and not re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo, re.M):
        return f"{device} is there, but the processor offers neither vmx nor svm"
    return ""


def trial(arch: str, seconds: float = 10) -> str:
    """Start qemu with KVM and end it at once; what stood in the way."""
    command = [
        PROGRAM[arch],
        "-accel",
        "kvm",
        "-machine",
        "none",
        "-display",
        "none",
        "-monitor",
        "stdio",
        "-nodefaults",
    ]
    try:
        done = subprocess.run(command, input="quit\n", capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"qemu with KVM did not start within {seconds:g} s"
    return done.stderr.strip() if done.returncode else ""


def command_line(wanted: dict[str, Any], folder: pathlib.Path, kvm: bool) -> list[str]:
    arch = wanted["arch"]
    pair = firmware(arch)
    if pair is None:
        raise Fault(f"There is no UEFI firmware for {arch}. Next: apt-get install {PACKAGES[arch]['firmware']}")
    accel = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi", "-cpu", "max"]
    if wanted["network"] == "none":
        network = ["-nic", "none"]
    else:
        # Nothing gets out; ssh gets in.
        network = ["-nic", f"user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:{wanted['ssh_port']}-:22"]
    return [
        PROGRAM[arch], *accel,
        "-machine", {"amd64": "q35", "arm64": "virt"}[arch],
        "-smp", str(wanted["cpus"]), "-m", str(wanted["memory_mib"]),
        "-drive", f"if=pflash,format=raw,readonly=on,file={pair[0]}",
        "-drive", f"if=pflash,format=raw,file={folder}/vars.fd",
        "-drive", f"if=none,id=disk,file={folder}/disk.qcow2,format=qcow2,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,drive=disk",
        "-device", "virtio-rng-pci",
        *network,
        "-display", "none", "-monitor", "none",
        "-chardev", f"socket,id=serial,path={folder}/serial,server=on,wait=off,logfile={folder}/serial.log",
        "-serial", "chardev:serial",
        "-daemonize", "-pidfile", f"{folder}/pid",
    ]  # fmt: skip


def _arguments(folder: pathlib.Path) -> tuple[int, list[str]]:
    """The machine's process and what it was started with; 0 and nothing when it does not run."""
    try:
        pid = int((folder / "pid").read_text(encoding="ascii"))
        arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, ValueError):
        return 0, []
    return (pid, arguments) if any(f"{folder}/disk.qcow2" in argument for argument in arguments) else (0, [])


def process(folder: pathlib.Path) -> int:
    """The machine's process, 0 when it does not run."""
    return _arguments(folder)[0]


def require_own(folder: pathlib.Path) -> None:
    """What is deleted with the machine has to be the machine's."""
    foreign = sorted({path.name for path in folder.iterdir()} - FILES) if folder.is_dir() else []
    if foreign:
        raise Fault(f"image_try_folder is {folder}, which has {', '.join(foreign[:3])}: name a folder of its own.")


def require_size(image: pathlib.Path, disk_gib: float) -> None:
    size = json.loads(run("qemu-img", "info", "--output=json", str(image)))["virtual-size"] / 2**30
    if disk_gib < size:
        raise Fault(
            f"image_try_disk_gib is {disk_gib:g}, and the disk of {image} has {size:g} GiB: give at least that."
        )


def start(wanted: dict[str, Any]) -> dict[str, Any]:
    """Boot a copy on write of the image; the image itself stays as it is."""
    folder, arch = pathlib.Path(wanted["folder"]), wanted["arch"]
    image = pathlib.Path(wanted["image"])
    if not image.is_file():
        raise Fault(f"There is no image {image}. Make it with: ansible-playbook playbooks/bake.yml")
    pid, arguments = _arguments(folder)
    if pid:
        return {"changed": False, "said": "It runs already.", "kvm": "kvm" in arguments}
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    why = kvm_problem(arch, cpuinfo) or trial(arch)
    require_own(folder)
    require_size(image, wanted["disk_gib"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(
        "qemu-img",
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        str(image),
        f"{folder}/disk.qcow2",
        f"{wanted['disk_gib']:g}G",
    )
    pair = firmware(arch)
    if pair:
        shutil.copyfile(pair[1], folder / "vars.fd")
    run(*command_line(wanted, folder, not why))
    said = "qemu with KVM" if not why else f"qemu WITHOUT KVM, ten to thirty times slower ({why})"
    return {"changed": True, "said": said, "kvm": not why}


def follow(wanted: dict[str, Any]) -> dict[str, Any]:
    """Until the console says that `phase` is reached: its number, or more of them, or ready."""
    folder = pathlib.Path(wanted["folder"])
    while True:
        log = _text(folder / "serial.log")
        ready = READY.search(log)
        if ready:
            return {"changed": False, "gpus": int(ready[1]), "product": ready[2], "seconds": float(ready[3])}
        if any(int(count) >= wanted["phase"] for count in REACHED.findall(log)):
            return {"changed": False}
        ended = not process(folder)
        if ended or time.time() - (folder / "pid").stat().st_mtime > wanted["timeout"]:
            tail = "\n".join(log.replace("\r", "").splitlines()[-15:])
            how = "The machine ended" if ended else f"The lab was not ready after {wanted['timeout']} s"
            raise Fault(f"{how}. The last lines of {folder}/serial.log:\n{tail}")
        time.sleep(1)


class Console:
    """The serial console of a running machine, where root is logged in."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.count = 0

    def run(self, line: str, timeout: float = 120) -> tuple[int, str]:
        """Exit status and output of a command."""
        self.count += 1
        mark = f"gpu-lab-{os.getpid()}-{self.count}"
        # The echo of the line has the mark in two parts; what is printed may end within a line.
        self.socket.sendall(f"\n({line}) < /dev/null 2>&1; printf '\\n%s %s\\n' '{mark[:4]}''{mark[4:]}' $?\n".encode())
        deadline, seen = time.monotonic() + timeout, ""
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.1, deadline - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                seen += self.socket.recv(65536).decode(errors="replace")
            plain = re.sub(r"\r|\x1b\[[0-9;?]*[A-Za-z]", "", seen)
            done = re.search(rf"^(.*?)\n{mark} (\d+)$", plain, re.M | re.S)
            if done:
                return int(done[2]), done[1].rpartition(f"{mark[4:]}' $?\n")[2]
        raise Fault(f"'{line}' did not end within {timeout:g} s on the console. Seen:\n{seen[-2000:]}")

    def close(self) -> None:
        self.socket.close()


def ask(wanted: dict[str, Any]) -> dict[str, Any]:
    """What only the booted image can tell, asked on its console."""
    console = Console(f"{wanted['folder']}/serial")
    questions = {
        "cgroup v2": "test -e /sys/fs/cgroup/cgroup.controllers",
        "no failed unit": "! systemctl --failed --no-legend | grep .",
        "clock not before the bake": "test $(date +%s) -ge $(stat -c %Y /usr/lib/clock-epoch)",
        "machine-id of its own": "grep -qE '^[0-9a-f]{32}$' /etc/machine-id",
        "ssh host keys of its own": "test -s /etc/ssh/ssh_host_ed25519_key",
        "root file system grown": f"test $(df --output=size -BM / | tail -1 | tr -dc 0-9) -gt {int(wanted['disk_gib'] * 1024 * 0.85)}",
        "more time for an emulated kubelet": f"if test $(systemd-detect-virt) = qemu; then test -e {EMULATED}; else test ! -e {EMULATED}; fi",
        "memory at most 1.1 GiB": "test $(awk '/MemTotal/ {t=$2} /MemAvailable/ {a=$2} END {print int((t-a)/1024)}' /proc/meminfo) -le 1127",
    }
    if wanted["network"] == "none":
        questions["no network device"] = "! ls /sys/class/net | grep -E '^(en|eth)'"
    seen = []
    for what, line in questions.items():
        status, said = console.run(line, timeout=180)
        seen.append((status == 0, what, " ".join(said.split()) if status else None))
    console.close()
    if wanted["network"] == "ssh":
        said = banner(wanted["ssh_port"])
        seen.append((said.startswith("SSH-2.0-"), f"ssh on 127.0.0.1:{wanted['ssh_port']}", said))
    checks = [
        f"{'ok' if good else 'NOT OK':7} {what}{'' if said is None else f': {said}'}" for good, what, said in seen
    ]
    return {"changed": False, "ok": all(good for good, _what, _said in seen), "checks": checks}


def banner(port: int, timeout: float = 60) -> str:
    """What the ssh server says first (RFC 4253, 4.2)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as channel:
            channel.settimeout(timeout)
            return channel.recv(255).decode(errors="replace").strip() or "nothing was said"
    except OSError as error:
        return str(error)


def play(wanted: dict[str, Any]) -> dict[str, Any]:
    """One playbook run inside, by the Ansible and the collection that the image carries."""
    console = Console(f"{wanted['folder']}/serial")
    line = f"cd /root && ANSIBLE_NOCOLOR=1 ansible-playbook {wanted['play']}"
    status, said = console.run(line, timeout=wanted["timeout"])
    console.close()
    if status:
        last = "\n".join(said.splitlines()[-30:])
        raise Fault(f"'ansible-playbook {wanted['play']}' ended with {status} inside. The last it printed:\n{last}")
    return {"changed": False, "said": said}


def stop(wanted: dict[str, Any]) -> dict[str, Any]:
    folder = pathlib.Path(wanted["folder"])
    require_own(folder)
    pid = process(folder)
    if pid:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while process(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        if process(folder):
            os.kill(pid, signal.SIGKILL)
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return {"changed": bool(pid) or there}
