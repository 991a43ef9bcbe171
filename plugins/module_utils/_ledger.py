# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""The GPU ledger of plain JSON objects: what nodes offer, what placed pods hold, what is left. No input or output here.

The rules are in _account; this is their literal definition for readers that have the API's objects as dicts.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._account import COUNTED_PHASES, Ledger
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import (
    ObjectError,
    node_from_json,
    pod_from_json,
)

KEYS = _account.LEDGER_KEYS

#: Something in the cluster cannot be counted; a ledger without it would be a lie.
LedgerError = ObjectError


def _section(holder: t.Any, *path: str) -> dict[str, t.Any]:
    for key in path:
        holder = holder.get(key) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def node_amount(node: t.Mapping[str, t.Any], resource: str, field: str = "allocatable") -> int:
    """How many of ``resource`` a node has in its status; a missing entry is none."""
    if resource not in _section(node, "status", field):
        return 0
    return _account.node_amount(node_from_json(node), resource, field)


def pod_amount(pod: t.Mapping[str, t.Any], resource: str, field: str = "limits") -> int:
    """How many of ``resource`` the containers of a pod name in their limits (or requests)."""
    if not _section(pod, "spec").get("containers"):
        return 0
    return _account.pod_limits(pod_from_json(pod), resource, field)


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
    return _account.account(map(node_from_json, nodes), map(pod_from_json, pods), resource)["ledger"]


def render(result: t.Mapping[str, t.Any]) -> str:
    """The ledger as the text of report.json: the same cluster always gives the same bytes."""
    return json.dumps({key: result[key] for key in KEYS}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
