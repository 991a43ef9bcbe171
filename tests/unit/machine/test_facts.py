# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What the host lacks decides which work-arounds are made, and what stands in the way is said."""

from __future__ import annotations

import dataclasses

import pytest
from lab_machine import facts


def test_host_that_lacks_nothing_gets_no_workaround(able):
    assert not any(facts.workarounds(able).values())


@pytest.mark.parametrize(
    ("lack", "workaround"),
    [
        ({"cgroup": 1}, "cgroup_v1"),
        ({"sys_resource": False}, "oom_score"),
        ({"conntrack_max": 262144}, "conntrack"),
        ({"conntrack_max": 0}, "conntrack"),
        ({"kmsg": False}, "kmsg"),
        ({"run_tmpfs": False}, "private_run"),
    ],
)
def test_each_lack_gets_its_own_workaround_and_no_other(able, lack, workaround):
    needed = facts.workarounds({**able, **lack})
    assert [name for name, is_needed in needed.items() if is_needed] == [workaround]


@pytest.mark.parametrize(("cpus", "wanted"), [(1, 131072), (4, 131072), (5, 163840), (32, 1048576), (64, 1048576)])
def test_conntrack_is_left_alone_where_kube_proxy_finds_what_it_wants(able, cpus, wanted):
    assert not facts.workarounds({**able, "cpus": cpus, "conntrack_max": wanted})["conntrack"]
    assert facts.workarounds({**able, "cpus": cpus, "conntrack_max": wanted + 1})["conntrack"]


def test_conntrack_is_left_alone_where_it_can_be_written(able):
    assert not facts.workarounds({**able, "conntrack_max": 5, "conntrack_writable": True})["conntrack"]


def test_able_host_has_no_problem(settings, able):
    assert facts.problems(settings, able, made=False, running=False) == []


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ({"system": "Darwin"}, ["needs Linux", "ssh.example.yml"]),
        ({"root": False}, ["only root", "sudo"]),
        ({"tools": ["ip", "ssh", "ssh-keygen"], "apt": False}, ["mmdebstrap, systemd-container", "package manager"]),
        ({"cgroup_mounted": False}, ["/sys/fs/cgroup", "mount -t cgroup2"]),
        ({"filesystem": "overlay"}, ["overlay file system", "machine_folder"]),
        ({"disk_gib": 9.9}, ["9.9 GiB free", "10 GiB", "df -h"]),
        ({"memory_gib": 2.9}, ["2.9 GiB in all", "machine_memory_gib"]),
        ({"memory_free_gib": 1.2}, ["1.2 GiB", "free -h"]),
        ({"links": {"br-gsb-lab": "somebody's"}}, ["br-gsb-lab", "machine_name", "ip link delete"]),
    ],
)
def test_each_problem_is_one_sentence_with_what_to_do(settings, able, lack, words):
    (problem,) = facts.problems(settings, {**able, **lack}, made=False, running=False)
    for word in words:
        assert word in problem


def test_own_bridge_of_a_dead_machine_is_no_problem(settings, able):
    able["links"]["br-gsb-lab"] = "gsb-fake-gpu-lab gsb-lab"
    able["networks"].append({"range": "10.231.77.0/24", "device": "br-gsb-lab"})
    assert facts.problems(settings, able, made=True, running=False) == []


@pytest.mark.parametrize("taken", ["10.231.77.0/24", "10.231.0.0/16", "10.231.77.128/25", "10.231.77.9"])
def test_taken_network_names_who_has_it(settings, able, taken):
    able["networks"].append({"range": taken, "device": "vpn0"})
    (problem,) = facts.problems(settings, able, made=False, running=False)
    assert "vpn0" in problem
    assert taken in problem
    assert "Set machine_network" in problem


def test_network_beside_it_is_not_taken(settings, able):
    able["networks"].append({"range": "10.231.78.0/24", "device": "vpn0"})
    assert facts.problems(settings, able, made=False, running=False) == []


def test_missing_tools_are_no_problem_where_apt_is(settings, able):
    able["tools"] = ["ip", "ssh", "ssh-keygen"]
    assert facts.problems(settings, able, made=False, running=False) == []
    assert facts.missing_packages(able, base_made=False) == ["mmdebstrap", "systemd-container"]
    assert facts.missing_packages(able, base_made=True) == ["systemd-container"]


def test_what_a_running_machine_uses_up_is_no_problem(settings, able):
    able.update(disk_gib=1.0, memory_free_gib=0.2)
    able["networks"].append({"range": "10.231.77.0/24", "device": "br-gsb-lab"})
    assert facts.problems(settings, able, made=True, running=True) == []


@pytest.mark.parametrize("name", ["a", "gsb-lab", "gsb-h4a", "a1234567890b", "x2"])
def test_good_names(name):
    assert facts.name_problem(name) is None


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a1234567890bc", "../x", "a/b", "a b", "a\n"]
)
def test_bad_names_are_refused(settings, able, name):
    (problem,) = facts.problems(dataclasses.replace(settings, name=name), able, made=False, running=False)
    assert "1 to 12 lower-case letters" in problem


@pytest.mark.parametrize("network", ["10.231.77.0/24", "192.168.3.0/24", "172.20.1.0/24"])
def test_good_networks(network):
    assert facts.network_problem(network) is None


@pytest.mark.parametrize(
    "network", ["", "10.231.77.0", "10.231.77.1/24", "10.231.77.0/25", "8.8.8.0/24", "fd00::/64", "x"]
)
def test_bad_networks_are_refused(settings, able, network):
    (problem,) = facts.problems(dataclasses.replace(settings, network=network), able, made=False, running=False)
    assert "ends in .0/24" in problem


@pytest.mark.parametrize("network", ["10.42.7.0/24", "10.43.0.0/24"])
def test_networks_of_the_cluster_are_refused(settings, able, network):
    (problem,) = facts.problems(dataclasses.replace(settings, network=network), able, made=False, running=False)
    assert "Kubernetes uses" in problem


def test_gather_finds_all_that_is_judged(settings, able):
    found = facts.gather(settings)
    assert set(found) == set(able)
    facts.workarounds(found)
    facts.problems(settings, found, made=False, running=False)
