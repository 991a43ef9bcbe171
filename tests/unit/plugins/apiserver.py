# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Nodes and pods served as an API server does: over TLS, in pages, as protobuf or JSON. And a proxy before it."""

from __future__ import annotations

import collections
import contextlib
import datetime
import ipaddress
import json
import re
import selectors
import socket
import socketserver
import ssl
import threading
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.gsb.fake_gpu_lab.tests.bench import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"


# Certificates


class Authority:
    """A certificate authority and what it has signed, as files."""

    def __init__(self, folder, name="lab"):
        self.folder, self.name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
        self.file = self._write("ca.crt", self._certificate.public_bytes(serialization.Encoding.PEM))

    def _write(self, name, data):
        path = self.folder / f"{self.name}-{name}"
        path.write_bytes(data)
        return str(path)

    def _sign(self, subject, key, *extensions):
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, subject, *extensions):
        """The files of a new certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = self._sign(subject, key.public_key(), *extensions)
        return (
            self._write(f"{subject}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{subject}.key", pem),
        )

    def server_context(self):
        """For 127.0.0.1 and that name only; shows who a client is when it has a certificate of this authority."""
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server", names))
        context.load_verify_locations(self.file)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


# Encoded by hand: what Kubernetes would never send, and answers that are no lists


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return protobuf.varint(number << 3 | 2) + protobuf.varint(len(data)) + data


def envelope(kind, raw):
    return b"k8s\0" + field(1, field(1, "v1") + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


# The server


class Request(t.NamedTuple):
    path: str
    query: dict[str, str]
    headers: t.Any
    caller: str


class Server:
    """Serves what it is given until told to misbehave: server.trouble[path] holds what happens to the next requests,
    one each, a function of the handler and the query that gives True when it has answered."""

    def __init__(self, nodes=(), pods=(), context=None):
        self.lists = {"/api/v1/nodes": list(nodes), "/api/v1/pods": list(pods)}
        self.single = {}
        self.page = 2
        self.protobuf = True
        self.selects = True
        self.token = None
        self.trouble = collections.defaultdict(collections.deque)
        self.seen: list[Request] = []
        self.connections = 0
        self.over = threading.Event()
        self._context = context

    def asked(self, path):
        return [request.query for request in self.seen if request.path == path]

    def always(self, path, trouble):
        self.trouble[path] = Endless(trouble)

    def __enter__(self):
        handler = type("Handler", (Handler,), {"api": self})
        self._http = Quiet(("127.0.0.1", 0), handler)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if self._context is not None:
            self.url = f"https://127.0.0.1:{self.port}"
            # The handshake belongs to the thread of the connection.
            self._http.socket = self._context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_error):
        self.over.set()
        self._http.shutdown()
        self._http.server_close()


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, _request, _address):
        """Clients that leave are what many tests are about."""


class Endless:
    """A queue that never runs out."""

    def __init__(self, trouble):
        self._trouble = trouble

    def popleft(self):
        return self._trouble

    def __bool__(self):
        return True


class Handler(BaseHTTPRequestHandler):
    api: Server
    protocol_version = "HTTP/1.1"
    timeout = 20
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.api.connections += 1

    def log_message(self, *_args):
        pass

    def say(self, status, body, kind="application/json", **headers):
        """Each header by its name with underscores; None leaves one out that is sent otherwise."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": kind, "Content-Length": str(len(body))}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        self.send_response(status)
        for name, value in sent.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def speaks_protobuf(self):
        return self.api.protobuf and PROTOBUF in self.headers["Accept"]

    def refuse(self, status, message, **headers):
        if self.speaks_protobuf():
            raw = field(1, "") + field(2, "Failure") + field(3, message)
            return self.say(status, envelope("Status", raw), PROTOBUF, **headers)
        return self.say(status, {"kind": "Status", "status": "Failure", "code": status, "message": message}, **headers)

    def caller(self):
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        if certificate:
            return dict(one[0] for one in certificate["subject"])["commonName"]
        return "holder" if self.headers.get("Authorization") == f"Bearer {self.api.token}" else "nobody"

    def do_GET(self):
        api, url = self.api, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        api.seen.append(Request(url.path, query, self.headers, self.caller()))
        waiting = api.trouble[url.path]
        if waiting and waiting.popleft()(self, query):
            return
        if api.token is not None and api.seen[-1].caller == "nobody":
            self.refuse(401, "Unauthorized")
        elif url.path in api.lists:
            self.list(url.path, query)
        elif url.path in api.single:
            self.say(200, api.single[url.path])
        else:
            self.refuse(404, f'"{url.path.rpartition("/")[2]}" not found')

    def list(self, path, query):
        items = self.api.lists[path]
        if self.api.selects and "fieldSelector" in query:
            items = [one for one in items if selected(one, query["fieldSelector"])]
        start = int(query.get("continue", "0"))
        end = start + min(self.api.page, int(query["limit"]))
        self.answer(path, items[start:end], str(end) if items[end:] else "")

    def answer(self, path, items, token=""):
        kind = "Node" if path.endswith("nodes") else "Pod"
        metadata = {"resourceVersion": "7", **({"continue": token} if token else {})}
        if self.speaks_protobuf():
            encoded = [protobuf.encode(kind, one) for one in items]
            return self.say(200, protobuf.envelope(kind, metadata, encoded), PROTOBUF)
        return self.say(200, {"kind": f"{kind}List", "metadata": metadata, "items": items})


