# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is private to the collection: it may change at any time.

"""Verdicts and ledgers as text for people and as JUnit XML for machines. No input or output here."""

from __future__ import annotations

import re
import typing as t
import unicodedata
from xml.etree import ElementTree

LANGUAGES = ("en", "ko", "both")
#: So many seconds after its start, a machine's state is still on its way.
JUST_STARTED = 90

_WORDS = {
    "step": ("step", "단계"),
    "verdict": ("verdict", "판정"),
    "checks": ("checks", "검사"),
    "title": ("what", "할 일"),
    "done": ("done", "완료"),
    "not done": ("NOT DONE", "미완료"),
    "where": ("where", "어디"),
    "seen": ("seen", "지금"),
    "expected": ("expected", "기대"),
    "hint": ("to do", "할 것"),
    "first": ("first", "먼저"),
    "origin": ("Origin", "출처"),
    "unknown": ("not recorded on this host", "이 호스트에 적혀 있지 않음"),
    "node": ("node", "노드"),
    "gpus": ("GPUs", "장수"),
    "total": ("allocatable in all", "광고 합계"),
    "requested": ("requested", "요청"),
    "free": ("free", "남음"),
    "by limits": ("by limits", "limits 기준"),
    "by scheduler": ("by the scheduler", "스케줄러 기준"),
    "usable": ("usable now", "지금 쓸 수 있음"),
    "would fit": (
        "Room for pods: {sizes}. The most on one node: {most}.",
        "들어갈 수 있음: {sizes}. 한 노드에 최대 {most}.",
    ),
    "of": ("{count} with {size}", "{size}장짜리 {count}개"),
    "waiting": ("{count} waiting:", "기다리는 파드 {count}개:"),
    "none waits": ("No pod waits for one.", "기다리는 파드가 없습니다."),
    "differences": (
        "Counted in two ways, by limits and as the scheduler does:",
        "두 기준(limits, 스케줄러)으로 다르게 세는 파드:",
    ),
    "two ways": ("{limits} and {scheduler}, because {message}", "{limits}, {scheduler}: {message}"),
    "terminating": (
        "Being deleted, and holding on until they have ended:",
        "삭제되는 중이고 끝날 때까지 쥐고 있는 파드:",
    ),
    "scheduler says": ("the scheduler says: {message}", "스케줄러의 말: {message}"),
    "just started": (
        "The machine started {seconds} s ago, and the cluster may still be catching up: look again in a minute.",
        "머신이 켜진 지 {seconds}초입니다. 클러스터가 아직 따라오는 중일 수 있으니 1분 뒤에 다시 보세요.",
    ),
    "more": ("... and {count} more", "... 그리고 {count}개 더"),
    "nobody": ("(no node advertises any)", "(광고하는 노드가 없음)"),
    "all done": ("All {asked} steps asked for are done.", "판정을 요청한 단계({asked}개)를 모두 마쳤습니다."),
    "some done": ("{done} of {asked} steps are done.", "{asked}개 단계 중 {done}개를 마쳤습니다."),
    "begin": ("Begin with step {step}:", "{step}단계부터 하세요:"),
    "by itself": (
        "Or let the lab do it: ansible-playbook lab.yml --tags {tag}",
        "실습 환경에 맡기려면: ansible-playbook lab.yml --tags {tag}",
    ),
}

# What XML 1.0 cannot hold, not even escaped.
_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def width(text: str) -> int:
    """Columns on a terminal: Korean letters take two."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def pad(text: str, columns: int, right: bool = False) -> str:
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


def languages(lang: str) -> tuple[str, ...]:
    if lang not in LANGUAGES:
        raise ValueError(f"{lang!r} is no language of the lab; choose one of {', '.join(LANGUAGES)}")
    return ("en", "ko") if lang == "both" else (lang,)


def word(key: str, lang: str) -> str:
    english, korean = _WORDS[key]
    return " / ".join({"en": english, "ko": korean}[one] for one in languages(lang))


def in_words(pair: t.Mapping[str, str], lang: str) -> list[str]:
    return [pair[one] for one in languages(lang) if pair.get(one)]


def columns(rows: t.Sequence[t.Sequence[str]], right: t.Container[int] = ()) -> list[str]:
    """Rows as aligned lines; the columns in ``right`` are flush right, the last one is left as it is."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows)]
    widths[-1] = 0
    return ["  ".join(pad(cell, widths[at], at in right) for at, cell in enumerate(row)).rstrip() for row in rows]


def origin_line(origin: t.Any, lang: str = "en") -> str:
    label = word("origin", lang)
    if not isinstance(origin, dict) or not origin.get("origin"):
        return f"{label}: {word('unknown', lang)}"
    versions = origin.get("versions")
    parts = ", ".join(f"{name} {versions[name]}" for name in sorted(versions)) if isinstance(versions, dict) else ""
    return f"{label}: {origin['origin']}" + (f" ({parts})" if parts else "")


def _trouble(verdict: t.Mapping[str, t.Any], lang: str) -> t.Iterator[str]:
    """What a step that is not done lacks: the first ground, then its checks. Those that wait for others are left out."""
    ground = next((ground for ground in verdict["ground"] if not ground["ok"]), None)
    if ground:
        yield from (f"! {word('first', lang)}: {hint}" for hint in in_words(ground["hint"], lang))
        yield f"  {word('seen', lang)}: {ground['seen']}"
    for check in verdict["checks"]:
        if check["ok"] or check["because"]:
            continue
        yield f"x {check['where']} [{check['id']}]"
        labels = [word("seen", lang), word("expected", lang), word("hint", lang)]
        size = max(width(label) for label in labels) + 1
        values = [[check["seen"]], [check["expected"]], in_words(check["hint"], lang)]
        for label, lines in zip(labels, values):
            for number, line in enumerate(lines):
                yield f"    {pad('' if number else label + ':', size)} {line}"


