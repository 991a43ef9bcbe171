# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up cluster of any size, as the answers of an API server: pages of JSON and of protobuf, and the true ledger.

One node in four has eight GPUs; about one pod in eight asks for some. A tenth of the pods has ended, one in fifty waits.
An object is about as large as a real one: labels, annotations, managedFields, statuses, fifty images on each node.
The same numbers always give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import typing as t
from pathlib import Path

import protobuf

GPU = "nvidia.com/gpu"
PAGE = 500
TIME = "2026-01-01T00:00:00Z"
VERSION = "12345678"
IMAGE = "registry.example/ml/training/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
DIGEST = hashlib.sha256(b"image").hexdigest()


def uid(of: object) -> str:
    text = hashlib.sha256(str(of).encode()).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def fields(*names: str) -> dict[str, t.Any]:
    """What a server-side apply owns, by the names of the fields."""
    return {f"f:{name}": {".": {}, "f:name": {}, "f:value": {}, "f:type": {}} for name in names}


OWNED = (
    ("kube-controller-manager", "", json.dumps({
        "f:metadata": fields("annotations", "labels", "ownerReferences", "generateName"),
        "f:spec": fields("containers", "args", "command", "env", "image", "imagePullPolicy", "ports", "resources",
                         "terminationMessagePath", "dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName",
                         "securityContext", "terminationGracePeriodSeconds", "tolerations", "volumes", "volumeMounts"),
    })),
    ("kubelet", "status", json.dumps({
        "f:status": fields("conditions", "containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs",
                           "startTime", "qosClass"),
    })),
)  # fmt: skip


