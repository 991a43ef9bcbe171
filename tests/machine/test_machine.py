# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The embedded machine, made and unmade on this host through its playbook. Needs root; the tests run in their order."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a machine")

CHECKOUT = pathlib.Path(__file__).parents[2]
PLAYBOOK = pathlib.Path(sys.executable).with_name("ansible-playbook")
FOLDER = pathlib.Path("/var/lib/gsb-fake-gpu-lab/machines")


@dataclasses.dataclass(frozen=True)
class Machine:
    name: str
    network: str

    @property
    def home(self):
        return FOLDER / self.name

    @property
    def bridge(self):
        return f"br-{self.name}"

    @property
    def cgroup(self):
        return f"gsb-fake-gpu-lab-{self.name}"

    def run(self, command, **options):
        config = self.home / "ssh/config"
        return subprocess.run(
            ["ssh", "-F", str(config), "-o", "ConnectTimeout=10", self.name, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            **options,
        )

    def out(self, command):
        done = self.run(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def keeper(self):
        return json.loads((self.home / "lock").read_text())["pid"]

    def processes(self):
        """All that run in the machine's cgroup or for it, by their command."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                words = (str(self.home), f'"name": "{self.name}"')
                if self.cgroup in (entry / "cgroup").read_text() or any(word in command for word in words):
                    found[int(entry.name)] = command
        return found

    def traces(self):
        """All that the host shows of the machine."""
        links = [link for link in os.listdir("/sys/class/net") if link.endswith(self.name)]
        cgroups = subprocess.run(
            ["find", "/sys/fs/cgroup", "-name", f"{self.cgroup}*"], capture_output=True, text=True, check=True
        ).stdout.split()
        mounts = [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if self.name in line]
        rules = subprocess.run(["ip", "rule"], capture_output=True, text=True, check=True).stdout
        routes = subprocess.run(
            ["ip", "route", "show", "table", "all"], capture_output=True, text=True, check=True
        ).stdout
        return {
            "processes": self.processes(),
            "links": links,
            "cgroups": cgroups,
            "mounts": mounts,
            "rules": [line for line in rules.splitlines() if self.bridge in line],
            "routes": [line for line in routes.splitlines() if self.bridge in line],
            "files": [str(path) for path in (self.home,) if path.exists()],
        }


A = Machine("gsb-test-a", "10.231.84.0/24")
B = Machine("gsb-test-b", "10.231.94.0/24")
# In the machine: the hierarchy that all of its processes are in, whatever the version of its cgroups.
TREE = "tree=/sys/fs/cgroup; test -e $tree/cgroup.procs || tree=$tree/systemd"
NOTHING = {"processes": {}, "links": [], "cgroups": [], "mounts": [], "rules": [], "routes": [], "files": []}


def command(*arguments, state="present"):
    inventory = pathlib.Path(__file__).with_name("inventory.yml")
    extra = ["-e", f"machine_state={state}", *arguments]
    return [str(PLAYBOOK), "-i", str(inventory), "playbooks/machine.yml", *extra]


def play(*arguments, state="present", fails=False):
    """Run the playbook; the number of changes by host."""
    done = subprocess.run(
        command(*arguments, state=state),
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    if fails:
        return done.stdout
    return {host: int(count) for host, count in re.findall(r"^(\S+) +: ok=.* changed=(\d+)", done.stdout, re.M)}


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def host_mounts():
    return pathlib.Path("/proc/mounts").read_text().splitlines()


@pytest.fixture(scope="module", autouse=True)
def bare_host():
    play(state="absent")
    assert A.traces() == B.traces() == NOTHING
    before = host_mounts()
    yield before
    play(state="absent")
    assert A.traces() == B.traces() == NOTHING


def test_check_on_a_bare_host_says_what_it_would_do_and_does_nothing():
    changes = play("--check", "--diff")
    assert changes.keys() == {A.name, B.name}
    assert all(changes.values())
    assert A.traces() == B.traces() == NOTHING
    assert play("--check", state="absent") == {A.name: 0, B.name: 0}


def test_two_are_made_side_by_side():
    changes = play()
    assert all(changes.values())
    for machine in (A, B):
        assert machine.out("systemctl is-system-running --wait") == "running"
        assert machine.out("hostname") == machine.name


def test_second_run_changes_nothing():
    pids = A.keeper(), B.keeper()
    assert play() == {A.name: 0, B.name: 0}
    assert play("--check") == {A.name: 0, B.name: 0}
    assert (A.keeper(), B.keeper()) == pids


@pytest.mark.parametrize(
    "look",
    ["cat /etc/machine-id", "cat /etc/ssh/ssh_host_ed25519_key.pub", "cat /proc/sys/kernel/random/boot_id"],
)
def test_each_has_an_identity_of_its_own(look):
    assert A.out(look) != B.out(look)


def test_neither_sees_the_others_cgroups():
    for machine, mark in ((A, "of-a"), (B, "of-b")):
        assert machine.out(f"{TREE}; mkdir -p $tree/kubepods/{mark}; ls -d $tree/kubepods/of-*").endswith(f"/{mark}")


def test_key_of_one_does_not_open_the_other():
    key = ["-i", str(A.home / "ssh/id_ed25519"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    hosts = ["-o", f"UserKnownHostsFile={B.home / 'ssh/known_hosts'}"]
    done = subprocess.run(["ssh", *key, *hosts, "root@10.231.94.2", "true"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


def test_machine_has_what_the_lab_builds_on():
    for tool in ("iptables", "conntrack", "ipset", "ethtool", "socat", "modprobe", "ps", "curl", "ip", "jq", "mount"):
        A.out(f"command -v {tool}")
    A.out("python3 -m venv /tmp/venv && /tmp/venv/bin/python -m pip --version && rm -r /tmp/venv")
    assert A.out("locale charmap 2>/dev/null || echo $LANG") in ("UTF-8", "C.UTF-8")


def test_nothing_in_it_sets_a_setting_of_the_host():
    names = ["kernel/panic", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/keys/root_maxkeys"]
    before = [pathlib.Path("/proc/sys", name).read_text() for name in names]
    for name in names:
        assert A.out(f"echo 1234 > /proc/sys/{name}; cat /proc/sys/{name}") == "1234"
    assert [pathlib.Path("/proc/sys", name).read_text() for name in names] == before
    assert A.run("echo 61 > /proc/sys/vm/swappiness").returncode != 0


def test_default_route_ends_at_the_bridge():
    assert A.out("ip -o route show default").split()[:5] == ["default", "via", "10.231.84.1", "dev", "host0"]
    for address in ("1.1.1.1", "192.0.2.1", "10.231.94.2", "8.8.8.8"):
        assert A.run(f"timeout 5 bash -c 'exec 3<>/dev/tcp/{address}/22'").returncode != 0, address
    began = time.monotonic()
    assert A.run("getent hosts deb.debian.org").returncode == 2
    assert time.monotonic() - began < 5


@pytest.fixture
def beyond():
    """A host that knows the way back, behind a host that forwards: what a router or a container network would be."""
    forwarding = pathlib.Path("/proc/sys/net/ipv4/ip_forward")
    before = forwarding.read_text()
    subprocess.run(
        """set -e
        ip netns add gsb-test-n
        ip link add vb-gsb-test-n type veth peer name eth0 netns gsb-test-n
        ip address add 10.231.95.1/24 dev vb-gsb-test-n
        ip link set vb-gsb-test-n up
        ip -n gsb-test-n address add 10.231.95.2/24 dev eth0
        ip -n gsb-test-n link set eth0 up
        ip -n gsb-test-n route add default via 10.231.95.1""",
        shell=True,
        check=True,
    )
    forwarding.write_text("1")
    yield "10.231.95.2"
    forwarding.write_text(before)
    subprocess.run(["ip", "netns", "delete", "gsb-test-n"], check=True)
    until(lambda: "vb-gsb-test-n" not in os.listdir("/sys/class/net"), 10, "the cable is gone")


def test_nothing_is_behind_the_bridge_even_where_the_host_forwards(beyond):
    assert A.run(f"ping -c1 -W2 {beyond}").returncode != 0
    rule = ["unreachable", "iif", A.bridge, "priority", "77"]
    subprocess.run(["ip", "rule", "delete", *rule], check=True)
    try:
        assert A.run(f"ping -c1 -W2 {beyond}").returncode == 0, "the test cannot fail: there is no way out at all"
    finally:
        subprocess.run(["ip", "rule", "add", *rule], check=True)


def fake_k3s():
    unit = "[Service]\nExecStart=/bin/sleep infinity\n"
    A.out(f"printf '{unit}' > /etc/systemd/system/k3s.service && systemctl daemon-reload && systemctl start k3s")


def test_only_what_this_host_lacks_is_bridged_and_comes_back_after_k3s_was_removed():
    files = {
        "cgroup_v1": "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10-machine.conf",
        "oom_score": "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/10-machine.toml",
        "conntrack": "/etc/rancher/k3s/config.yaml.d/10-machine.yaml",
    }
    lacking = {
        "cgroup_v1": not os.path.exists("/sys/fs/cgroup/cgroup.controllers"),
        "oom_score": not int(re.search(r"CapBnd:\s*(\w+)", pathlib.Path("/proc/self/status").read_text())[1], 16) >> 24
        & 1,
        "conntrack": A.out("cat /proc/sys/net/netfilter/nf_conntrack_max")
        != str(min(max(131072, 32768 * os.cpu_count()), 1048576)),
    }
    for _round in (1, 2):
        fake_k3s()
        for name, path in files.items():
            assert (A.run(f"test -s {path}").returncode == 0) == lacking[name], name
        A.out(
            "systemctl stop k3s; rm -r /etc/systemd/system/k3s.service /etc/rancher /var/lib/rancher; systemctl daemon-reload"
        )


def test_reboot_from_inside_keeps_its_files_and_leaves_no_stale_cgroup():
    boot = A.out("cat /proc/sys/kernel/random/boot_id")
    keeper = A.keeper()
    A.out(f"touch /root/kept; {TREE}; test -d $tree/kubepods/of-a")
    A.run("systemctl reboot")
    until(lambda: A.run("cat /proc/sys/kernel/random/boot_id").stdout.strip() not in ("", boot), 90, "a new boot")
    assert A.out("systemctl is-system-running --wait") == "running"
    assert A.keeper() == keeper
    A.out("test -e /root/kept")
    assert A.out("find /sys/fs/cgroup -name 'of-a'") == ""
    assert B.out("find /sys/fs/cgroup -name 'of-b'")
    assert play() == {A.name: 0, B.name: 0}


STUBBORN = f"""set -e
{TREE}
mkdir -p $tree/kubepods/pod
cp /bin/bash /usr/local/bin/containerd-shim-stubborn
cat > /etc/systemd/system/k3s.service <<'END'
[Service]
KillMode=process
Delegate=yes
ExecStart=/bin/bash -c 'containerd-shim-stubborn -c "trap : TERM HUP; while :; do read -t 1 < <(:); done" & exec sleep infinity'
END
systemctl daemon-reload
systemctl start k3s
setsid bash -c "echo 0 > $tree/kubepods/pod/cgroup.procs; trap : TERM HUP; while :; do sleep 1; done" > /dev/null 2>&1 < /dev/null &
sleep 1
pgrep containerd-shim
test -n "$(cat $tree/kubepods/pod/cgroup.procs)"
"""


def test_pods_and_shims_that_do_not_end_do_not_hold_up_the_end():
    A.out(STUBBORN)
    keeper = A.keeper()
    began = time.monotonic()
    A.run("systemctl poweroff")
    until(lambda: keeper not in A.processes(), 25, "the machine has ended by itself")
    print(f"ended in {time.monotonic() - began:.1f} s")
    assert A.traces() == {**NOTHING, "files": [str(A.home)]}


def test_nobody_else_is_taken_for_a_machine_that_is_down():
    said = A.run("true").stderr
    assert "bind" in said.lower() or "cannot assign" in said.lower(), said


def test_powered_off_machine_is_started_by_the_next_run():
    assert play() == {A.name: 1, B.name: 0}
    assert A.out("systemctl is-system-running --wait") == "running"


def test_killed_keeper_lets_the_machine_end_well_and_the_next_run_starts_it():
    A.out("rm -f /etc/systemd/system/k3s.service; touch /root/before-the-kill")
    log = A.home / "console.log"
    os.kill(A.keeper(), signal.SIGKILL)
    until(lambda: not A.processes(), 60, "the machine has ended")
    assert "Reached target" in log.read_text(errors="replace").split("login:")[-1]
    assert A.traces()["links"] == [A.bridge]
    assert play("--check") == {A.name: 1, B.name: 0}
    assert play() == {A.name: 1, B.name: 0}
    A.out("test -e /root/before-the-kill")


def test_everything_killed_but_the_machine_itself_is_found_and_cleared():
    processes = A.processes()
    keeper = A.keeper()
    nspawn = [pid for pid, line in processes.items() if line.startswith("systemd-nspawn")]
    assert nspawn
    for pid in (*nspawn, keeper):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not {keeper, *nspawn} & A.processes().keys(), 10, "the killed ones are gone")
    changes = play()
    assert changes == {A.name: 1, B.name: 0}
    assert A.keeper() != keeper
    assert A.out("systemctl is-system-running --wait") == "running"


def test_removal_clears_what_a_killed_run_left():
    processes = B.processes()
    for pid in processes:
        if pid == B.keeper() or processes[pid].startswith("systemd-nspawn"):
            os.kill(pid, signal.SIGKILL)
    assert play("--limit", B.name, state="absent") == {B.name: 1}
    assert B.traces() == NOTHING
    assert A.out("true") == ""


@pytest.mark.parametrize("moment", ["ssh.new", "root.new", "root", "lock"])
def test_run_that_is_killed_at_any_moment_is_taken_up_by_the_next(moment):
    play("--limit", B.name, state="absent")
    running = subprocess.Popen(
        command("--limit", B.name),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(AssertionError):
        until(lambda: (B.home / moment).exists() or running.poll() is not None, 180, moment)
    for pid in [
        running.pid,
        *(pid for pid, line in commands(f'"name": "{B.name}"').items() if " up " in line),
    ]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    play("--limit", B.name)
    assert B.out("systemctl is-system-running --wait") == "running"
    assert sorted(path.name for path in B.home.iterdir() if path.name.endswith(".new")) == []


def commands(word):
    """Processes by their command, those with this word in it."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if word in line and entry.name != str(os.getpid()):
                found[int(entry.name)] = line
    return found


def test_base_root_folder_that_was_killed_while_it_was_made_leaves_no_process_and_is_begun_anew(tmp_path):
    settings = {
        "name": "gsb-test-c",
        "network": "10.231.97.0/24",
        "folder": str(tmp_path / "machines"),
        "cache": str(tmp_path / "cache"),
        "suite": "bookworm",
        "mirror": "",
        "packages": ["ca-certificates"],
        "disk_gib": 1,
        "memory_gib": 1,
        "start_timeout": 60,
        "stop_timeout": 30,
    }
    program = [sys.executable, "-B", str(CHECKOUT / "roles/machine/files/lab_machine"), "base"]
    half_made = []
    for _time in (1, 2):
        running = subprocess.Popen([*program, "--settings", json.dumps(settings)])
        until(
            lambda old=half_made: any(path not in old and (path / "root/usr").is_dir() for path in begun(tmp_path)),
            180,
            "mmdebstrap has begun",
        )
        running.kill()
        running.wait()
        until(lambda: not commands(str(tmp_path)), 10, "all processes have ended")
        assert [line for line in host_mounts() if str(tmp_path) in line] == []
        assert len(begun(tmp_path)) == 1, "what the run before left is deleted"
        assert begun(tmp_path) != half_made
        half_made = begun(tmp_path)


def begun(folder):
    return sorted((folder / "cache/root").glob(".making-*"))


def test_file_that_was_changed_by_hand_is_put_right():
    (B.home / "root/etc/resolv.conf").write_text("nameserver 192.0.2.53\n")
    assert play("--check", "--limit", B.name) == {B.name: 1}
    assert play("--limit", B.name) == {B.name: 1}
    assert play("--limit", B.name) == {B.name: 0}
    assert B.out("grep ^nameserver /etc/resolv.conf") == "nameserver 10.231.94.1"


def test_change_of_network_moves_the_machine():
    moved = ("--limit", B.name, "-e", "machine_network=10.231.96.0/24")
    assert play(*moved) == {B.name: 1}
    assert B.out("hostname -I").split()[0] == "10.231.96.2"
    assert play(*moved) == {B.name: 0}
    said = play("--limit", B.name, "-e", f"machine_network={A.network}", fails=True)
    assert "is taken" in said
    assert B.out("hostname -I").split()[0] == "10.231.96.2"


@pytest.fixture(scope="module")
def b_is_absent(bare_host):
    play("--limit", B.name, state="absent")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-e", "machine_network=10.231.84.0/24"], ["is taken", "br-gsb-test-a", "Set machine_network"]),
        (["-e", "machine_network=10.42.0.0/24"], ["Kubernetes uses"]),
        (["-e", "machine_name=a_name"], ["1 to 12 lower-case letters"]),
        (["-e", "machine_disk_gib=1000000"], ["Too little disk", "machine_folder"]),
        (["-e", "machine_memory_gib=1000000"], ["Too little memory", "machine_memory_gib"]),
    ],
)
def test_host_that_cannot_hold_the_machine_is_told_why(b_is_absent, arguments, words):
    said = " ".join(play("--limit", B.name, *arguments, fails=True).split())
    for word in words:
        assert word in said
    assert B.traces() == NOTHING


