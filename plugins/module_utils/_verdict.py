# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""What a verdict on one step is made of, in Korean and English. No input or output here."""

from __future__ import annotations

import json
import typing as t

NONE = "(none)"
BLOCKED = "(not looked at)"
LINE = 200

Hint = tuple[str, str]


def josa(word: str, particles: str) -> str:
    """A word with the Korean particle that its last sound asks for: josa("gpu-1", "이/가") is "gpu-1 이"."""
    closed, opened = particles.split("/")
    last = word[-1:].lower()
    if "가" <= last <= "힣":
        final = (ord(last) - ord("가")) % 28
    else:
        # As it is read aloud: digits in Korean (1 일, 2 이), letters as at the end of an English word or alone.
        alone = not word[-2:-1].isalpha()
        final = {"": 0, "1": 8, "7": 8, "8": 8, "l": 8}.get(
            last, 1 if last in ("036lmnr" if alone else "036bckmnp") else 0
        )
    if particles == "으로/로" and final == 8:
        return f"{word} {opened}"
    return f"{word} {closed if final else opened}"


def short(value: t.Any) -> str:
    """A value as one line that fits a table."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    text = " ".join(text.split())
    return text if len(text) <= LINE else text[: LINE - 1] + "…"


def exact(value: t.Any) -> str:
    """A value as its file has it, so that "4" and 4 differ."""
    return NONE if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _words(hint: Hint) -> dict[str, str]:
    return {"ko": hint[0], "en": hint[1]}


class Verdict:
    """Collects what one step needs before it, and what it must have left behind."""

    def __init__(self, step: int, title: Hint) -> None:
        self.step = step
        self.title = title
        self.ground: list[dict[str, t.Any]] = []
        self.checks: list[dict[str, t.Any]] = []

    def needs(self, name: str, ok: bool, *, seen: t.Any, expected: t.Any, tag: str, hint: Hint) -> None:
        self.ground.append(
            {
                "id": name,
                "ok": bool(ok),
                "seen": short(seen),
                "expected": short(expected),
                "tag": tag,
                "hint": _words(("", "") if ok else hint),
            }
        )

    def check(
        self,
        name: str,
        ok: bool,
        *,
        seen: t.Any,
        expected: t.Any,
        where: str,
        hint: Hint,
        after: str | None = None,
    ) -> None:
        """One check. When the one it builds on (``after``) failed, it fails for that reason and says so."""
        because = None
        if after is not None:
            base = next(one for one in self.checks if one["id"] == after)
            if not base["ok"]:
                because = base["because"] or after
                ok, seen, hint = False, BLOCKED, (base["hint"]["ko"], base["hint"]["en"])
        self.checks.append(
            {
                "id": name,
                "ok": bool(ok),
                "seen": short(seen),
                "expected": short(expected),
                "where": where,
                "because": because,
                "hint": _words(("", "") if ok else hint),
            }
        )

    def result(self) -> dict[str, t.Any]:
        return {
            "step": self.step,
            "title": _words(self.title),
            "done": bool(self.checks) and all(one["ok"] for one in self.checks),
            "ground": self.ground,
            "checks": self.checks,
        }
