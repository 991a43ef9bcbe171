# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""Why a pod waits: what kube-scheduler's filters say of it, node by node. No input or output here.

Filters run in the scheduler's order and a node's first refusal is its own: NodeUnschedulable, TaintToleration,
NodeAffinity, NodeResourcesFit (which names everything that is short), and what DynamicResources decides is left open. The
reasons are read as advice, so there a node that selector or affinity rule out is only that, cordoned or tainted or not.
Not looked at: ports, volumes, affinity between pods, topology spread.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._account import (
    BLOCKING_EFFECTS,
    NOT_READY_TAINTS,
    SMALLEST_OFFER,
    allocatable_value,
    assigned,
    is_pod_level,
    named,
    pod_requests,
    unassigned,
)
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import (
    Node,
    Pod,
    Requirement,
    Taint,
    Term,
    Toleration,
)

#: Why a pod waits, those that concern the pod first, then those that concern nodes in the order of the filters.
REASONS = (
    "deleting",
    "scheduling_gate",
    "nominated",
    "cordoned",
    "not_ready",
    "taint",
    "selector_or_affinity",
    "pods",
    "cpu",
    "memory",
    "other_resource",
    "reserved",
    "fragmented",
    "too_large",
    "too_few",
    "too_few_anywhere",
    "not_advertised",
    "dra",
    "fits",
)

#: How many nodes a reason names.
SHOWN_NODES = 10

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_SHORTAGES = frozenset(("reserved", "fragmented", "too_large", "too_few", "too_few_anywhere"))
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


class Reason(t.TypedDict):
    reason: str
    #: The taint, the resource, the gates, the claims or the node it is about; empty otherwise.
    detail: str
    #: The nodes it keeps the pod from: how many, how many of them have enough of the resource free, the first names.
    count: int
    enough: int
    nodes: list[str]
    message: str


class Waiting(t.TypedDict):
    namespace: str
    name: str
    asks: int
    reasons: list[Reason]
    message: str
    #: What the scheduler would say by what was looked at here, and what it did say (condition PodScheduled).
    predicted: str
    scheduler_message: str


# The scheduler's filters


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """core/v1 Toleration.ToleratesTaint; Gt and Lt need a feature gate that is off by default."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated_taint(taints: t.Iterable[Taint], tolerations: t.Iterable[Toleration]) -> Taint | None:
    """TaintToleration: the first taint that keeps the pod off (FindMatchingUntoleratedTaint)."""
    for taint in taints:
        if taint.effect in BLOCKING_EFFECTS and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def unschedulable(node: Node, tolerations: t.Iterable[Toleration]) -> bool:
    """NodeUnschedulable: the node is cordoned, and the pod does not tolerate it."""
    return node.unschedulable and not any(tolerates(one, _UNSCHEDULABLE) for one in tolerations)


def _integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def label_matches(requirement: Requirement, labels: t.Mapping[str, str]) -> bool:
    """labels.Requirement.Matches of apimachinery; one that cannot be parsed matches nothing."""
    key, operator, values = requirement
    if operator in ("In", "NotIn"):
        return bool(values) and (labels.get(key) in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return not values and (key in labels) == (operator == "Exists")
    if operator in ("Gt", "Lt") and len(values) == 1:
        have, want = _integer(labels.get(key, "")), _integer(values[0])
        if have is None or want is None:
            return False
        return have > want if operator == "Gt" else have < want
    return False


def field_matches(requirement: Requirement, node: Node) -> bool:
    """A requirement of matchFields, which knows metadata.name and one value only."""
    key, operator, values = requirement
    if operator not in ("In", "NotIn") or len(values) != 1:
        return False
    have = node.name if key == "metadata.name" else ""
    return (have == values[0]) == (operator == "In")


def term_matches(term: Term, node: Node) -> bool:
    """nodeaffinity nodeSelectorTerm.match: all requirements; an empty term matches nothing."""
    return (
        bool(term.expressions or term.fields)
        and all(label_matches(one, node.labels) for one in term.expressions)
        and all(field_matches(one, node) for one in term.fields)
    )


def node_affinity(pod: Pod, node: Node) -> bool:
    """NodeAffinity: nodeSelector, and one term of the required affinity (RequiredNodeAffinity.Match)."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.affinity is None or any(term_matches(term, node) for term in pod.affinity)


