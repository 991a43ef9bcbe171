# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Ask upstream for the figures that the pins lack, and write them into the file, for people to review."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from . import probe, proxy
from .command import spoken
from .errors import BuildError
from .mirrors import Mirrors
from .pins import ARCHITECTURES, Pins
from .upstream import CHART_LAYER

#: Field -> figure, of one image or of the chart.
Figures = Mapping[str, str]
Fetch = Callable[[str], bytes]


def by_skopeo(reference: str) -> bytes:
    """The manifest or index under a reference, as it is; raises BuildError."""
    place = urlsplit(f"https://{reference}")
    # skopeo tries a proxy again and again.
    if refused := proxy.trouble(place.hostname or "", place.port or probe.PORT):
        raise BuildError(f"{reference} could not be asked for: {refused}", hint=refused.hint)
    hint = f'check the network, or name a mirror with -e \'{{"bundle_mirrors": {{"{place.netloc}": "registry.example/path"}}}}\''
    try:
        return subprocess.run(
            ["skopeo", "--command-timeout", "60s", "inspect", "--raw", "--retry-times", "3", f"docker://{reference}"],
            capture_output=True,
            check=True,
            env=proxy.environment(),
        ).stdout
    except FileNotFoundError as problem:
        raise BuildError("The command skopeo is not installed.", hint="apt-get install skopeo") from problem
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise BuildError(f"{reference} could not be asked for: {spoken(said[-1])}", hint=hint) from problem


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image_figures(reference: str, fetch: Fetch) -> Figures:
    """The digest of the index and those of the platforms; of an image for one platform, the same for that one."""
    raw = fetch(reference)
    document = json.loads(raw)
    found = {"digest": digest(raw)}
    for entry in document.get("manifests", []):
        platform = entry.get("platform", {})
        if platform.get("os") == "linux" and platform.get("architecture") in ARCHITECTURES:
            found.setdefault(platform["architecture"], entry["digest"])
    return found


def chart_figures(reference: str, fetch: Fetch) -> Figures:
    raw = fetch(reference)
    layers = [layer for layer in json.loads(raw).get("layers", []) if layer.get("mediaType") == CHART_LAYER]
    if len(layers) != 1:
        raise BuildError(f"{reference} is no Helm chart.")
    # The layer is the .tgz itself.
    return {"digest": digest(raw), "sha256": str(layers[0]["digest"]).removeprefix("sha256:")}


def missing(pins: Pins, fetch: Fetch, mirrors: Mirrors) -> dict[str, Figures]:
    """What is asked for, by the text that begins its entry in the file: of all that has no digest."""
    found = {}
    chart = pins.chart()
    if not (chart.digest and chart.sha256):
        reference = f"{mirrors.repository(chart.repository)}:{chart.version}"
        found[f"url: oci://{chart.repository}"] = chart_figures(reference, fetch)
    for image in pins.upstream_images(ARCHITECTURES[0]):
        if not image.digest and not image.carried_by:
            found[f"- ref: {image.ref}"] = image_figures(mirrors.repository(image.ref), fetch)
    return found


def filled_in(text: str, found: Mapping[str, Figures]) -> str:
    """The text of the pins file with these figures where it has null; comments and order stay."""
    lines = text.splitlines(keepends=True)
    for begin, figures in found.items():
        (start,) = [at for at, line in enumerate(lines) if line.strip() == begin]
        left = dict(figures)
        for at in range(start + 1, len(lines)):
            if lines[at].strip().startswith("- ") or not left:
                break
            match = re.fullmatch(r"(\s*(\w+): )null\n", lines[at])
            if match and match[2] in left:
                lines[at] = f"{match[1]}{left.pop(match[2])}\n"
    return "".join(lines)
