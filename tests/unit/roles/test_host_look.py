# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What a host must have: each lack is a sentence of its own, with what to do next."""

from __future__ import annotations

import copy
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "roles/host/files/look.py"
SPEC = importlib.util.spec_from_file_location("host_look", SCRIPT)
look = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(look)

WANT = {
    **look.DEFAULTS,
    **{
        name: yaml.safe_load((ROOT / "roles/host/vars/main.yml").read_text())["__host_look_for"][name]
        for name in ("supported", "tools")
    },
}
GOOD = {
    "root": True,
    "systemd": True,
    "python": "3.11",
    "venv": True,
    "other_pythons": [],
    "tools": ["iptables"],
    "manager": "apt-get",
    "release": {"ID": "debian", "VERSION_ID": "12"},
    "cgroup": 2,
    "controllers": ["cpuset", "cpu", "io", "memory", "pids"],
    "cpus": 2,
    "memory_mib": 3900,
    "disk": {"place": "/var/lib", "free_gib": 20.0},
    "filesystem": "ext4",
    "k3s": False,
    "route": True,
    "nameservers": ["192.0.2.1"],
    "upstream_nameservers": [],
    "synchronized": "yes",
    "taken": {},
    "swap": False,
    "firewalls": [],
    "selinux": False,
    "k3s_selinux": False,
    "commands": [],
    "others": [],
}


def judged(**changes):
    told = look.judge({**copy.deepcopy(GOOD), **changes}, WANT)
    return told["problems"], told["warnings"]


@pytest.mark.parametrize(
    "release",
    [
        {"ID": "debian", "VERSION_ID": "12"},
        {"ID": "debian", "VERSION_ID": "13"},
        {"ID": "ubuntu", "VERSION_ID": "22.04"},
        {"ID": "ubuntu", "VERSION_ID": "24.04"},
    ],
)
def test_a_good_host_has_nothing_to_say(release):
    assert judged(release=release) == ([], [])


PROBLEMS = [
    ({"root": False}, "as root", "ansible_become"),
    ({"systemd": False}, "systemd does not run", "boots systemd"),
    ({"python": "3.9"}, "python3 is 3.9", "apt-get install python3.12, and set lab_host_python to python3.12"),
    ({"filesystem": "nfs4"}, "/var/lib is on nfs4", "mount an ext4 or xfs at /var/lib/rancher"),
    ({"cgroup": 1, "controllers": []}, "cgroup v1", "unified_cgroup_hierarchy=1"),
    ({"controllers": ["cpu", "pids"]}, "no cgroup controller cpuset, memory", "cgroup_enable=memory"),
    ({"cpus": 1}, "1 CPU is there, 2 are needed", "give the machine more"),
    ({"memory_mib": 1900}, "1900 MiB of memory are there, 3500 are needed", "give the machine more"),
    ({"disk": {"place": "/var", "free_gib": 2.04}}, "2.0 GiB are free at /var, 6 are needed", "make room"),
    ({"route": False}, "no default route", "ip route add default"),
    ({"nameservers": ["127.0.0.1", "::1"]}, "names only this host (127.0.0.1, ::1)", "/etc/resolv.conf"),
    ({"taken": {6443: "haproxy"}}, "Port 6443, for the API server, is taken by haproxy", "sport = :6443"),
    (
        {"commands": ["/usr/local/bin/helm"]},
        "/usr/local/bin/helm is there already",
        "helm_path=/usr/local/bin/helm-lab",
    ),
    ({"others": ["MicroK8s", "rke2"]}, "Another Kubernetes is here: MicroK8s, rke2", "remove it"),
]


@pytest.mark.parametrize(("changes", "words", "hint"), PROBLEMS)
def test_what_stands_in_the_way(changes, words, hint):
    problems, warnings = judged(**changes)
    (said,) = problems
    assert words in said
    assert hint in said.partition("Next: ")[2]
    assert warnings == []


def test_cgroup_v1_will_do_where_the_kubelet_is_told():
    told = look.judge({**GOOD, "cgroup": 1, "controllers": []}, {**WANT, "cgroup_v1": True})
    assert told["problems"] == []


def test_everything_is_told_at_once():
    together = {}
    for changes, _words, _hint in PROBLEMS:
        if "controllers" not in changes:
            together |= changes
    problems, _warnings = judged(**together, cgroup=1, controllers=[])
    assert len(problems) == len(PROBLEMS) - 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": {"ID": "arch"}}, "This is arch; the lab is made for debian 12"),
        ({"release": {"ID": "ubuntu", "VERSION_ID": "20.04"}}, "This is ubuntu 20.04"),
        ({"release": {"ID": "rocky", "VERSION_ID": "9.4"}}, "This is rocky 9.4"),
        ({"release": {}}, "an unknown system"),
        ({"synchronized": "no"}, "clock"),
        ({"swap": True}, "swap"),
        ({"firewalls": ["ufw"]}, "ufw allow from 10.42.0.0/16"),
        ({"firewalls": ["firewalld"]}, "--add-source=10.43.0.0/16"),
        ({"selinux": True}, "k3s-selinux"),
    ],
)
def test_what_is_only_unusual(changes, words):
    problems, warnings = judged(**changes)
    assert problems == []
    (said,) = warnings
    assert words in said


