# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The root folder, read with its own tools. Shares no code with the checks of the bake, so that each can catch the other.

Each question is asked twice: of the folder, and of one that was spoilt in that way (see `spoilt`)."""

from __future__ import annotations

import re
import subprocess

import pytest
from testinfra.backend.chroot import ChrootBackend
from testinfra.host import Host

K3S = "/var/lib/rancher/k3s"


def inside(folder):
    return Host(ChrootBackend(str(folder)))


def found(host, command):
    """What a command that has to work finds."""
    return host.check_output(command).split()


@pytest.fixture(scope="module")
def host(root):
    return inside(root)


def machine_id(host):
    file = host.file("/etc/machine-id")
    return file.is_file and file.size == 0


def no_host_keys(host):
    return not found(host, "find /etc/ssh -name 'ssh_host_*'")


def no_cloud_instance(host):
    return not host.file("/var/lib/cloud/data/instance-id").exists


def no_cores(host):
    return not found(
        host,
        "find / -xdev -path /usr -prune -o -path /opt -prune -o -path /var/lib/rancher -prune -o -type f -name core -print",
    )


def small_logs(host):
    return int(found(host, "du -sxm /var/log")[0]) <= 200


def no_state_of_a_cluster(host):
    gone = [
        f"{K3S}/server",
        f"{K3S}/agent/client-kubelet.key",
        "/etc/rancher/node",
        "/etc/rancher/k3s/k3s.yaml",
        "/var/lib/kubelet",
    ]
    return not [path for path in gone if host.file(path).exists]


def no_seed(host):
    return not host.file("/var/lib/systemd/random-seed").exists


def no_passwords(host):
    words = [line.split(":")[1] for line in host.file("/etc/shadow").content_string.splitlines()]
    return all(re.match(r"[!*]", word) for word in words)


def no_archives(host):
    return not found(host, f"find {K3S}/agent/images -name '*.tar*'")


def nothing_of_nesting(host):
    return not found(host, f"find /etc /usr/lib {K3S}/agent/etc -name '10-machine.*' -o -name before-k3s")


def no_timers_of_apt(host):
    return bool(found(host, "find /etc/systemd/system -name apt-daily.timer -lname /dev/null"))


def no_image_is_collected(host):
    return "imageGCHighThresholdPercent: 100" in host.run(f"cat {K3S}/agent/etc/kubelet.conf.d/*").stdout


def licences(host):
    lacking = (
        "for name in $(dpkg-query -W -f '${Package} '); do test -e /usr/share/doc/$name/copyright || echo $name; done"
    )
    return not found(host, lacking)


def no_history(host):
    return not found(
        host,
        "find /root /tmp /var/tmp -mindepth 1 -name .bash_history -o -path '/root/.ansible' -o -path '/tmp/*' -o -path '/var/tmp/*'",
    )


# question -> how to spoil a folder for it
QUESTIONS = {
    machine_id: "echo 6a9857a393724b7a981ebb5b8495b9ea > etc/machine-id",
    no_host_keys: "touch etc/ssh/ssh_host_rsa_key",
    no_cloud_instance: "mkdir -p var/lib/cloud/data && touch var/lib/cloud/data/instance-id",
    no_cores: "echo x > core",
    small_logs: "mkdir -p var/log && truncate -s 0 var/log/x && dd if=/dev/zero of=var/log/x bs=1M count=201 status=none",
    no_state_of_a_cluster: "mkdir -p var/lib/rancher/k3s/server",
    no_seed: "mkdir -p var/lib/systemd && touch var/lib/systemd/random-seed",
    no_passwords: "echo 'root::1::::::' > etc/shadow",
    no_archives: "mkdir -p var/lib/rancher/k3s/agent/images && touch var/lib/rancher/k3s/agent/images/x.tar",
    nothing_of_nesting: "mkdir -p etc/systemd/system.conf.d && touch etc/systemd/system.conf.d/10-machine.conf",
    no_timers_of_apt: "rm -f etc/systemd/system/apt-daily.timer",
    no_image_is_collected: "rm -rf var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
    licences: "rm -rf usr/share/doc/bash",
    no_history: "touch root/.bash_history",
}
NAMES = [question.__name__ for question in QUESTIONS]


@pytest.mark.parametrize("question", QUESTIONS, ids=NAMES)
def test_the_root_folder(host, question):
    assert question(host)


@pytest.fixture(scope="module")
def small(root, tmp_path_factory):
    """A folder with the tools and the settings of the root folder, small enough to be spoilt again and again."""
    folder = tmp_path_factory.mktemp("small") / "root"
    folder.mkdir()
    subprocess.run(
        ["bash", "-ec", 'tar -C "$1" --exclude=./usr/lib/modules --exclude="./usr/lib/python3*" --exclude=./usr/share '
         '--exclude=./usr/local -c ./bin ./sbin ./lib ./lib64 ./usr ./etc ./root ./tmp ./var/tmp | tar -C "$2" -x',
         "bash", str(root), str(folder)],
        check=True,
    )  # fmt: skip
    for name in ("usr/share", "var/lib/dpkg"):
        (folder / name).mkdir(parents=True)
    for name in ("usr/share/doc", "var/lib/dpkg/status"):
        subprocess.run(["cp", "-a", str(root / name), str(folder / name)], check=True)
    for name in ("var/log", f"{K3S[1:]}/agent/images", f"{K3S[1:]}/agent/etc"):
        (folder / name).mkdir(parents=True)
    subprocess.run(["cp", "-a", f"{root}{K3S}/agent/etc/.", f"{folder}{K3S}/agent/etc/"], check=True)
    return folder


@pytest.mark.parametrize("question", QUESTIONS, ids=NAMES)
def test_each_question_finds_a_spoilt_folder(root, small, question):
    host = inside(small)
    assert question(host), "the small folder is fit before it is spoilt"
    subprocess.run(["cp", "-a", "--reflink=auto", str(small / "etc"), str(small.parent / "etc.kept")], check=True)
    try:
        subprocess.run(["bash", "-ec", QUESTIONS[question]], cwd=small, check=True)
        assert not question(host)
    finally:
        subprocess.run(
            ["bash", "-ec", f"rm -rf etc core var/lib/cloud var/log/x var/lib/systemd root/.bash_history .{K3S}/server .{K3S}/agent/images/x.tar; "
             f"mv ../etc.kept etc; cp -a {root}/usr/share/doc/bash usr/share/doc/"],
            cwd=small, check=True,
        )  # fmt: skip
        kept = small / f"{K3S[1:]}/agent/etc/kubelet.conf.d"
        kept.mkdir(exist_ok=True)
        (kept / "50-image.conf").write_text("imageGCHighThresholdPercent: 100\n")


def test_it_can_boot_by_itself(host):
    assert len(found(host, "find /boot -name 'vmlinuz-*'")) == 1
    assert len(found(host, "find /boot -name 'initrd.img-*'")) == 1
    assert "x-systemd.growfs" in host.file("/etc/fstab").content_string


def test_the_collection_is_inside(host):
    assert host.file("/opt/gsb-fake-gpu-lab/collections/ansible_collections/gsb/fake_gpu_lab/playbooks/lab.yml").exists
    assert host.file("/opt/gsb-fake-gpu-lab/collections/ansible_collections/kubernetes/core/MANIFEST.json").exists
