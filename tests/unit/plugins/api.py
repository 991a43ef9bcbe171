# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A Kubernetes API on loopback that serves one look, page by page, and can misbehave in chosen ways."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def release_secret(release, name="gpu-operator"):
    body = {
        "name": name,
        "version": release["revision"],
        "info": {"status": release["status"]},
        "config": release["values"],
        "chart": {
            "metadata": {"name": release["chart"], "version": release["version"]},
            "values": release["defaults"],
        },
    }
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(body).encode()))).decode()
    return {
        "metadata": {"name": f"sh.helm.release.v1.{name}.v{release['revision']}", "namespace": "gpu-operator"},
        "type": "helm.sh/release.v1",
        "data": {"release": packed},
    }


def topology_maps(topology):
    pools = {pool: {"gpuCount": count} for pool, count in topology["pools"].items()}
    maps = [{"metadata": {"name": "topology"}, "data": {"topology.yml": json.dumps({"nodePools": pools})}}]
    for node, count in topology["nodes"].items():
        gpus = [{"id": f"GPU-{number}", "status": {}} for number in range(count)]
        maps.append({"metadata": {"name": f"topology-{node}"}, "data": {"topology.yml": json.dumps({"gpus": gpus})}})
    maps.append({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "-"}})
    return maps


class Api:
    def __init__(self, look):
        self.lists = {
            "/api/v1/nodes": look["nodes"],
            "/api/v1/pods": look["pods"],
            "/api/v1/namespaces/gpu-operator/configmaps": topology_maps(look["topology"]),
            "/api/v1/namespaces/gpu-operator/secrets": [release_secret(look["release"])] if look["release"] else [],
        }
        if look["stages"]:
            self.lists["/apis/kwok.x-k8s.io/v1alpha1/stages"] = [{"metadata": {"name": "node-initialize"}}]
        self.namespaces = {"fake-lab"} if look["namespace"] else set()
        self.page = 3
        self.seen = []
        #: path -> what to do instead of answering: a status, or a function of the handler
        self.trouble = {}

    def __enter__(self):
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args):
                pass

            def say(self, status, document, reason=None):
                body = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status, reason)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def refuse(self, status, message):
                self.say(status, {"kind": "Status", "status": "Failure", "code": status, "message": message})

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                api.seen.append((url.path, query))
                trouble = api.trouble.get(url.path)
                if callable(trouble):
                    trouble = trouble(self, query)
                    if trouble == "answered":
                        return
                if trouble:
                    self.refuse(trouble, f'{url.path} is forbidden: User "learner" cannot list it')
                elif url.path in api.lists:
                    items = api.lists[url.path]
                    start = int(query.get("continue", "0"))
                    rest = items[start + api.page :]
                    metadata = {"resourceVersion": "7", **({"continue": str(start + api.page)} if rest else {})}
                    self.say(200, {"kind": "List", "metadata": metadata, "items": items[start : start + api.page]})
                elif url.path.rpartition("/")[2] in api.namespaces:
                    self.say(200, {"kind": "Namespace", "metadata": {"name": url.path.rpartition("/")[2]}})
                else:
                    self.refuse(404, "the server could not find the requested resource")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_args):
        self.server.shutdown()
        self.server.server_close()


def drip(handler, _query):
    """Answers for ever, one byte at a time."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        handler.close_connection = True
        return "answered"


def cut(handler, _query):
    """Promises more than it sends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    handler.close_connection = True
    return "answered"


def prose(handler, _query):
    handler.say(200, b"<html>Please log in</html>")
    return "answered"


def answering(document):
    def answer(handler, _query):
        handler.say(200, document)
        return "answered"

    return answer


def once(api, path, meanwhile):
    """Something happens while the first answer is on its way."""

    def happen(_handler, _query):
        del api.trouble[path]
        meanwhile()

    return happen
