# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What one look at the lab sees at the end of each step, as the cluster and the files really are then."""

from __future__ import annotations

import json

REAL_UID = "7b0f4a0e-5a0b-4a51-9d3c-0d5a64f0a001"
DEVICE = "0e6f3d52-7c1c-4b6e-9c86-7f1e0a7d2b11"
IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"
STARTED = "2026-03-01T10:00:07Z"
WRITTEN = 1772359300.0  # 2026-03-01T10:01:40Z

REFUSAL_A = (
    'The Pod "bad-a" is invalid: spec.containers[0].resources.requests: Invalid value: "1": '
    "must be equal to nvidia.com/gpu limit of 2\n"
)
REFUSAL_B = (
    'The Pod "bad-b" is invalid: \n'
    '* spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer\n'
    '* spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer\n'
)
SHORTAGE = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)
INSIDE = f"""PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOSTNAME=gpu-1
MOCK_NVIDIA_VISIBLE_DEVICES={DEVICE}
NODE_NAME=gpu-lab
KUBERNETES_SERVICE_HOST=10.43.0.1
KUBERNETES_SERVICE_PORT=443
HOME=/root
Sun Mar  1 10:01:40 2026
+------------------------------------------------------------------------------+
| NVIDIA-SMI 470.129.06       Driver Version: 470.129.06   CUDA Version: 11.4  |
|--------------------------------+----------------------+----------------------+
|   0  Tesla-K80             Off | 00000001:00:00.0 Off |                  Off |
| N/A   33C    P8    11W /  70W  |   11441MiB / 11441MiB|      100%    Default |
+------------------------------------------------------------------------------+
"""


def pod(name, *, namespace="fake-lab", node="gpu-lab", phase="Running", uid=None, labels=None, gpus="1", image=IMAGE):
    resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": {"nvidia.com/gpu": gpus}} if gpus else {}
    status = {
        "phase": phase,
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": STARTED}}}],
    }
    spec = {
        "containers": [{"name": "main", "image": image, "resources": resources}],
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
    }
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}", "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": status}


def waiting(name, message=SHORTAGE):
    item = pod(name, node=None, phase="Pending")
    item["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ]
    del item["status"]["containerStatuses"]
    return item


def far_1():
    item = pod("far-1", node="gpu-a")
    item["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-a"}
    item["spec"]["tolerations"].append({"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"})
    return item


def real_node(gpus):
    amounts = {"cpu": "2", "memory": "4023504Ki", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {
            "name": "gpu-lab",
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "kubernetes.io/hostname": "gpu-lab",
                "kubernetes.io/os": "linux",
                "nvidia.com/gpu.count": str(gpus),
                "nvidia.com/gpu.deploy.device-plugin": "true",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "Tesla-K80",
                "run.ai/simulated-gpu-node-pool": "default",
            },
        },
        "spec": {},
        "status": {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
        },
    }


def kwok_manifest():
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "gpu-a",
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": "gpu-a",
                "kubernetes.io/os": "linux",
                "run.ai/simulated-gpu-node-pool": "default",
            },
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "32", "pods": "110"}, "capacity": {"cpu": "32", "pods": "110"}},
    }


def kwok_node(gpus=4):
    item = kwok_manifest()
    item["metadata"]["labels"].update({"nvidia.com/gpu.product": "Tesla-K80", "nvidia.com/gpu.count": str(gpus)})
    for field in ("allocatable", "capacity"):
        item["status"][field]["nvidia.com/gpu"] = str(gpus)
    item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return item


def manifest(name="gpu-1"):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "fake-lab"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                }
            ]
        },
    }


def values(count=4):
    return {"runtimeClass": {"enabled": False}, "topology": {"nodePools": {"default": {"gpuCount": count}}}}


def report(nodes, requested):
    total = sum(nodes.values())
    return {"nodes": nodes, "allocatable_total": total, "requested": requested, "free": total - requested}


def text_file(text, mtime=WRITTEN):
    return {"state": "ok", "text": text, "size": len(text.encode()), "mtime": mtime}


def yaml_file(*documents):
    """JSON is YAML, too."""
    return {**text_file("\n---\n".join(json.dumps(one) for one in documents)), "documents": list(documents)}


def json_file(document):
    return text_file(json.dumps(document, indent=2, sort_keys=True) + "\n")


def lab(step=8):
    """The look at the end of a step; 0 is the lab as installed."""
    grown = step >= 6
    size = 4 if grown else 2
    files = {name: {"state": "missing"} for name in ("advertised.txt", "inside.txt", "rules.txt", "pending.txt")}
    files.update(
        (name, {"state": "missing"}) for name in ("report.json", "gpu-1.yaml", "values.yaml", "kwok-node.yaml")
    )
    nodes = [real_node(size)]
    pods = [
        pod("coredns-6d8b9c7f4-x2x5k", namespace="kube-system", gpus=None),
        pod("kwok-controller-5c8c7", namespace="kube-system", gpus=None, labels={"app": "kwok-controller"}),
        *(
            pod(f"{app}-x1x2x", namespace="gpu-operator", gpus=None, labels={"app": app})
            for app in ("device-plugin", "status-updater", "topology-server", "kwok-gpu-device-plugin")
        ),
    ]
    topology = {"pools": {"default": size}, "nodes": {"gpu-lab": size}}
    release = {
        "revision": 2 if grown else 1,
        "status": "deployed",
        "chart": "fake-gpu-operator",
        "version": "0.2.1",
        "values": values(size),
        "defaults": {"runtimeClass": {"enabled": True}, "topology": {"nodePools": {"default": {"gpuCount": 2}}}},
    }
    devices = {}
    if step >= 1:
        files["advertised.txt"] = text_file("node=gpu-lab\ncapacity=2\nallocatable=2\nproduct=Tesla-K80\n")
    if step >= 2:
        files["gpu-1.yaml"] = yaml_file(manifest())
        pods.append(pod("gpu-1", uid=REAL_UID))
        devices[REAL_UID] = DEVICE
    if step >= 3:
        files["inside.txt"] = text_file(INSIDE)
    if step >= 4:
        files["rules.txt"] = text_file(REFUSAL_A + REFUSAL_B)
    if step >= 5:
        files["pending.txt"] = text_file(SHORTAGE + "\n")
        pods += [pod("gpu-2"), pod("gpu-3") if grown else waiting("gpu-3")]
    if grown:
        files["values.yaml"] = yaml_file(values())
    if step >= 7:
        files["kwok-node.yaml"] = yaml_file(kwok_manifest())
        nodes.append(kwok_node())
        topology["nodes"]["gpu-a"] = 4
        pods.append(far_1())
    if step >= 8:
        files["report.json"] = json_file(report({"gpu-a": 4, "gpu-lab": 4}, 4))
    return {
        "nodes": nodes,
        "pods": pods,
        "namespace": step >= 2,
        "topology": topology,
        "release": release,
        "stages": 5,
        "errors": {},
        "files": files,
        "devices": devices,
    }
