# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The lab's own command in a baked image.

    gpu-lab status       where the lab is on its way to ready; ends with 1 while it is not
    gpu-lab restore      put back the GPU pods that the kubelet rejected after a restart
    gpu-lab wait         tell systemd where the lab is until it is ready (gpu-lab-ready.service)
    gpu-lab first-boot   install KWOK and the operator once (gpu-lab-first-boot.service)
    gpu-lab motd         what a login shows

`judge`, `rejected`, `born_again` and `motd` are pure functions of what was seen.
"""

import argparse
import base64
import contextlib
import datetime
import functools
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

HOME = "/opt/gsb-fake-gpu-lab"
SETTINGS = f"{HOME}/image.json"
STATE = "/var/lib/gsb-fake-gpu-lab"
DONE = f"{STATE}/first-boot.done"
KEPT = f"{STATE}/rejected"
KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
ORIGIN = "/etc/gsb-fake-gpu-lab.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
READY = "/run/gsb-fake-gpu-lab/ready.json"
EPOCH = "/usr/lib/clock-epoch"
LEASE_AGE = 40
KWOK_AFTER = 300
UTC = datetime.timezone.utc
# The phases on the way to ready, in their order.
PHASES = ("k3s", "api", "node", "boot", "ready", "operator", "plugin", "gpus", "product")


def text(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def parse_time(said):
    """Read a time as Kubernetes (RFC 3339) or systemd (us+utc) writes it."""
    found = re.search(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?", said or "")
    if not found:
        return None
    day, clock, fraction = found.groups()
    moment = datetime.datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S")
    return moment.replace(microsecond=int((fraction or "0").ljust(6, "0")), tzinfo=UTC)


# What is seen


class Api:
    """One kept connection to the API server, as the administrator whom the kubeconfig names."""

    def __init__(self, path=KUBECONFIG):
        config = text(path)
        found = dict(
            re.findall(
                r"^\s*(server|certificate-authority-data|client-certificate-data|client-key-data): *(\S+)", config, re.M
            )
        )
        self.server = urllib.parse.urlsplit(found["server"])
        authority, certificate, key = (
            base64.b64decode(found[name]).decode()
            for name in ("certificate-authority-data", "client-certificate-data", "client-key-data")
        )
        context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile("w", dir="/run", prefix="gpu-lab-") as pair:
            pair.write(f"{certificate}\n{key}\n")
            pair.flush()
            context.load_cert_chain(pair.name)
        self.connection = http.client.HTTPSConnection(
            self.server.hostname, self.server.port, context=context, timeout=10
        )

    def ask(self, path, method="GET", body=None):
        """Return (HTTP status, answer); 0 when nobody answers."""
        try:
            headers = {"Accept": "application/json", "Content-Type": "application/json"}
            self.connection.request(method, path, body and json.dumps(body), headers)
            response = self.connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return 0, str(error)
        try:
            return response.status, json.loads(answer)
        except ValueError:
            return response.status, answer.decode(errors="replace")

    def get(self, path):
        status, answer = self.ask(path)
        return answer if status == 200 else None

    def items(self, path):
        return (self.get(path) or {}).get("items", [])


def show(*arguments):
    done = subprocess.run(
        ["systemctl", "show", "--timestamp=us+utc", *arguments], capture_output=True, text=True, check=False
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@functools.lru_cache(maxsize=1)
def this_boot():
    """When this boot began; a container counts from the start of its own PID 1."""
    seen = show("--property=UserspaceTimestamp,UserspaceTimestampMonotonic")
    inside = os.path.exists("/run/systemd/container")
    begun = int(seen.get("UserspaceTimestampMonotonic") or 0) / 1e6 if inside else 0.0
    return {
        "boot_id": text(BOOT_ID).strip(),
        "booted": parse_time(seen.get("UserspaceTimestamp")),
        "begun": begun,
    }


def begun_by(now, booted, seconds):
    """When the boot began, `seconds` ago: by the clock that was then, or by the one that was set back since."""
    return min(booted or now, now - datetime.timedelta(seconds=seconds))


def k3s_begun():
    """When k3s was started last; None while it is being started or stopped."""
    seen = show("--property=ActiveState,ExecMainStartTimestamp,ExecMainStartTimestampMonotonic", "k3s")
    if seen.get("ActiveState") != "active":
        return None
    begun = int(seen.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    return begun_by(
        datetime.datetime.now(UTC), parse_time(seen.get("ExecMainStartTimestamp")), time.monotonic() - begun
    )


def host_now():
    boot, now = this_boot(), datetime.datetime.now(UTC)
    return {**boot, "booted": begun_by(now, boot["booted"], time.monotonic() - boot["begun"]), "now": now}


def look(api, want):
    """Ask for what the phases are judged by; None for what nobody answers."""
    if api is None:
        return {}
    status, answer = api.ask("/readyz")
    seen = {"readyz": answer if status else None}
    if status != 200:
        return seen
    name, space = want["node"], want["operator_namespace"]
    seen["node"] = api.get(f"/api/v1/nodes/{name}")
    if seen["node"] is None:
        return seen
    seen["lease"] = api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
    seen["topology"] = api.get(f"/api/v1/namespaces/{space}/configmaps/topology-{name}")
    seen["plugins"] = api.items(
        f"/api/v1/namespaces/{space}/pods?labelSelector=app%3Ddevice-plugin&fieldSelector=spec.nodeName%3D{name}"
    )
    seen["failed"] = api.items("/api/v1/pods?fieldSelector=status.phase%3DFailed")
    return seen


# What follows from it


def started_at(pod):
    states = pod.get("status", {}).get("containerStatuses") or []
    starts = [parse_time(state.get("state", {}).get("running", {}).get("startedAt")) for state in states]
    return max(starts) if starts and all(starts) else None


def conditions(item):
    return {entry["type"]: entry for entry in item.get("status", {}).get("conditions") or []}


def judge(seen, want, host):
    """Return (phases that are reached, what the next one waits for, GPUs, product).

    Everything is of this boot: after a restart the API tells for a while what was true before.
    """
    reached = []

    def at(said, gpus=0, product=""):
        return {"reached": reached, "said": said, "gpus": gpus, "product": product}

    name, resource = want["node"], want["resource"]
    if not seen:
        return at("k3s makes its certificates and starts")
    reached.append("k3s")
    if seen.get("readyz") != "ok":
        return at("the API server starts")
    reached.append("api")
    node = seen.get("node")
    if not node:
        return at(f"node {name} registers")
    reached.append("node")
    if node.get("status", {}).get("nodeInfo", {}).get("bootID") != host["boot_id"]:
        return at(f"node {name} still reports an earlier boot")
    reached.append("boot")
    ready = conditions(node).get("Ready", {})
    renewed = parse_time(((seen.get("lease") or {}).get("spec") or {}).get("renewTime"))
    since = max(host["booted"], host["now"] - datetime.timedelta(seconds=LEASE_AGE))
    if ready.get("status") != "True":
        return at(f"node {name} becomes Ready: {ready.get('message', '')}".rstrip(": "))
    if renewed is None or renewed < since:
        return at(f"the kubelet of node {name} has not renewed its lease")
    heard = parse_time(ready.get("lastHeartbeatTime"))
    if "k3s" in host and host["k3s"] is None:
        return at("k3s is not up yet")
    if "k3s" in host and (heard is None or heard < host["k3s"].replace(microsecond=0)):
        return at(f"node {name} still reports what was before k3s was started")
    reached.append("ready")
    topology = ((seen.get("topology") or {}).get("data") or {}).get("topology.yml")
    if topology is None:
        return at("the GPU operator starts")
    reached.append("operator")
    starts = [started_at(pod) for pod in seen.get("plugins") or [] if "deletionTimestamp" not in pod["metadata"]]
    if not any(start and start >= host["booted"].replace(microsecond=0) for start in starts):
        return at("the device plugin starts")
    reached.append("plugin")
    gpus = int(node["status"].get("allocatable", {}).get(resource, 0))
    wanted = max(len(re.findall(r"^ *- id:|^ *id:", topology, re.M)), int(want["gpus"]))
    if gpus != wanted:
        return at(f"node {name} has {gpus} of {wanted} allocatable {resource}", gpus)
    reached.append("gpus")
    product = (node["metadata"].get("labels") or {}).get("nvidia.com/gpu.product", "")
    if not product:
        return at(f"node {name} gets its label nvidia.com/gpu.product", gpus)
    reached.append("product")
    return at("", gpus, product)


def turned_away(pod, resource):
    status = pod.get("status") or {}
    return status.get("phase") == "Failed" and status.get("reason") in ("UnexpectedAdmissionError", f"OutOf{resource}")


def rejected(pods, resource):
    """Pods of GPUs that the kubelet turned away when it started, and that nobody makes again."""
    return [
        pod
        for pod in pods
        if turned_away(pod, resource)
        and not pod["metadata"].get("ownerReferences")
        and any(
            resource in ((one.get("resources") or {}).get("limits") or {})
            for kind in ("initContainers", "containers")
            for one in pod["spec"].get(kind) or []
        )
    ]


def said_name(pod, want):
    """Name of a pod, with its namespace when that is not the lab's."""
    meta = pod["metadata"]
    return meta["name"] if meta.get("namespace") in (None, want["namespace"]) else f"{meta['namespace']}/{meta['name']}"


