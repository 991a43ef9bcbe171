# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Which pins have newer releases, as upstream's own listings say; where a listing cannot be had, that is said, too."""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from . import probe, proxy
from .command import spoken, without_passwords
from .errors import BuildError
from .mirrors import Mirrors
from .pins import ARCHITECTURES, FILE, Pins

CHECKOUT = Path(__file__).resolve().parents[2]
SECONDS, CONNECT_SECONDS = 30, 10
TOO_OFTEN = (403, 429)


class Unknown(Exception):
    """Why a listing cannot be had, in a few words."""


@dataclass(frozen=True)
class Question:
    """A pin, and what lists its releases; `by` is empty where it comes with another pin."""

    name: str
    pinned: str
    listing: Callable[[], Iterable[str]] | None
    by: str


@dataclass(frozen=True)
class Answer:
    """newer, newest, unknown or bound, and the words for it."""

    verdict: str
    words: str


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def shape(version: str) -> str:
    """Releases look like the pinned one but for their numbers; pre-releases and variants have more letters."""
    return re.sub(r"\d+", "0", version)


def compare(pinned: str, listed: Iterable[str]) -> Answer:
    alike = sorted({name for name in listed if shape(name) == shape(pinned)}, key=numbers)
    if not alike:
        raise Unknown(f"its listing has nothing of the form of {pinned}")
    after = [name for name in alike if numbers(name) > numbers(pinned)]
    same_major = [name for name in after if numbers(name)[0] == numbers(pinned)[0]]
    if not after:
        absent = "" if pinned in alike else f", but {pinned} itself is not listed"
        return Answer("newest", f"nothing newer{absent}")
    if not same_major:
        return Answer("newer", f"{after[-1]}, of another major version")
    more = f"; {after[-1]}, of another major version" if after[-1] != same_major[-1] else ""
    return Answer("newer", f"{same_major[-1]}{more}")


@functools.cache
def _reach(host: str) -> str:
    return probe.reach(host, CONNECT_SECONDS)


