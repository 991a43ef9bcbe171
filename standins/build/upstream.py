# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Parts that are downloaded: upstream's releases, nothing of which is used before it is what its pin says."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from . import images, probe, proxy
from .errors import BuildError
from .parts import Job, Part
from .pins import FILE, Pins, UpstreamFile, UpstreamImage
from .recipes import wheels_part
from .store import sha256_of

FILES = ("k3s", "k3s-airgap-images.tar.zst", "helm.tar.gz", "kwok.yaml", "stage-fast.yaml")
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# curl's own statuses for an answer that broke off: a part of the file is there, and the rest is asked for.
CUT = (18, 28, 52, 55, 56, 92)
# The server cannot go on from there: curl's own statuses, and HTTP's.
NO_RESUME, NO_RANGE = (33, 36), 416
# curl could not write.
UNWRITTEN = 23
FULL = re.compile("could not be written|no space left|quota exceeded", re.IGNORECASE)
# What passes by waiting.
BUSY = (408, 425, 429, 500, 502, 503, 504)
TRIES = 5
LONGEST_WAIT = 120.0
# For so long a registry may send nothing.
SILENCE = 180.0
CURL = (
    *("curl", "--fail", "--silent", "--show-error", "--location", "--netrc-optional"),
    *("--proto", "=https", "--proto-redir", "=https"),
    *("--connect-timeout", "20", "--speed-limit", "1024", "--speed-time", "60"),
    *("--write-out", "%{http_connect} %{http_code} %{url_effective}", "--continue-at", "-"),
)


def require_pins(pins: Pins, arch: str, allow: bool) -> list[str]:
    """The names of what has no pinned checksum; raises BuildError unless these are allowed."""
    there = {file.name for name in ("k3s", "helm", "kwok") for file in pins.files(name, arch)}
    if lacking := sorted({*FILES} - there):
        raise BuildError(f"The pins name no {', '.join(lacking)} for {arch}.", hint=f"see {FILE} for their form")
    unpinned = pins.unpinned(arch)
    if unpinned and not allow:
        raise BuildError(
            f"No checksum is pinned for {', '.join(unpinned)}: nothing unverified is downloaded.",
            hint=f"put the figures into {pins.place} (ansible-playbook playbooks/pin.yml asks upstream for them"
            + ("" if pins.place.match(str(FILE)) else f", with -e bundle_pins_file={pins.place}")
            + "), or take what upstream gives today: -e bundle_allow_unpinned=true",
        )
    return unpinned


@dataclass(frozen=True)
class Answer:
    """How curl ended: its own status, that of the proxy and of the server (0 where none spoke), and Retry-After."""

    #: The address that was asked last, after all redirections.
    url: str
    ended: int
    proxy: int
    server: int
    wait: float | None

    @property
    def unfit_to_resume(self) -> bool:
        return self.ended in NO_RESUME or self.server == NO_RANGE

    @property
    def may_pass(self) -> bool:
        if self.proxy >= 300:
            return self.proxy in BUSY
        return self.ended in CUT or self.server in BUSY


def ask(job: Job, url: str, partial: Path) -> Answer:
    """One request for what is not there yet of a file."""
    headers, said = job.work / "headers", job.work / "said"
    headers.unlink(missing_ok=True)
    command = [*CURL, "--dump-header", headers, "--output", partial, url]
    ended = job.runner.status(command, env=proxy.environment(), output=said)
    connected, answered, last = (said.read_text().split() + ["0", "0", url])[:3]
    # In seconds; a date, the other form, is left to the usual wait.
    after = last_headers(headers).get("retry-after", "")
    return Answer(last, ended, int(connected), int(answered), float(after) if after.isdigit() else None)


def last_headers(path: Path) -> dict[str, str]:
    """Of the last answer in a file of curl's."""
    found: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="latin-1").splitlines()
    except OSError:
        return found
    for line in lines:
        if line.startswith("HTTP/"):
            found = {}
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


