# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What is put into a machine, from its settings and from what the host lacks."""

from __future__ import annotations

import dataclasses
import os
import subprocess

import pytest
import yaml
from lab_machine import facts
from lab_machine.contents import BRIDGES, File, Link, before_k3s, contents, differing, write

KEYS = {"id_ed25519.pub": "user key\n", "host_ed25519": "the private key\n", "host_ed25519.pub": "host key\n"}
SCRIPT = "root/usr/lib/lab-machine/before-k3s"


@pytest.fixture
def needs(able):
    def needs(*lacking):
        return {name: name in lacking for name in facts.workarounds(able)}

    return needs


def test_host_that_lacks_nothing_gets_no_script(settings, needs):
    assert contents(settings, needs(), KEYS)[SCRIPT] is None


def test_private_run_is_the_keepers_and_needs_no_script(settings, needs):
    assert contents(settings, needs("private_run"), KEYS)[SCRIPT] is None


def test_script_bridges_what_is_lacking_and_nothing_else(needs):
    for name, text in BRIDGES.items():
        script = before_k3s(needs(name)).text
        assert text in script
        assert not any(other in script for key, other in BRIDGES.items() if key != name)


@pytest.mark.parametrize(
    ("lacking", "path", "content"),
    [
        (
            "conntrack",
            "etc/rancher/k3s/config.yaml.d/10-machine.yaml",
            {"kube-proxy-arg+": ["conntrack-max-per-core=0"]},
        ),
        (
            "cgroup_v1",
            "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10-machine.conf",
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "failCgroupV1": False,
            },
        ),
    ],
)
def test_script_writes_what_k3s_reads(tmp_path, needs, lacking, path, content):
    run_script(tmp_path, before_k3s(needs(lacking)).text)
    assert yaml.safe_load((tmp_path / path).read_text()) == content
    assert [p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()] == [
        (tmp_path / path).relative_to(tmp_path)
    ]


def test_script_restricts_oom_scores_only_where_needed(tmp_path, needs):
    run_script(tmp_path, before_k3s(needs("oom_score")).text)
    path = tmp_path / "var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/10-machine.toml"
    assert path.read_text().splitlines() == [
        "version = 3",
        "",
        "[plugins.'io.containerd.cri.v1.runtime']",
        "restrict_oom_score_adj = true",
    ]


def test_script_leaves_a_right_file_alone_and_puts_a_changed_one_right(tmp_path, needs):
    script = before_k3s(needs("conntrack")).text
    path = tmp_path / "etc/rancher/k3s/config.yaml.d/10-machine.yaml"
    run_script(tmp_path, script)
    text = path.read_text()
    os.utime(path, (1, 1))
    run_script(tmp_path, script)
    assert path.stat().st_mtime == 1
    path.write_text("mine: true\n")
    run_script(tmp_path, script)
    assert path.read_text() == text


def run_script(root, text):
    """Run it as the machine does, with the two folders that it may write in below `root`, on a host without cgroups."""
    text = text.replace("put /", f"put {root}/").replace("/sys/fs/cgroup/", f"{root}/none/")
    subprocess.run(["sh", "-e", "-c", text], check=True)


def test_address_and_gateway_come_from_the_network(settings, needs):
    wanted = contents(dataclasses.replace(settings, network="10.9.8.0/24", name="other"), needs(), KEYS)
    network = wanted["root/usr/lib/lab-machine/network"].text
    assert "10.9.8.2/24" in network
    assert "default via 10.9.8.1" in network
    assert wanted["root/etc/hosts"].text.splitlines()[-1] == "10.9.8.2 other"
    assert "nameserver 10.9.8.1\n" in wanted["root/etc/resolv.conf"].text
    assert "    BindAddress 10.9.8.1\n" in wanted["ssh/config"].text
    assert wanted["ssh/known_hosts"] == File("10.9.8.2 host key\n", 0o600)


def test_secrets_are_for_root_alone(settings, needs):
    wanted = contents(settings, needs(), KEYS)
    assert [name for name, file in wanted.items() if isinstance(file, File) and "the private key" in file.text] == [
        "root/etc/ssh/ssh_host_ed25519_key"
    ]
    assert wanted["root/etc/ssh/ssh_host_ed25519_key"].mode == 0o600


def test_every_enabled_unit_is_there(settings, needs):
    wanted = contents(settings, needs(), KEYS)
    for name, content in wanted.items():
        if isinstance(content, Link) and content.target.startswith("/usr/lib/systemd/system/lab-"):
            assert isinstance(wanted[f"root{content.target}"], File), name


def test_every_script_is_read_by_sh(settings, needs):
    wanted = contents(settings, needs(*BRIDGES), KEYS)
    scripts = [name for name in wanted if name.startswith("root/usr/lib/lab-machine/")]
    assert len(scripts) == 4
    for name in scripts:
        subprocess.run(["sh", "-n"], input=wanted[name].text, text=True, check=True)


def test_written_once_nothing_differs(tmp_path, settings, needs):
    wanted = contents(settings, needs("conntrack"), KEYS)
    names = differing(tmp_path, wanted)
    assert set(names) == set(wanted)
    write(tmp_path, wanted, names)
    assert differing(tmp_path, wanted) == []


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("root/etc/hosts", lambda path: path.write_text("x\n")),
        ("root/etc/hosts", lambda path: path.chmod(0o600)),
        ("root/etc/hosts", lambda path: path.unlink()),
        ("ssh/config", lambda path: path.chmod(0o644)),
        (
            "root/etc/resolv.conf",
            lambda path: (path.unlink(), path.symlink_to("/run/elsewhere")),
        ),
        ("root/etc/systemd/system/apt-daily.timer", lambda path: path.unlink()),
        (SCRIPT, lambda path: path.write_text("left from a host that lacked something\n")),
    ],
)
def test_what_differs_is_found_and_put_right(tmp_path, settings, needs, name, spoil):
    wanted = contents(settings, needs(), KEYS)
    write(tmp_path, wanted, list(wanted))
    spoil(tmp_path / name)
    assert differing(tmp_path, wanted) == [name]
    write(tmp_path, wanted, [name])
    assert differing(tmp_path, wanted) == []


def test_link_in_the_way_is_replaced_not_followed(tmp_path, settings, needs):
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    wanted = contents(settings, needs(), KEYS)
    path = tmp_path / "home/root/etc/resolv.conf"
    path.parent.mkdir(parents=True)
    path.symlink_to(outside)
    write(tmp_path / "home", wanted, differing(tmp_path / "home", wanted))
    assert outside.read_text() == "untouched"
    assert not path.is_symlink()


def test_write_that_was_cut_short_is_done_again(tmp_path, settings, needs):
    wanted = contents(settings, needs(), KEYS)
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/.new-hosts").write_text("half")
    write(tmp_path, wanted, differing(tmp_path, wanted))
    assert not (tmp_path / "root/etc/.new-hosts").exists()
