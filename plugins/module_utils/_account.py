# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""The GPU account: what nodes offer, what pods hold by two definitions, and where these differ. No input or output here.

Limits, the literal definition: the limits of spec.containers of pods that have a node and are Pending or Running.
Scheduler: what kube-scheduler charges its nodes, PodRequests of every pod that has a node and is not Succeeded or Failed.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import Node, ObjectError, Pod, Quantities, title
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._quantity import (
    LARGEST,
    QuantityError,
    milli,
    nano,
    units,
    whole,
)

#: A placed pod in one of these phases holds its devices, by the literal definition.
COUNTED_PHASES = frozenset(("Pending", "Running"))

#: A pod in one of these phases has ended: the scheduler's informer leaves it out (scheduler.go, newPodInformer).
ENDED_PHASES = frozenset(("Succeeded", "Failed"))

#: The kubelet leaves "0" behind when a device plugin has gone; such a node offers nothing.
SMALLEST_OFFER = 1

#: The sizes of pods for which the account says how many would fit.
SIZES = (1, 2, 4, 8)

#: Taints of the node lifecycle controller on a node that is not Ready (core/v1 well_known_taints.go).
NOT_READY_TAINTS = frozenset(("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"))

#: Effects that keep a pod off a node (component-helpers: DoNotScheduleTaintsFilterFunc).
BLOCKING_EFFECTS = frozenset(("NoSchedule", "NoExecute"))

LEDGER_KEYS = ("nodes", "allocatable_total", "requested", "free")

_ACCELERATOR = re.compile(
    r"(^nvidia\.com/(gpu|mig-|pgpu|vgpu))|gpu|/(tpu|npu|neuron\w*|gaudi|mlu\w*|dcu\w*|i915|xe|ascend\w*)$",
    re.IGNORECASE,
)
_SHOWN = 3


class Ledger(t.TypedDict):
    nodes: dict[str, int]
    allocatable_total: int
    requested: int
    free: int


class SchedulerLedger(Ledger):
    #: What unplaced pods ask for that were promised a node which exists.
    nominated: int
    #: Charged to nodes that do not exist, and by pods whose devices come by DRA; neither is in requested.
    orphaned: int
    dra: int
    #: The sums of these of the nodes.
    usable: int
    tainted: int


class TaintEntry(t.TypedDict):
    key: str
    value: str
    effect: str


class NodeEntry(t.TypedDict):
    name: str
    allocatable: int
    capacity: int
    #: By limits.
    requested: int
    free: int
    scheduler_requested: int
    scheduler_free: int
    nominated: int
    #: What a plain pod may take: it has no tolerations, no selector, and asks for nothing else. None where the node is not
    #: Ready, cordoned, tainted, overcommitted, or known to have no room for another pod.
    usable: int
    #: What only a pod that tolerates the node's taints may take.
    tainted: int
    #: How many more plain pods with one device each would fit: fewer than usable where places for pods are fewer.
    placeable: int
    #: In capacity but not in allocatable.
    unhealthy: int
    ready: str
    cordoned: bool
    taints: list[TaintEntry]


class PodEntry(t.TypedDict):
    namespace: str
    name: str
    node: str
    limits: int
    scheduler: int


class TerminatingEntry(PodEntry):
    #: metadata.deletionTimestamp: the end of its grace period, which may lie ahead; some stay longer.
    until: str


class Difference(PodEntry):
    reasons: list[str]
    message: str


class Overcommitted(t.TypedDict):
    name: str
    allocatable: int
    requested: int
    scheduler_requested: int


class Account(t.TypedDict):
    resource: str
    ledger: Ledger
    scheduler: SchedulerLedger
    nodes: list[NodeEntry]
    orphans: list[PodEntry]
    overcommitted: list[Overcommitted]
    terminating: list[TerminatingEntry]
    placeable: dict[str, int]
    largest_free: int
    differences: list[Difference]
    warnings: list[str]


def _nano(item: Pod | Node, amounts: Quantities, resource: str, where: str) -> int:
    """Billionths of a resource in a list of quantities; a missing entry is none."""
    if resource not in amounts:
        return 0
    try:
        result = nano(amounts[resource])
        if result < 0:
            raise QuantityError(f"{amounts[resource]!r} is negative")
    except QuantityError as error:
        raise ObjectError(f"{title(item)}{where}[{resource}]: {error}") from error
    return result


def resource_value(amount: int, resource: str) -> int:
    """Billionths in the unit in which the scheduler counts: MilliValue() for cpu, Value() for the rest.

    As framework.Resource.Add does.
    """
    return milli(amount) if resource == "cpu" else units(amount)