class Room:
    """What a node has free, as the scheduler's NodeInfo has it."""

    __slots__ = ("allocatable", "free", "node", "nominated", "slots")

    def __init__(self, node: Node, resources: t.Iterable[str]) -> None:
        self.node = node
        self.allocatable = {name: allocatable_value(node, name) for name in resources}
        self.free = dict(self.allocatable)
        #: How many more pods it takes.
        self.slots = allocatable_value(node, "pods")
        self.nominated: list[tuple[Pod, dict[str, int]]] = []

    def charge(self, amounts: t.Mapping[str, int]) -> None:
        self.slots -= 1
        for name, amount in amounts.items():
            self.free[name] -= amount


def asked(pod: Pod) -> dict[str, int]:
    """Everything a pod asks for, in the scheduler's units: computePodResourceRequest of noderesources."""
    names = {name for one in (*pod.containers, *pod.init_containers) for name in one.requests}
    names.update(pod.overhead, filter(is_pod_level, pod.pod_requests))
    amounts = {name: pod_requests(pod, name) for name in sorted(names)}
    return {name: amount for name, amount in amounts.items() if amount}


def _charges(pod: Pod, resources: t.Iterable[str]) -> dict[str, int]:
    amounts = {name: pod_requests(pod, name) for name in resources}
    return {name: amount for name, amount in amounts.items() if amount}


def insufficient(
    asks: t.Mapping[str, int], slots: int, free: t.Mapping[str, int], by_dra: t.Container[str]
) -> list[str]:
    """NodeResourcesFit: everything of which a node has too little (fitsRequest)."""
    short = [name for name, amount in asks.items() if amount > free[name] and name not in by_dra]
    return ["pods", *short] if slots < 1 else short


