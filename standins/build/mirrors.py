# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Other places for upstream's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from .errors import BuildError


class Mirrors:
    """Host -> base URL for files, host -> registry (with a path) for images."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {str(name): str(place).rstrip("/") for name, place in places.items()}

    def require(self, known: Collection[str]) -> None:
        """Raises BuildError for a name that nothing is asked of, and for an address that is none."""
        names = sorted({*known, *(["docker.io"] if "registry-1.docker.io" in known else [])})
        for name, place in self._places.items():
            if name not in names:
                raise BuildError(
                    f"bundle_mirrors has a place for {name}, which nothing is asked of.",
                    hint=f"write it as one of {', '.join(names)}",
                )
            if wrong := _wrong(place):
                raise BuildError(
                    f"bundle_mirrors: the place for {name} {wrong}.",
                    hint=f"write it as mirror.example/path or https://mirror.example/path: {name}: ...",
                )

    def host(self, name: str) -> str:
        """Who answers for an upstream name, with the port where it is not the usual one."""
        if name == "registry-1.docker.io" and name not in self._places:
            name = "docker.io" if "docker.io" in self._places else name
        return urlsplit(self.url(f"https://{name}")).netloc

    def url(self, url: str) -> str:
        parts = urlsplit(url)
        place = self._places.get(parts.netloc)
        if place is None:
            return url
        base = place if "://" in place else f"https://{place}"
        return f"{base}{parts.path}" + (f"?{parts.query}" if parts.query else "")

    def repository(self, repository: str) -> str:
        host, _, path = repository.partition("/")
        place = self._places.get(host)
        return repository if place is None else f"{place.removeprefix('https://')}/{path}"


def _wrong(place: str) -> str:
    scheme, separator, rest = place.rpartition("://")
    if separator and scheme != "https":
        return f"is not by https ({scheme}://)"
    try:
        parts = urlsplit(f"https://{rest}")
        whole = bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", place)
    except ValueError:
        return "is no address"
    if "@" in parts.netloc:
        return "has a name and a password in it; ~/.netrc is for those of files, skopeo login for those of images"
    if not whole or parts.query or parts.fragment or place in ("None", "https:"):
        return "is no address"
    return ""