def born_again(pod):
    """The same pod, as its author would write it."""
    applied = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/last-applied-configuration")
    if applied:
        return json.loads(applied)
    meta = {
        key: pod["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if pod["metadata"].get(key)
    }
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "ephemeralContainers")}

    def own(entries):
        return [entry for entry in entries or [] if not entry["name"].startswith("kube-api-access-")]

    spec["volumes"] = own(spec.get("volumes"))
    for kind in ("initContainers", "containers"):
        for one in spec.get(kind) or []:
            one["volumeMounts"] = own(one.get("volumeMounts"))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def motd(verdict, names, want, seconds, origin):
    """What a login shows, in Korean and English."""
    ready = verdict["reached"][-1:] == [PHASES[-1]]
    lines = [f"가짜 GPU 실습 / GPU lab without a GPU    {origin}".rstrip(), ""]
    if ready:
        after_ko = f", 부팅 {seconds:.0f}초 뒤" if seconds else ""
        after_en = f", {seconds:.0f} s after power-on" if seconds else ""
        lines += [
            f"준비됨: {want['node']} 노드에 {want['resource']} {verdict['gpus']}개 ({verdict['product']}){after_ko}",
            f"Ready:  node {want['node']} has {verdict['gpus']} {want['resource']} ({verdict['product']}){after_en}",
        ]
    else:
        lines += [
            f"준비 중 ({len(verdict['reached'])}/{len(PHASES)}): gpu-lab status 로 확인하세요",
            f"Not ready yet ({len(verdict['reached'])}/{len(PHASES)}): {verdict['said']}",
        ]
    if names:
        lines += [
            "",
            f"다시 시작한 뒤 kubelet이 거부한 GPU 파드 {len(names)}개: {', '.join(names)}. 되살리기: gpu-lab restore",
            f"GPU pods that the kubelet rejected after the restart: {', '.join(names)}. Put them back: gpu-lab restore",
        ]
    lines += [
        "",
        "단계 하나 / one step:   ansible-playbook lab.yml --tags step1",
        "채점 / verdicts:        ansible-playbook gsb.fake_gpu_lab.verify -e verify_lang=ko",
    ]
    return "\n".join(lines)


