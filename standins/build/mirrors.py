# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Other places for upstream's names."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


class Mirrors:
    """Host -> base URL for files, host -> registry (with a path) for images."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {str(name): str(place).removesuffix("/") for name, place in places.items()}

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
