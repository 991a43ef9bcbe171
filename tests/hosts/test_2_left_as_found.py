# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Without the lab the host is as it was: compared with a picture from before, in which others had something, too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PICTURE = Path(__file__).with_name("picture.py")

# What may differ: section, key, what it was, what it is; and why.
EXPLAINED = [
    (
        "rules",
        r"ip6?tables-save (\*(filter|mangle|nat)|COMMIT|:(INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING) ACCEPT)",
        r"None",
        r"",
        "a table that was used once stays, without a rule and with the kernel's own policy: as if it were not there",
    ),
    (
        "files",
        r"/etc/rancher/k3s/config.yaml.d(/10-machine.yaml)?",
        r"None",
        r".*",
        "the embedded machine's own: it writes this before each start of k3s, and drop-ins belong to the host",
    ),
    (
        "settings",
        r"net/ipv4/(ip_forward|conf/\w+/(forwarding|accept_redirects|route_localnet))|net/netfilter/nf_conntrack_\w+",
        r"\d+",
        r"\d+",
        "set for pods until the next boot; something else may count on it by now, and nothing was written to sysctl.d",
    ),
]


@pytest.fixture(scope="module")
def removed(playbooks):
    return playbooks.run(playbook="playbooks/uninstall.yml")


@pytest.fixture(scope="module")
def after(host, removed):
    return json.loads(host.check_output("python3 -c %s", PICTURE.read_text()))


def differences(before, after):
    return [
        (section, key, str(before[section].get(key)), str(after[section].get(key)))
        for section in before
        for key in sorted({*before[section], *after[section]})
        if before[section].get(key) != after[section].get(key)
    ]


def is_explained(difference):
    return any(
        section == difference[0] and all(re.fullmatch(p, d) for p, d in zip(patterns, difference[1:]))
        for section, *patterns, _why in EXPLAINED
    )


@pytest.mark.parametrize(
    ("section", "key", "was", "now", "may"),
    [
        ("rules", "iptables-save *nat", None, "", True),
        ("rules", "iptables-save :FORWARD ACCEPT", None, "", True),
        ("rules", "iptables-save :FORWARD DROP", None, "", False),
        ("rules", "iptables-save :KUBE-SERVICES -", None, "", False),
        ("rules", "iptables-save *nat", "", None, False),
        ("settings", "net/ipv4/ip_forward", "0", "1", True),
        ("settings", "vm/overcommit_memory", "0", "1", False),
        ("links", "cni0", None, "bridge mtu 1500", False),
        ("files", "/etc/rancher/k3s/config.yaml.d/10-machine.yaml", None, "-rw-r--r-- 0:0", True),
        ("files", "/etc/rancher/k3s/config.yaml.d/theirs.yaml", None, "-rw-r--r-- 0:0", False),
        ("files", "/etc/rancher", None, "drwxr-xr-x 0:0", False),
        ("files", "/root/.kube", "drwxr-xr-x 0:0", "drwx------ 0:0", False),
    ],
)
def test_only_what_has_a_reason_may_differ(section, key, was, now, may):
    (found,) = differences({section: {} if was is None else {key: was}}, {section: {} if now is None else {key: now}})
    assert is_explained(found) is may


def test_everything_is_removed(removed):
    assert removed.status == 0, removed.output
    assert removed.changed > 0


def test_the_host_is_as_it_was(before, after):
    left = [difference for difference in differences(before, after) if not is_explained(difference)]
    assert left == []


@pytest.mark.parametrize("section", ["links", "routes", "rules", "mounts", "files", "units", "ports", "settings"])
def test_the_picture_shows_something(before, section):
    assert before[section]


def test_what_others_have_here_was_in_the_picture(before):
    assert "theirs" in before["namespaces"]
    assert before["units"]["theirs.service"] == "transient"
    assert [rule for rule in before["rules"] if "theirs" in rule]
    assert len([path for path in before["files"] if path.endswith("/theirs")]) == 6


def test_removing_again_changes_nothing(playbooks, removed):
    again = playbooks.run(playbook="playbooks/uninstall.yml")
    assert (again.status, again.changed) == (0, 0), again.output