def verdict_lines(result: t.Mapping[str, t.Any], lang: str = "en") -> list[str]:
    """The origin, one line for each step, and beneath it what keeps the step from being done."""
    rows = [[word(key, lang) for key in ("step", "verdict", "checks", "title")]]
    for verdict in result["steps"]:
        fine = sum(check["ok"] for check in verdict["checks"])
        rows.append(
            [
                str(verdict["step"]),
                word("done" if verdict["done"] else "not done", lang),
                f"{fine}/{len(verdict['checks'])}" if verdict["checks"] else "-",
                " / ".join(in_words(verdict["title"], lang)),
            ]
        )
    head, *body = columns(rows, right=(0, 2))
    lines = [origin_line(result.get("origin"), lang), ""]
    verdicts = result["steps"]
    # Without an answer from the cluster all steps lack the same: say it once.
    silent = bool(verdicts) and not any(verdict["checks"] for verdict in verdicts)
    if silent:
        lines.extend([*_trouble(verdicts[0], lang), ""])
    lines.append(head)
    for line, verdict in zip(body, verdicts):
        lines.append(line)
        if not verdict["done"] and not silent:
            lines.extend("      " + trouble for trouble in _trouble(verdict, lang))
    return lines


def _first_hint(verdict: t.Mapping[str, t.Any]) -> tuple[t.Mapping[str, str], str | None]:
    """What to do first for a step, and the tag by which the lab does the rest, unless the hint says so."""
    for ground in verdict["ground"]:
        if not ground["ok"]:
            told = any("--tags" in hint for hint in ground["hint"].values())
            return ground["hint"], None if told else ground["tag"]
    check = next(check for check in verdict["checks"] if not check["ok"])
    return check["hint"], f"step{verdict['step']}"


def summary(result: t.Mapping[str, t.Any], lang: str = "en") -> str:
    """How many steps are done, and the first thing to do for the others."""
    asked = len(result["steps"])
    open_ones = [verdict for verdict in result["steps"] if not verdict["done"]]
    parts = []
    for one in languages(lang):
        counts = {"asked": asked, "done": asked - len(open_ones)}
        if not open_ones:
            parts.append(word("all done", one).format(**counts))
            continue
        hint, tag = _first_hint(open_ones[0])
        parts.append(word("some done", one).format(**counts))
        parts.append(f"{word('begin', one).format(step=open_ones[0]['step'])} {hint[one]}")
        if tag:
            parts.append(word("by itself", one).format(tag=tag))
    started = (result.get("look") or {}).get("started")
    if open_ones and isinstance(started, int) and started < JUST_STARTED:
        parts = [word("just started", one).format(seconds=started) for one in languages(lang)] + parts
    return "\n".join(parts)


def ledger_lines(ledger: t.Mapping[str, t.Any], lang: str = "en") -> list[str]:
    rows = [[word("node", lang), word("gpus", lang)]]
    rows.extend([name, str(count)] for name, count in sorted(ledger["nodes"].items()))
    if not ledger["nodes"]:
        rows.append([word("nobody", lang), ""])
    rows.append([word("total", lang), str(ledger["allocatable_total"])])
    rows.append([word("requested", lang), str(ledger["requested"])])
    rows.append([word("free", lang), str(ledger["free"])])
    first = max(width(row[0]) for row in rows)
    second = max(width(row[1]) for row in rows)
    lines = [f"{pad(row[0], first)}  {pad(row[1], second, right=True)}".rstrip() for row in rows]
    rule = "-" * (first + 2 + second)
    return [lines[0], rule, *lines[1:-3], rule, *lines[-3:]]


def junit(result: t.Mapping[str, t.Any], host: str = "", lang: str = "en") -> str:
    """One suite for each step, one case for each check; a check that waits for another one is skipped."""

    def clean(text: str) -> str:
        return _UNPRINTABLE.sub("\ufffd", text)

    suites = ElementTree.Element("testsuites", name="gsb.fake_gpu_lab")
    for verdict in result["steps"]:
        title = " / ".join(in_words(verdict["title"], lang))
        suite = ElementTree.SubElement(suites, "testsuite", name=clean(f"step {verdict['step']}: {title}"))
        if host:
            suite.set("hostname", clean(host))
        silent = [] if verdict["checks"] else verdict["ground"]
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for check in [*verdict["checks"], *silent]:
            counts["tests"] += 1
            case = ElementTree.SubElement(suite, "testcase", classname=f"step{verdict['step']}", name=check["id"])
            if check["ok"]:
                continue
            hint = " / ".join(in_words(check["hint"], lang))
            if check.get("because"):
                counts["skipped"] += 1
                ElementTree.SubElement(case, "skipped", message=clean(f"{check['because']}: {hint}"))
                continue
            kind = "error" if silent else "failure"
            counts[kind + "s"] += 1
            trouble = ElementTree.SubElement(case, kind, message=clean(hint), type=check["id"])
            about = {"where": check.get("where"), "seen": check["seen"], "expected": check["expected"]}
            trouble.text = clean("\n".join(f"{key}: {value}" for key, value in about.items() if value))
        for key, count in counts.items():
            suite.set(key, str(count))
    for key in ("tests", "failures", "errors", "skipped"):
        suites.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