def _run(command: Sequence[str], url: str) -> subprocess.CompletedProcess[str]:
    # In fewer words than the tools have, and without their patience.
    host = "registry-1.docker.io" if (host := urlsplit(url).netloc) == "docker.io" else host
    if problem := _reach(host):
        raise Unknown(f"{host}: {problem}")
    try:
        return subprocess.run(
            command,
            env=proxy.environment(),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=2 * SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise Unknown(f"the command {command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unknown(f"{host} gives no answer in {2 * SECONDS} s") from None


def _refusal(host: str, status: int) -> str:
    return f"{host} was asked too often, or refuses (HTTP {status}); try again in an hour"


def releases(url: str) -> list[str]:
    """The names of the releases that a forge lists, without drafts and pre-releases."""
    host = urlsplit(url).netloc
    done = _run(
        [
            *("curl", "--silent", "--show-error", "--location", "--proto", "=https", "--proto-redir", "=https"),
            *(
                "--connect-timeout",
                str(CONNECT_SECONDS),
                "--max-time",
                str(SECONDS),
                "--write-out",
                "\n%{http_code}",
                url,
            ),
        ],
        url,
    )
    if done.returncode != 0:
        raise Unknown((done.stderr.strip().splitlines() or [f"curl ended with status {done.returncode}"])[-1])
    text, _, status = done.stdout.rpartition("\n")
    if int(status) in TOO_OFTEN:
        raise Unknown(_refusal(host, int(status)))
    if status != "200":
        raise Unknown(f"{host} answers HTTP {status}")
    try:
        return [
            str(release["tag_name"])
            for release in json.loads(text)
            if not (release.get("draft") or release.get("prerelease"))
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Unknown(f"what {host} answers is no list of releases") from None


def tags(repository: str) -> list[str]:
    """The tags that a registry lists."""
    host = repository.partition("/")[0]
    command = ["skopeo", "--command-timeout", f"{SECONDS}s", "list-tags", f"docker://{repository}"]
    done = _run(command, f"https://{repository}")
    if done.returncode != 0:
        said = spoken((done.stderr.strip().splitlines() or [f"skopeo ended with status {done.returncode}"])[-1])
        if re.search(r"toomanyrequests|too many requests|\b429\b", said, re.IGNORECASE):
            raise Unknown(_refusal(host, 429))
        if re.search(r"\b403\b|denied|forbidden", said, re.IGNORECASE):
            raise Unknown(_refusal(host, 403))
        if "deadline exceeded" in said:
            raise Unknown(f"{host} gives no answer in {SECONDS} s")
        raise Unknown(said)
    try:
        return [str(tag) for tag in json.loads(done.stdout)["Tags"]]
    except (ValueError, LookupError, TypeError):
        raise Unknown(f"what {host} answers is no list of tags") from None


def listings(pins: Pins) -> list[str]:
    """Where releases are listed."""
    return [entry["releases"] for entry in pins.data.values() if isinstance(entry, dict) and entry.get("releases")]


def questions(pins: Pins, mirrors: Mirrors) -> list[Question]:
    asked = []
    for name, entry in pins.data.items():
        if url := isinstance(entry, dict) and entry.get("releases"):
            place = mirrors.url(url)
            asked.append(Question(name, str(entry["version"]), lambda place=place: releases(place), ""))
    chart = pins.chart()
    place = mirrors.repository(chart.repository)
    asked.append(Question("chart fake-gpu-operator", chart.version, lambda place=place: tags(place), ""))
    for image in pins.upstream_images(ARCHITECTURES[0]):
        repository, _, tag = image.ref.rpartition(":")
        place = mirrors.repository(repository)
        listing = None if image.carried_by else lambda place=place: tags(place)
        asked.append(Question(repository, tag, listing, image.carried_by))
    return asked


def answer(question: Question) -> Answer:
    if question.listing is None:
        return Answer("bound", f"comes with {question.by}")
    try:
        return compare(question.pinned, question.listing())
    except (Unknown, BuildError) as problem:
        text = without_passwords(problem.text if isinstance(problem, BuildError) else str(problem))
        return Answer("unknown", f"cannot tell: {text}")


def table(rows: Sequence[tuple[Question, Answer]]) -> list[str]:
    widths = [max(len(text) for text in column) for column in zip(*((q.name, q.pinned) for q, _a in rows))]
    head = f"{'name':{widths[0]}}  {'pinned':{widths[1]}}  newer"
    lines = [f"{q.name:{widths[0]}}  {q.pinned:{widths[1]}}  {a.words}" for q, a in rows]
    count = {verdict: sum(a.verdict == verdict for _q, a in rows) for verdict in ("newer", "newest", "unknown")}
    return [
        head,
        *lines,
        "",
        f"{count['newer']} with something newer, {count['newest']} without, {count['unknown']} that cannot be told",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m standins.build.newer", description=__doc__.splitlines()[0])
    parser.add_argument("--pins", type=Path, default=CHECKOUT / FILE, help="the file of pins (%(default)s)")
    parser.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="NAME=PLACE",
        help="another place for upstream's name; repeatable",
    )
    options = parser.parse_args(argv)
    for word in options.mirror:
        if not re.fullmatch(r"[^=]+=.+", word):
            parser.error(f"--mirror {word}: give it as NAME=PLACE, such as ghcr.io=registry.example/ghcr")
    mirrors = Mirrors(dict(word.split("=", 1) for word in options.mirror))
    try:
        pins = Pins.load(options.pins)
        mirrors.require({*pins.upstream_hosts(), *(urlsplit(url).netloc for url in listings(pins))})
        asked = questions(pins, mirrors)
    except BuildError as problem:
        print(f"pins-check: {problem}", file=sys.stderr)
        return 1
    print(f"pins-check: asking for the releases of {sum(q.listing is not None for q in asked)} pins", flush=True)
    with ThreadPoolExecutor(max_workers=4) as pool:
        rows = list(zip(asked, pool.map(answer, asked)))
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
