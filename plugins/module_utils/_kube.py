# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""Reading from a Kubernetes API, complete or not at all. The only file that knows kubernetes.core and its client."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import signal
import sys
import typing as t
import urllib.parse

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
except ImportError:
    AUTH_ARG_SPEC = {}

try:
    import kubernetes
    import kubernetes.dynamic
    import kubernetes.dynamic.exceptions
    import urllib3

    from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core_client

    IMPORT_ERROR = None
except ImportError as import_error:
    IMPORT_ERROR = str(import_error)

PAGE = 500
_WRAPPING = re.compile(r"^<?[\w.]+(?:\(host=.*?\)| object at \w+>): ")
# To connect, and between two pieces of an answer; time_limit() bounds the whole.
SECONDS = (5, 60)


class KubeError(Exception):
    """What the API (or the way to it) said, in its own words, and what sort of trouble it is."""

    #: The client is not installed; the settings are unusable; nobody answers (yet); the caller is not let in;
    #: the thing is not there; the place in a long list is lost; the answer makes no sense.
    KINDS = ("library", "config", "unreachable", "refused", "missing", "expired", "answer")

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _TimeIsUp(BaseException):
    """Not an Exception, so that no library on the way can swallow it."""


def connection_options() -> dict[str, t.Any]:
    return copy.deepcopy(AUTH_ARG_SPEC)


@contextlib.contextmanager
def time_limit(seconds: float) -> t.Iterator[None]:
    """Bound everything inside: name lookup, credential helpers, a server that drips its answer."""

    def ring(_number: int, _frame: t.Any) -> t.NoReturn:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeIsUp:
        raise KubeError("unreachable", f"no complete answer from the API server within {seconds:g} seconds") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _refusal(status: t.Any, reason: t.Any, body: t.Any) -> KubeError:
    """An answer that is not the one asked for, with the server's own sentence."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    try:
        message = json.loads(body)["message"]
    except (TypeError, ValueError, KeyError):
        message = " ".join((body or "").split())[:300]
    kind = {401: "refused", 403: "refused", 404: "missing", 410: "expired"}.get(status)
    if kind is None:
        kind = "unreachable" if not status or status == 429 or status >= 500 else "answer"
    said = " ".join(str(part) for part in (status, reason) if part)
    return KubeError(kind, f"{said}: {message}" if message else said)


class Reader:
    """Reads lists and single objects as plain data, straight from the answers."""

    def __init__(self, module: t.Any) -> None:
        if IMPORT_ERROR is not None:
            raise KubeError("library", f"{sys.executable} cannot import the Python library kubernetes: {IMPORT_ERROR}")
        try:
            # These build the client's settings from the module's options, K8S_AUTH_* and kubeconfig files
            # without asking the server anything, unlike get_api_client(), which starts with a discovery.
            configuration = core_client._create_configuration(core_client._create_auth_spec(module))
            headers = core_client._create_headers(module)
            configuration.retries = 0
            api = kubernetes.client.ApiClient(configuration)
            for name, value in headers.items():
                core_client._set_header(api, name, value)
        except Exception as error:
            raise KubeError("config", f"the connection settings cannot be used: {error}") from error
        # The typed CoreV1Api takes more than a second of CPU to import; plain requests do not need it, nor a discovery.
        self._client = kubernetes.dynamic.DynamicClient(api, discoverer=lambda _client, _cache_file: None)
        self.host: str = configuration.host

    def _get(self, path: str, **query: t.Any) -> dict[str, t.Any]:
        try:
            response = self._client.request("get", path, serialize=False, _request_timeout=SECONDS, **query)
            body = response.data
        except (kubernetes.client.ApiException, kubernetes.dynamic.exceptions.DynamicApiError) as error:
            raise _refusal(error.status, error.reason, error.body) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError("unreachable", f"{self.host}: {_root(error)}") from error
        # Older clients raise for these, newer ones hand them over.
        if not 200 <= response.status <= 299:
            raise _refusal(response.status, response.reason, body)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise KubeError("answer", f"{self.host} did not answer with JSON: {error}") from error
        if not isinstance(answer, dict):
            raise KubeError("answer", f"{self.host} answered with something that is no Kubernetes object")
        return answer

    def _pages(self, path: str, **query: t.Any) -> list[dict[str, t.Any]]:
        found: list[dict[str, t.Any]] = []
        more: dict[str, str] = {}
        while True:
            answer = self._get(path, limit=PAGE, **more, **query)
            items = answer.get("items", "")
            if items is None:
                items = []
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise KubeError("answer", f"{self.host} answered with something that is no list of objects")
            found.extend(items)
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return found
            if more.get("_continue") == token:
                raise KubeError("answer", f"{self.host} gives the same page of a list again and again")
            more = {"_continue": token}

    def _list(self, path: str, **query: t.Any) -> list[dict[str, t.Any]]:
        """All pages of a list; when the server forgets where we are, once more from the start."""
        try:
            return self._pages(path, **query)
        except KubeError as error:
            if error.kind != "expired":
                raise
        try:
            return self._pages(path, **query)
        except KubeError as error:
            if error.kind != "expired":
                raise
            raise KubeError("unreachable", f"the list changed faster than it could be read: {error}") from error

    def nodes(self) -> list[dict[str, t.Any]]:
        return self._list("/api/v1/nodes")

    def pods(self) -> list[dict[str, t.Any]]:
        return self._list("/api/v1/pods")

    def config_maps(self, namespace: str) -> list[dict[str, t.Any]]:
        return self._list(f"/api/v1/namespaces/{quote(namespace)}/configmaps")

    def release_secrets(self, namespace: str, release: str) -> list[dict[str, t.Any]]:
        secrets = f"/api/v1/namespaces/{quote(namespace)}/secrets"
        return self._list(secrets, label_selector=f"owner=helm,name={release}")

    def namespace(self, name: str) -> dict[str, t.Any] | None:
        try:
            return self._get(f"/api/v1/namespaces/{quote(name)}")
        except KubeError as error:
            if error.kind != "missing":
                raise
            return None

    def custom(self, group: str, version: str, plural: str) -> list[dict[str, t.Any]] | None:
        """All cluster-wide objects of a custom kind, or None when the API does not know the kind."""
        try:
            return self._list(f"/apis/{group}/{version}/{plural}")
        except KubeError as error:
            if error.kind != "missing":
                raise
            return None


def quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _root(error: BaseException) -> str:
    """The innermost reason of an error from urllib3, which wraps them several times."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _root(reason)
    text = str(error.args[0] if error.args and isinstance(error.args[0], str) else error)
    return _WRAPPING.sub("", text) or type(error).__name__
