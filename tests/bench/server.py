# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that knows nothing but the lists of nodes and pods in a folder made by cluster.py.

As the real one: JSON or protobuf by the Accept header, pages by limit and continue, everything in one body without a
limit. Field selectors are ignored, so that every client reads the same bytes; but no pod here is promised a node.
"""

from __future__ import annotations

import http.server
import json
import os
import sys
import urllib.parse
from pathlib import Path

import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
DISCOVERY = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "v1",
        "resources": [
            {
                "name": name,
                "singularName": name[:-1],
                "namespaced": name == "pods",
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for name, kind in (("pods", "Pod"), ("nodes", "Node"))
        ],
    },
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, value: object, kind: str = "application/json") -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path in DISCOVERY:
            self.answer(200, DISCOVERY[url.path])
        elif url.path not in ("/api/v1/nodes", "/api/v1/pods"):
            self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})
        else:
            plural = url.path.rsplit("/", 1)[1]
            if "status.nominatedNodeName!=" in query.get("fieldSelector", ""):
                self.nothing(plural)
            elif query.get("limit", "0") == "0":
                self.whole(plural)
            else:
                self.page(plural, int(query.get("continue", "page-0").removeprefix("page-")))

    def nothing(self, plural: str) -> None:
        """A list without items."""
        kind = {"nodes": "Node", "pods": "Pod"}[plural]
        if PROTOBUF in self.headers.get("Accept", ""):
            self.answer(200, protobuf.envelope(kind, {"resourceVersion": "1"}, []), PROTOBUF)
        else:
            self.answer(200, {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": []})

    def page(self, plural: str, number: int) -> None:
        encoded = PROTOBUF in self.headers.get("Accept", "")
        with (self.folder / f"{plural}-{number}.{'pb' if encoded else 'json'}").open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(200)
            self.send_header("Content-Type", PROTOBUF if encoded else "application/json")
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.flush()
            sent = 0
            while sent < size:
                sent += os.sendfile(self.connection.fileno(), file.fileno(), sent, size - sent)

    def whole(self, plural: str) -> None:
        """All pages as one list of JSON, in chunks."""
        pages = sorted(self.folder.glob(f"{plural}-*.json"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        kind = {"nodes": "NodeList", "pods": "PodList"}[plural]
        self.chunk(b'{"kind":"%s","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[' % kind.encode())
        for number, path in enumerate(pages):
            body = path.read_bytes()
            items = body[body.index(b'"items":[') + 9 : body.rindex(b"]}")]
            self.chunk(b"," + items if number and items else items)
        self.chunk(b"]}\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def main() -> None:
    """Serves the folder given on the loopback; prints its port."""
    Handler.folder = Path(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