def size_told(headers: Path) -> int | None:
    """The size of the whole file, as the server that sends it says."""
    told = last_headers(headers)
    size = told["content-range"].rpartition("/")[2] if "content-range" in told else told.get("content-length", "")
    return int(size) if size.isdigit() else None


def fetch(job: Job, url: str, sha256: str | None, target: Path) -> None:
    """Download a file to its place; what an earlier run has of it is gone on with."""
    wanted = job.mirrors.url(url)
    partial = job.downloads / (sha256 or hashlib.sha256(url.encode()).hexdigest())
    partial.parent.mkdir(parents=True, exist_ok=True)
    job.amount = lambda: (size_of(partial), size_told(job.work / "headers"))
    # What is there may be of another file than the one that is published now.
    if sha256 is None:
        # Nobody could tell whether two pieces are of the same file.
        partial.unlink(missing_ok=True)
    foreign = partial.exists()
    whole = foreign and sha256 == sha256_of(partial)
    failed = 0
    while not whole:
        had = size_of(partial)
        answer = ask(job, wanted, partial)
        if answer.ended == 0:
            found = sha256_of(partial)
            if sha256 in (None, found):
                break
            partial.unlink()
            if not foreign:
                raise BuildError(
                    f"{wanted} is not what was pinned: its sha256 is {found}, not {sha256}. It was thrown away.",
                    hint=f"look at what is there; when it is right after all, correct {job.pins.place}",
                    log=job.runner.log,
                )
            foreign = False
        elif answer.unfit_to_resume and partial.exists():
            # Where a server tells a wrong length, this may be all of it.
            if sha256 == sha256_of(partial):
                break
            partial.unlink()
            foreign = False
        else:
            failed += 1
            if failed == TRIES or not answer.may_pass:
                said = f" from {wanted}: {job.runner.last_words('curl: ')}"
                if answer.ended == UNWRITTEN:
                    said = f" from {wanted}: {partial} could not be written, {free(partial.parent)} are free there"
                raise not_downloaded(job, url.partition("://")[2], answer.url, said, "https://...")
            if size_of(partial) <= had:
                job.runner.pause(min(2.0 ** (failed - 1) if answer.wait is None else answer.wait, LONGEST_WAIT))
    shutil.move(partial, target)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def free(folder: Path) -> str:
    return f"{shutil.disk_usage(folder).free / 1e6:.0f} MB"


def trouble_with(url: str) -> proxy.Refused | None:
    """What a proxy before this address has against it."""
    place = urlsplit(url)
    return proxy.trouble(place.hostname or "", place.port or probe.PORT)


def not_downloaded(job: Job, name: str, asked: str, said: str, example: str) -> BuildError:
    """The failure of a download by upstream's name, from a place that may be another."""
    if FULL.search(said):
        hint = f"make room below {job.work.parents[2]}, or choose another folder with -e lab_cache_dir=/path"
    elif refused := trouble_with(asked):
        said, hint = f": {refused}", refused.hint
    else:
        host = name.partition("/")[0]
        hint = f'check the network, or name a mirror with -e \'{{"bundle_mirrors": {{"{host}": "{example}"}}}}\''
    return BuildError(
        f"{job.runner.part} could not be downloaded{said}", hint=f"{hint}; then run this again", log=job.runner.log
    )