@pytest.mark.parametrize(
    "changes",
    [
        # k3s itself has the ports and the disk.
        {"k3s": True, "taken": {6443: "k3s", 10250: "k3s"}, "disk": {"place": "/var", "free_gib": 1.0}},
        # systemd-resolved: the kubelet is given the file behind it.
        {"nameservers": ["127.0.0.53"], "upstream_nameservers": ["192.0.2.1"]},
        {"nameservers": ["127.0.0.53", "192.0.2.1"]},
        {"nameservers": []},
        {"selinux": True, "k3s_selinux": True},
        {"synchronized": ""},
    ],
)
def test_what_is_no_trouble(changes):
    assert judged(**changes) == ([], [])


def test_the_package_that_is_missing_is_installed_where_that_is_known_and_wanted():
    told = look.judge({**GOOD, "venv": False}, WANT)
    assert (told["problems"], told["packages"]) == ([], ["python3-venv"])
    for seen, want in (({"release": {"ID": "arch"}}, {}), ({}, {"install_packages": False})):
        told = look.judge({**GOOD, "venv": False, **seen}, {**WANT, **want})
        assert told["packages"] == []
        assert "apt-get install python3-venv" in told["problems"][0]


def test_all_packages_that_are_missing_are_one_list():
    lacks = {"venv": False, "tools": []}
    assert look.judge({**GOOD, **lacks}, WANT)["packages"] == ["iptables", "python3-venv"]
    (said,) = look.judge({**GOOD, **lacks}, {**WANT, "install_packages": False})["problems"]
    assert said.startswith("iptables is missing, and python3 cannot make virtual environments")
    assert said.endswith("Next: apt-get install iptables python3-venv")


ROCKY = {"release": {"ID": "rocky", "VERSION_ID": "9.6"}, "manager": "dnf", "python": "3.9"}


def test_enterprise_linux_has_an_old_python_and_another_beside_it():
    (said,) = judged(**ROCKY)[0]
    assert said.endswith("Next: dnf install python3.12, and set lab_host_python to python3.12.")
    (said,) = judged(**ROCKY, other_pythons=["3.11", "3.12"])[0]
    assert said.endswith("Next: set lab_host_python to python3.12, which is here.")
    assert look.judge({**GOOD, **ROCKY, "python": "3.12"}, {**WANT, "python": "python3.12"})["problems"] == []
    (said,) = look.judge({**GOOD, "python": ""}, {**WANT, "python": "python3.12"})["problems"]
    assert said.startswith("python3.12 is not there;")
    (said,) = judged(**{**ROCKY, "python": "3.12", "tools": []})[0]
    assert said == "iptables is missing. Next: dnf install iptables"


def test_another_pythons_package_has_its_name():
    told = look.judge({**GOOD, "venv": False}, {**WANT, "python": "/usr/bin/python3.11"})
    assert told["packages"] == ["python3.11-venv"]


def test_a_python_says_its_version_and_whether_it_makes_environments(tmp_path):
    version = "{}.{}".format(*sys.version_info[:2])
    assert look.python_here(sys.executable) == (version, True)
    assert look.python_here(str(tmp_path / "none")) == ("", False)


MOUNTS = "/dev/vda / ext4 rw 0 0\ntmpfs /var/lib tmpfs rw 0 0\noverlay /var/lib/rancher overlay rw 0 0\nnfs /var/l nfs rw 0 0\n"


@pytest.mark.parametrize(
    ("place", "found"),
    [("/var/lib/rancher", "overlay"), ("/var/lib/kubelet", "tmpfs"), ("/var/log", "ext4"), ("/", "ext4")],
)
def test_the_file_system_of_a_folder(place, found):
    assert look.filesystem(place, MOUNTS) == found


ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
EVERYWHERE = "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
NEAR = "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
SIX = f"{'0' * 32} 00 {'0' * 32} 00 fe80 00000400 1 0 00000003 {{}}\n"


@pytest.mark.parametrize(
    ("four", "six", "found"),
    [
        (ROUTES + NEAR + EVERYWHERE, "", True),
        (ROUTES + NEAR, "", False),
        ("", SIX.format("eth0"), True),
        # The kernel's own entry for what is unreachable.
        ("", SIX.format("lo"), False),
        ("", "", False),
    ],
)
def test_a_default_route(four, six, found):
    assert look.default_route(four, six) is found


def test_who_listens_is_found_on_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        inode = look.listening([pathlib.Path("/proc/net/tcp").read_text()])[port]
        name = look.owners({inode})[inode]
    assert name == pathlib.Path("/proc/self/comm").read_text().strip()


def test_it_runs_by_itself_and_prints_one_document():
    done = subprocess.run([sys.executable, SCRIPT, '{"cpus": 4096}'], capture_output=True, text=True, check=True)
    assert f"{len(os.sched_getaffinity(0))} CPU is there, 4096 are needed" in done.stdout


def test_os_release():
    assert look.release('ID=debian\nVERSION_ID="12"\n\nHOME=\n') == {"ID": "debian", "VERSION_ID": "12"}