def selected(pod, selector):
    fields = {
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "status.phase": pod["status"].get("phase", ""),
        "status.nominatedNodeName": pod["status"].get("nominatedNodeName", ""),
    }
    terms = (re.fullmatch(r"(.*?)(!?)=(.*)", term).groups() for term in selector.split(","))
    return all((fields[name] != value) == bool(unlike) for name, unlike, value in terms)


# Ways to misbehave


def refusing(status, message="no", **headers):
    def trouble(handler, _query):
        handler.refuse(status, message, **headers)
        return True

    return trouble


def saying(body, kind="application/json", **headers):
    def trouble(handler, _query):
        handler.say(200, body, kind, **headers)
        return True

    return trouble


def paging(*pages):
    """The items and the token of one page after the other."""
    left = iter(pages)

    def trouble(handler, _query):
        handler.answer(urllib.parse.urlsplit(handler.path).path, *next(left))
        return True

    return trouble


def later(trouble):
    """Only where a list goes on."""
    return lambda handler, query: "continue" in query and trouble(handler, query)


def fine(_handler, _query):
    return False


def hang(handler, _query):
    """Says nothing until the test is over."""
    handler.api.over.wait()
    handler.close_connection = True
    return True


def drop(handler, _query):
    """Hangs up instead of answering."""
    handler.close_connection = True
    return True


def cut(handler, _query):
    """Promises more than it sends: a list that is whole as far as it goes."""
    handler.say(200, {"kind": "List", "metadata": {}, "items": []}, Content_Length="5000")
    handler.close_connection = True
    return True


def cut_chunks(handler, _query):
    """The same without the length being told."""
    body = json.dumps({"kind": "List", "metadata": {}, "items": []}).encode()
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    handler.say(200, chunk, Content_Length=None, Transfer_Encoding="chunked")
    handler.close_connection = True
    return True


# A proxy


class Proxy:
    """Connects to whatever is asked for, or to one address for all names, and remembers who asked.

    status is what it says instead when it does not want to; without the credentials that it wants, it says 407. It listens
    by itself, or with a socket that it is given.
    """

    def __init__(self, status=200, to=None, credentials=None, listener=None):
        self.asked: list[tuple[str, str]] = []
        proxy = self

        class Tunnel(socketserver.StreamRequestHandler):
            def handle(self):
                _method, target, _version = self.rfile.readline().decode().split()
                headers = {}
                for line in iter(self.rfile.readline, b"\r\n"):
                    name, _colon, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                given = headers.get("proxy-authorization", "")
                proxy.asked.append((target, given))
                told = 407 if credentials is not None and given != credentials else status
                more = 'Proxy-Authenticate: Basic realm="lab"\r\n' if told == 407 else ""
                with contextlib.ExitStack() as stack:
                    if told == 200:
                        host, port = to or target.rsplit(":", 1)
                        try:
                            other = stack.enter_context(socket.create_connection((host, int(port))))
                        except OSError:
                            told = 502
                    self.wfile.write(f"HTTP/1.1 {told} Told\r\n{more}\r\n".encode())
                    if told == 200:
                        pump(self.connection, other)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel, bind_and_activate=listener is None)
        if listener is not None:
            self._server.socket.close()
            self._server.socket, self._server.server_address = listener, listener.getsockname()
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()


def pump(one, other):
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _events in ready.select():
                try:
                    data = key.fileobj.recv(65536)
                    key.data.sendall(data)
                except ConnectionError:
                    return
                if not data:
                    return
