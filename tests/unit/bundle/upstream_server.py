# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Upstream in one server over TLS: files with ranges, and a registry to read from. It misbehaves as told."""

from __future__ import annotations

import collections
import copy
import hashlib
import http.server
import io
import json
import pathlib
import tarfile
import threading
import urllib.parse

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, pins, upstream
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOSTS = ("github.com", "get.helm.sh", "ghcr.io", "registry.k8s.io", "docker.io")
ARCH = "amd64"


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Upstream:
    """files: path -> bytes; manifests: (repository, tag or digest) -> (type, bytes); blobs: digest -> bytes.

    trouble[path] holds what happens to the next requests for a path, one each: a function of the handler and of the
    content that gives True when it has answered.
    """

    def __init__(self, context, address=("127.0.0.1", 0)):
        self.address = address
        self.files, self.manifests, self.blobs = {}, {}, {}
        #: What a file is, where that matters.
        self.kinds = {}
        self.trouble = collections.defaultdict(collections.deque)
        self.asked = []
        self._context = context

    def __enter__(self):
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args):
                pass

            def say(self, status, body=b"", **headers):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def find(self, path):
                if path in upstream.files:
                    return upstream.kinds.get(path, "application/octet-stream"), upstream.files[path]
                repository, _, last = path.removeprefix("/v2/").rpartition("/")
                kind = repository.rpartition("/")[2]
                repository = repository.rpartition("/")[0]
                if kind == "manifests":
                    return upstream.manifests.get((repository, last))
                if kind == "blobs" and last in upstream.blobs:
                    return "application/octet-stream", upstream.blobs[last]
                return None

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                upstream.asked.append((path, self.headers.get("Range", "")))
                if path == "/v2/":
                    self.say(200)
                    return
                found = self.find(path)
                waiting = upstream.trouble[path]
                if waiting and waiting.popleft()(self, found and found[1]):
                    return
                if found is None:
                    self.say(404, b"not here")
                    return
                kind, content = found
                start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
                if start >= len(content) > 0 and start:
                    self.say(416, Content_Range=f"bytes */{len(content)}")
                elif start:
                    self.say(206, content[start:], Content_Range=f"bytes {start}-{len(content) - 1}/{len(content)}")
                else:
                    more = {"Docker-Content-Digest": digest(content)} if "/manifests/" in path else {}
                    self.say(200, content, Content_Type=kind, **more)

        self.server = http.server.ThreadingHTTPServer(self.address, Handler)
        self.server.daemon_threads = True
        self.server.socket = self._context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_args):
        self.server.shutdown()
        self.server.server_close()

    @property
    def place(self):
        return f"127.0.0.1:{self.server.server_address[1]}"

    def add_image(self, repository, tag, arch, content, kind="application/vnd.oci.image.layer.v1.tar+gzip"):
        """An image of one layer under its tag, without an index: its digest."""
        config = json.dumps(
            {"architecture": arch, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
        ).encode()
        self.blobs |= {digest(config): config, digest(content): content}
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {
                    "mediaType": "application/vnd.oci.image.config.v1+json",
                    "digest": digest(config),
                    "size": len(config),
                },
                "layers": [{"mediaType": kind, "digest": digest(content), "size": len(content)}],
            }
        ).encode()
        for name in (tag, digest(manifest)):
            self._add(repository, name, "application/vnd.oci.image.manifest.v1+json", manifest)
        return digest(manifest)

    def add_index(self, repository, tag, contents):
        """An image for each architecture, and what attests them, as buildx writes it: the pin of all that."""
        platforms = {arch: self.add_image(repository, arch, arch, content) for arch, content in contents.items()}
        attested = self.add_image(repository, "attested", "unknown", b"attested")
        listing = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": [
                    {
                        "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "digest": platform,
                        "size": len(self.manifests[repository, platform][1]),
                        "platform": {"architecture": arch, "os": "unknown" if arch == "unknown" else "linux"},
                    }
                    for arch, platform in {"unknown": attested, **platforms}.items()
                ],
            }
        ).encode()
        for name in (tag, digest(listing)):
            self._add(repository, name, "application/vnd.oci.image.index.v1+json", listing)
        return {"digest": digest(listing), **platforms}

    def _add(self, repository, name, kind, content):
        self.manifests[repository, name] = (kind, content)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def archive(members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class Lab:
    """Upstream, and pins that fit what it has."""

    def __init__(self, server, tmp_path):
        self.server, self.tmp_path = server, tmp_path
        self.pins = copy.deepcopy(yaml.safe_load((ROOT / pins.FILE).read_text())[pins.VARIABLE])
        self.pins["kube-client"]["wheels"] = []
        for name in ("k3s", "helm", "kwok"):
            for file in self.pins[name]["upstream"]:
                arch = file["arch"]
                content = f"{file['name']} for {arch}\n".encode() * 5000
                if file["name"] == "helm.tar.gz":
                    content = archive({f"linux-{arch}/helm": content, f"linux-{arch}/LICENSE": b"free"})
                self.server.files[pathlib.PurePosixPath("/", *file["url"].split("/")[3:]).as_posix()] = content
                file["sha256"] = sha256(content)
        self.chart = archive({"fake-gpu-operator/Chart.yaml": b"name: fake-gpu-operator\n"})
        (file,) = self.pins["fake-gpu-operator"]["upstream"]
        file["sha256"] = sha256(self.chart)
        file["digest"] = self.server.add_image(
            "run-ai/fake-gpu-operator/fake-gpu-operator", "0.2.1", "unknown", self.chart, upstream.CHART_LAYER
        )
        for image in self.pins["images"]:
            if "carried_by" not in image["upstream"]:
                repository, _, tag = image["ref"].partition("/")[2].rpartition(":")
                contents = {arch: f"{image['ref']} for {arch}".encode() * 1000 for arch in pins.ARCHITECTURES}
                image["upstream"] |= self.server.add_index(repository, tag, contents)

    def image(self, word):
        return next(image for image in self.pins["images"] if word in image["ref"])

    def run(self, only=(), **more):
        path = self.tmp_path / "pins.yml"
        path.write_text(yaml.safe_dump({pins.VARIABLE: self.pins}))
        self.said = []
        settings = builder.Settings(
            checkout=ROOT,
            cache=self.tmp_path / "cache",
            bundle=self.tmp_path / "bundle",
            origin="upstream",
            pins_file=path,
            only=frozenset(only),
            **{"arch": ARCH, "mirrors": dict.fromkeys(HOSTS, self.server.place), **more},
        )
        return builder.Builder(settings, self.said.append).run()

    def fails(self, only, **more):
        with pytest.raises(BuildError) as raised:
            self.run(only, **more)
        assert not (self.tmp_path / "bundle").exists()
        return str(raised.value)


# Ways to misbehave


def refusing(status, **headers):
    def trouble(handler, _content):
        handler.say(status, b"no", **headers)
        return True

    return trouble


def cutting(share):
    """Breaks off after this share of the content."""

    def trouble(handler, content):
        start = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        rest = content[start:]
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(rest)))
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        handler.wfile.write(rest[: int(len(rest) * share)])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(2)
        return True

    return trouble


def trickling(pieces, between=lambda _sent: None):
    """All of it, piece by piece; between them it waits for what it is given the size of so far."""

    def trouble(handler, content):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        size = -(-len(content) // pieces)
        for start in range(0, len(content), size):
            handler.wfile.write(content[start : start + size])
            handler.wfile.flush()
            if start + size < len(content):
                between(start + size)
        return True

    return trouble
