# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The checks of a root folder: each has a folder that fails it, and cleaning puts right what it can."""

from __future__ import annotations

import os
import pathlib
import py_compile
import subprocess
import sys

import pytest
from lab_image import hygiene
from lab_image.dress import clean, dress
from lab_image.hygiene import CHECKS, inspect, table

WANTED = {
    "state": "clean",
    "hostname": "gpu-lab",
    "authorized_keys": [],
    "console_autologin": True,
    "arch": "amd64",
    "lab": {"node": "gpu-lab"},
}
TIMESTAMP = py_compile.PycInvalidationMode.TIMESTAMP
K3S = "var/lib/rancher/k3s"
PACKAGES = "\n".join(
    f"Package: {name}\nStatus: {status}\nArchitecture: amd64\nVersion: 1\n"
    for name, status in {
        "gcc-12-base": "install ok installed",
        "libgcc-s1": "install ok installed",
        "gone": "deinstall ok config-files",
    }.items()
)


def put(root, name, text="x"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def failing(root, state="clean"):
    return [result["check"] for result in inspect(root, state) if not result["ok"]]


@pytest.fixture
def root(tmp_path):
    """A root folder that is fit."""
    put(tmp_path, "etc/shadow", "root:*:1::::::\nsshd:!:1::::::\n")
    put(tmp_path, f"{K3S}/agent/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/bin/x")
    (tmp_path / "var/log").mkdir(parents=True)
    put(tmp_path, "var/lib/dpkg/status", PACKAGES)
    put(tmp_path, "usr/lib/os-release", "ID=debian\nVERSION_CODENAME=bookworm\n")
    put(tmp_path, "usr/share/doc/gcc-12-base/copyright")
    (tmp_path / "usr/share/doc/libgcc-s1").symlink_to("gcc-12-base")
    clean(tmp_path, "clean")
    dress(tmp_path, WANTED)
    return tmp_path


def test_a_fit_folder_passes_all(root):
    assert failing(root) == []


SPOILT = [
    ("machine-id", "etc/machine-id", "6a9857a393724b7a981ebb5b8495b9ea\n"),
    ("leftovers", "etc/ssh/ssh_host_ed25519_key", "x"),
    ("leftovers", "var/lib/systemd/random-seed", "x"),
    ("leftovers", "var/lib/dbus/machine-id", "x"),
    ("leftovers", "root/.bash_history", "x"),
    ("leftovers", "var/cache/apt/pkgcache.bin", "x"),
    ("leftovers", "var/lib/apt/lists/Packages", "x"),
    ("leftovers", "etc/rancher/node/password", "x"),
    ("leftovers", "var/lib/gsb-fake-gpu-lab/first-boot.done", "x"),
    ("leftovers", f"{K3S}/agent/containerd/io.containerd.grpc.v1.introspection/uuid", "x"),
    ("leftovers", "etc/rancher/k3s/k3s.yaml", "x"),
    ("leftovers", f"{K3S}/server/token", "x"),
    ("leftovers", f"{K3S}/agent/client-kubelet.key", "x"),
    ("leftovers", f"{K3S}/agent/images/x.tar", "x"),
    ("leftovers", "var/lib/kubelet/cpu_manager_state", "x"),
    ("cloud-init", "var/lib/cloud/data/instance-id", "i-1"),
    ("cores", "core.123", "x"),
    ("cores", "var/lib/systemd/coredump/core.x", "x"),
    ("secrets", "etc/shadow", "root::1::::::\n"),
    ("secrets", "etc/shadow", "root:$y$j9T$x:1::::::\n"),
    ("secrets", "etc/some/key.pem", "-----BEGIN EC PRIVATE KEY-----\n"),
    ("secrets", "root/admin.yaml", "users:\n- user:\n    client-key-data: abc\n"),
    ("nesting", "usr/lib/lab-machine/before-k3s", "x"),
    ("nesting", "etc/rancher/k3s/config.yaml.d/10-machine.yaml", "x"),
    ("nesting", f"{K3S}/agent/etc/containerd/config-v3.toml.d/10-machine.toml", "x"),
    ("nesting", f"{K3S}/agent/etc/kubelet.conf.d/10-machine.conf", "x"),
    ("archives", f"{K3S}/agent/images/coredns.tar", "x"),
    ("collection", f"{K3S}/agent/etc/kubelet.conf.d/50-image.conf", "imageGCHighThresholdPercent: 85\n"),
]


@pytest.mark.parametrize(("check", "name", "text"), SPOILT, ids=[f"{check}-{name}" for check, name, _ in SPOILT])
def test_a_spoilt_folder_fails_its_check(root, check, name, text):
    put(root, name, text) if name != "etc/machine-id" else (root / name).chmod(0o644)
    (root / name).write_text(text)
    assert check in failing(root)
    assert any(
        name.rsplit("/", 1)[0] in line or "root has" in line or "conf.d" in line
        for line in table(inspect(root, "clean"))
    )


@pytest.mark.parametrize(
    "name",
    [
        "usr/lib/clock-epoch",
        "etc/machine-id",
        "etc/systemd/system/apt-daily.timer",
        "usr/share/doc/libgcc-s1",
    ],
)
def test_what_is_missing_fails_its_check(root, name):
    (root / name).unlink()
    assert len(failing(root)) == 1


def test_a_masked_udev_is_of_a_container(root):
    (root / "etc/systemd/system/systemd-udevd.service").symlink_to("/dev/null")
    assert failing(root) == ["nesting"]


def test_images_have_to_be_unpacked(root):
    import shutil

    shutil.rmtree(root / f"{K3S}/agent/containerd")
    assert failing(root) == ["archives"]


@pytest.mark.parametrize(("limit", "check"), [("LOGS_MIB", "logs"), ("UNPACKED_GIB", "size")])
def test_sizes_have_limits(root, monkeypatch, limit, check):
    put(root, "var/log/large", "x" * 100_000)
    monkeypatch.setattr(hygiene, limit, 0.00001)
    assert failing(root) == [check]


def test_every_check_has_a_folder_that_fails_it():
    elsewhere = {"clock", "licences", "timers", "logs", "size"}
    assert {check for check, _, _ in SPOILT} | elsewhere == set(CHECKS)


def test_cleaning_puts_right_what_a_used_machine_leaves(root):
    for check, name, text in SPOILT:
        if check in ("leftovers", "archives") or name == "etc/machine-id":
            (root / name).unlink(missing_ok=True)
            put(root, name, text)
    put(root, "var/log/pods/x/0.log")
    clean(root, "clean")
    dress(root, WANTED)
    assert failing(root) == []
    assert [path for path in (root / "var/log").rglob("*") if path.is_file()] == []


def test_byte_code_is_the_same_whenever_it_was_made(root):
    packages = root / "opt/gsb-fake-gpu-lab/venv/lib/python3.11/site-packages"
    put(packages, "one.py", "ANSWER = 42\n")
    made = []
    for moment in (1_000_000_000, 1_700_000_000):
        os.utime(packages / "one.py", (moment, moment))
        path = pathlib.Path(py_compile.compile(str(packages / "one.py"), invalidation_mode=TIMESTAMP))
        clean(root, "clean")
        made.append(path.read_bytes())
    assert made[0] == made[1]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    (packages / "one.py").write_text("raise SystemExit('not from the byte code')\n")
    subprocess.run([sys.executable, "-c", "import one; assert one.ANSWER == 42"], cwd=packages, check=True)


def test_a_seeded_folder_keeps_its_cluster(root):
    kept = ["etc/rancher/node/password", f"{K3S}/server/token", f"{K3S}/agent/client-kubelet.key"]
    for name in kept:
        put(root, name)
    clean(root, "seeded")
    dress(root, {**WANTED, "state": "seeded"})
    assert (root / "var/lib/gsb-fake-gpu-lab/first-boot.done").is_file(), "nothing is installed a second time"
    assert all((root / name).exists() for name in kept)
    put(root, f"{K3S}/server/tls/server-ca.key", "-----BEGIN EC PRIVATE KEY-----\n")
    assert failing(root, "seeded") == []
    assert "leftovers" in failing(root, "clean")
    put(root, "home/ada/.ssh/id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\n")
    put(root, "etc/shadow", "root::1::::::\n")
    (result,) = [result for result in inspect(root, "seeded") if not result["ok"]]
    assert result["seen"] == ["root has an empty password", "/home/ada/.ssh/id_ed25519"]


def test_keys_of_the_author_stay_and_others_go(root):
    put(root, "root/.ssh/authorized_keys", "ssh-ed25519 somebody")
    clean(root, "clean")
    assert not (root / "root/.ssh").exists()
    dress(root, {**WANTED, "authorized_keys": ["ssh-ed25519 AAAA me"]})
    assert (root / "root/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA me\n"
    assert (root / "root/.ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    assert failing(root) == []


@pytest.mark.parametrize(("arch", "console"), [("amd64", "ttyS0"), ("arm64", "ttyAMA0")])
def test_root_is_logged_in_on_the_console_of_the_kernel_when_it_is_wanted(root, arch, console):
    drop_in = root / f"etc/systemd/system/serial-getty@{console}.service.d/autologin.conf"
    dress(root, {**WANTED, "arch": arch})
    assert "--autologin root" in drop_in.read_text()
    dress(root, {**WANTED, "arch": arch, "console_autologin": False})
    assert not drop_in.exists()


def test_a_mirror_of_the_host_that_bakes_does_not_leave_it(root):
    put(root, "etc/apt/sources.list", "deb http://me:secret@mirror.example/debian bookworm main\n")
    dress(root, WANTED)
    said = (root / "etc/apt/sources.list").read_text()
    assert "mirror.example" not in said
    assert "deb http://deb.debian.org/debian bookworm main\n" in said


def test_the_key_names_what_the_folder_is_made_from_and_nothing_else(tmp_path):
    from lab_image.__main__ import digest_of

    put(tmp_path, "roles/k3s/tasks/main.yml")
    put(tmp_path, "roles/image/files/lab_image/pack.py")
    put(tmp_path, "tests/unit/test_x.py")
    first = digest_of(tmp_path, {"packages": []})
    for name in ("roles/image/files/lab_image/pack.py", "roles/k3s/README.md", "tests/unit/test_x.py"):
        put(tmp_path, name, "other")
        assert digest_of(tmp_path, {"packages": []}) == first
    assert digest_of(tmp_path, {"packages": ["tmux"]}) != first
    put(tmp_path, "roles/k3s/tasks/main.yml", "other")
    assert digest_of(tmp_path, {"packages": []}) != first
