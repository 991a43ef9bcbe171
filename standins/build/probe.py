# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Can upstream be reached? Asked of every name a download needs, at once, within a few seconds."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from . import proxy

PORT = 443


@dataclass(frozen=True)
class Choice:
    """Where the bundle comes from, and why, in one line."""

    origin: str
    reason: str
    reachable: bool | None = None


def reach(host: str, timeout: float) -> str:
    """'' when a TLS connection to the host (with its port where it is another) stands within the time, else why not."""
    place = urlsplit(f"//{host}")
    name, port = place.hostname or host, place.port or PORT
    try:
        plain, spoken = proxy.connect(name, port, timeout)
        with plain:
            if spoken:
                ssl.create_default_context().wrap_socket(plain, server_hostname=name).close()
            return ""
    except proxy.Refused as problem:
        return str(problem)
    except socket.gaierror:
        return "its name is not known"
    except TimeoutError:
        return f"no answer in {timeout:g} s"
    except ssl.SSLError as problem:
        return f"TLS fails: {problem.reason or problem}"
    except OSError as problem:
        return problem.strerror or str(problem)


def probe(hosts: Sequence[str], timeout: float, reach_host: Callable[[str, float], str] = reach) -> dict[str, str]:
    """What is wrong with each host; {} when all answer. Takes at most twice the timeout, whatever the resolver does."""
    answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for host in hosts:
        # A daemon: a resolver that hangs must not keep the program from ending.
        threading.Thread(target=lambda name=host: answers.put((name, reach_host(name, timeout))), daemon=True).start()
    until = time.monotonic() + 2 * timeout
    problems = dict.fromkeys(hosts, f"no answer in {2 * timeout:g} s")
    for _host in hosts:
        try:
            host, problem = answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        problems[host] = problem
    return {host: problem for host, problem in problems.items() if problem}


def choose(
    wanted: str,
    hosts: Sequence[str],
    unpinned: Sequence[str] = (),
    timeout: float = 3.0,
    reach_host: Callable[[str, float], str] = reach,
) -> Choice:
    """Decide between upstream and the stand-ins: never a mix of both.

    `unpinned` is what may not be downloaded, because nobody has vouched for its checksum and the user did not allow it.
    """
    if wanted == "standin":
        return Choice("standin", "stand-ins are built, as bundle_source=standin says")
    if wanted == "upstream":
        return Choice("upstream", "upstream's releases are downloaded, as bundle_source=upstream says")
    problems = probe(hosts, timeout, reach_host)
    if not problems and unpinned:
        first = unpinned[0] + (f" and {len(unpinned) - 1} more" if len(unpinned) > 1 else "")
        return Choice(
            "standin",
            f"upstream can be reached, but no checksum is pinned for {first}: stand-ins are built "
            "(-e bundle_source=upstream -e bundle_allow_unpinned=true takes what upstream gives today)",
            True,
        )
    if not problems:
        return Choice("upstream", f"upstream can be reached ({', '.join(hosts)}): its releases are downloaded", True)
    first = sorted(problems)[0]
    others = f", and {len(problems) - 1} more of {len(hosts)} names" if len(problems) > 1 else f"; {len(hosts)} asked"
    return Choice(
        "standin", f"upstream cannot be reached ({first}: {problems[first]}{others}): stand-ins are built", False
    )
