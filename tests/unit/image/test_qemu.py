# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Booting the image: when KVM is used, what the machine is given, what is read from its console."""

from __future__ import annotations

import pathlib
import socket
import threading

import pytest
from lab_image import qemu
from lab_image.pack import Fault

WANTED = {
    "arch": "amd64", "network": "none", "ssh_port": 2222, "cpus": 2, "memory_mib": 3072, "timeout": 0, "disk_gib": 8,
}  # fmt: skip


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "kvm"
    path.touch()
    return str(path)


@pytest.mark.parametrize("flag", ["vmx", "svm"])
def test_kvm_is_used_when_the_processor_takes_part(device, flag):
    assert qemu.kvm_problem("amd64", f"processor : 0\nflags\t\t: fpu {flag} sse\n", device) == ""


def test_a_device_alone_is_a_trap(device):
    assert "neither vmx nor svm" in qemu.kvm_problem("amd64", "flags\t\t: fpu sse svmless\n", device)


def test_no_device_no_kvm(tmp_path):
    assert "not there" in qemu.kvm_problem("amd64", "flags\t: vmx\n", str(tmp_path / "none"))


@pytest.fixture
def firmware(monkeypatch):
    monkeypatch.setattr(qemu, "firmware", lambda _arch: ("/code.fd", "/vars.fd"))


def test_a_machine_without_a_network_has_no_card(firmware):
    line = " ".join(qemu.command_line(WANTED, pathlib.Path("/f"), kvm=False))
    assert "-nic none" in line and "-accel tcg" in line and "kvm" not in line


def test_a_machine_with_ssh_lets_nothing_out(firmware):
    line = " ".join(qemu.command_line({**WANTED, "network": "ssh"}, pathlib.Path("/f"), kvm=True))
    assert "restrict=on,hostfwd=tcp:127.0.0.1:2222-:22" in line and "-accel kvm" in line


def test_no_firmware_says_what_to_install(monkeypatch):
    monkeypatch.setattr(qemu, "firmware", lambda _arch: None)
    with pytest.raises(Fault, match="apt-get install ovmf"):
        qemu.command_line(WANTED, pathlib.Path("/f"), kvm=False)


def test_a_process_of_somebody_else_is_not_ended(tmp_path):
    import os

    (tmp_path / "pid").write_text(str(os.getpid()))
    assert qemu.process(tmp_path) == 0


def test_the_console_tells_when_it_is_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(qemu, "process", lambda _folder: 1)
    wanted = {**WANTED, "folder": str(tmp_path), "timeout": 5}
    (tmp_path / "serial.log").write_text(
        "[  OK  ]\r\nready: 2 nvidia.com/gpu (Tesla-K80) on gpu-lab, 17.3 s after power-on\r\n"
    )
    seen = qemu.follow(wanted)
    assert (seen["gpus"], seen["product"], seen["seconds"]) == (2, "Tesla-K80", 17.3)


@pytest.mark.parametrize(("alive", "said"), [(1, "not ready after 0 s"), (0, "The machine ended")])
def test_a_machine_that_never_is_ready_is_told_with_its_last_words(tmp_path, monkeypatch, alive, said):
    monkeypatch.setattr(qemu, "process", lambda _folder: alive)
    (tmp_path / "serial.log").write_text("Kernel panic\r\n")
    with pytest.raises(Fault, match=rf"(?s){said}.*Kernel panic"):
        qemu.follow({**WANTED, "folder": str(tmp_path)})


def test_a_command_on_the_console_is_told_from_its_echo(tmp_path):
    """A terminal echoes, colours and brackets what it is given."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "serial"))
    server.listen()

    def terminal():
        line, _ = server.accept()
        asked = line.recv(4096).decode().strip()
        mark = asked.split("echo ")[1].split(" $?")[0].replace("'", "")
        line.sendall(f"\x1b[?2004hroot# {asked}\r\n\x1b[?2004lone\r\ntwo\r\n\x1b[K{mark} 3\r\n".encode())
        line.recv(1)

    thread = threading.Thread(target=terminal)
    thread.start()
    console = qemu.Console(str(tmp_path / "serial"))
    assert console.run("false", timeout=5) == (3, "one\ntwo\n")
    console.close()
    thread.join()
    server.close()
