# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects, given as the API's JSON, in the API's protobuf encoding.

Field numbers are those of the generated.proto files of k8s.io/api and k8s.io/apimachinery 0.36. A key that is not in
the table is an error: the two encodings of an object must say the same.
"""

from __future__ import annotations

import calendar
import time
import typing as t

MAGIC = b"k8s\0"
#: Contents of a field: str, int (bool too), time, quantity, raw (a JSON text), {str} and {quantity} (maps), or another
#: message; [] in front repeats it.
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Unknown": {"typeMeta": (1, "TypeMeta"), "raw": (2, "bytes")},
    "TypeMeta": {"apiVersion": (1, "str"), "kind": (2, "str")},
    "ListMeta": {"resourceVersion": (2, "str"), "continue": (3, "str")},
    "PodList": {"metadata": (1, "ListMeta"), "items": (2, "[]bytes")},
    "NodeList": {"metadata": (1, "ListMeta"), "items": (2, "[]bytes")},
    "ObjectMeta": {
        "name": (1, "str"),
        "generateName": (2, "str"),
        "namespace": (3, "str"),
        "uid": (5, "str"),
        "resourceVersion": (6, "str"),
        "creationTimestamp": (8, "time"),
        "deletionTimestamp": (9, "time"),
        "labels": (11, "{str}"),
        "annotations": (12, "{str}"),
        "ownerReferences": (13, "[]OwnerReference"),
        "managedFields": (17, "[]ManagedFieldsEntry"),
    },
    "OwnerReference": {
        "kind": (1, "str"),
        "name": (3, "str"),
        "uid": (4, "str"),
        "apiVersion": (5, "str"),
        "controller": (6, "int"),
        "blockOwnerDeletion": (7, "int"),
    },
    "ManagedFieldsEntry": {
        "manager": (1, "str"),
        "operation": (2, "str"),
        "apiVersion": (3, "str"),
        "time": (4, "time"),
        "fieldsType": (6, "str"),
        "fieldsV1": (7, "raw"),
        "subresource": (8, "str"),
    },
    "Pod": {"metadata": (1, "ObjectMeta"), "spec": (2, "PodSpec"), "status": (3, "PodStatus")},
    "PodSpec": {
        "volumes": (1, "[]Volume"),
        "containers": (2, "[]Container"),
        "restartPolicy": (3, "str"),
        "terminationGracePeriodSeconds": (4, "int"),
        "dnsPolicy": (6, "str"),
        "nodeSelector": (7, "{str}"),
        "serviceAccountName": (8, "str"),
        "serviceAccount": (9, "str"),
        "nodeName": (10, "str"),
        "affinity": (18, "Affinity"),
        "schedulerName": (19, "str"),
        "initContainers": (20, "[]Container"),
        "tolerations": (22, "[]Toleration"),
        "priority": (25, "int"),
        "enableServiceLinks": (30, "int"),
        "preemptionPolicy": (31, "str"),
        "overhead": (32, "{quantity}"),
        "schedulingGates": (38, "[]Named"),
        "resourceClaims": (39, "[]Named"),
        "resources": (40, "ResourceRequirements"),
    },
    "Named": {"name": (1, "str")},
    "Affinity": {"nodeAffinity": (1, "NodeAffinity")},
    "NodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (1, "NodeSelector")},
    "NodeSelector": {"nodeSelectorTerms": (1, "[]NodeSelectorTerm")},
    "NodeSelectorTerm": {
        "matchExpressions": (1, "[]NodeSelectorRequirement"),
        "matchFields": (2, "[]NodeSelectorRequirement"),
    },
    "NodeSelectorRequirement": {"key": (1, "str"), "operator": (2, "str"), "values": (3, "[]str")},
    "Toleration": {
        "key": (1, "str"),
        "operator": (2, "str"),
        "value": (3, "str"),
        "effect": (4, "str"),
        "tolerationSeconds": (5, "int"),
    },
    # The JSON of a volume has its source's fields inline.
    "Volume": {"name": (1, "str"), "volumeSource": (2, "VolumeSource")},
    "VolumeSource": {"projected": (26, "ProjectedVolumeSource")},
    "ProjectedVolumeSource": {"sources": (1, "[]VolumeProjection"), "defaultMode": (2, "int")},
    "VolumeProjection": {"serviceAccountToken": (4, "ServiceAccountTokenProjection")},
    "ServiceAccountTokenProjection": {"expirationSeconds": (2, "int"), "path": (3, "str")},
    "Container": {
        "name": (1, "str"),
        "image": (2, "str"),
        "command": (3, "[]str"),
        "args": (4, "[]str"),
        "ports": (6, "[]ContainerPort"),
        "env": (7, "[]EnvVar"),
        "resources": (8, "ResourceRequirements"),
        "volumeMounts": (9, "[]VolumeMount"),
        "terminationMessagePath": (13, "str"),
        "imagePullPolicy": (14, "str"),
        "terminationMessagePolicy": (20, "str"),
        "restartPolicy": (24, "str"),
    },
    "ContainerPort": {"name": (1, "str"), "containerPort": (3, "int"), "protocol": (4, "str")},
    "EnvVar": {"name": (1, "str"), "value": (2, "str")},
    "VolumeMount": {"name": (1, "str"), "readOnly": (2, "int"), "mountPath": (3, "str")},
    "ResourceRequirements": {"limits": (1, "{quantity}"), "requests": (2, "{quantity}")},
    "PodStatus": {
        "phase": (1, "str"),
        "conditions": (2, "[]PodCondition"),
        "message": (3, "str"),
        "reason": (4, "str"),
        "hostIP": (5, "str"),
        "podIP": (6, "str"),
        "startTime": (7, "time"),
        "containerStatuses": (8, "[]ContainerStatus"),
        "qosClass": (9, "str"),
        "nominatedNodeName": (11, "str"),
        "podIPs": (12, "[]PodIP"),
        "hostIPs": (16, "[]PodIP"),
        "extendedResourceClaimStatus": (18, "PodExtendedResourceClaimStatus"),
    },
    "PodExtendedResourceClaimStatus": {"resourceClaimName": (2, "str")},
    "PodIP": {"ip": (1, "str")},
    "PodCondition": {
        "type": (1, "str"),
        "status": (2, "str"),
        "lastTransitionTime": (4, "time"),
        "reason": (5, "str"),
        "message": (6, "str"),
    },
    "ContainerStatus": {
        "name": (1, "str"),
        "state": (2, "ContainerState"),
        "ready": (4, "int"),
        "restartCount": (5, "int"),
        "image": (6, "str"),
        "imageID": (7, "str"),
        "containerID": (8, "str"),
        "started": (9, "int"),
        "allocatedResources": (10, "{quantity}"),
        "resources": (11, "ResourceRequirements"),
    },
    "ContainerState": {"running": (2, "ContainerStateRunning")},
    "ContainerStateRunning": {"startedAt": (1, "time")},
    "Node": {"metadata": (1, "ObjectMeta"), "spec": (2, "NodeSpec"), "status": (3, "NodeStatus")},
    "NodeSpec": {
        "podCIDR": (1, "str"),
        "providerID": (3, "str"),
        "unschedulable": (4, "int"),
        "taints": (5, "[]Taint"),
    },
    "Taint": {"key": (1, "str"), "value": (2, "str"), "effect": (3, "str"), "timeAdded": (4, "time")},
    "NodeStatus": {
        "capacity": (1, "{quantity}"),
        "allocatable": (2, "{quantity}"),
        "conditions": (4, "[]NodeCondition"),
        "nodeInfo": (7, "NodeSystemInfo"),
        "images": (8, "[]ContainerImage"),
    },
    "NodeCondition": {
        "type": (1, "str"),
        "status": (2, "str"),
        "lastHeartbeatTime": (3, "time"),
        "lastTransitionTime": (4, "time"),
        "reason": (5, "str"),
        "message": (6, "str"),
    },
    "NodeSystemInfo": {
        "machineID": (1, "str"),
        "systemUUID": (2, "str"),
        "bootID": (3, "str"),
        "kernelVersion": (4, "str"),
        "osImage": (5, "str"),
        "containerRuntimeVersion": (6, "str"),
        "kubeletVersion": (7, "str"),
        "kubeProxyVersion": (8, "str"),
        "operatingSystem": (9, "str"),
        "architecture": (10, "str"),
    },
    "ContainerImage": {"names": (1, "[]str"), "sizeBytes": (2, "int")},
}


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # negative numbers are sent as 64 bits
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _value(number: int, kind: str, value: t.Any) -> bytes:
    if kind.startswith("[]"):
        return b"".join(_value(number, kind[2:], one) for one in value)
    if kind.startswith("{"):
        entry = kind[1:-1]
        return b"".join(_field(number, _value(1, "str", key) + _value(2, entry, one)) for key, one in value.items())
    if kind == "int":
        return varint(number << 3) + varint(int(value))
    if kind == "str":
        return _field(number, value.encode())
    if kind == "bytes":
        return _field(number, value)
    if kind == "raw":
        return _field(number, _field(1, value.encode()))
    if kind == "quantity":
        return _field(number, _field(1, str(value).encode()))
    if kind == "time":
        return _field(number, varint(1 << 3) + varint(calendar.timegm(time.strptime(value, "%Y-%m-%dT%H:%M:%SZ"))))
    return _field(number, encode(kind, value))


def encode(message: str, value: t.Mapping[str, t.Any]) -> bytes:
    """One message; raises KeyError for a key that the table does not know."""
    fields = MESSAGES[message]
    if message == "Volume":
        value = {"name": value["name"], "volumeSource": {key: one for key, one in value.items() if key != "name"}}
    return b"".join(_value(*fields[key], one) for key, one in value.items() if one is not None)


def envelope(kind: str, metadata: t.Mapping[str, t.Any], items: t.Iterable[bytes]) -> bytes:
    """An answer to a list: items of this kind, encoded already."""
    body = encode(f"{kind}List", {"metadata": metadata, "items": items})
    return MAGIC + encode("Unknown", {"typeMeta": {"apiVersion": "v1", "kind": f"{kind}List"}, "raw": body})