class Cluster:
    """Attributes: nodes, pods (how many), truth (the ledger's sums)."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.nodes, self.pods = nodes, pods
        self.gpu_nodes = max(1, nodes // 4)
        self.truth = {"allocatable_total": 0, "requested": 0, "free": 0}
        self._random = random.Random(f"{nodes} {pods}")

    def node(self, index: int) -> dict[str, t.Any]:
        with_gpu = index < self.gpu_nodes
        name = self.node_name(index)
        amounts = {"cpu": "96", "ephemeral-storage": "900Gi", "memory": "700Gi", "pods": "110"}
        if with_gpu:
            amounts[GPU] = "8"
            self.truth["allocatable_total"] += 8
        labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{number}": "true" for number in range(40)}
        return {
            "metadata": {
                "name": name,
                "uid": uid(name),
                "resourceVersion": "1",
                "creationTimestamp": TIME,
                "labels": {**labels, "kubernetes.io/hostname": name},
                "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            },
            "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [
                    {
                        "type": kind,
                        "status": "True" if kind == "Ready" else "False",
                        "lastHeartbeatTime": TIME,
                        "lastTransitionTime": TIME,
                        "reason": "KubeletReady",
                        "message": "kubelet is posting ready status",
                    }
                    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
                ],
                "nodeInfo": {
                    "machineID": uid(name),
                    "systemUUID": uid(name),
                    "bootID": uid(name),
                    "kernelVersion": "6.1",
                    "osImage": "Debian GNU/Linux 12",
                    "containerRuntimeVersion": "containerd://2.4.0",
                    "kubeletVersion": "v1.36.0",
                    "kubeProxyVersion": "v1.36.0",
                    "operatingSystem": "linux",
                    "architecture": "amd64",
                },
                "images": [
                    {
                        "names": [
                            f"registry.example/images/{number}@sha256:{DIGEST}",
                            f"registry.example/images/{number}:v1.{number}",
                        ],
                        "sizeBytes": 10**8 + number,
                    }
                    for number in range(50)
                ],
            },
        }

    def node_name(self, index: int) -> str:
        if index < self.gpu_nodes:
            return f"gpu-{index:05d}"
        return f"cpu-{index - self.gpu_nodes:05d}"

    def pod(self, index: int) -> dict[str, t.Any]:
        gpus = self._random.choice((1, 1, 2, 4, 8)) if self._random.random() < 0.12 else 0
        fate = self._random.random()
        phase = "Succeeded" if fate < 0.08 else "Failed" if fate < 0.1 else "Pending" if fate < 0.14 else "Running"
        placed = not 0.12 <= fate < 0.14
        place = (
            (self._random.randrange(self.gpu_nodes) if gpus else self._random.randrange(self.gpu_nodes, self.nodes))
            if self.nodes > self.gpu_nodes
            else 0
        )
        if placed and phase in ("Pending", "Running"):
            self.truth["requested"] += gpus
        limits = {"cpu": "4", "memory": "16Gi", **({GPU: str(gpus)} if gpus else {})}
        name, namespace = f"trainer-{index // 7:06d}-{uid(index)[:5]}", f"team-{index % 200:03d}"
        address = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
        spec = {"nodeName": self.node_name(place)} if placed else {}
        return {
            "metadata": {
                "name": name,
                "generateName": name[:-5],
                "namespace": namespace,
                "uid": uid(index),
                "resourceVersion": str(10**7 + index),
                "creationTimestamp": TIME,
                "labels": {
                    "app": f"app-{index % 997}",
                    "app.kubernetes.io/instance": f"instance-{index % 997}",
                    "app.kubernetes.io/managed-by": "Helm",
                    "pod-template-hash": "7c9d8f6b5c",
                    "team": namespace,
                },
                "annotations": {"prometheus.io/scrape": "true", "kubernetes.io/config.seen": TIME},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": name[:-6],
                        "uid": uid(index // 7),
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
                "managedFields": [
                    {
                        "manager": manager,
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": TIME,
                        "fieldsType": "FieldsV1",
                        "fieldsV1": text,
                        "subresource": subresource,
                    }
                    for manager, subresource, text in OWNED
                ],
            },
            "spec": {
                **spec,
                "volumes": [
                    {
                        "name": "kube-api-access",
                        "projected": {
                            "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}],
                            "defaultMode": 420,
                        },
                    }
                ],
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "command": ["/bin/sh", "-c"],
                        "args": ["exec python -m train --config /etc/config/config.yaml"],
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "env": [{"name": f"A{number}", "value": f"value-{number}"} for number in range(4)],
                        "resources": {"limits": limits, "requests": limits},
                        "volumeMounts": [
                            {
                                "name": "kube-api-access",
                                "readOnly": True,
                                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                            }
                        ],
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }
                ],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default",
                "serviceAccount": "default",
                "schedulerName": "default-scheduler",
                "tolerations": [
                    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                    for key in ("not-ready", "unreachable")
                ],
                "priority": 0,
                "enableServiceLinks": True,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            "status": {
                "phase": phase,
                "conditions": [
                    {"type": kind, "status": "True" if placed else "False", "lastTransitionTime": TIME}
                    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
                "hostIP": "10.200.1.1",
                "hostIPs": [{"ip": "10.200.1.1"}],
                "podIP": address,
                "podIPs": [{"ip": address}],
                "startTime": TIME,
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": {"running": {"startedAt": TIME}},
                        "ready": True,
                        "restartCount": 0,
                        "image": IMAGE,
                        "imageID": f"registry.example/ml/training/pytorch@sha256:{DIGEST}",
                        "containerID": f"containerd://{hashlib.sha256(str(index).encode()).hexdigest()}",
                        "started": True,
                        "allocatedResources": limits,
                        "resources": {"limits": limits, "requests": limits},
                    }
                ],
                "qosClass": "Guaranteed",
            },
        }  # fmt: skip


def plain(item: dict[str, t.Any]) -> str:
    """JSON as an API server writes it: fieldsV1 is no text there."""
    for owned in item["metadata"].get("managedFields", ()):
        owned["fieldsV1"] = json.loads(owned["fieldsV1"])
    return json.dumps(item, separators=(",", ":"))


def _write(folder: Path, kind: str, items: t.Iterator[dict[str, t.Any]], count: int) -> None:
    pages = max(1, -(-count // PAGE))
    for page in range(pages):
        metadata = {"resourceVersion": VERSION, **({"continue": f"page-{page + 1}"} if page + 1 < pages else {})}
        texts, encoded = [], []
        for _number in range(min(PAGE, count - page * PAGE)):
            item = next(items)
            encoded.append(protobuf.encode(kind, item))
            texts.append(plain(item))
        head = json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata}, separators=(",", ":"))
        body = f'{head[:-1]},"items":[{",".join(texts)}]}}\n'
        (folder / f"{kind.lower()}s-{page}.json").write_text(body)
        (folder / f"{kind.lower()}s-{page}.pb").write_bytes(protobuf.envelope(kind, metadata, encoded))


def made(cache: Path, nodes: int, pods: int) -> Path:
    """The folder with the cluster's pages and truth.json, made when it is not there."""
    sources = b"".join(Path(module).read_bytes() for module in (__file__, protobuf.__file__))
    folder = cache / f"cluster-{nodes}-{pods}-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not (folder / "truth.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        cluster = Cluster(nodes, pods)
        _write(folder, "Node", (cluster.node(index) for index in range(nodes)), nodes)
        _write(folder, "Pod", (cluster.pod(index) for index in range(pods)), pods)
        cluster.truth["free"] = cluster.truth["allocatable_total"] - cluster.truth["requested"]
        (folder / "truth.json").write_text(json.dumps(cluster.truth))
    return folder
