# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The proxy before upstream: one reading of the usual variables, for all that downloads or only asks."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import socket
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import BuildError

# The order of curl.
NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
EXCEPTIONS = ("no_proxy", "NO_PROXY")
# No tool of all asks a proxy for these.
LOCAL = ("localhost", "127.0.0.1", "::1")
PORTS = {"http": 80, "https": 443}
SHAPE = "http://name:port, or http://user:password@name:port"


class Refused(OSError):
    """What a proxy does not want, or that it is not there; the text is a sentence without its full stop."""

    def __init__(self, text: str, hint: str, *, host: bool = False) -> None:
        super().__init__(text)
        self.hint = hint
        #: It is about the host that was asked for, not about the proxy itself.
        self.host = host


@dataclass(frozen=True)
class Proxy:
    url: str
    variable: str

    @property
    def parts(self) -> urllib.parse.SplitResult:
        return urllib.parse.urlsplit(self.url)

    @property
    def port(self) -> int:
        return self.parts.port or PORTS.get(self.parts.scheme, 1080)

    def __str__(self) -> str:
        """Without name and password."""
        return f"the proxy {self.parts.scheme}://{self.parts.netloc.rpartition('@')[2]} (from {self.variable})"

    def credentials(self) -> str:
        if self.parts.username is None:
            return ""
        words = (urllib.parse.unquote(word or "") for word in (self.parts.username, self.parts.password))
        return base64.b64encode(":".join(words).encode()).decode()


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, environment[name].strip()) for name in names if environment.get(name, "").strip()), ("", ""))


def configured(environment: Mapping[str, str] | None = None) -> Proxy | None:
    """What the variables say; raises BuildError, without the address, when that is none."""
    variable, text = _first(NAMES, os.environ if environment is None else environment)
    if not text:
        return None
    proxy = Proxy(text if "://" in text else f"http://{text}", variable)
    try:
        whole = bool(proxy.parts.hostname) and proxy.port > 0
    except ValueError:
        whole = False
    if not whole:
        raise BuildError(f"{variable} is no address of a proxy.", hint=f"write it as {SHAPE}; or unset {variable}")
    return proxy


def excepted(host: str, port: int, environment: Mapping[str, str] | None = None) -> bool:
    """Whether NO_PROXY, or that it is this machine, keeps the proxy out of it."""
    _name, text = _first(EXCEPTIONS, os.environ if environment is None else environment)
    host = host.lower().rstrip(".").strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host in LOCAL or (address is not None and address.is_loopback):
        return True
    for word in re.split(r"[\s,]+", text.lower()):
        name, colon, number = word.rpartition(":")
        if colon and number.isdigit() and ":" not in name:
            if int(number) != port:
                continue
            word = name
        if word == "*":
            return True
        if address is not None:
            try:
                if address in ipaddress.ip_network(word.strip("[]"), strict=False):
                    return True
            except ValueError:
                continue
        elif (name := word.removeprefix("*").lstrip(".")) and (host == name or host.endswith(f".{name}")):
            return True
    return False


def for_host(host: str, port: int = 443, environment: Mapping[str, str] | None = None) -> Proxy | None:
    proxy = configured(environment)
    return None if proxy is None or excepted(host, port, environment) else proxy


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """For a tool: the same proxy and the same exceptions under every name that one of them reads."""
    found = dict(os.environ if given is None else given)
    proxy = configured(found)
    _name, exceptions = _first(EXCEPTIONS, found)
    for name in (*NAMES, *EXCEPTIONS):
        found.pop(name, None)
    if proxy is not None:
        found |= dict.fromkeys(NAMES[:2], proxy.url)
        found |= dict.fromkeys(EXCEPTIONS, ",".join([exceptions, *LOCAL]) if exceptions else ",".join(LOCAL))
    return found


def connect(host: str, port: int, timeout: float) -> tuple[socket.socket, bool]:
    """A connection to the host, through the proxy where there is one, and whether it can be spoken through from here.

    Raises Refused for the proxy, OSError for the host.
    """
    proxy = for_host(host, port)
    if proxy is None:
        return socket.create_connection((host, port), timeout=timeout), True
    try:
        link = socket.create_connection((str(proxy.parts.hostname), proxy.port), timeout=timeout)
    except OSError as problem:
        why = "its name is not known" if isinstance(problem, socket.gaierror) else problem.strerror or "no answer"
        raise Refused(
            f"{proxy} cannot be reached: {why}",
            f"correct {proxy.variable} or unset it; NO_PROXY names those that need no proxy",
        ) from problem
    try:
        if proxy.parts.scheme not in PORTS:
            return link, False
        if proxy.parts.scheme == "https":
            link = ssl.create_default_context().wrap_socket(link, server_hostname=proxy.parts.hostname)
        _ask(link, proxy, host, port)
    except OSError as problem:
        link.close()
        if isinstance(problem, Refused):
            raise
        raise Refused(f"{proxy} does not answer as a proxy does: {problem}", f"correct {proxy.variable}") from problem
    return link, proxy.parts.scheme == "http"


def _ask(link: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    known = proxy.credentials()
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"Proxy-Authorization: Basic {known}"] if known else []
    link.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < 65536:
        # One byte after the other: what follows belongs to the host.
        byte = link.recv(1)
        if not byte:
            break
        answer += byte
    match = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    if match is None:
        raise OSError("it hangs up" if not answer else "its answer is no HTTP")
    status = int(match[1])
    if status == 407:
        wants = "does not take the user and password that are given" if known else "asks for a user and a password"
        raise Refused(
            f"{proxy} {wants} (407)", f"write them into {proxy.variable} (special characters as %XX): {SHAPE}"
        )
    if status >= 500:
        raise Refused(f"{proxy} cannot reach {host} ({status})", "ask who runs the proxy, or try later", host=True)
    if not 200 <= status < 300:
        raise Refused(
            f"{proxy} does not let {host} through ({status})",
            f"ask who runs the proxy for {host}, or name a mirror with -e bundle_mirrors",
            host=True,
        )


def trouble(host: str, port: int = 443, timeout: float = 10.0) -> Refused | None:
    """What the proxy has against a host; None when there is no proxy or it has nothing."""
    if for_host(host, port) is None:
        return None
    try:
        connect(host, port, timeout)[0].close()
    except Refused as problem:
        return problem
    return None
