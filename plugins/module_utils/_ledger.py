# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""The GPU ledger: what the nodes offer, what placed pods hold, what is left. No input or output here."""

from __future__ import annotations

import json
import re
import typing as t
from fractions import Fraction

#: A placed pod in one of these phases holds its devices.
COUNTED_PHASES = frozenset(("Pending", "Running"))

#: The kubelet leaves "0" behind when a device plugin has gone; such a node offers nothing.
SMALLEST_OFFER = 1

KEYS = ("nodes", "allocatable_total", "requested", "free")

_LARGEST = 2**63 - 1

_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)

_SCALE = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


class Ledger(t.TypedDict):
    nodes: dict[str, int]
    allocatable_total: int
    requested: int
    free: int


class LedgerError(ValueError):
    """Something in the cluster cannot be counted; a ledger without it would be a lie."""


def quantity(value: t.Any) -> Fraction:
    """The exact value of a Kubernetes quantity, such as 4, "4", "1k", "2e0" or "1500m"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, str):
        raise LedgerError(f"{value!r} is not a Kubernetes quantity")
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise LedgerError(f"{value!r} is not a Kubernetes quantity")
    sign, number, suffix, exponent = match.groups()
    result = Fraction(number)
    if suffix:
        result *= _SCALE[suffix]
    elif exponent:
        result *= Fraction(10) ** int(exponent)
    return -result if sign == "-" else result


def whole(value: t.Any) -> int:
    """A quantity of things that cannot be split, such as devices."""
    result = quantity(value)
    if result.denominator != 1:
        raise LedgerError(f"{value!r} is not a whole number")
    if result < 0:
        raise LedgerError(f"{value!r} is negative")
    if result > _LARGEST:
        raise LedgerError(f"{value!r} is larger than Kubernetes can count")
    return int(result)


def _section(holder: t.Any, *path: str) -> dict[str, t.Any]:
    for key in path:
        holder = holder.get(key) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def _called(item: t.Mapping[str, t.Any]) -> str:
    metadata = _section(item, "metadata")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise LedgerError("an object without a name cannot be counted")
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def node_amount(node: t.Mapping[str, t.Any], resource: str, field: str = "allocatable") -> int:
    """How many of ``resource`` a node has in its status; a missing entry is none."""
    amounts = _section(node, "status", field)
    if resource not in amounts:
        return 0
    try:
        return whole(amounts[resource])
    except LedgerError as error:
        raise LedgerError(f"node {_called(node)}: status.{field}[{resource}]: {error}") from error


def pod_amount(pod: t.Mapping[str, t.Any], resource: str, field: str = "limits") -> int:
    """How many of ``resource`` the containers of a pod name in their limits (or requests)."""
    total = 0
    for container in _section(pod, "spec").get("containers") or []:
        amounts = _section(container, "resources", field)
        if resource in amounts:
            try:
                total += whole(amounts[resource])
            except LedgerError as error:
                where = f"pod {_called(pod)}, container {container.get('name')}"
                raise LedgerError(f"{where}: {field}[{resource}]: {error}") from error
    return total


def is_placed(pod: t.Mapping[str, t.Any]) -> bool:
    """A node was found for the pod, and it has not ended."""
    return bool(_section(pod, "spec").get("nodeName")) and _section(pod, "status").get("phase") in COUNTED_PHASES


def ledger(
    nodes: t.Iterable[t.Mapping[str, t.Any]],
    pods: t.Iterable[t.Mapping[str, t.Any]],
    resource: str,
) -> Ledger:
    """Nodes that offer the resource, their sum, what placed pods hold by their limits, and the difference.

    The difference may be negative: a node can lose devices that pods hold.
    """
    offers: dict[str, int] = {}
    for node in nodes:
        amount = node_amount(node, resource)
        if amount >= SMALLEST_OFFER:
            offers[_called(node)] = amount
    requested = sum(pod_amount(pod, resource) for pod in pods if is_placed(pod))
    total = sum(offers.values())
    return {
        "nodes": {name: offers[name] for name in sorted(offers)},
        "allocatable_total": total,
        "requested": requested,
        "free": total - requested,
    }


def render(result: t.Mapping[str, t.Any]) -> str:
    """The ledger as the text of report.json: the same cluster always gives the same bytes."""
    return json.dumps({key: result[key] for key in KEYS}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