def allocatable_value(node: Node, resource: str) -> int:
    """How much of any resource a node offers, in the unit in which the scheduler counts; raises ObjectError."""
    if resource not in node.allocatable:
        return 0
    try:
        return resource_value(nano(node.allocatable[resource]), resource)
    except QuantityError as error:
        raise ObjectError(f"{title(node)}: status.allocatable[{resource}]: {error}") from error


def is_pod_level(resource: str) -> bool:
    """Whether spec.resources of a pod may name it: resource.IsSupportedPodLevelResource of component-helpers."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def node_amount(node: Node, resource: str, field: str = "allocatable") -> int:
    """How many of a resource a node has in status.allocatable (or capacity); raises ObjectError."""
    amounts = node.capacity if field == "capacity" else node.allocatable
    if resource not in amounts:
        return 0
    try:
        return whole(amounts[resource])
    except QuantityError as error:
        raise ObjectError(f"{title(node)}: status.{field}[{resource}]: {error}") from error


def pod_limits(pod: Pod, resource: str, field: str = "limits") -> int:
    """How many of a resource the containers (not the init containers) of a pod name in their limits (or requests).

    Raises ObjectError.
    """
    total = 0
    for container in pod.containers:
        amounts = container.requests if field == "requests" else container.limits
        if resource in amounts:
            try:
                total += whole(amounts[resource])
            except QuantityError as error:
                raise ObjectError(f"{title(pod)}, container {container.name}: {field}[{resource}]: {error}") from error
    return total


def pod_requests(pod: Pod, resource: str) -> int:
    """What the scheduler charges for a pod, in whole units (thousandths for cpu); raises ObjectError.

    As resource.PodRequests of component-helpers: the larger of all app containers with all sidecars, and of each init
    container with the sidecars before it; requests of the pod as a whole instead, where it may have some; overhead on top.
    """
    total = sidecars = peak = 0
    for container in pod.containers:
        if resource in container.requests:
            total += _nano(pod, container.requests, resource, f", container {container.name}: requests")
    for container in pod.init_containers:
        amount = _nano(pod, container.requests, resource, f", container {container.name}: requests")
        if container.restartable:
            total += amount
            sidecars += amount
            amount = 0
        peak = max(peak, sidecars + amount)
    total = max(total, peak)
    if resource in pod.pod_requests and is_pod_level(resource):
        total = _nano(pod, pod.pod_requests, resource, ": spec.resources.requests")
    total += _nano(pod, pod.overhead, resource, ": spec.overhead")
    result = resource_value(total, resource)
    if result > LARGEST:
        raise ObjectError(f"{title(pod)}: asks for more {resource} than Kubernetes can count")
    return result


def holds(pod: Pod) -> bool:
    """Whether a pod counts by the literal definition: it has a node and is Pending or Running."""
    return bool(pod.node) and pod.phase in COUNTED_PHASES


def assigned(pod: Pod) -> bool:
    """Whether the scheduler charges a node for a pod: eventhandlers.go assignedPod, and not ended."""
    return bool(pod.node) and pod.phase not in ENDED_PHASES


def unassigned(pod: Pod) -> bool:
    """Whether a pod still waits for a node."""
    return not pod.node and pod.phase not in ENDED_PHASES


def dra_backed(pod: Pod, allocatable: int) -> bool:
    """Whether the devices of a placed pod come from a ResourceClaim, not from what its node advertises.

    As noderesources shouldDelegateResourceToDRA (KEP-5004): only where the node advertises none itself.
    """
    return bool(pod.extended_claim) and allocatable < SMALLEST_OFFER


def blocking_taints(node: Node) -> list[TaintEntry]:
    return [
        {"key": one.key, "value": one.value, "effect": one.effect}
        for one in node.taints
        if one.effect in BLOCKING_EFFECTS
    ]


def _find_room(entry: NodeEntry, places: int | None) -> None:
    """Say what another pod may find free on a node that has so many places for pods, where that is known."""
    blocked = any(taint["key"] in NOT_READY_TAINTS for taint in entry["taints"])
    if entry["cordoned"] or blocked or entry["ready"] in ("False", "Unknown"):
        return
    room = max(0, entry["scheduler_free"] - entry["nominated"])
    if places is None:
        places = room
    if places > 0:
        entry["tainted" if entry["taints"] else "usable"] = room
        entry["placeable"] = min(places, entry["usable"])


#: What plain pods may take of a node: devices, and places for pods.
Room = tuple[int, int]


def usable(entry: NodeEntry) -> Room:
    return entry["usable"], entry["placeable"]


def placeable(rooms: t.Iterable[Room], size: int) -> int:
    """How many more plain pods of so many each would fit."""
    return sum(min(count // size, places) for count, places in rooms)


def _differs(pod: Pod, resource: str, orphan: bool, dra: bool) -> list[str]:
    """The rules by which the two definitions count a pod differently."""
    reasons = []
    if not holds(pod):
        reasons.append("phase")
    if orphan:
        reasons.append("orphan")
    if dra:
        reasons.append("dra")
    # Step by step from one definition to the other; each step that changes the count is a reason.
    sidecars = tuple(container for container in pod.init_containers if container.restartable)
    bare = pod._replace(overhead={})
    steps = {
        "requests": bare._replace(init_containers=()),
        "sidecar": bare._replace(init_containers=sidecars),
        "init_container": bare,
        "overhead": pod,
    }
    count = pod_limits(pod, resource)
    for reason, step in steps.items():
        before, count = count, pod_requests(step, resource)
        if count != before:
            reasons.append(reason)
    return reasons


_DIFFERENCE = {
    "phase": "its phase is neither Pending nor Running, but it has not ended",
    "orphan": "its node does not exist",
    "dra": "its devices come from a ResourceClaim",
    "requests": "its requests are not its limits",
    "overhead": "its runtime class adds overhead",
    "sidecar": "its sidecars hold some beside its containers",
    "init_container": "an init container asks for more than what runs after it",
}


def named(names: t.Iterable[str]) -> str:
    """Names for a sentence, the first of them when there are many."""
    known = sorted(names)
    more = len(known) - _SHOWN
    return ", ".join(known[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def other_accelerators(nodes: t.Iterable[Node], resource: str) -> list[str]:
    """Other extended resources on the nodes that look like accelerators."""
    found = {name for node in nodes for name in node.allocatable if name != resource and "/" in name}
    offered = {name for name in found if _ACCELERATOR.search(name)}
    return sorted(name for name in offered if any(node_amount(node, name) >= SMALLEST_OFFER for node in nodes))


def _label_count(node: Node, label: str) -> int:
    text = node.labels.get(label, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _warnings(
    account: Account, nodes: t.Sequence[Node], entries: t.Mapping[str, NodeEntry], dra: list[str]
) -> list[str]:
    resource = account["resource"]
    offers = account["ledger"]["nodes"]
    result = []
    if not offers:
        result.append(f"no node advertises {resource}")
    if account["ledger"]["free"] < 0:
        result.append(f"pods hold {-account['ledger']['free']} more of {resource} than the nodes offer")
    if account["overcommitted"]:
        result.append(
            f"pods hold more than their node offers on {named(one['name'] for one in account['overcommitted'])}"
        )
    if account["orphans"]:
        orphans = named(f"{one['namespace']}/{one['name']} ({one['node']})" for one in account["orphans"])
        result.append(f"pods on nodes that do not exist still count: {orphans}")
    unhealthy = {name: entry["unhealthy"] for name, entry in entries.items() if entry["unhealthy"]}
    if unhealthy:
        lost = named(f"{name} ({count})" for name, count in unhealthy.items())
        result.append(f"nodes have devices that they do not offer, unhealthy or not served: {lost}")
    stale = [node.name for node in nodes if resource in node.allocatable and not entries[node.name]["allocatable"]]
    stale = [name for name in stale if name not in unhealthy]
    if stale:
        result.append(f'nodes still list {resource} as "0", left by a device plugin that has gone: {named(stale)}')
    labelled = [
        node.name
        for node in nodes
        if node.name not in offers
        and (node.labels.get(f"{resource}.present") == "true" or _label_count(node, f"{resource}.count"))
    ]
    if labelled:
        result.append(f"nodes are labelled as having {resource} but advertise none: {named(labelled)}")
    shared = {node.name: _label_count(node, f"{resource}.replicas") for node in nodes if node.name in offers}
    shared = {name: replicas for name, replicas in shared.items() if replicas > 1}
    if shared:
        slots = named(f"{name} ({replicas} for each device)" for name, replicas in shared.items())
        result.append(f"nodes share their devices: {resource} counts slots there, not devices: {slots}")
    if dra:
        result.append(f"pods whose devices come from a ResourceClaim, not from what nodes advertise: {named(dra)}")
    others = other_accelerators(nodes, resource)
    if others:
        result.append(f"nodes also advertise {named(others)}, which this account does not cover")
    return result


def account(nodes: t.Iterable[Node], pods: t.Iterable[Pod], resource: str, every_pod: bool = False) -> Account:
    """The account of one extended resource, by exact name; the order of nodes and pods does not matter.

    Counts are in whole units. With ``every_pod``, the pods are all that have not ended, not only those that ask for the
    resource: what places nodes have for more is looked at, too. Raises ObjectError when an object that counts cannot be
    read.
    """
    nodes = sorted(nodes, key=lambda node: node.name)
    entries: dict[str, NodeEntry] = {}
    for node in nodes:
        allocatable, capacity = node_amount(node, resource), node_amount(node, resource, "capacity")
        entries[node.name] = {
            "name": node.name,
            "allocatable": allocatable,
            "capacity": capacity,
            "requested": 0,
            "free": allocatable,
            "scheduler_requested": 0,
            "scheduler_free": allocatable,
            "nominated": 0,
            "usable": 0,
            "tainted": 0,
            "placeable": 0,
            "unhealthy": max(0, capacity - allocatable),
            "ready": node.ready,
            "cordoned": node.unschedulable,
            "taints": blocking_taints(node),
        }
    offers = {name: entry["allocatable"] for name, entry in entries.items() if entry["allocatable"] >= SMALLEST_OFFER}
    total = sum(offers.values())

    requested = scheduler_requested = orphaned = by_dra = nominated = 0
    orphans: list[PodEntry] = []
    terminating: list[TerminatingEntry] = []
    differences: list[Difference] = []
    dra_pods: list[str] = []
    # A node that names no number of pods takes none.
    places = {node.name: allocatable_value(node, "pods") for node in nodes} if every_pod else {}
    for pod in pods:
        if every_pod and pod.phase not in ENDED_PHASES:
            where = pod.node or pod.nominated_node
            if where in places:
                places[where] -= 1
        if unassigned(pod):
            # A promise of a node that has gone binds nobody.
            if pod.nominated_node in entries:
                amount = pod_requests(pod, resource)
                nominated += amount
                entries[pod.nominated_node]["nominated"] += amount
            continue
        if not assigned(pod):
            continue
        limits = pod_limits(pod, resource) if holds(pod) else 0
        charged = pod_requests(pod, resource)
        if not limits and not charged:
            continue
        entry = entries.get(pod.node)
        dra = entry is not None and dra_backed(pod, entry["allocatable"])
        scheduler = 0 if entry is None or dra else charged
        requested += limits
        scheduler_requested += scheduler
        who: PodEntry = {
            "namespace": pod.namespace,
            "name": pod.name,
            "node": pod.node,
            "limits": limits,
            "scheduler": scheduler,
        }
        if entry is None:
            orphaned += charged
            orphans.append(who)
        else:
            entry["requested"] += limits
            entry["scheduler_requested"] += scheduler
        if dra:
            by_dra += charged
            dra_pods.append(f"{pod.namespace}/{pod.name}")
        if pod.terminating_since:
            terminating.append({**who, "until": pod.terminating_since})
        if limits != scheduler:
            reasons = _differs(pod, resource, entry is None, dra)
            differences.append({**who, "reasons": reasons, "message": ", ".join(_DIFFERENCE[one] for one in reasons)})

    for entry in entries.values():
        entry["free"] = entry["allocatable"] - entry["requested"]
        entry["scheduler_free"] = entry["allocatable"] - entry["scheduler_requested"]
        _find_room(entry, places.get(entry["name"]))

    # One that offers none can have none to use.
    rooms = [usable(entries[name]) for name in offers]

    def by_name(item: PodEntry) -> tuple[str, str, str]:
        return item["namespace"], item["name"], item["node"]

    result: Account = {
        "resource": resource,
        "ledger": {"nodes": offers, "allocatable_total": total, "requested": requested, "free": total - requested},
        "scheduler": {
            "nodes": dict(offers),
            "allocatable_total": total,
            "requested": scheduler_requested,
            "free": total - scheduler_requested,
            "nominated": nominated,
            "orphaned": orphaned,
            "dra": by_dra,
            "usable": sum(entries[name]["usable"] for name in offers),
            "tainted": sum(entries[name]["tainted"] for name in offers),
        },
        "nodes": [
            entries[node.name]
            for node in nodes
            if resource in node.allocatable
            or resource in node.capacity
            or any(entries[node.name][key] for key in ("requested", "scheduler_requested", "nominated"))
        ],
        "orphans": sorted(orphans, key=by_name),
        "overcommitted": [
            {key: entry[key] for key in ("name", "allocatable", "requested", "scheduler_requested")}
            for entry in entries.values()
            if entry["scheduler_free"] < 0 or (entry["free"] < 0 and entry["allocatable"])
        ],
        "terminating": sorted(terminating, key=by_name),
        "placeable": {str(size): placeable(rooms, size) for size in SIZES},
        "largest_free": max((count for count, _places in rooms), default=0),
        "differences": sorted(differences, key=by_name),
        "warnings": [],
    }
    result["warnings"] = _warnings(result, nodes, entries, dra_pods)
    return result


def ledger_by(result: Account, accounting: str) -> Ledger:
    """The four keys of the report, by "limits" or by "scheduler"; raises KeyError for anything else."""
    chosen = result[{"limits": "ledger", "scheduler": "scheduler"}[accounting]]
    return {key: chosen[key] for key in LEDGER_KEYS}
