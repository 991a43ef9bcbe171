#!/usr/bin/env python3
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much it costs to count the GPUs of a large cluster, by gpu_ledger and by other means, in one run.

Every way reads the same made-up cluster from a server on the loopback, and is a process of its own: its CPU time and
its largest memory are those of the process and its children. A wrong answer is shown as wrong.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cluster

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / ".venv"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsb-fake-gpu-lab" / "bench"
MODULE = "ansible_collections.gsb.fake_gpu_lab.plugins.modules.gpu_ledger"
JQ = (
    '[.items[] | select(.spec.nodeName and (.status.phase == "Pending" or .status.phase == "Running"))'
    ' | .spec.containers[].resources.limits["nvidia.com/gpu"] // "0" | tonumber] | add // 0'
)
JQ_NODES = '[.items[].status.allocatable["nvidia.com/gpu"] // "0" | tonumber] | add // 0'


@dataclass
class Cost:
    """Seconds of wall and CPU time, peak memory in MiB, what was answered."""

    wall: float
    cpu: float
    memory: float
    answer: object


class NotHere(Exception):
    """The tool is not installed, or cannot be run."""


def measure(command: list[str], environment: dict[str, str], stdin: str = "", seconds: float = 1800) -> Cost:
    """Runs it in a process of its own kind, so that the children of one do not count for another."""
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as errors,
    ):
        given.write(stdin)
        given.seek(0)
        begun = time.monotonic()
        watcher = subprocess.Popen(
            [sys.executable, __file__, "--watch", *command], stdin=given, stdout=said, stderr=errors, env=environment
        )
        try:
            watcher.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            watcher.kill()
            raise NotHere(f"not done after {seconds:.0f} s") from None
        wall = time.monotonic() - begun
        said.seek(0)
        errors.seek(0)
        lines = said.read().strip().splitlines()
        if watcher.returncode:
            raise NotHere((errors.read().strip() or "\n".join(lines)).splitlines()[-1][:200])
    usage = json.loads(lines[-1])
    return Cost(wall, usage["cpu"], usage["memory"], "\n".join(lines[:-1]))


def watch(command: list[str]) -> int:
    status = subprocess.run(command).returncode
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n" + json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1024}), flush=True)
    return status