def test_device_of_somebody_else_is_left_alone(b_is_absent):
    subprocess.run(["ip", "link", "add", B.bridge, "type", "bridge"], check=True)
    try:
        said = play("--limit", B.name, fails=True)
        assert "not this machine's" in said
        assert play("--limit", B.name, state="absent") == {B.name: 0}
        assert B.bridge in os.listdir("/sys/class/net")
    finally:
        subprocess.run(["ip", "link", "delete", B.bridge], check=True)


def test_two_runs_at_once_make_one_machine():
    runs = [
        subprocess.Popen(command("--limit", B.name), cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for run in runs:
        said, _ = run.communicate(timeout=600)
        assert run.returncode == 0, said
    assert B.out("systemctl is-system-running --wait") == "running"
    handle = os.open(B.home / "lock", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_absent_leaves_nothing_and_is_done_once(bare_host):
    done = subprocess.run(
        [str(PLAYBOOK.with_name("ansible")), "-i", str(pathlib.Path(__file__).with_name("inventory.yml")), "gpu_lab"]
        + ["-m", "ansible.builtin.ping"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert play(state="absent") == {A.name: 1, B.name: 1}
    assert A.traces() == B.traces() == NOTHING
    assert [line for line in host_mounts() if line not in bare_host] == []
    assert play(state="absent") == {A.name: 0, B.name: 0}
