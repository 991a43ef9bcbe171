# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""What accounting needs of pods and nodes: k8s.io/api core/v1. No input or output here."""

from __future__ import annotations

import types
import typing as t

Mapping = t.Mapping[str, t.Any]
Quantities = t.Mapping[str, str]

_NONE: Quantities = types.MappingProxyType({})


class ObjectError(ValueError):
    """An object that cannot be counted; names the object and the field."""


class Container(t.NamedTuple):
    """A container or init container; quantities are kept as text."""

    name: str
    limits: Quantities = _NONE
    requests: Quantities = _NONE
    #: An init container with restartPolicy Always: a sidecar.
    restartable: bool = False


class Toleration(t.NamedTuple):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Taint(t.NamedTuple):
    key: str
    value: str = ""
    effect: str = ""


class Requirement(t.NamedTuple):
    """NodeSelectorRequirement."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(t.NamedTuple):
    """NodeSelectorTerm: all of its requirements, on labels and on fields of the node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class Condition(t.NamedTuple):
    status: str = ""
    reason: str = ""
    message: str = ""


class Pod(t.NamedTuple):
    namespace: str
    name: str
    uid: str = ""
    #: spec.nodeName; empty when not placed.
    node: str = ""
    phase: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = _NONE
    #: spec.resources.requests.
    pod_requests: Quantities = _NONE
    priority: int = 0
    scheduler: str = ""
    gates: tuple[str, ...] = ()
    node_selector: t.Mapping[str, str] = _NONE
    #: The terms of the required node affinity, one of which must match; None without one.
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    #: metadata.deletionTimestamp (RFC 3339): when the grace period of a deleted pod ends; empty when not deleted.
    terminating_since: str = ""
    nominated_node: str = ""
    #: The names of spec.resourceClaims.
    claims: tuple[str, ...] = ()
    #: status.extendedResourceClaimStatus.resourceClaimName.
    extended_claim: str = ""
    #: The condition PodScheduled.
    condition: Condition = Condition()


class Node(t.NamedTuple):
    name: str
    labels: t.Mapping[str, str] = _NONE
    allocatable: Quantities = _NONE
    capacity: Quantities = _NONE
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    #: The status of condition Ready: "True", "False", "Unknown", or "" without one.
    ready: str = ""


def title(item: Pod | Node) -> str:
    """What an object is called in a message: "pod team/train" or "node n1"."""
    return f"pod {item.namespace}/{item.name}" if isinstance(item, Pod) else f"node {item.name}"


_KINDS: dict[type, str] = {str: "a text", dict: "an object", list: "a list", bool: "true or false", int: "a number"}

_T = t.TypeVar("_T")


def _part(holder: Mapping, path: str, kind: type[_T], who: str) -> _T:
    """The last step of a path in its holder; the kind's empty value when it is missing or null."""
    value = holder.get(path.rpartition(".")[2])
    if value is None:
        return kind()
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ObjectError(f"{who}: {path} is not {_KINDS[kind]}")
    return value


def _parts(holder: Mapping, path: str, who: str) -> list[dict[str, t.Any]]:
    values = _part(holder, path, list, who)
    for value in values:
        if not isinstance(value, dict):
            raise ObjectError(f"{who}: {path} is not a list of objects")
    return values


def _texts(holder: Mapping, path: str, who: str) -> dict[str, str]:
    values = _part(holder, path, dict, who)
    for key, value in values.items():
        if not isinstance(value, str):
            raise ObjectError(f"{who}: {path}[{key}] is not a text")
    return values


def _quantities(holder: Mapping, path: str, who: str) -> Quantities:
    """Quantity.UnmarshalJSON takes a text, a number, or null for none."""
    values = _part(holder, path, dict, who)
    if all(isinstance(value, str) for value in values.values()):
        return values
    result = {}
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
            raise ObjectError(f"{who}: {path}[{key}]: {value!r} is not a Kubernetes quantity")
        result[key] = "0" if value is None else str(value)
    return result


def _names(holder: Mapping, path: str, who: str) -> tuple[str, ...]:
    return tuple(_part(one, f"{path}.name", str, who) for one in _parts(holder, path, who))


