# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Look at a k3s host once, print what was seen as JSON, change nothing.

The one argument is a JSON object with the keys of DEFAULTS.
The rungs of readiness are pure functions of what was seen.
"""

import concurrent.futures
import datetime
import glob
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import time

K3S = "/usr/local/bin/k3s"
UNIT = "k3s.service"
# What the unit of the lab's k3s says.
LAB = "gsb.fake_gpu_lab"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LEASE_AGE = 40
GIVE_UP_AFTER = 5
UTC = datetime.timezone.utc

DEFAULTS = {
    "node": "",
    "version": "",
    "coredns": True,
    "files": [],
    "exist": [],
    "read_at_start": [],
    "links": {},
    "find": [],
    "origin_file": "",
    "cluster": True,
    "wait": 0,
}
PAUSE = 0.5


def run(*argv, timeout=20):
    """Return (exit status, standard output, standard error) of a command."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    except FileNotFoundError:
        return 127, "", f"{argv[0]}: not found"
    except OSError as error:
        return 126, "", f"{argv[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return 124, "", f"{' '.join(argv)}: no answer within {timeout} s"
    return done.returncode, done.stdout, done.stderr.strip()


def parse_time(text):
    """Read a time as Kubernetes (RFC 3339) or systemd (us+utc) writes it."""
    found = re.search(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?", text or "")
    if not found:
        return None
    day, clock, fraction = found.groups()
    moment = datetime.datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S")
    return moment.replace(microsecond=int((fraction or "0").ljust(6, "0")), tzinfo=UTC)


def condition(item, kind):
    for entry in item.get("status", {}).get("conditions") or []:
        if entry.get("type") == kind:
            return entry
    return {}


def service_rung(service):
    said = f"{UNIT} is {service.get('ActiveState', 'unknown')} ({service.get('SubState', '')})"
    if service.get("LoadState") == "not-found":
        return False, f"{UNIT} does not exist"
    if int(service.get("NRestarts") or 0):
        said += f", restarted {service['NRestarts']} times by systemd, last result {service.get('Result')}"
    return service.get("ActiveState") == "active" and service.get("Job") in (None, "", "0"), said


def api_rung(answer):
    status, out, error = answer
    if status == 0 and out.strip() == "ok":
        return True, "/readyz says ok"
    failed = re.findall(r"\[-\]([\w/.-]+)", error or out)
    if failed:
        return False, f"/readyz: not ok yet: {', '.join(failed)}"
    return False, f"/readyz: {(error or out).strip()}"


def node_rung(node, lease, name, version, boot_id, since):
    """Say whether the node is Ready, of this boot, of this version, by a kubelet that is alive now."""
    if not node:
        return False, f"node {name} is not registered"
    info = node.get("status", {}).get("nodeInfo", {})
    if info.get("bootID") != boot_id:
        return False, f"node {name} still reports an earlier boot ({info.get('bootID')})"
    if version and info.get("kubeletVersion") != version:
        return False, f"node {name} runs {info.get('kubeletVersion')}, wanted {version}"
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        return False, f"node {name} is not Ready: {ready.get('reason')}: {ready.get('message')}"
    renewed = parse_time((lease or {}).get("spec", {}).get("renewTime"))
    if renewed is None or renewed < since:
        return False, f"node {name}: its kubelet renewed the lease last at {renewed}, wanted after {since}"
    return True, f"node {name} is Ready, {info.get('kubeletVersion')}"


def coredns_rung(items, booted):
    """Say whether CoreDNS is available through a pod that runs since this boot."""
    deployments = [item for item in items if item["kind"] == "Deployment"]
    pods = [item for item in items if item["kind"] == "Pod"]
    if not deployments:
        return False, "kube-system has no CoreDNS deployment"
    available = condition(deployments[0], "Available")
    if available.get("status") != "True":
        words = [available.get("message") or "no condition yet"]
        for pod in pods:
            words += waiting(pod)
        return False, f"CoreDNS is not available: {'; '.join(words)}"
    for pod in pods:
        if condition(pod, "Ready").get("status") == "True" and runs_since(pod, booted):
            return True, "CoreDNS is available"
    return False, "no CoreDNS pod has become ready since this boot"


def waiting(pod):
    words = []
    for container in pod.get("status", {}).get("containerStatuses") or []:
        reason = container.get("state", {}).get("waiting")
        if reason:
            words.append(f"{pod['metadata']['name']}: {reason.get('reason')} {reason.get('message', '')}".strip())
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        words.append(f"{pod['metadata']['name']}: {scheduled.get('message')}")
    return words


def runs_since(pod, moment):
    """Say whether all containers of a pod run and started after a moment (Kubernetes counts whole seconds)."""
    states = pod.get("status", {}).get("containerStatuses") or []
    starts = [parse_time(state.get("state", {}).get("running", {}).get("startedAt")) for state in states]
    return bool(starts) and all(start and start >= moment.replace(microsecond=0) for start in starts)


def properties(*argv):
    _status, out, _error = run("systemctl", "show", "--timestamp=us+utc", *argv)
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def digest(path):
    value = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            value.update(block)
    return value.hexdigest()


def differing(files):
    """Return those of the wanted files that are missing or differ in content, mode or owner."""
    found = []
    for wanted in files:
        try:
            seen = os.lstat(wanted["path"])
            same = (
                stat.S_ISREG(seen.st_mode)
                and seen.st_uid == os.geteuid()
                and stat.S_IMODE(seen.st_mode) == int(wanted["mode"], 8)
                and digest(wanted["path"]) == wanted["sha256"]
            )
        except OSError:
            same = False
        if not same:
            found.append(wanted["path"])
    return found


def unread(paths, started):
    """Return the files that are newer than the process that reads them at its start."""
    found = []
    for path in paths:
        try:
            changed = datetime.datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
        except OSError:
            continue
        if started and changed > started:
            found.append(path)
    return found


def links(wanted):
    """Say of each link whether it is right, free to be made, or somebody else's."""
    found = {}
    for path, target in wanted.items():
        if os.path.islink(path):
            found[path] = "right" if os.readlink(path) == target else "foreign"
        else:
            found[path] = "foreign" if os.path.lexists(path) else "free"
    return found


def origin(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream).get("origin")
    except (OSError, ValueError):
        return None


def text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def somebody_elses(origin_file, root="/"):
    """What is here of a k3s that is not the lab's; empty where there is none."""
    units = sorted(glob.glob(os.path.join(root, "etc/systemd/system/k3s*.service")))
    for unit in units:
        if LAB not in text(unit):
            return unit
    if units or os.path.exists(origin_file):
        return ""
    config = os.path.join(root, "etc/rancher/k3s/config.yaml")
    if os.path.exists(config) and LAB not in text(config):
        return config
    data = os.path.join(root, "var/lib/rancher/k3s/server")
    return data if os.path.isdir(data) else ""


def installed_version():
    status, out, _error = run(K3S, "--version")
    found = re.search(r"^k3s version (\S+)", out)
    return found.group(1) if status == 0 and found else None


def items_of(answer):
    status, out, _error = answer
    if not out.strip():
        return []
    try:
        seen = json.loads(out)
    except ValueError:
        return []
    return seen.get("items", [seen]) if status in (0, 1) else []


def climb(wanted, service, booted):
    """Return the rungs of readiness, lowest first."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        readyz = pool.submit(run, K3S, "kubectl", "get", "--raw=/readyz")
        node = pool.submit(
            run, K3S, "kubectl", "-n", "kube-node-lease", "get", "--ignore-not-found", "-o", "json",
            f"node/{wanted['node']}", f"lease/{wanted['node']}",
        )  # fmt: skip
        dns = pool.submit(
            run, K3S, "kubectl", "-n", "kube-system", "get", "-o", "json", "deployments,pods", "-l", "k8s-app=kube-dns"
        )
    with open(BOOT_ID, encoding="ascii") as stream:
        boot_id = stream.read().strip()
    kinds = {item.get("kind"): item for item in items_of(node.result())}
    started = parse_time(service.get("ExecMainStartTimestamp"))
    since = datetime.datetime.now(UTC) - datetime.timedelta(seconds=LEASE_AGE)
    if started:
        since = max(since, started)
    rungs = [
        ("service", *service_rung(service)),
        ("api", *api_rung(readyz.result())),
        ("node", *node_rung(kinds.get("Node"), kinds.get("Lease"), wanted["node"], wanted["version"], boot_id, since)),
    ]
    if wanted["coredns"]:
        rungs.append(("coredns", *coredns_rung(items_of(dns.result()), booted)))
    return [{"rung": rung, "ok": ok, "said": said} for rung, ok, said in rungs]


def service_properties():
    return properties(UNIT, "--property=LoadState,ActiveState,SubState,Job,NRestarts,Result,ExecMainStartTimestamp")


def readiness(wanted):
    service = service_properties()
    booted = parse_time(properties("--property=UserspaceTimestamp").get("UserspaceTimestamp"))
    rungs = climb(wanted, service, booted or datetime.datetime.fromtimestamp(0, UTC))
    return {
        "rungs": rungs,
        "ready": all(rung["ok"] for rung in rungs),
        "active": service.get("ActiveState") == "active",
        "restarts": int(service.get("NRestarts") or 0),
    }


def look(wanted):
    service = service_properties()
    active = service.get("ActiveState") == "active"
    seen = {
        "machine": os.uname().machine,
        "version": installed_version(),
        "origin": origin(wanted["origin_file"]),
        "foreign": somebody_elses(wanted["origin_file"]),
        "found": sorted(path for pattern in wanted["find"] for path in glob.glob(pattern)),
        "unit": service.get("LoadState") == "loaded",
        "active": active,
        "differing": differing(wanted["files"]),
        "absent": [path for path in wanted["exist"] if not os.path.exists(path)],
        "links": links(wanted["links"]),
        "unread": unread(wanted["read_at_start"], parse_time(service.get("ExecMainStartTimestamp"))) if active else [],
    }
    deadline = time.monotonic() + wanted["wait"]
    before = None
    while wanted["cluster"]:
        seen.update(readiness(wanted))
        # systemd does not always count anew when it is asked to start.
        before = seen["restarts"] if before is None else min(before, seen["restarts"])
        hopeless = not seen["active"] and seen["restarts"] - before >= GIVE_UP_AFTER
        if seen["ready"] or hopeless or time.monotonic() >= deadline:
            break
        time.sleep(PAUSE)
    return seen


if __name__ == "__main__":
    print(json.dumps(look({**DEFAULTS, **json.loads(sys.argv[1])})))
