# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Look once at the fake GPU operator and its nodes; print as JSON what is there and what is to be done. Change nothing.

The one argument is a JSON object with the keys of DEFAULTS. `judge` is a pure function of what was seen.
"""

import base64
import datetime
import gzip
import json
import re
import subprocess
import sys
import time

import yaml

K3S = "/usr/local/bin/k3s"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
REGISTERS_WITHIN = 20
UTC = datetime.timezone.utc
EPOCH = datetime.datetime.fromtimestamp(0, UTC)

DEFAULTS = {
    "kubeconfig": "",
    "namespace": "",
    "release": "",
    "chart": "",
    "chart_version": "",
    "node": "",
    "resource": "nvidia.com/gpu",
    "pool": "default",
    "pool_label": "",
    "pool_size": None,
    "default_size": 0,
    "values": {},
    "values_file": "",
    "until": "look",
    "wait": 0,
}
PAUSE = 0.5
# What may be waited for.
REACHED = {
    "look": lambda seen: True,
    "topologies_exist": lambda seen: not seen["lacking"],
    "ready_or_stuck": lambda seen: seen["ready"] or bool(seen["restart"]),
    "ready": lambda seen: seen["ready"],
}


def run(*argv, timeout=30):
    """Return (exit status, standard output, standard error) of a command."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    except OSError as error:
        return 127, "", f"{argv[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return 124, "", f"{argv[0]}: no answer within {timeout} s"
    return done.returncode, done.stdout, done.stderr.strip()


def parse_time(text):
    """Read a time as Kubernetes (RFC 3339) or systemd (us+utc) writes it, in whole seconds."""
    found = re.search(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)", text or "")
    if not found:
        return None
    return datetime.datetime.strptime(" ".join(found.groups()), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)


def merge(base, over):
    """Merge two trees of mappings; the second wins."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            value = merge(merged[key], value)
        merged[key] = value
    return merged


def covers(have, want):
    """Say whether every leaf of the second tree is in the first one."""
    if isinstance(want, dict):
        return isinstance(have, dict) and all(key in have and covers(have[key], value) for key, value in want.items())
    return have == want


def size_in(values, pool):
    """Return the size of the pool that Helm values ask for, or None."""
    for key in ("topology", "nodePools", pool, "gpuCount"):
        if not isinstance(values, dict) or key not in values:
            return None
        values = values[key]
    return values


def release_of(secrets, name):
    """Return the newest revision of a Helm release, from the Secrets that Helm keeps."""
    newest = None
    for secret in secrets:
        labels = secret["metadata"].get("labels") or {}
        if secret.get("type") == "helm.sh/release.v1" and labels.get("name") == name:
            revision = int(labels.get("version", 0))
            if newest is None or revision > newest[0]:
                newest = (revision, secret)
    if newest is None:
        return None
    revision, secret = newest
    body = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    chart = body.get("chart", {}).get("metadata", {})
    return {
        "revision": revision,
        "secret": secret["metadata"]["name"],
        "status": body.get("info", {}).get("status"),
        "chart": chart.get("name"),
        "chart_version": chart.get("version"),
        "values": body.get("config") or {},
        "workloads": workloads_of(body.get("manifest") or ""),
    }


def workloads_of(manifest):
    """Return what a release's manifest makes run: "kind/name" -> replicas, None for a DaemonSet."""
    return {
        f"{document['kind'].lower()}/{document['metadata']['name']}": (
            document.get("spec", {}).get("replicas", 1) if document["kind"] == "Deployment" else None
        )
        for document in yaml.safe_load_all(manifest)
        if isinstance(document, dict) and document.get("kind") in ("Deployment", "DaemonSet")
    }


def drift(workloads, items):
    """Say in which ways the cluster no longer has what the release made run."""
    there = {f"{item['kind'].lower()}/{item['metadata']['name']}": item.get("spec", {}) for item in items}
    said = []
    for name, replicas in sorted(workloads.items()):
        if name not in there:
            said.append(f"{name} is gone")
        elif replicas is not None and there[name].get("replicas", 1) != replicas:
            said.append(f"{name} was scaled to {there[name].get('replicas', 1)}, the release has {replicas}")
    return said


def wanted_release(release, want):
    """Return (pool size, values, what is wrong with the request)."""
    present = release["values"] if release else {}
    size = None if want["pool_size"] in (None, "") else int(want["pool_size"])
    if want["values_file"]:
        values = yaml.safe_load(want["file_text"]) or {}
        said = size_in(values, want["pool"])
        if size is None:
            size = said
        if not isinstance(said, int) or said != size:
            mistake = f"{want['values_file']} gives the pool {want['pool']} a gpuCount of {said}, wanted {size}"
            return size, values, mistake
        return size, values, ""
    if size is None:
        size = size_in(present, want["pool"])
    if not isinstance(size, int):
        size = int(want["default_size"])
    if size < 1:
        return size, present, f"fake_gpu_operator_pool_size is {size}; a pool has 1 GPU for each node or more"
    pool = {"topology": {"nodePools": {want["pool"]: {"gpuCount": size}}}}
    return size, merge(present, merge(want["values"], pool)), ""


