# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Booting the image: when KVM is used, what the machine is given, what is read from its console."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import threading

import pytest
from lab_image import qemu
from lab_image.pack import Fault

WANTED = {
    "arch": "amd64", "network": "none", "ssh_port": 2222, "cpus": 2, "memory_mib": 3072, "timeout": 0, "disk_gib": 8, "phase": 9,
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


@pytest.mark.parametrize(("accel", "kvm"), [("kvm", True), ("tcg,thread=multi", False)])
def test_a_machine_that_runs_is_not_started_again(tmp_path, accel, kvm):
    image = tmp_path / "image.qcow2"
    image.touch()
    arguments = ["-accel", accel, "-drive", f"file={tmp_path}/disk.qcow2"]
    one = subprocess.Popen(
        [sys.executable, "-c", "print(); input()", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        one.stdout.readline()
        (tmp_path / "pid").write_text(str(one.pid))
        seen = qemu.start({**WANTED, "folder": str(tmp_path), "image": str(image)})
        assert seen == {"changed": False, "said": "It runs already.", "kvm": kvm}
    finally:
        one.communicate(b"\n")
    assert qemu.process(tmp_path) == 0


@pytest.mark.parametrize("command", [qemu.start, qemu.stop])
def test_a_folder_with_other_things_is_not_deleted(tmp_path, command):
    (tmp_path / "gsb-gpu-lab-amd64.qcow2").touch()
    wanted = {**WANTED, "folder": str(tmp_path), "image": str(tmp_path / "gsb-gpu-lab-amd64.qcow2")}
    with pytest.raises(Fault, match="which has gsb-gpu-lab-amd64.qcow2: name a folder of its own"):
        command(wanted)
    assert (tmp_path / "gsb-gpu-lab-amd64.qcow2").exists()


def test_the_machines_own_folder_is_deleted(tmp_path):
    folder = tmp_path / "try"
    folder.mkdir()
    for name in qemu.FILES:
        (folder / name).touch()
    assert qemu.stop({**WANTED, "folder": str(folder)}) == {"changed": True}
    assert not folder.exists()
    assert qemu.stop({**WANTED, "folder": str(folder)}) == {"changed": False}


def test_a_disk_is_never_cut(monkeypatch):
    monkeypatch.setattr(qemu, "run", lambda *_: '{"virtual-size": 4294967296}')
    qemu.require_size(pathlib.Path("/i.qcow2"), 4)
    with pytest.raises(Fault, match="image_try_disk_gib is 3.5, and the disk of /i.qcow2 has 4 GiB"):
        qemu.require_size(pathlib.Path("/i.qcow2"), 3.5)


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setattr(qemu, "process", lambda _folder: 1)
    (tmp_path / "pid").touch()
    return {**WANTED, "folder": str(tmp_path)}


def test_the_console_tells_when_it_is_ready(running, tmp_path):
    (tmp_path / "serial.log").write_text(
        "[  OK  ]\r\nready: 2 nvidia.com/gpu (Tesla-K80) on gpu-lab, 17.3 s after power-on\r\n"
    )
    seen = qemu.follow(running)
    assert (seen["gpus"], seen["product"], seen["seconds"]) == (2, "Tesla-K80", 17.3)


def test_the_console_tells_how_far_it_is(running, tmp_path):
    (tmp_path / "serial.log").write_text("gpu-lab[226]: 0/9 after 9.1 s: x\r\ngpu-lab[226]: 4/9 after 31.0 s: y\r\n")
    assert qemu.follow({**running, "phase": 4}) == {"changed": False}
    with pytest.raises(Fault, match="not ready after 0 s"):
        qemu.follow({**running, "phase": 5})


@pytest.mark.parametrize(("alive", "said"), [(1, "not ready after 0 s"), (0, "The machine ended")])
def test_a_machine_that_never_is_ready_is_told_with_its_last_words(tmp_path, monkeypatch, alive, said):
    monkeypatch.setattr(qemu, "process", lambda _folder: alive)
    (tmp_path / "pid").touch()
    (tmp_path / "serial.log").write_text("Kernel panic\r\n")
    with pytest.raises(Fault, match=rf"(?s){said}.*Kernel panic"):
        qemu.follow({**WANTED, "folder": str(tmp_path)})


def answers(tmp_path, monkeypatch, status, said):
    """A console that gives one answer; what it was asked."""
    asked = []

    class Console:
        def __init__(self, path):
            assert path == f"{tmp_path}/serial"

        def run(self, line, timeout):
            asked.append(line)
            return status, said

        def close(self):
            pass

    monkeypatch.setattr(qemu, "Console", Console)
    return asked


def test_a_step_inside_is_one_playbook(tmp_path, monkeypatch):
    asked = answers(tmp_path, monkeypatch, 0, "failed=0\n")
    seen = qemu.play({**WANTED, "folder": str(tmp_path), "play": "lab.yml --tags step6"})
    assert seen == {"changed": False, "said": "failed=0\n"}
    assert asked[0].endswith("ansible-playbook lab.yml --tags step6")


def test_a_step_that_fails_inside_is_told_in_its_words(tmp_path, monkeypatch):
    answers(tmp_path, monkeypatch, 2, "TASK [x]\nfatal: the node is away\n")
    with pytest.raises(Fault, match="(?s)'ansible-playbook lab.yml --tags step6' ended with 2.*the node is away"):
        qemu.play({**WANTED, "folder": str(tmp_path), "play": "lab.yml --tags step6"})


@pytest.mark.parametrize(
    ("printed", "said"), [("one\r\n\x1b[Ktwo\r\n", "one\ntwo\n"), ("no end of line", "no end of line"), ("", "")]
)
def test_a_command_on_the_console_is_told_from_its_echo(tmp_path, printed, said):
    """A terminal echoes, colours and brackets what it is given."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "serial"))
    server.listen()

    def terminal():
        line, _ = server.accept()
        asked = line.recv(4096).decode().strip()
        mark = asked.rpartition(" $?")[0].rpartition(" ")[2].replace("'", "")
        line.sendall(f"\x1b[?2004hroot# {asked}\r\n\x1b[?2004l{printed}\r\n{mark} 3\r\n".encode())
        line.recv(1)

    thread = threading.Thread(target=terminal)
    thread.start()
    console = qemu.Console(str(tmp_path / "serial"))
    assert console.run("false", timeout=5) == (3, said)
    console.close()
    thread.join()
    server.close()


@pytest.fixture
def ssh_server():
    """What it says first can be set; the port it says it on."""
    server = socket.create_server(("127.0.0.1", 0))
    said = [b""]

    def serve():
        while True:
            try:
                channel, _ = server.accept()
            except OSError:
                return
            channel.sendall(said[0])
            channel.close()

    threading.Thread(target=serve, daemon=True).start()
    yield said, server.getsockname()[1]
    # Wakes the thread that accepts.
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_a_machine_with_a_network_answers_by_ssh(tmp_path, monkeypatch, ssh_server):
    said, port = ssh_server
    wanted = {**WANTED, "folder": str(tmp_path), "network": "ssh", "ssh_port": port}
    answers(tmp_path, monkeypatch, 0, "")
    said[0] = b"SSH-2.0-OpenSSH_9.2p1\r\n"
    seen = qemu.ask(wanted)
    assert (seen["ok"], seen["checks"][-1]) == (True, f"ok      ssh on 127.0.0.1:{port}: SSH-2.0-OpenSSH_9.2p1")
    # Taken by the host's side of the port, and closed.
    said[0] = b""
    seen = qemu.ask(wanted)
    assert (seen["ok"], seen["checks"][-1]) == (False, f"NOT OK  ssh on 127.0.0.1:{port}: nothing was said")


def test_nobody_at_the_port_of_ssh_is_told(tmp_path, monkeypatch, ssh_server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers(tmp_path, monkeypatch, 0, "")
    seen = qemu.ask({**WANTED, "folder": str(tmp_path), "network": "ssh", "ssh_port": port})
    assert not seen["ok"]
    assert "refused" in seen["checks"][-1]