def copy_image(job: Job, repository: str, reference: str, platform_digest: str | None = None) -> Path:
    """What a registry has under a tag or digest, as skopeo's plain folder: manifest.json and a file for each blob."""
    folder = job.work / "image"
    place = job.mirrors.repository(repository)

    def failure(silent: bool = False) -> BuildError:
        said = f": {place} sent nothing for {SILENCE:.0f} s" if silent else f": {job.runner.last_words()}"
        return not_downloaded(job, repository, f"https://{place}", said, "registry.example/path")

    total = image_size(job, place, f"@{platform_digest}" if platform_digest else reference)
    if total is None and trouble_with(f"https://{place}"):
        # skopeo would try the proxy again and again.
        raise failure()
    job.amount = lambda: (folder_size(folder), total)
    platform = ["--override-os", "linux", "--override-arch", job.arch]
    command = ["skopeo", "copy", "--retry-times", "3", *platform, f"docker://{place}{reference}", f"dir:{folder}"]
    for _turn in range(2):
        # skopeo itself would wait for a silent registry for ever.
        status = job.runner.status(command, env=proxy.environment(), sign=lambda: folder_size(folder), patience=SILENCE)
        if status is not None:
            break
        shutil.rmtree(folder, ignore_errors=True)
    if status != 0:
        raise failure(silent=status is None)
    return folder


def image_size(job: Job, place: str, reference: str) -> int | None:
    """What the blobs of an image, or of the platform out of an index, are together; None where nobody says."""
    raw = job.work / "raw"
    command = ["skopeo", "--command-timeout", "60s", "inspect", "--raw", f"docker://{place}{reference}"]
    try:
        if job.runner.status(command, env=proxy.environment(), output=raw) != 0:
            return None
        document = json.loads(raw.read_bytes())
        for entry in document.get("manifests", []):
            if (entry["platform"]["os"], entry["platform"]["architecture"]) == ("linux", job.arch):
                return image_size(job, place, f"@{entry['digest']}")
        return sum(blob["size"] for blob in [document["config"], *document["layers"]])
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def folder_size(folder: Path) -> int:
    with suppress(OSError):
        return sum(size_of(path) for path in folder.iterdir())
    return 0


def digest_of(path: Path) -> str:
    return f"sha256:{sha256_of(path)}"


def file_part(
    name: str, title: str, files: list[UpstreamFile], *, program: bool = False, unpack: Mapping[str, str] | None = None
) -> Part:
    """Files as they are published; of an archive, the programs that `unpack` names (member -> file)."""
    members = unpack or {}

    def build(job: Job) -> None:
        for file in files:
            target = (job.work if members else job.out) / file.name
            fetch(job, file.url, file.sha256, target)
            if members:
                extract(target, members, job.out)
            elif program:
                target.chmod(0o755)
        job.facts["urls"] = {file.name: file.url for file in files}

    return Part(
        name=name,
        title=title,
        build=build,
        settings={"files": {file.url: file.sha256 for file in files}, "unpack": dict(members)},
        first_time=20,
    )