def gpus_in(configmap):
    try:
        topology = yaml.safe_load(configmap.get("data", {}).get("topology.yml", "")) or {}
        return len(topology.get("gpus") or [])
    except (yaml.YAMLError, AttributeError):
        return None


def settled(workload):
    """Say whether a Deployment or DaemonSet has rolled out what its spec says."""
    status = workload.get("status", {})
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return False
    if workload["kind"] == "DaemonSet":
        count = status.get("desiredNumberScheduled", 0)
        return status.get("updatedNumberScheduled", 0) >= count and status.get("numberAvailable", 0) >= count
    count = workload.get("spec", {}).get("replicas", 1)
    return all(status.get(key, 0) == count for key in ("replicas", "updatedReplicas", "availableReplicas"))


def living(items):
    return [
        item
        for item in items
        if item["kind"] == "Pod"
        and "deletionTimestamp" not in item["metadata"]
        and item.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    ]


def started_at(pod):
    """Return when the last container of a pod started, or None when one does not run."""
    states = pod.get("status", {}).get("containerStatuses") or []
    starts = [parse_time(state.get("state", {}).get("running", {}).get("startedAt")) for state in states]
    return max(starts) if starts and all(starts) else None


def complaint(pod):
    for kind in ("initContainerStatuses", "containerStatuses"):
        for state in pod.get("status", {}).get(kind) or []:
            waiting = state.get("state", {}).get("waiting")
            if waiting:
                return f"{waiting.get('reason')} {waiting.get('message', '')}".strip()
    return pod.get("status", {}).get("phase", "")


def stuck(pod, topology, shown, size, host):
    """Say why a plugin's pod will not bring its node to the size by itself; an empty text when it may yet."""
    if pod is None:
        return ""
    start = started_at(pod)
    if start is None:
        return "waits after a failure" if complaint(pod).startswith("CrashLoopBackOff") else ""
    if start < host["booted"]:
        return ""
    if start < host["kubelet_started"]:
        return "has not registered with the kubelet that runs now"
    if shown != size:
        if start <= topology["created"]:
            return "has read the topology that was there before"
        if (host["now"] - start).total_seconds() > REGISTERS_WITHIN:
            return "does not make its node show what the topology says"
    return ""


