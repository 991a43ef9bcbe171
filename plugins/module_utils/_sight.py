# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""What one look saw, asked in the lab's own terms. No input or output here."""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _ledger

KWOK_KEY = "kwok.x-k8s.io/node"
KWOK_VALUE = "fake"

Object = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Names:
    """What things are called and how many there are; the defaults are those of the role lab."""

    dir: str = "/root/gsb-fake"
    namespace: str = "fake-lab"
    node: str = "gpu-lab"
    kwok_node: str = "gpu-a"
    operator_namespace: str = "gpu-operator"
    release: str = "gpu-operator"
    chart_name: str = "fake-gpu-operator"
    chart_version: str = "0.2.1"
    gpu_resource: str = "nvidia.com/gpu"
    pool: str = "default"
    pool_label: str = "run.ai/simulated-gpu-node-pool"
    pool_size: int = 2
    pool_size_grown: int = 4
    pod_image: str = "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"

    @property
    def product_label(self) -> str:
        return f"{self.gpu_resource}.product"


def dig(holder: t.Any, *path: str) -> t.Any:
    """The value at the end of a path of keys, or None when the path breaks off."""
    for key in path:
        if not isinstance(holder, t.Mapping):
            return None
        holder = holder.get(key)
    return holder


def mapping(holder: t.Any, *path: str) -> dict[str, t.Any]:
    found = dig(holder, *path)
    return found if isinstance(found, dict) else {}


def sequence(holder: t.Any, *path: str) -> list[t.Any]:
    found = dig(holder, *path)
    return found if isinstance(found, list) else []


def name_of(item: t.Any) -> str:
    return str(dig(item, "metadata", "name") or "")


def condition(item: t.Any, kind: str) -> dict[str, t.Any]:
    return next((one for one in sequence(item, "status", "conditions") if dig(one, "type") == kind), {})


def is_ready(node: t.Any) -> bool:
    return condition(node, "Ready").get("status") == "True"


def moment(text: t.Any) -> float | None:
    """Seconds since the epoch of a Kubernetes time stamp."""
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def amount(item: t.Any, resource: str, field: str) -> int | str:
    """How many of a resource a node offers or a pod names; what it says instead, when that is no whole number."""
    count = _ledger.node_amount if field in ("allocatable", "capacity") else _ledger.pod_amount
    try:
        return count(item or {}, resource, field)
    except _ledger.LedgerError as error:
        return str(error)


# Pods


def images(pod: t.Any) -> list[str]:
    return [str(dig(container, "image")) for container in sequence(pod, "spec", "containers")]


def has_image(pod: t.Any, image: str) -> bool:
    return any(one == image or one.startswith(image + "@") for one in images(pod))


def is_deleting(pod: t.Any) -> bool:
    return dig(pod, "metadata", "deletionTimestamp") is not None


def _stopped(pod: t.Any) -> t.Iterator[str]:
    """Why containers of the pod do not run, one word each."""
    for status in sequence(pod, "status", "containerStatuses"):
        state = mapping(status, "state")
        if "running" not in state:
            about = mapping(state, "waiting") or mapping(state, "terminated")
            yield str(about.get("reason") or "not running")


def is_running(pod: t.Any) -> bool:
    """Running as the learner means it: the phase alone also covers crash loops and pods on their way out."""
    return dig(pod, "status", "phase") == "Running" and not is_deleting(pod) and not list(_stopped(pod))


def is_unschedulable(pod: t.Any) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return dig(pod, "status", "phase") == "Pending" and scheduled.get("status") == "False"


def state(pod: t.Any) -> str:
    """A pod's state in few words, as kubectl would put it."""
    if not pod:
        return "(none)"
    words = [str(dig(pod, "status", "phase") or "Unknown")]
    reason = dig(pod, "status", "reason")
    if not reason and is_unschedulable(pod):
        reason = condition(pod, "PodScheduled").get("reason")
    words.extend([str(reason)] if reason else sorted(set(_stopped(pod))))
    if is_deleting(pod):
        words.append("Terminating")
    return ", ".join(words)


def started_at(pod: t.Any) -> str | None:
    """When the containers that run now were started, the latest of them."""
    times = [dig(one, "state", "running", "startedAt") for one in sequence(pod, "status", "containerStatuses")]
    return max((one for one in times if isinstance(one, str)), default=None)


def tolerates(pod: t.Any, taint: Object) -> bool:
    for toleration in sequence(pod, "spec", "tolerations"):
        if not isinstance(toleration, dict):
            continue
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" and toleration.get("key") in (None, "", taint["key"]):
            return True
        same_value = (toleration.get("value") or "") == (taint.get("value") or "")
        if operator == "Equal" and toleration.get("key") == taint["key"] and same_value:
            return True
    return False


def _meets(requirement: t.Any, values: Object) -> bool:
    wanted = [str(one) for one in sequence(requirement, "values")]
    value = values.get(dig(requirement, "key"))
    operator = dig(requirement, "operator")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator == "NotIn":
        return value is None or value not in wanted
    if value is None:
        return False
    if operator == "In":
        return value in wanted
    try:
        bound, here = int(wanted[0]), int(value)
    except (IndexError, ValueError):
        return False
    return here > bound if operator == "Gt" else operator == "Lt" and here < bound


def selects(pod: t.Any, node: t.Any) -> bool:
    """Do the pod's node selector and its required node affinity both let it onto this node?"""
    labels = mapping(node, "metadata", "labels")
    if any(labels.get(key) != value for key, value in mapping(pod, "spec", "nodeSelector").items()):
        return False
    required = dig(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, dict):
        return True
    fields = {"metadata.name": name_of(node)}
    for term in sequence(required, "nodeSelectorTerms"):
        expressions, on_fields = sequence(term, "matchExpressions"), sequence(term, "matchFields")
        if not expressions and not on_fields:
            continue
        if all(_meets(one, labels) for one in expressions) and all(_meets(one, fields) for one in on_fields):
            return True
    return False


