# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is private to the collection: it may change at any time.

"""What gpu_ledger returns with details, as a page for a terminal. No input or output here."""

from __future__ import annotations

import textwrap
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._account import NOT_READY_TAINTS
from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils._table import columns, languages, width, word

#: A bar has one cell for each device up to this many; beyond, it is to scale.
CELLS = 16
#: Rows of a table, unless asked for more.
ROWS = 40
WIDTH = 100

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_TAINTED = {"en": "behind taints", "ko": "taint 뒤"}
_UNTIL = {"en": "{count}, grace until {until}", "ko": "{count}장, 끝낼 시한 {until}"}


def gauge(used: int, allocatable: int) -> str:
    """Used cells as #, free ones as ., and ! for each that is held beyond what is offered."""
    size = min(max(allocatable, 0), CELLS)
    filled = min(used, allocatable) * size // allocatable if allocatable > 0 else 0
    if used > 0 and size and not filled:
        filled = 1  # a little is not nothing
    over = min(max(0, used - max(allocatable, 0)), CELLS)
    return "[" + "#" * filled + "." * (size - filled) + "!" * over + "]"


def state(node: t.Mapping[str, t.Any]) -> str:
    """What keeps pods off a node, or what is wrong with its devices."""
    notes = []
    not_ready = node["ready"] in ("False", "Unknown") or any(one["key"] in NOT_READY_TAINTS for one in node["taints"])
    if not_ready:
        notes.append("not ready")
    if node["cordoned"]:
        notes.append("cordoned")
    for taint in node["taints"]:
        told = taint["key"] in NOT_READY_TAINTS or (node["cordoned"] and taint["key"] == _UNSCHEDULABLE)
        if not told:
            notes.append(f"taint {taint['key']}" + (f"={taint['value']}" if taint["value"] else ""))
    if not not_ready and not node["cordoned"]:
        if node["scheduler_free"] > node["nominated"] and not node["usable"] + node["tainted"]:
            notes.append("no place for another pod")
        elif node["placeable"] < node["usable"]:
            notes.append(f"places for {node['placeable']} more")
    if node["unhealthy"]:
        notes.append(f"{node['unhealthy']} unhealthy")
    if node["scheduler_free"] < 0:
        notes.append("overcommitted")
    if node["nominated"]:
        notes.append(f"{node['nominated']} promised")
    return ", ".join(notes)


def _sentence(key: str, lang: str, **values: t.Any) -> str:
    return " / ".join(word(key, one).format(**values) for one in languages(lang))


def _more(shown: int, count: int, lang: str) -> list[str]:
    return [_sentence("more", lang, count=count - shown)] if count > shown else []


def _nodes(details: t.Mapping[str, t.Any], lang: str) -> list[str]:
    nodes, count = details["nodes"], details["counts"]["nodes"]
    if not nodes:
        return [word("nobody", lang)]
    # Those that need a look first, when not all can be shown.
    shown = sorted(nodes, key=lambda node: (not state(node), node["name"]))[:ROWS] if len(nodes) > ROWS else nodes
    # One line for each language: side by side they would be wider than what is below.
    rows = [[*(word(key, one) for key in ("node", "gpus", "requested", "free")), "", ""] for one in languages(lang)]
    for node in shown:
        used = node["scheduler_requested"]
        cells = [node["allocatable"], used, node["scheduler_free"]]
        rows.append([node["name"], *map(str, cells), gauge(used, node["allocatable"]), state(node)])
    return [*columns(rows, right=(1, 2, 3)), *_more(len(shown), count, lang)]


def _pods(entries: t.Sequence[t.Mapping[str, t.Any]], count: int, lang: str) -> t.Iterator[str]:
    for entry in entries[:ROWS]:
        where = f" ({entry['node']})" if entry.get("node") else ""
        yield from textwrap.wrap(
            f"{entry['namespace']}/{entry['name']}{where}: {entry['message']}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        # Where what is looked at here does not tell why it waits.
        if entry.get("scheduler_message") and not entry.get("predicted"):
            message = _sentence("scheduler says", lang, message=entry["scheduler_message"])
            yield from textwrap.wrap(message, WIDTH, initial_indent="      ", subsequent_indent="      ")
    yield from ("  " + line for line in _more(min(len(entries), ROWS), count, lang))


def _sums(result: t.Mapping[str, t.Any], lang: str) -> list[str]:
    ledger, scheduler = result["ledger"], result["scheduler"]
    both = ledger["requested"] != scheduler["requested"]
    rows = [[result["resource"], *([word("by limits", lang), word("by scheduler", lang)] if both else [""])]]
    for label, key in (("total", "allocatable_total"), ("requested", "requested"), ("free", "free")):
        rows.append([word(label, lang), str(ledger[key]), *([str(scheduler[key])] if both else [])])
    rows.append([word("usable", lang), *([""] if both else []), str(scheduler["usable"])])
    if scheduler["tainted"]:
        label = " / ".join(_TAINTED[one] for one in languages(lang))
        rows.append([label, *([""] if both else []), str(scheduler["tainted"])])
    sizes = {
        one: ", ".join(word("of", one).format(count=count, size=size) for size, count in result["placeable"].items())
        for one in languages(lang)
    }
    fits = [word("would fit", one).format(sizes=text, most=result["largest_free"]) for one, text in sizes.items()]
    widest = max(width(row[-1]) for row in rows)
    # columns() leaves the last one as it is.
    for row in rows:
        row[-1] = " " * (widest - width(row[-1])) + row[-1]
    return [*columns(rows, right=(1, 2)), *fits]


def account_lines(result: t.Mapping[str, t.Any], lang: str = "en") -> list[str]:
    """The sums, the nodes, the pods that wait and why, the pods that are counted in two ways, those on their way out."""
    details = result["details"]
    counts = details["counts"]
    lines = [*_sums(result, lang), "", *_nodes(details, lang), ""]
    if not result["ledger"]["nodes"]:
        # A name that is mistyped must not look like a result.
        lines += [*result.get("warnings", ()), ""]
    if counts["waiting"]:
        lines.append(_sentence("waiting", lang, count=counts["waiting"]))
        lines.extend(_pods(details["waiting"], counts["waiting"], lang))
    else:
        lines.append(word("none waits", lang))
    if counts["differences"]:
        entries = [{**one, "message": _sentence("two ways", lang, **one)} for one in details["differences"]]
        lines += ["", _sentence("differences", lang), *_pods(entries, counts["differences"], lang)]
    if counts["terminating"]:
        entries = [
            {
                **one,
                "message": " / ".join(
                    _UNTIL[each].format(count=one["scheduler"], until=one["until"]) for each in languages(lang)
                ),
            }
            for one in details["terminating"]
        ]
        lines += ["", _sentence("terminating", lang), *_pods(entries, counts["terminating"], lang)]
    return lines