def _identity(item: t.Any, kind: str) -> tuple[dict[str, t.Any], str, str, str]:
    """The metadata, namespace and name of an object, and what it is called."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise ObjectError(f"a {kind} without a name cannot be counted")
    namespace = _part(metadata, "metadata.namespace", str, f"{kind} {name}")
    return metadata, namespace, name, f"{kind} {namespace}/{name}" if kind == "pod" else f"{kind} {name}"


def _condition(status: Mapping, wanted: str, who: str) -> Condition:
    found = Condition()
    for one in _parts(status, "status.conditions", who):
        if one.get("type") == wanted:
            found = Condition(*(_part(one, f"status.conditions.{key}", str, who) for key in Condition._fields))
    return found


def _containers(spec: Mapping, path: str, who: str) -> tuple[Container, ...]:
    result = []
    for one in _parts(spec, path, who):
        name = _part(one, f"{path}.name", str, who)
        at = f"{who}, container {name}"
        resources = _part(one, "resources", dict, at)
        result.append(
            Container(
                name,
                _quantities(resources, "limits", at),
                _quantities(resources, "requests", at),
                path == "spec.initContainers" and _part(one, "restartPolicy", str, at) == "Always",
            )
        )
    return tuple(result)


def _requirements(term: Mapping, path: str, who: str) -> tuple[Requirement, ...]:
    result = []
    for one in _parts(term, path, who):
        values = _part(one, f"{path}.values", list, who)
        if not all(isinstance(value, str) for value in values):
            raise ObjectError(f"{who}: {path}.values is not a list of texts")
        key, operator = (_part(one, f"{path}.{field}", str, who) for field in ("key", "operator"))
        result.append(Requirement(key, operator, tuple(values)))
    return tuple(result)


def _required_affinity(spec: Mapping, who: str) -> tuple[Term, ...] | None:
    affinity = _part(_part(spec, "spec.affinity", dict, who), "spec.affinity.nodeAffinity", dict, who)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.get(required) is None:
        return None
    selector = _part(affinity, required, dict, who)
    return tuple(
        Term(_requirements(term, "matchExpressions", who), _requirements(term, "matchFields", who))
        for term in _parts(selector, f"{required}.nodeSelectorTerms", who)
    )


def pod_from_json(item: t.Any) -> Pod:
    """A pod as the API's JSON has it; raises ObjectError when a field is of the wrong kind."""
    metadata, namespace, name, who = _identity(item, "pod")
    spec = _part(item, "spec", dict, who)
    status = _part(item, "status", dict, who)
    return Pod(
        namespace=namespace,
        name=name,
        uid=_part(metadata, "metadata.uid", str, who),
        node=_part(spec, "spec.nodeName", str, who),
        phase=_part(status, "status.phase", str, who),
        containers=_containers(spec, "spec.containers", who),
        init_containers=_containers(spec, "spec.initContainers", who),
        overhead=_quantities(spec, "spec.overhead", who),
        pod_requests=_quantities(_part(spec, "spec.resources", dict, who), "spec.resources.requests", who),
        priority=_part(spec, "spec.priority", int, who),
        scheduler=_part(spec, "spec.schedulerName", str, who),
        gates=_names(spec, "spec.schedulingGates", who),
        node_selector=_texts(spec, "spec.nodeSelector", who),
        affinity=_required_affinity(spec, who),
        tolerations=tuple(
            Toleration(*(_part(one, f"spec.tolerations.{key}", str, who) for key in Toleration._fields))
            for one in _parts(spec, "spec.tolerations", who)
        ),
        terminating_since=_part(metadata, "metadata.deletionTimestamp", str, who),
        nominated_node=_part(status, "status.nominatedNodeName", str, who),
        claims=_names(spec, "spec.resourceClaims", who),
        extended_claim=_part(
            _part(status, "status.extendedResourceClaimStatus", dict, who),
            "status.extendedResourceClaimStatus.resourceClaimName",
            str,
            who,
        ),
        condition=_condition(status, "PodScheduled", who),
    )


def node_from_json(item: t.Any) -> Node:
    """A node as the API's JSON has it; raises ObjectError when a field is of the wrong kind."""
    metadata, _namespace, name, who = _identity(item, "node")
    spec = _part(item, "spec", dict, who)
    status = _part(item, "status", dict, who)
    return Node(
        name=name,
        labels=_texts(metadata, "metadata.labels", who),
        allocatable=_quantities(status, "status.allocatable", who),
        capacity=_quantities(status, "status.capacity", who),
        unschedulable=_part(spec, "spec.unschedulable", bool, who),
        taints=tuple(
            Taint(*(_part(one, f"spec.taints.{key}", str, who) for key in Taint._fields))
            for one in _parts(spec, "spec.taints", who)
        ),
        ready=_condition(status, "Ready", who).status,
    )


def counted_pod(pod: Pod) -> Pod:
    """What counting needs of a pod: names, node, phase, amounts, and when it is deleted; the rest is empty."""
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        phase=pod.phase,
        containers=pod.containers,
        init_containers=pod.init_containers,
        overhead=pod.overhead,
        pod_requests=pod.pod_requests,
        terminating_since=pod.terminating_since,
        nominated_node=pod.nominated_node,
        extended_claim=pod.extended_claim,
    )


def counted_node(node: Node, resource: str) -> Node:
    """What counting needs of a node: all of it where it has or had the resource, else its name and what it offers."""
    known = resource in node.allocatable or resource in node.capacity
    if known or any(label.startswith(f"{resource}.") for label in node.labels):
        return node
    return Node(node.name, allocatable=node.allocatable)