class Ways:
    """All the ways; each returns what it cost."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "bench",
                    "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
                    "clusters": [{"name": "bench", "cluster": {"server": url}}],
                    "users": [{"name": "bench", "user": {}}],
                }
            )
        )
        self.environment = {
            **os.environ,
            "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(VENV / "collections"),
            "KUBECONFIG": str(self.kubeconfig),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "NO_PROXY": "127.0.0.1",
        }

    def python(self, name: str) -> Cost:
        cost = measure([str(VENV / "bin" / "python"), str(HERE / "methods.py"), name, self.url], self.environment)
        return Cost(cost.wall, cost.cpu, cost.memory, json.loads(str(cost.answer).strip().splitlines()[-1]))

    def gpu_ledger(self, **options: object) -> Cost:
        """The module as a managed host runs it: its arguments on standard input."""
        arguments = {"ANSIBLE_MODULE_ARGS": {"kubeconfig": str(self.kubeconfig), "timeout": 1200, **options}}
        cost = measure([str(VENV / "bin" / "python"), "-m", MODULE], self.environment, json.dumps(arguments))
        result = json.loads(str(cost.answer).strip())
        return Cost(
            cost.wall, cost.cpu, cost.memory, {key: result["ledger"][key] for key in cluster.Cluster(1, 0).truth}
        )

    def k8s_info(self) -> Cost:
        playbook = HERE / "k8s_info.yml"
        cost = measure(["ansible-playbook", "-i", "localhost,", str(playbook)], self.environment)
        sums = re.search(r"LEDGER (-?\d+) (-?\d+) (-?\d+)", str(cost.answer))
        if not sums:
            raise NotHere("no sums in the output")
        total, requested, free = map(int, sums.groups())
        return Cost(
            cost.wall, cost.cpu, cost.memory, {"allocatable_total": total, "requested": requested, "free": free}
        )

    def kubectl_jq(self) -> Cost:
        for tool in ("kubectl", "jq"):
            if not shutil.which(tool):
                raise NotHere(f"no {tool} in PATH")
        script = f"kubectl get nodes -o json | jq '{JQ_NODES}'; kubectl get pods -A -o json | jq '{JQ}'"
        cost = measure(["bash", "-c", script], self.environment)
        total, requested = map(int, str(cost.answer).split())
        return Cost(
            cost.wall,
            cost.cpu,
            cost.memory,
            {"allocatable_total": total, "requested": requested, "free": total - requested},
        )

    def view_allocations(self) -> Cost:
        tool = shutil.which("kubectl-view-allocations") or shutil.which(
            str(Path.home() / ".cargo/bin/kubectl-view-allocations")
        )
        if not tool:
            raise NotHere("kubectl-view-allocations is not installed: cargo install kubectl-view-allocations")
        cost = measure([tool, "-r", cluster.GPU, "-g", "resource", "-o", "csv"], self.environment)
        header, row = csv.reader(str(cost.answer).strip().splitlines())
        said = dict(zip(header, row, strict=True))
        columns = {"allocatable_total": "Allocatable", "requested": "Requested", "free": "Free"}
        return Cost(cost.wall, cost.cpu, cost.memory, {key: int(float(said[one])) for key, one in columns.items()})


WAYS = {
    "bare interpreter": lambda ways: ways.python("interpreter"),
    "read the bytes, protobuf": lambda ways: ways.python("read_protobuf"),
    "read the bytes, as a module": lambda ways: ways.python("read_as_module"),
    "read the bytes, JSON": lambda ways: ways.python("read_json"),
    "gpu_ledger": lambda ways: ways.gpu_ledger(),
    "gpu_ledger, details: summary": lambda ways: ways.gpu_ledger(details="summary"),
    "json.loads, page by page": lambda ways: ways.python("json_pages"),
    "kubernetes client, typed": lambda ways: ways.python("typed_client"),
    "kubernetes client, dynamic": lambda ways: ways.python("dynamic_client"),
    "k8s_info and Jinja": lambda ways: ways.k8s_info(),
    "kubectl -o json | jq": lambda ways: ways.kubectl_jq(),
    "kubectl-view-allocations": lambda ways: ways.view_allocations(),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--only", default="", help="comma-separated beginnings of names")
    options = parser.parse_args()
    wanted = tuple(filter(None, options.only.split(",")))
    print(f"making {options.nodes} nodes and {options.pods} pods, once, in {CACHE}", flush=True)
    folder = cluster.made(CACHE, options.nodes, options.pods)
    truth = json.loads((folder / "truth.json").read_text())
    server = subprocess.Popen([sys.executable, HERE / "server.py", folder], stdout=subprocess.PIPE, text=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            ways = Ways(f"http://127.0.0.1:{int(server.stdout.readline())}", Path(scratch))
            print(f"{'way':30} {'wall s':>8} {'CPU s':>8} {'MiB':>7}  answer", flush=True)
            for name, way in WAYS.items():
                if wanted and not name.startswith(wanted):
                    continue
                try:
                    cost = way(ways)
                except NotHere as reason:
                    print(f"{name:30} {'-':>8} {'-':>8} {'-':>7}  {reason}", flush=True)
                    continue
                verdict = "-" if cost.answer is None else "right" if cost.answer == truth else f"WRONG: {cost.answer}"
                print(f"{name:30} {cost.wall:8.2f} {cost.cpu:8.2f} {cost.memory:7.0f}  {verdict}", flush=True)
    finally:
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(watch(sys.argv[2:]) if sys.argv[1:2] == ["--watch"] else main())