def extract(archive: Path, members: Mapping[str, str], out: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            for member, name in members.items():
                try:
                    stream = tar.extractfile(member)
                except KeyError:
                    stream = None
                if stream is None:
                    raise BuildError(f"{archive.name} holds no file {member}.")
                with stream, (out / name).open("wb") as file:
                    shutil.copyfileobj(stream, file)
                (out / name).chmod(0o755)
    except (tarfile.TarError, EOFError, zlib.error) as problem:
        raise BuildError(f"{archive.name} is no archive: {problem}.") from problem


def chart_part(pins: Pins) -> Part:
    chart = pins.chart()
    name = f"fake-gpu-operator-{chart.version}.tgz"

    def build(job: Job) -> None:
        folder = copy_image(job, chart.repository, f"@{chart.digest}" if chart.digest else f":{chart.version}")
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        layers = [layer for layer in manifest.get("layers", []) if layer.get("mediaType") == CHART_LAYER]
        if len(layers) != 1:
            raise BuildError(f"{chart.repository} {chart.version} is no Helm chart.", log=job.runner.log)
        packed = folder / str(layers[0]["digest"]).partition(":")[2]
        found = sha256_of(packed)
        if chart.sha256 and found != chart.sha256:
            raise BuildError(
                f"{name} is not what was pinned: its sha256 is {found}, not {chart.sha256}.",
                hint=f"look at what is there; when it is right after all, correct {job.pins.place}",
                log=job.runner.log,
            )
        shutil.move(packed, job.out / name)
        job.facts["digest"] = digest_of(folder / "manifest.json")

    return Part(
        "upstream-chart",
        f"fake-gpu-operator chart {chart.version}",
        build,
        settings={"repository": chart.repository, "digest": chart.digest, "sha256": chart.sha256},
        first_time=5,
    )


def image_part(image: UpstreamImage) -> Part:
    """One platform of an image, asked for by the digest of its index, as an archive under its tag."""

    def build(job: Job) -> None:
        repository, _, tag = image.ref.rpartition(":")
        folder = copy_image(job, repository, f"@{image.digest}" if image.digest else f":{tag}", image.platform)
        found = digest_of(folder / "manifest.json")
        if image.platform and found != image.platform:
            raise BuildError(
                f"{image.ref} for {job.arch} is not what was pinned: its digest is {found}, not {image.platform}.",
                hint=f"look at what is there; when it is right after all, correct {job.pins.place}",
                log=job.runner.log,
            )
        if (arch := architecture(folder)) not in (job.arch, ""):
            raise BuildError(
                f"{image.ref} is for {arch} alone, and the bundle is for {job.arch}.",
                hint=f"pin the digest of an index that has {job.arch}, in {job.pins.place}",
                log=job.runner.log,
            )
        pack(folder, image.ref, job.arch, job.out / f"{image.name}.tar")
        job.facts["digest"] = found

    return Part(
        f"upstream-image-{image.name}",
        f"image {image.ref}",
        build,
        settings={"ref": image.ref, "digest": image.digest, "platform": image.platform},
        first_time=10,
    )


def architecture(folder: Path) -> str:
    """What an image says of itself; '' where it says nothing."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    config = folder / str(manifest["config"]["digest"]).partition(":")[2]
    return str(json.loads(config.read_text(encoding="utf-8")).get("architecture", ""))


def pack(folder: Path, ref: str, arch: str, archive: Path) -> None:
    """skopeo's folder as an archive, unchanged: the digests stay those that were pinned."""
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    blobs = {"sha256:" + hashlib.sha256(text).hexdigest(): text}
    for part in [manifest["config"], *manifest["layers"]]:
        path = folder / part["digest"].partition(":")[2]
        if digest_of(path) != part["digest"]:
            raise BuildError(f"{ref}: its part {part['digest']} does not have that digest.")
        blobs[part["digest"]] = path.read_bytes()
    descriptor = {
        "mediaType": manifest.get("mediaType", OCI_MANIFEST),
        "digest": next(iter(blobs)),
        "size": len(text),
        "platform": {"os": "linux", "architecture": arch},
    }
    images.write_archive(archive, ref, descriptor, blobs)


def all_parts(pins: Pins, arch: str) -> dict[str, Part]:
    """Every part of the upstream bundle."""
    k3s, kwok, helm = (str(pins.data[name]["version"]) for name in ("k3s", "kwok", "helm"))
    by_name = {file.name: file for name in ("k3s", "helm", "kwok") for file in pins.files(name, arch)}
    manifests = [by_name["kwok.yaml"], by_name["stage-fast.yaml"]]
    airgap = by_name["k3s-airgap-images.tar.zst"]
    parts = [
        file_part("upstream-k3s", f"k3s {k3s}", [by_name["k3s"]], program=True),
        file_part("upstream-k3s-images", f"images of k3s {k3s}", [airgap]),
        file_part("upstream-helm", f"Helm {helm}", [by_name["helm.tar.gz"]], unpack={f"linux-{arch}/helm": "helm"}),
        file_part("upstream-kwok-manifests", f"KWOK manifests {kwok}", manifests),
        chart_part(pins),
        *(image_part(image) for image in pins.upstream_images(arch) if not image.carried_by),
        wheels_part(pins, arch),
    ]
    return {part.name: part for part in parts}