def judge(items, want, host):
    """Say what is there, what is missing until all is ready, and what is to be done about it."""
    kinds = {}
    for item in items:
        kinds.setdefault(item["kind"], []).append(item)
    release = release_of(kinds.get("Secret", []), want["release"])
    size, values, mistake = wanted_release(release, want)
    topologies = {
        item["metadata"]["labels"]["node-name"]: {
            "name": item["metadata"]["name"],
            "count": gpus_in(item),
            "created": parse_time(item["metadata"]["creationTimestamp"]),
            "kwok": (item["metadata"].get("annotations") or {}).get("kwok.x-k8s.io/node") == "fake",
        }
        for item in kinds.get("ConfigMap", [])
        if "node-name" in (item["metadata"].get("labels") or {})
    }
    pods = living(items)
    plugins = {
        pod.get("spec", {}).get("nodeName"): pod
        for pod in pods
        if (pod["metadata"].get("labels") or {}).get("app") == "device-plugin"
    }
    kwok_plugins = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") == "kwok-gpu-device-plugin"]

    missing, wrong, lacking, unlabelled, restart, names = [], [], [], [], {}, []
    upgrade = ""
    if release is None:
        upgrade = f"the release {want['release']} is not installed"
    elif (release["chart"], release["chart_version"]) != (want["chart"], want["chart_version"]):
        upgrade = f"the release is of {release['chart']} {release['chart_version']}"
    elif release["status"] != "deployed":
        upgrade = f"the release is {release['status']}"
    elif not covers(release["values"], values):
        upgrade = "the release has other values"
    drifted = drift(release["workloads"], kinds.get("Deployment", []) + kinds.get("DaemonSet", [])) if release else []
    missing += ([upgrade] if upgrade else []) + drifted

    for node in kinds.get("Node", []):
        meta, status = node["metadata"], node.get("status", {})
        name, labels = meta["name"], meta.get("labels") or {}
        kwok = (meta.get("annotations") or {}).get("kwok.x-k8s.io/node") == "fake"
        if labels.get(want["pool_label"]) != want["pool"]:
            if name == want["node"]:
                unlabelled.append(name)
                missing.append(f"node {name} lacks the label {want['pool_label']}={want['pool']}")
            else:
                continue
        names.append(name)
        shown = int(status.get("allocatable", {}).get(want["resource"], 0))
        topology = topologies.get(name)
        if topology is None:
            lacking.append(f"topology-{name}")
            missing.append(f"node {name} has no ConfigMap topology-{name}")
        elif topology["count"] != size or topology["kwok"] != kwok:
            wrong.append(topology["name"])
            missing.append(f"ConfigMap {topology['name']} holds {topology['count']} GPUs, wanted {size}")
        else:
            pod = (kwok_plugins or [None])[0] if kwok else plugins.get(name)
            why = stuck(pod, topology, shown, size, host)
            if why:
                restart["deployment/kwok-gpu-device-plugin" if kwok else "daemonset/device-plugin"] = why
                missing.append(f"the plugin of node {name} {why}")
            elif pod is None or started_at(pod) is None:
                said = f": {complaint(pod)}" if pod else ""
                missing.append(f"the plugin of node {name} does not run{said}")
        if name == want["node"] and status.get("nodeInfo", {}).get("bootID") != host["boot_id"]:
            missing.append(f"node {name} still reports an earlier boot")
        if shown != size:
            missing.append(f"node {name} has {shown} allocatable {want['resource']}, wanted {size}")
        if not labels.get("nvidia.com/gpu.product"):
            missing.append(f"node {name} has no label nvidia.com/gpu.product")
    if want["node"] not in names:
        missing.append(f"node {want['node']} is not registered")

    unsettled = [
        f"{item['kind'].lower()}/{item['metadata']['name']}"
        for item in kinds.get("Deployment", []) + kinds.get("DaemonSet", [])
        if not settled(item)
    ]
    missing += [f"{name} has not rolled out" for name in unsettled]
    # Pods of a node without a kubelet never start again.
    mimed = {
        node["metadata"]["name"]
        for node in kinds.get("Node", [])
        if (node["metadata"].get("annotations") or {}).get("kwok.x-k8s.io/node") == "fake"
    }
    for pod in pods:
        start = started_at(pod)
        if start is not None and start < host["booted"] and pod.get("spec", {}).get("nodeName") not in mimed:
            missing.append(f"pod {pod['metadata']['name']} has not started again since this boot")

    return {
        "release": release,
        "interrupted": bool(release) and release["status"] not in ("deployed", "uninstalling"),
        "uninstalling": bool(release) and release["status"] == "uninstalling",
        "size": size,
        "release_values": values,
        "mistake": mistake,
        "upgrade": upgrade,
        "drifted": [] if upgrade else drifted,
        "unlabelled": unlabelled,
        "lacking": lacking,
        "wrong": wrong,
        "restart": restart,
        "unsettled": unsettled,
        "missing": missing,
        "ready": not missing,
    }


def host_now():
    _status, out, _error = run(
        "systemctl", "show", "k3s.service", "--timestamp=us+utc", "--property=ExecMainStartTimestamp"
    )
    _status, booted, _error = run("systemctl", "show", "--timestamp=us+utc", "--property=UserspaceTimestamp")
    with open(BOOT_ID, encoding="ascii") as stream:
        boot_id = stream.read().strip()
    return {
        "boot_id": boot_id,
        "booted": parse_time(booted) or EPOCH,
        "kubelet_started": parse_time(out) or EPOCH,
        "now": datetime.datetime.now(UTC),
    }


def look(want):
    status, out, error = run(
        K3S, "kubectl", "--kubeconfig", want["kubeconfig"], "--namespace", want["namespace"], "--request-timeout=20s",
        "get", "nodes,secrets,configmaps,deployments,daemonsets,pods", "--output=json",
    )  # fmt: skip
    if status:
        return {"api": False, "error": error, "mistake": ""}
    want["file_text"] = ""
    if want["values_file"]:
        try:
            with open(want["values_file"], encoding="utf-8") as stream:
                want["file_text"] = stream.read()
        except OSError as problem:
            return {"api": True, "error": "", "mistake": f"{want['values_file']}: {problem.strerror}"}
    return {"api": True, "error": "", **judge(json.loads(out)["items"], want, host_now())}


def wait(want):
    """Look until what is waited for is reached or the time is over."""
    deadline = time.monotonic() + want["wait"]
    while True:
        seen = look(want)
        seen["reached"] = seen["api"] and not seen["mistake"] and REACHED[want["until"]](seen)
        if seen["reached"] or seen["mistake"] or time.monotonic() >= deadline:
            return seen
        time.sleep(PAUSE)


if __name__ == "__main__":
    print(json.dumps(wait({**DEFAULTS, **json.loads(sys.argv[1])})))