def extended_resources(device_classes: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    """The extended resources that DeviceClasses (as JSON) stand for (KEP-5004)."""
    found = set()
    for one in device_classes:
        name = (one.get("metadata") or {}).get("name")
        found.add(f"deviceclass.resource.kubernetes.io/{name}")
        found.add((one.get("spec") or {}).get("extendedResourceName"))
    return {name for name in found if name}


# From refusals to reasons

#: Why a node refuses a pod ("short" is a reason only when all nodes are known), and the taint, resource or claims.
Refusal = tuple[str, str]


class _Group:
    """The nodes that refuse a pod for the same reason."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        #: How many of them have enough of the resource free, and how many offer any.
        self.enough = 0
        self.offering = 0


class _Barred(t.NamedTuple):
    """Why a pod does not get to NodeResourcesFit on a node."""

    #: What the scheduler says, and what a person is told.
    said: Refusal
    told: Refusal


class _Verdict(t.NamedTuple):
    """What the filters said of a pod."""

    #: By what is told.
    groups: dict[Refusal, _Group]
    #: How many nodes the scheduler says each refusal of.
    said: dict[Refusal, int]
    #: How many nodes there are.
    total: int
    #: The largest offer of a node, and the most that is free on one.
    largest_offer: int
    largest_free: int
    #: The most that is free on one of the nodes that selector and affinity let it use.
    largest_matching: int
    #: The most that is free on one of the nodes that got to NodeResourcesFit, and on all of these.
    largest_open: int
    sum_open: int


_NO_MATCH: Refusal = ("selector_or_affinity", "")


def _before_fit(pod: Pod, rooms: t.Iterable[Room]) -> list[_Barred | None]:
    """NodeUnschedulable, TaintToleration and NodeAffinity: what they say of each node, None when they let the pod pass."""
    selective = bool(pod.node_selector) or pod.affinity is not None
    refusals: list[_Barred | None] = []
    for room in rooms:
        node = room.node
        matches = not selective or node_affinity(pod, node)
        refusal = None if matches else _NO_MATCH
        if node.unschedulable and unschedulable(node, pod.tolerations):
            refusal = ("cordoned", "")
        elif node.taints and (taint := untolerated_taint(node.taints, pod.tolerations)):
            if taint.key in NOT_READY_TAINTS:
                refusal = ("not_ready", taint.key)
            else:
                refusal = ("taint", f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}")
        refusals.append(_Barred(refusal, refusal if matches else _NO_MATCH) if refusal else None)
    return refusals


def _without_nominated(pod: Pod, room: Room) -> tuple[int, dict[str, int]]:
    """Slots and resources less what pods of higher or equal priority were promised (addGENominatedPods)."""
    slots, free = room.slots, room.free
    for other, amounts in room.nominated:
        if other.priority >= pod.priority and other.uid != pod.uid:
            slots -= 1
            free = {name: amount - amounts.get(name, 0) for name, amount in free.items()}
    return slots, free


def _filter(
    pod: Pod,
    asks: t.Mapping[str, int],
    resource: str,
    rooms: t.Iterable[Room],
    before_fit: t.Iterable[_Barred | None],
    dra: set[str],
) -> _Verdict:
    """Run a pod through the filters on every node."""
    groups: dict[Refusal, _Group] = {}
    said: dict[Refusal, int] = {}
    want = asks[resource]
    total = largest_offer = largest_free = largest_matching = largest_open = sum_open = 0
    delegated = dra.intersection(asks)

    for room, barred in zip(rooms, before_fit):
        total += 1
        offer = room.allocatable[resource]
        slots, free = _without_nominated(pod, room) if room.nominated else (room.slots, room.free)
        have = free[resource]
        if offer > largest_offer:
            largest_offer = offer
        if have > largest_free:
            largest_free = have
        if have > largest_matching and not (barred and barred.told == _NO_MATCH):
            largest_matching = have
        if barred:
            refusals = [barred.told]
            said[barred.said] = said.get(barred.said, 0) + 1
        else:
            if have > 0:
                sum_open += have
                if have > largest_open:
                    largest_open = have
            by_dra = {name for name in delegated if room.allocatable[name] < SMALLEST_OFFER} if delegated else ()
            refusals = []
            for name in insufficient(asks, slots, free, by_dra):
                if name in ("pods", "cpu", "memory"):
                    refusals.append((name, ""))
                elif name != resource:
                    refusals.append(("other_resource", name))
                elif offer < SMALLEST_OFFER:
                    refusals.append(("not_advertised", ""))
                else:
                    refusals.append(("reserved" if room.free[resource] >= want else "short", ""))
            if not refusals:
                refusals.append(("dra", ", ".join(pod.claims)) if by_dra or pod.claims else ("fits", ""))
        for refusal in refusals:
            if not barred:
                said[refusal] = said.get(refusal, 0) + 1
            group = groups.get(refusal)
            if group is None:
                group = groups[refusal] = _Group()
            group.nodes.append(room.node.name)
            group.enough += have >= want
            group.offering += offer >= SMALLEST_OFFER
    # Whatever else keeps the pod from nodes: no node could take it anyway.
    if not delegated and want > largest_offer:
        groups.setdefault(("short", "") if largest_offer else ("not_advertised", ""), _Group())
    return _Verdict(groups, said, total, largest_offer, largest_free, largest_matching, largest_open, sum_open)


def _shortage(want: int, verdict: _Verdict) -> str:
    """What it means that nodes which offer the resource have too few free."""
    if want > verdict.largest_offer:
        return "too_large"
    if verdict.largest_open < want <= verdict.sum_open:
        return "fragmented"
    return "too_few" if verdict.largest_free >= want else "too_few_anywhere"


def _subject(group: _Group) -> tuple[str, bool]:
    """The nodes of a sentence, and whether there are several."""
    count = len(group.nodes)
    subject = " and ".join(sorted(group.nodes)) if count < 3 else f"{count} nodes"
    if group.enough:
        subject += " with enough free" if group.enough == count else f" ({group.enough} of them with enough free)"
    return subject, count > 1


def _sentence(reason: str, detail: str, group: _Group, verdict: _Verdict, want: int, resource: str, pod: Pod) -> str:
    """What a reason means, to follow a colon."""
    subject, many = _subject(group)
    be, have, do = ("are", "have", "do") if many else ("is", "has", "does")
    if reason == "too_large":
        return f"no node has as many as {want}, the largest offers {verdict.largest_offer}"
    if reason == "fragmented":
        return f"{verdict.sum_open} are free on the nodes it may use, but no more than {verdict.largest_open} on any of them"
    if reason == "too_few_anywhere":
        return f"{verdict.sum_open or 'none'} {'is' if verdict.sum_open < 2 else 'are'} free on the nodes it may use"
    if reason == "not_advertised" and not verdict.largest_offer:
        return f"no node advertises {resource}"
    if reason == "selector_or_affinity" and len(group.nodes) == verdict.total:
        return f"no node matches its {_selection(pod)}"
    texts = {
        "cordoned": f"{subject} {be} cordoned",
        "not_ready": f"{subject} {be} not ready",
        "taint": f"{subject} {have} the taint {detail}, which the pod does not tolerate",
        "selector_or_affinity": f"{subject} {do} not match its {_selection(pod)}",
        "pods": f"{subject} {have} no room for another pod",
        "cpu": f"{subject} {have} too little cpu free",
        "memory": f"{subject} {have} too little memory free",
        "other_resource": f"{subject} {have} too little {detail} free",
        "reserved": f"{subject} {have} free only what a pod of higher or equal priority was promised",
        "too_few": f"{subject} {have} too few free",
        "not_advertised": f"{subject} {do} not advertise {resource}",
        "dra": f"on {subject} its ResourceClaim{'s' if ',' in detail else ''} {detail or 'for the devices'} would have to be met",
        "fits": f"{subject} would take it, by its size, selectors, affinity to nodes and tolerations",
    }
    return texts[reason]


def _selection(pod: Pod) -> str:
    parts = []
    if pod.node_selector:
        parts.append("node selector " + ",".join(f"{key}={value}" for key, value in sorted(pod.node_selector.items())))
    if pod.affinity is not None:
        parts.append("required node affinity")
    return " and ".join(parts)


def _node_reasons(pod: Pod, want: int, resource: str, verdict: _Verdict) -> tuple[list[Reason], list[str]]:
    """Reasons that concern nodes, the most telling first, and those of their sentences that matter to a person."""
    found: list[tuple[tuple[bool, bool, int], Reason, bool]] = []
    hopeless = want > verdict.largest_offer
    for (key, detail), group in verdict.groups.items():
        reason = _shortage(want, verdict) if key == "short" else key
        entry: Reason = {
            "reason": reason,
            "detail": detail,
            "count": len(group.nodes),
            "enough": group.enough,
            "nodes": sorted(group.nodes)[:SHOWN_NODES],
            "message": _sentence(reason, detail, group, verdict, want, resource, pod),
        }
        if reason in ("dra", "fits") or reason in _SHORTAGES:
            telling = True
        elif reason == "not_advertised":
            telling = not verdict.largest_offer
        elif key == "selector_or_affinity" and len(group.nodes) == verdict.total:
            telling = True
        else:
            telling = not hopeless and bool(group.enough if verdict.largest_matching >= want else group.offering)
        found.append(
            ((not telling, reason not in _SHORTAGES and not group.enough, REASONS.index(reason)), entry, telling)
        )
    found.sort(key=lambda item: (item[0], -item[1]["count"], item[1]["detail"]))
    reasons = [entry for _rank, entry, _telling in found]
    told = [entry["message"] for _rank, entry, telling in found if telling] or [entry["message"] for entry in reasons]
    return reasons, told


def _of_pod(reason: str, detail: str, message: str, nodes: list[str] | None = None) -> Reason:
    names = nodes or []
    return {"reason": reason, "detail": detail, "count": len(names), "enough": 0, "nodes": names, "message": message}


_WORDS = {
    "cordoned": "node(s) were unschedulable",
    "not_ready": "node(s) had untolerated taint(s)",
    "taint": "node(s) had untolerated taint(s)",
    "selector_or_affinity": "node(s) didn't match Pod's node affinity/selector",
    "pods": "Too many pods",
    "cpu": "Insufficient cpu",
    "memory": "Insufficient memory",
    "dra": "cannot allocate all claims",
}


def _predicted(verdict: _Verdict, resource: str) -> str:
    """framework.FitError.Error, without what preemption adds; empty when a node fits."""
    if not verdict.total:
        return "no nodes available to schedule pods"
    if ("fits", "") in verdict.groups:
        return ""
    counts: dict[str, int] = {}
    for (reason, detail), count in verdict.said.items():
        word = _WORDS.get(reason) or f"Insufficient {detail or resource}"
        counts[word] = counts.get(word, 0) + count
    words = sorted(f"{count} {word}" for word, count in counts.items())
    return f"0/{verdict.total} nodes are available: {', '.join(words)}."


def waiting(
    nodes: t.Iterable[Node],
    pods: t.Iterable[Pod],
    resource: str,
    device_classes: t.Iterable[t.Mapping[str, t.Any]] = (),
) -> list[Waiting]:
    """Each pod that asks for the resource, has no node and has not ended, and why it waits; sorted by name.

    ``pods`` are all pods of the cluster: what those with a node hold is what the others cannot have. Raises ObjectError
    when one of them cannot be read.
    """
    pods = list(pods)
    unplaced = [(pod, asked(pod)) for pod in pods if unassigned(pod)]
    waits = [(pod, asks) for pod, asks in unplaced if asks.get(resource)]
    if not waits:
        return []
    resources = sorted({name for _pod, asks in waits for name in asks})
    rooms = {node.name: Room(node, resources) for node in sorted(nodes, key=lambda node: node.name)}
    leaving: dict[str, list[str]] = {}
    for pod in pods:
        if not assigned(pod) or pod.node not in rooms:
            continue
        rooms[pod.node].charge(_charges(pod, resources))
        if pod.terminating_since:
            leaving.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name}")
    for pod, asks in unplaced:
        # A promise of a node that has gone binds nobody.
        if pod.nominated_node in rooms:
            rooms[pod.nominated_node].nominated.append((pod, asks))

    dra = extended_resources(device_classes)
    all_rooms = list(rooms.values())
    known: dict[t.Any, _Verdict] = {}
    passes: dict[t.Any, list[_Barred | None]] = {}
    result = []
    for pod, asks in sorted(waits, key=lambda item: (item[0].namespace, item[0].name)):
        want = asks[resource]
        reasons: list[Reason] = []
        told: list[str] = []
        predicted = ""
        if pod.terminating_since:
            reasons.append(_of_pod("deleting", "", "it is being deleted"))
        elif pod.gates:
            gates = ", ".join(pod.gates)
            reasons.append(_of_pod("scheduling_gate", gates, f"it is held back by the scheduling gate {gates}"))
        else:
            if pod.nominated_node in rooms:
                victims = leaving.get(pod.nominated_node)
                message = f"it was promised node {pod.nominated_node} and waits for "
                message += f"{named(victims)} to leave" if victims else "pods to leave"
                reasons.append(_of_pod("nominated", pod.nominated_node, message, [pod.nominated_node]))
            # Pods that are alike are filtered once; a nominated pod is alike none.
            alike: t.Any = (
                tuple(asks.items()),
                tuple(pod.node_selector.items()),
                pod.affinity,
                pod.tolerations,
                pod.claims,
                pod.priority,
                pod.uid if pod.nominated_node in rooms else "",
            )
            if alike not in known:
                choosy = (tuple(pod.node_selector.items()), pod.affinity, pod.tolerations)
                if choosy not in passes:
                    passes[choosy] = _before_fit(pod, all_rooms)
                known[alike] = _filter(pod, asks, resource, all_rooms, passes[choosy], dra)
            verdict = known[alike]
            predicted = _predicted(verdict, resource)
            found, told = _node_reasons(pod, want, resource, verdict)
            reasons += found
            if not all_rooms:
                told = ["there is no node"]
        told = [
            one["message"] for one in reasons if one["reason"] in ("deleting", "scheduling_gate", "nominated")
        ] + told
        if pod.scheduler not in ("", "default-scheduler"):
            told.append(f"it is up to the scheduler {pod.scheduler}, which may have other rules")
        result.append(
            Waiting(
                namespace=pod.namespace,
                name=pod.name,
                asks=want,
                reasons=reasons,
                message=f"asks for {want} of {resource}: {'; '.join(told)}",
                predicted=predicted,
                scheduler_message=pod.condition.message,
            )
        )
    return result