# The commands


def settings():
    return json.loads(text(SETTINGS))


def connect():
    try:
        return Api()
    except (OSError, KeyError, ValueError):
        return None


def notify(message):
    """sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
        channel.sendto(message.encode(), address)


def remembered():
    """Seconds from power-on to ready, when this boot has been ready."""
    try:
        seen = json.loads(text(READY))
        return seen["seconds"][PHASES[-1]]
    except (OSError, ValueError, KeyError):
        return 0.0


def origin():
    try:
        said = json.loads(text(ORIGIN))
        return f"k3s {said['versions']['k3s']} ({said['origin']})"
    except (OSError, ValueError, KeyError):
        return ""


def plug_in_again(api, want, plugins, since):
    """A plugin tells the kubelet of its GPUs once, when it starts: one that is older than this kubelet has to start anew."""
    for pod in plugins:
        start = started_at(pod)
        if start and since and start < since.replace(microsecond=0) and "deletionTimestamp" not in pod["metadata"]:
            api.ask(f"/api/v1/namespaces/{want['operator_namespace']}/pods/{pod['metadata']['name']}", "DELETE")


def rest(spent, least):
    """Before asking again, with the CPU seconds before the last time: asking must not be what a slow machine is slow by."""
    time.sleep(max(least, 3 * (time.process_time() - spent)))


def wait(want, pause=0.2):
    """Tell systemd where the lab is until it is ready; write down when each phase was reached."""
    seconds, api, last = {}, None, None
    while True:
        spent = time.process_time()
        api = api or connect()
        host = host_now()
        seen = look(api, want)
        verdict = judge(seen, want, host)
        if verdict["reached"][-1:] == [PHASES[-1]]:
            # Asked only now: at the boot every CPU second counts.
            verdict = judge(seen, want, {**host, "k3s": k3s_begun()})
        if remembered() and verdict["reached"][-1:] == ["plugin"]:
            plug_in_again(api, want, seen["plugins"], k3s_begun())
        for phase in verdict["reached"]:
            seconds.setdefault(phase, round(time.monotonic() - host["begun"], 1))
        count = len(verdict["reached"])
        if count == len(PHASES):
            break
        if verdict["said"] != last:
            last = verdict["said"]
            notify(f"STATUS={count}/{len(PHASES)}: {last}")
            print(f"{count}/{len(PHASES)} after {time.monotonic() - host['begun']:.1f} s: {last}", flush=True)
        if api and not verdict["reached"][1:]:
            # The certificates may be of another start.
            api.connection.close()
            api = None
        rest(spent, pause)
    if not remembered():
        # A restart of k3s later on says nothing about the boot.
        os.makedirs(os.path.dirname(READY), exist_ok=True)
        with open(READY, "w", encoding="utf-8") as stream:
            json.dump({"boot_id": host["boot_id"], "gpus": verdict["gpus"], "seconds": seconds}, stream)
    said = f"{verdict['gpus']} {want['resource']} ({verdict['product']}) on {want['node']}, {remembered()} s after power-on"
    gone = [said_name(pod, want) for pod in rejected(look(api, want).get("failed", []), want["resource"])]
    if gone:
        said += f"; rejected after the restart: {', '.join(gone)} (put them back: gpu-lab restore)"
    notify(f"READY=1\nSTATUS=ready: {said}")
    print(f"ready: {said}", flush=True)
    return 0


def status(want):
    verdict = judge(look(connect(), want), want, {**host_now(), "k3s": k3s_begun()})
    for number, phase in enumerate(PHASES, 1):
        print(f"{'ok' if phase in verdict['reached'] else '--':3} {number} {phase}")
    if verdict["said"]:
        print(f"not ready: {verdict['said']}")
        return 1
    took = f", {remembered():.1f} s after power-on" if remembered() else ""
    print(f"ready: {verdict['gpus']} {want['resource']} ({verdict['product']}) on {want['node']}{took}")
    return 0


def restore(want):
    """Delete and create each rejected pod; what was deleted is kept in a file until it is there again."""
    api = connect()
    if api is None or api.get("/readyz") != "ok":
        sys.exit("gpu-lab restore: the API server does not answer. Next: gpu-lab status")
    found = api.get("/api/v1/pods?fieldSelector=status.phase%3DFailed")
    if found is None:
        sys.exit("gpu-lab restore: the API server does not list the pods. Next: gpu-lab status")
    os.makedirs(KEPT, exist_ok=True)
    for pod in rejected(found["items"], want["resource"]):
        meta = pod["metadata"]
        name = f"{meta['namespace']}.{meta['name']}"
        with open(f"{KEPT}/.{name}.new", "w", encoding="utf-8") as stream:
            json.dump(born_again(pod), stream)
        os.replace(f"{KEPT}/.{name}.new", f"{KEPT}/{name}.json")
        api.ask(
            f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
            "DELETE",
            {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}},
        )
    failed = 0
    names = sorted(name for name in os.listdir(KEPT) if name.endswith(".json") and not name.startswith("."))
    for name in names:
        pod = json.loads(text(f"{KEPT}/{name}"))
        pods = f"/api/v1/namespaces/{name.split('.')[0]}/pods"
        code, answer = api.ask(pods, "POST", pod)
        pod["metadata"].setdefault("namespace", name.split(".")[0])
        there = api.get(f"{pods}/{pod['metadata']['name']}") if code == 409 else None
        if there and (turned_away(there, want["resource"]) or "deletionTimestamp" in there["metadata"]):
            code, answer = 0, "the rejected one is still there"
        if code == 201 or there and code == 409:
            os.unlink(f"{KEPT}/{name}")
            print(f"{said_name(pod, want)}: {'made again' if code == 201 else 'is there already'}")
        else:
            failed = 1
            said = answer.get("message") if isinstance(answer, dict) else answer
            print(
                f"{said_name(pod, want)}: not made again: {said}. Next: gpu-lab restore, or kubectl apply -f {KEPT}/{name}",
                file=sys.stderr,
            )
    if not names:
        print("There is no rejected GPU pod.")
    return failed


def run(*argv):
    """A command that may be tried again; ends the program with its words when it never works."""
    for attempt in range(1, 6):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        print(f"{argv[0]} (attempt {attempt}): {done.stderr.strip()}", file=sys.stderr, flush=True)
        time.sleep(1)
    raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")


def forget_half_done(api, want):
    """A helm that lost its power half-way leaves a release that is for ever being installed, and helm waits for it."""
    secrets = f"/api/v1/namespaces/{want['operator_namespace']}/secrets"
    for secret in api.items(f"{secrets}?labelSelector=owner%3Dhelm,name%3D{want['release']}"):
        if secret["metadata"]["labels"].get("status", "").startswith("pending-"):
            api.ask(f"{secrets}/{secret['metadata']['name']}", "DELETE")


def first_boot(want):
    """The operator as soon as the API answers, KWOK when the GPUs are there: on two CPUs each holds up the other."""
    if os.path.exists(DONE):
        return 0
    api = None
    spent = time.process_time()
    while api is None or api.get("/readyz") != "ok":
        rest(spent, 0.2)
        spent = time.process_time()
        api = connect()
    # The certificates of this cluster are never of a time to come, whatever the clock says at a later boot.
    with contextlib.suppress(OSError):
        if os.stat(EPOCH).st_mtime < time.time():
            os.utime(EPOCH)
    os.environ["KUBECONFIG"] = KUBECONFIG
    forget_half_done(api, want)
    run(
        "/usr/local/bin/helm", "upgrade", "--install", want["release"], want["chart"],
        "--namespace", want["operator_namespace"], "--create-namespace", "--values", want["values"],
    )  # fmt: skip
    deadline = time.monotonic() + KWOK_AFTER
    spent = time.process_time()
    while judge(look(api, want), want, host_now())["reached"][-1:] != [PHASES[-1]] and time.monotonic() < deadline:
        rest(spent, 0.5)
        spent = time.process_time()
    kubectl = ("/usr/local/bin/k3s", "kubectl")
    apply = (*kubectl, "apply", "--server-side", "--force-conflicts", "-f")
    run(*apply, f"{want['manifests']}/kwok.yaml")
    run(*kubectl, "wait", "--for=condition=Established", "--timeout=120s", "crd/stages.kwok.x-k8s.io")
    run(*apply, f"{want['manifests']}/stage-fast.yaml")
    os.makedirs(STATE, exist_ok=True)
    with open(DONE, "w", encoding="utf-8") as stream:
        stream.write(text(BOOT_ID))
    return 0


def greet(want):
    api = connect()
    if api:
        api.connection.timeout = 1.5
    seen = look(api, want)
    names = [said_name(pod, want) for pod in rejected(seen.get("failed", []), want["resource"])]
    print(motd(judge(seen, want, {**host_now(), "k3s": k3s_begun()}), names, want, remembered(), origin()))
    return 0


def main():
    parser = argparse.ArgumentParser(
        prog="gpu-lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"status": status, "restore": restore, "wait": wait, "first-boot": first_boot, "motd": greet}
    parser.add_argument("command", choices=commands, nargs="?", default="status")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("gpu-lab: only root can read the cluster's kubeconfig: sudo gpu-lab " + options.command)
    return commands[options.command](settings())


if __name__ == "__main__":
    sys.exit(main())