class Sight:
    """One look, with the lab's own questions."""

    def __init__(self, look: Object, names: Names) -> None:
        self.look = look
        self.names = names
        self.nodes: list[dict[str, t.Any]] = list(look.get("nodes") or [])
        self.pods: list[dict[str, t.Any]] = list(look.get("pods") or [])
        self.real_nodes = [node for node in self.nodes if not self.is_kwok(node)]
        named = [node for node in self.real_nodes if name_of(node) == names.node]
        self.real: dict[str, t.Any] | None = next(iter(named + self.real_nodes), None)
        self.kwok: dict[str, t.Any] | None = next((n for n in self.nodes if name_of(n) == names.kwok_node), None)
        self.real_name = name_of(self.real)
        self.topology: dict[str, int] = mapping(look, "topology", "nodes")
        self.release: dict[str, t.Any] | None = look.get("release")

    def is_kwok(self, node: t.Any) -> bool:
        return (
            name_of(node) == self.names.kwok_node
            or KWOK_KEY in mapping(node, "metadata", "annotations")
            or mapping(node, "metadata", "labels").get("type") == "kwok"
        )

    def pod(self, name: str) -> dict[str, t.Any]:
        return next((pod for pod in self.lab_pods() if name_of(pod) == name), {})

    def lab_pods(self) -> list[dict[str, t.Any]]:
        return [pod for pod in self.pods if dig(pod, "metadata", "namespace") == self.names.namespace]

    def elsewhere(self, name: str) -> list[str]:
        """Other namespaces that have a pod of this name."""
        spaces = (str(dig(pod, "metadata", "namespace")) for pod in self.pods if name_of(pod) == name)
        return sorted(space for space in spaces if space != self.names.namespace)

    def gpus(self, item: t.Any, field: str) -> int | str:
        return amount(item, self.names.gpu_resource, field)

    def file(self, name: str) -> dict[str, t.Any]:
        return mapping(self.look, "files", name) or {"state": "missing"}

    def text(self, name: str) -> str:
        return str(self.file(name).get("text") or "")

    def objects(self, name: str) -> list[dict[str, t.Any]]:
        """The Kubernetes objects in a manifest, those inside lists too."""
        found = []
        for document in self.file(name).get("documents") or []:
            inside = sequence(document, "items") if str(dig(document, "kind")).endswith("List") else [document]
            found.extend(one for one in inside if isinstance(one, dict))
        return found

    def object(self, file: str, kind: str, name: str) -> dict[str, t.Any]:
        return next((o for o in self.objects(file) if o.get("kind") == kind and name_of(o) == name), {})

    def value(self, *path: str) -> t.Any:
        """A value of the release as the chart sees it: what was given, else the chart's default."""
        given = dig(self.release, "values", *path)
        return dig(self.release, "defaults", *path) if given is None else given

    def holders(self) -> list[str]:
        """Placed pods that hold GPUs of the real node."""
        return sorted(
            f"{dig(pod, 'metadata', 'namespace')}/{name_of(pod)}"
            for pod in self.pods
            if _ledger.is_placed(pod)
            and dig(pod, "spec", "nodeName") == self.real_name
            and self.gpus(pod, "limits") != 0
        )

    def operator_pod(self, app: str) -> dict[str, t.Any]:
        """The pod of one of the operator's parts, the one with trouble when there are several."""
        pods = [
            pod
            for pod in self.pods
            if dig(pod, "metadata", "namespace") == self.names.operator_namespace
            and mapping(pod, "metadata", "labels").get("app") == app
        ]
        return next(iter(sorted(pods, key=is_running)), {})

    def ledger(self) -> _ledger.Ledger:
        return _ledger.ledger(self.nodes, self.pods, self.names.gpu_resource)

    def _countable(self) -> _ledger.Ledger | None:
        try:
            return self.ledger()
        except _ledger.LedgerError:
            return None

    def brief(self) -> dict[str, t.Any]:
        """The facts that a playbook needs to decide what is missing."""
        resource = self.names.gpu_resource
        release = self.release
        return {
            "nodes": {
                name_of(node): {
                    "ready": is_ready(node),
                    "kwok": self.is_kwok(node),
                    "capacity": amount(node, resource, "capacity"),
                    "allocatable": amount(node, resource, "allocatable"),
                    "product": mapping(node, "metadata", "labels").get(self.names.product_label),
                    "labels": mapping(node, "metadata", "labels"),
                    "annotations": {
                        key: value
                        for key, value in mapping(node, "metadata", "annotations").items()
                        if key != "kubectl.kubernetes.io/last-applied-configuration"
                    },
                    "taints": sequence(node, "spec", "taints"),
                }
                for node in self.nodes
            },
            "pods": {
                name_of(pod): {
                    "phase": dig(pod, "status", "phase"),
                    "state": state(pod),
                    "running": is_running(pod),
                    "node": dig(pod, "spec", "nodeName"),
                    "uid": dig(pod, "metadata", "uid"),
                    "gpus": amount(pod, resource, "limits"),
                    "images": images(pod),
                    "started_at": started_at(pod),
                    "scheduler_says": condition(pod, "PodScheduled").get("message"),
                }
                for pod in self.lab_pods()
            },
            "namespace": bool(self.look.get("namespace")),
            "topology": self.look.get("topology") or {"pools": {}, "nodes": {}},
            "release": None if release is None else {key: release[key] for key in release if key != "defaults"},
            "ledger": self._countable(),
            "files": {name: about["state"] for name, about in mapping(self.look, "files").items()},
            "errors": self.look.get("errors") or {},
        }
