# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""Reading from a Kubernetes API, complete or not at all. The only file that knows kubernetes.core and its client."""

from __future__ import annotations

import contextlib
import copy
import email.utils
import gc
import json
import logging
import os
import random
import re
import signal
import socket
import ssl
import sys
import time
import typing as t
import urllib.parse
import urllib.request

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _objects, _wire

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
except ImportError:
    AUTH_ARG_SPEC = {}

try:
    import kubernetes
    import urllib3

    from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core_client

    IMPORT_ERROR = None
except ImportError as import_error:
    IMPORT_ERROR = str(import_error)

PAGE = 500
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# To connect, and between two pieces of an answer; time_limit() bounds the whole.
SECONDS = (5, 60)
#: How often one request is tried, and the first and the longest pause between two tries.
TRIES = 6
PAUSES = (0.25, 8.0)
#: How often a list is started again whose place the server has lost.
RESTARTS = 2
#: Seconds for the tries of one request where no time_limit() says it.
PATIENCE = 60.0

# The kube-scheduler's own informer selects by phase (pkg/scheduler: newPodInformer).
_ACTIVE = "status.phase!=Succeeded,status.phase!=Failed"
_ASSIGNED = f"spec.nodeName!=,{_ACTIVE}"
# Those that preemption makes room for.
_NOMINATED = f"spec.nodeName=,status.nominatedNodeName!=,{_ACTIVE}"
_FINISHED = ("Succeeded", "Failed")

_WRAPPING = re.compile(r"^<?[\w.]+(?:\(.*?host=.*?\)| object at \w+>): ")
_RESOURCE = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?"
)
# As the API server's RBAC authorizer words it.
_CANNOT = re.compile(r'cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')

Item = t.TypeVar("Item")


class KubeError(Exception):
    """What the API (or the way to it) said, in its own words, and what sort of trouble it is."""

    #: The client is not installed; the settings are unusable; nobody answers (yet); the caller is not let in;
    #: the thing is not there; the place in a long list is lost; the answer makes no sense.
    KINDS = ("library", "config", "unreachable", "refused", "missing", "expired", "answer")

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _PassingError(KubeError):
    """Trouble that another try may not meet; after is the wait that the server asks for."""

    def __init__(self, text: str, after: float | None = None) -> None:
        super().__init__("unreachable", text)
        self.after = after


class _TimeIsUp(BaseException):
    """Not an Exception, so that no library on the way can swallow it. Its text says what was waited for."""


class Answer(t.NamedTuple):
    status: int
    reason: str
    headers: t.Mapping[str, str]
    body: bytes
    #: What came over the wire, before any decompression.
    size: int


class Page(t.NamedTuple):
    #: One encoded object each; dicts where they came as JSON.
    items: t.Sequence[bytes | dict[str, t.Any]]
    continue_token: str
    resource_version: str


class Stats(t.TypedDict):
    pages: int
    bytes: int
    seconds: float
    encoding: str
    resource_versions: dict[str, str]


class Cluster(t.NamedTuple):
    nodes: list[_objects.Node]
    pods: list[_objects.Pod]
    stats: Stats


def connection_options() -> dict[str, t.Any]:
    return copy.deepcopy(AUTH_ARG_SPEC)


def _children() -> set[int]:
    """The processes that this one has started, where /proc tells."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as handle:
            return set(map(int, handle.read().split()))
    except (OSError, ValueError):
        return set()


@contextlib.contextmanager
def time_limit(seconds: float) -> t.Iterator[None]:
    """Bound everything inside: name lookup, credential helpers, a server that drips its answer."""

    def ring(_number: int, _frame: t.Any) -> t.NoReturn:
        raise _TimeIsUp

    others = _children()
    before = signal.signal(signal.SIGALRM, ring)
    # It rings again: a first ring inside a destructor is lost.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    except _TimeIsUp as up:
        # A credential plugin that hangs would outlive this process.
        for child in _children() - others:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGTERM)
        where = f" (waiting for {up})" if str(up) else ""
        text = f"no complete answer from the API server within {seconds:g} seconds{where}"
        raise KubeError("unreachable", text) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _uncollected() -> t.Iterator[None]:
    """Objects of JSON have no cycles; looking for some doubles the time that it takes to read them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _time_left(since: float) -> float:
    """Seconds until time_limit() rings; without one, what is left of PATIENCE since then."""
    return signal.getitimer(signal.ITIMER_REAL)[0] or since + PATIENCE - time.monotonic()


def _pause(tries: int) -> float:
    """Exponential back-off; the jitter keeps many clients from coming back at once."""
    first, longest = PAUSES
    return min(longest, first * 2 ** (tries - 1)) * random.uniform(0.5, 1)


def _retry_after(headers: t.Mapping[str, str]) -> float | None:
    """Seconds or a date (RFC 9110, 10.2.3), the date by the server's own clock where it tells the time."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    try:
        then = email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    try:
        now = email.utils.parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        now = time.time()
    return max(0.0, then - now)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1000]


def _message(body: bytes) -> str:
    """The server's sentence: of its Status, or of whatever else it sent, cut short."""
    try:
        if not body.startswith(_wire.MAGIC):
            return _one_line(str(json.loads(body)["message"]))
        # runtime.Unknown.raw, then meta/v1 Status.message
        start, stop = len(_wire.MAGIC), len(body)
        for number in (2, 3):
            ((_number, start, stop),) = _wire.fields(body, start, stop, frozenset([number << 3 | 2]))
        return _one_line(body[start:stop].decode())
    except (TypeError, ValueError, KeyError, RecursionError):
        return _one_line(body.decode("utf-8", "replace"))


def _missing_right(path: str, message: str) -> str:
    """The rule of RBAC that allows what the server says is not, or else the GET, as YAML that can be pasted."""
    asked, said = _RESOURCE.fullmatch(path), _CANNOT.search(message)
    verb, resource, group = "get" if asked["name"] else "list", asked["resource"], asked["group"] or ""
    if said is not None:
        verb, resource, group = said.group("verb", "resource", "group")
    # A pod's node is looked up by name when no list has it.
    verbs = "get, list" if resource == "nodes" else verb
    rule = f"""- {{apiGroups: [{group or '""'}], resources: [{resource}], verbs: [{verbs}]}}"""
    namespace = asked["namespace"] if verb != "impersonate" else None
    where = f"a Role in namespace {namespace} or of a ClusterRole" if namespace else "a ClusterRole"
    return f"The right to {verb} {resource} is missing. Add to the rules of {where}: {rule}"


def _content_type(answer: Answer) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _without_protobuf(answer: Answer) -> bool:
    """Whether the server (or something before it) does not know the encoding that was asked for."""
    if answer.status in (406, 415):
        return True
    return answer.status == 200 and _content_type(answer) == PROTOBUF and not answer.body.startswith(_wire.MAGIC)


class _Complaints(logging.Handler):
    """What the client's reader of kubeconfigs only logs, such as a credential plugin that failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = _one_line(record.getMessage())
        if text not in self.texts:
            self.texts.append(text)

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_error: object) -> None:
        logging.getLogger().removeHandler(self)


def _add_proxy(configuration: t.Any) -> None:
    """HTTPS_PROXY and NO_PROXY, which old clients do not look at."""
    proxies = urllib.request.getproxies()
    if configuration.proxy is None:
        configuration.proxy = proxies.get(urllib.parse.urlsplit(configuration.host).scheme)
    if configuration.no_proxy is None:
        configuration.no_proxy = proxies.get("no")


class Reader:
    """Reads lists and single objects, straight from the answers."""

    def __init__(self, module: t.Any) -> None:
        if IMPORT_ERROR is not None:
            raise KubeError("library", f"{sys.executable} cannot import the Python library kubernetes: {IMPORT_ERROR}")
        self._complaints = _Complaints()
        given = module.params.get("kubeconfig")
        if not isinstance(given, (str, dict, type(None))):
            raise KubeError("config", f"kubeconfig: must be a path or the content of a kubeconfig, not {given!r}")
        try:
            # These build the client's settings from the module's options, K8S_AUTH_* and kubeconfig files
            # without asking the server anything, unlike get_api_client(), which starts with a discovery.
            self._auth = core_client._create_auth_spec(module)
            with self._complaints:
                configuration = core_client._create_configuration(self._auth)
            headers = core_client._create_headers(module)
            _add_proxy(configuration)
            for file in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
                # The client would only say that some file is missing, and not before it connects.
                if file:
                    open(file, "rb").close()
            self._api = kubernetes.client.ApiClient(configuration)
            for name, value in headers.items():
                core_client._set_header(self._api, name, value)
        except _TimeIsUp:
            raise _TimeIsUp("the credentials") from None
        except Exception as error:
            raise KubeError("config", f"the connection settings cannot be used: {self._settings(error)}") from error
        self._accept = f"{PROTOBUF}, {JSON}"
        self.host: str = re.sub(r"//[^/@]*@", "//", configuration.host)

    def _settings(self, error: Exception) -> str:
        """What is wrong with the settings, with the kubeconfig that was looked for where there is none."""
        given = self._auth.get("kubeconfig") if hasattr(self, "_auth") else None
        default = kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        if not isinstance(error, kubernetes.config.ConfigException) or isinstance(given, dict):
            return str(error)
        paths = [os.path.expanduser(path) for path in str(given or default).split(os.pathsep) if path]
        if not any(map(os.path.exists, paths)):
            # Ansible masks the value of that option wherever it is printed.
            if given:
                return "the file that the option kubeconfig names is not there"
            if self._auth.get("host"):
                return "host alone is not enough: give api_key, or username and password, or client_cert and client_key with it"
            return f"there is no kubeconfig {' or '.join(paths)}. Give the path of one by the option kubeconfig, or KUBECONFIG"
        if self._auth.get("context"):
            with contextlib.suppress(Exception):
                names = sorted(one["name"] for one in kubernetes.config.list_kube_config_contexts(given)[0])
                return f"{error} The contexts of {' and '.join(paths)}: {', '.join(names)}"
        return f"{' and '.join(paths)}: {error}"

    # One request

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {**self._api.default_headers, "Accept": accept}
        # Asked for each time: a credential plugin renews a token that has run out.
        try:
            with self._complaints:
                settings = self._api.configuration.auth_settings().values()
        except Exception as error:
            raise KubeError("config", f"the credentials cannot be renewed: {error}") from error
        headers.update((setting["key"], setting["value"]) for setting in settings if setting["value"])
        if self._auth.get("username") and not settings:
            headers["authorization"] = self._api.configuration.get_basic_auth_token()
        return headers

    def _send(self, path: str, query: t.Mapping[str, t.Any], accept: str) -> Answer:
        """One GET. The client's own call methods differ between its versions, the pool behind them does not."""
        url = self._api.configuration.host + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = self._headers(accept)
        try:
            response = self._api.rest_client.pool_manager.request(
                "GET",
                url,
                headers=headers,
                timeout=urllib3.Timeout(connect=SECONDS[0], read=SECONDS[1]),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            with contextlib.closing(response):
                answer = Answer(response.status, response.reason, response.headers, response.read(), response.tell())
        except urllib3.exceptions.LocationValueError as error:
            raise KubeError("config", f"{self.host} is no address of an API server: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            proxy = getattr(self._api.rest_client.pool_manager, "proxy", None)
            way = f"{self.host} by the proxy {proxy.host}:{proxy.port}" if proxy else self.host
            text = f"GET {path}: {way}: {_root(error)}"
            raise KubeError("unreachable", text) if _lasting(error) else _PassingError(text) from error
        except ValueError:
            # Its text may hold the token.
            raise KubeError("config", "a header of the request, such as the token, holds what no header can") from None
        return answer

    def _refusal(self, path: str, answer: Answer) -> KubeError:
        """An answer that is not the one asked for, with the server's own sentence."""
        status, message = answer.status, _message(answer.body)
        said = f"GET {path}: {status} {answer.reason or ''}".rstrip() + (f": {message}" if message else "")
        if status in (429, 500, 502, 503, 504):
            return _PassingError(said, _retry_after(answer.headers))
        if status == 401 or (status == 403 and "system:anonymous" in message):
            told = "; ".join([f"The credentials used are {self._credentials()}", *self._complaints.texts])
            return KubeError("refused", f"{said}. {told}")
        if status == 403 and _content_type(answer) in (JSON, PROTOBUF):
            return KubeError("refused", f"{said}. {_missing_right(path, message)}")
        kind = {403: "refused", 404: "missing", 410: "expired"}.get(
            status, "unreachable" if status >= 500 else "answer"
        )
        return KubeError(kind, said)

    def _credentials(self) -> str:
        """Which they are, not what they are."""
        for option, words in (
            ("api_key", "the token of the option api_key"),
            ("cert_file", f"the client certificate {self._auth.get('cert_file')}"),
            ("username", f"the user name {self._auth.get('username')} and its password"),
        ):
            if self._auth.get(option):
                return words
        config = kubernetes.config
        if self._api.configuration.ssl_ca_cert == config.incluster_config.SERVICE_CERT_FILENAME:
            return "those of this pod's service account"
        file = self._auth.get("kubeconfig") or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        name = self._auth.get("context")
        if isinstance(file, dict):
            return f"those of context {name or file.get('current-context')} of the kubeconfig given"
        try:
            contexts, current = config.list_kube_config_contexts(file)
            user = next((one["context"]["user"] for one in contexts if one["name"] == (name or current["name"])), "?")
            return f"those of user {user}, context {name or current['name']} of {file}"
        except Exception:
            return f"those of {file}"

    def _get(self, path: str, query: t.Mapping[str, t.Any], accept: str = JSON, *, patient: bool = False) -> Answer:
        """A successful answer. A patient call outlasts trouble that passes, within its time."""
        begun, met, tries = time.monotonic(), "", 0
        try:
            while True:
                tries += 1
                try:
                    answer = self._send(path, query, accept)
                    if accept != JSON and _without_protobuf(answer):
                        self._accept = accept = JSON
                    elif 200 <= answer.status <= 299:
                        return answer
                    else:
                        raise self._refusal(path, answer)
                except _PassingError as trouble:
                    if not patient:
                        raise
                    met, pause = str(trouble), max(_pause(tries), trouble.after or 0)
                    # A server that names a time is asked again as long as there is time.
                    if (tries >= TRIES and trouble.after is None) or pause >= _time_left(begun):
                        asked = f"; the server asks to wait {trouble.after:g} seconds" if trouble.after else ""
                        raise KubeError(trouble.kind, f"{met} (tries: {tries}{asked})") from trouble
                    time.sleep(pause)
        except _TimeIsUp:
            raise _TimeIsUp(f"GET {path}" + (f", after {met}" if met else "")) from None

    def _document(self, path: str, answer: Answer) -> dict[str, t.Any]:
        """The object in an answer of JSON."""
        kind = _content_type(answer)
        if kind != JSON:
            told = kind or "no content type"
            raise KubeError("answer", f"GET {path}: {self.host} did not answer with JSON but with {told}")
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise KubeError("answer", f"GET {path}: {self.host} did not answer with JSON: {error}") from error
        if not isinstance(document, dict):
            raise KubeError("answer", f"GET {path}: {self.host} answered with something that is no Kubernetes object")
        return document

    # Lists

    def _json_page(self, path: str, answer: Answer) -> Page:
        document = self._document(path, answer)
        items, metadata = document.get("items", ""), document.get("metadata") or {}
        if items is None:
            items = []
        if isinstance(items, list) and all(isinstance(item, dict) for item in items) and isinstance(metadata, dict):
            page = Page(items, metadata.get("continue") or "", metadata.get("resourceVersion") or "")
            if isinstance(page.continue_token, str) and isinstance(page.resource_version, str):
                return page
        raise KubeError("answer", f"GET {path}: {self.host} answered with something that is no list of objects")

    def _page(self, path: str, answer: Answer, mentioning: str) -> Page:
        """One page of a list in whatever encoding, without the pods that cannot hold the resource it must mention."""
        if _content_type(answer) != PROTOBUF:
            page = self._json_page(path, answer)
            return page._replace(items=[item for item in page.items if not mentioning or _mentions(item, mentioning)])
        try:
            found = _wire.page(answer.body, mentioning)
        except _wire.WireError as error:
            raise KubeError("answer", f"GET {path}: {self.host} answered with broken protobuf: {error}") from error
        return Page(found.items, found.continue_token, found.resource_version)

    def _pages(
        self, path: str, query: t.Mapping[str, t.Any], read: t.Callable[[str, t.Mapping[str, t.Any]], Page]
    ) -> t.Iterator[Page]:
        """Page after page. An empty one with a token is not the last: the server may have filtered it all away."""
        more: dict[str, str] = {}
        seen: set[str] = set()
        while True:
            page = read(path, {"limit": PAGE, **query, **more})
            yield page
            token = page.continue_token
            if not token:
                return
            if token in seen:
                raise KubeError("answer", f"GET {path}: {self.host} gives the same page of a list again and again")
            seen.add(token)
            more = {"continue": token}

    def _complete(self, read: t.Callable[[], list[Item]]) -> list[Item]:
        """All pages of a list, from the start again when the server forgets where we are (410)."""
        starts = 0
        while True:
            starts += 1
            try:
                return read()
            except KubeError as error:
                if error.kind != "expired":
                    raise
                if starts > RESTARTS:
                    text = f"a list changed faster than it could be read, {starts} times: {error}"
                    raise KubeError("unreachable", text) from error

    def _list(self, path: str, **query: t.Any) -> list[dict[str, t.Any]]:
        def read(path: str, query: t.Mapping[str, t.Any]) -> Page:
            return self._json_page(path, self._get(path, query))

        return self._complete(lambda: [item for page in self._pages(path, query, read) for item in page.items])

    def _one(self, path: str, *, patient: bool = False) -> dict[str, t.Any] | None:
        """One object, or None when there is none."""
        try:
            return self._document(path, self._get(path, {}, patient=patient))
        except KubeError as error:
            if error.kind != "missing":
                raise
            return None

    # What the modules ask for: plain data, quickly given up

    def nodes(self) -> list[dict[str, t.Any]]:
        return self._list("/api/v1/nodes")

    def pods(self) -> list[dict[str, t.Any]]:
        return self._list("/api/v1/pods")

    def config_maps(self, namespace: str) -> list[dict[str, t.Any]]:
        return self._list(f"/api/v1/namespaces/{quote(namespace)}/configmaps")

    def release_secrets(self, namespace: str, release: str) -> list[dict[str, t.Any]]:
        secrets = f"/api/v1/namespaces/{quote(namespace)}/secrets"
        return self._list(secrets, labelSelector=f"owner=helm,name={release}")

    def namespace(self, name: str) -> dict[str, t.Any] | None:
        return self._one(f"/api/v1/namespaces/{quote(name)}")

    def custom(self, group: str, version: str, plural: str) -> list[dict[str, t.Any]] | None:
        """All cluster-wide objects of a custom kind, or None when the API does not know the kind."""
        try:
            return self._list(f"/apis/{group}/{version}/{plural}")
        except KubeError as error:
            if error.kind != "missing":
                raise
            return None

    # What the modules ask for: the objects of the ledger, with patience

    def nodes_and_pods(self, need: t.Literal["sum", "all"], resource: str) -> Cluster:
        """All nodes, and of the pods that are not finished those that are placed or nominated and name the resource (sum,
        with no more of each than counting needs), or every one (all). Two lists are no transaction: a pod's node that was
        not listed is asked for by name.
        """
        begun = time.monotonic()
        tally = _Tally()
        with _uncollected():
            if need == "sum":
                nodes = self._complete(lambda: list(self._counted_nodes(tally, resource)))
                # In this order a pod that gets its node meanwhile is never counted twice.
                pods = self._complete(lambda: list(self._counted_pods(tally, resource, _ASSIGNED)))
                pods += self._complete(lambda: list(self._counted_pods(tally, resource, _NOMINATED)))
            else:
                nodes = self._complete(lambda: list(self._nodes(tally)))
                pods = self._complete(lambda: list(self._pods(tally)))
        for name in sorted({pod.node for pod in pods if pod.node} - {node.name for node in nodes}):
            path = f"/api/v1/nodes/{quote(name)}"
            found = self._one(path, patient=True)
            if found is not None:
                nodes.append(_decode(path, found, _wire.node_from_wire, _objects.node_from_json))
        return Cluster(nodes, pods, tally.stats(time.monotonic() - begun))

    def _read(self, path: str, query: t.Mapping[str, t.Any], tally: _Tally, mentioning: str = "") -> t.Iterator[Page]:
        def read(path: str, query: t.Mapping[str, t.Any]) -> Page:
            answer = self._get(path, query, self._accept, patient=True)
            page = self._page(path, answer, mentioning)
            tally.add(path.rpartition("/")[2], answer, page)
            return page

        return self._pages(path, query, read)

    def _nodes(self, tally: _Tally) -> t.Iterator[_objects.Node]:
        path = "/api/v1/nodes"
        for page in self._read(path, {}, tally):
            for item in page.items:
                yield _decode(path, item, _wire.node_from_wire, _objects.node_from_json)

    def _counted_nodes(self, tally: _Tally, resource: str) -> t.Iterator[_objects.Node]:
        path = "/api/v1/nodes"

        def from_wire(item: bytes) -> _objects.Node:
            return _wire.counted_node_from_wire(item, resource)

        def from_json(item: dict[str, t.Any]) -> _objects.Node:
            return _objects.counted_node(_objects.node_from_json(item), resource)

        for page in self._read(path, {}, tally):
            for item in page.items:
                yield _decode(path, item, from_wire, from_json)

    def _pods(self, tally: _Tally) -> t.Iterator[_objects.Pod]:
        """Filtered once more: a server may not know selectors."""
        path = "/api/v1/pods"
        for page in self._read(path, {"fieldSelector": _ACTIVE}, tally):
            for item in page.items:
                pod = _decode(path, item, _wire.pod_from_wire, _objects.pod_from_json)
                if pod.phase not in _FINISHED:
                    yield pod

    def _counted_pods(self, tally: _Tally, resource: str, selector: str) -> t.Iterator[_objects.Pod]:
        """Filtered once more, as above; an annotation may mention the resource too."""
        path = "/api/v1/pods"

        def from_json(item: dict[str, t.Any]) -> _objects.Pod:
            return _objects.counted_pod(_objects.pod_from_json(item))

        for page in self._read(path, {"fieldSelector": selector}, tally, resource):
            for item in page.items:
                pod = _decode(path, item, _wire.counted_pod_from_wire, from_json)
                selected = pod.node if selector == _ASSIGNED else pod.nominated_node and not pod.node
                if selected and pod.phase not in _FINISHED and _asks(pod, resource):
                    yield pod


class _Tally:
    """What was read, pages of a list that was started again included."""

    def __init__(self) -> None:
        self.pages = self.bytes = 0
        self.encodings: set[str] = set()
        self.versions: dict[str, str] = {}

    def add(self, kind: str, answer: Answer, page: Page) -> None:
        self.pages += 1
        self.bytes += answer.size
        self.encodings.add("protobuf" if _content_type(answer) == PROTOBUF else "json")
        self.versions[kind] = page.resource_version

    def stats(self, seconds: float) -> Stats:
        encoding = " and ".join(sorted(self.encodings))
        return Stats(
            pages=self.pages,
            bytes=self.bytes,
            seconds=round(seconds, 3),
            encoding=encoding,
            resource_versions=self.versions,
        )


def _decode(
    path: str,
    item: bytes | dict[str, t.Any],
    from_wire: t.Callable[[bytes], Item],
    from_json: t.Callable[[dict[str, t.Any]], Item],
) -> Item:
    try:
        return from_wire(item) if isinstance(item, bytes) else from_json(item)
    except (_objects.ObjectError, _wire.WireError) as error:
        raise KubeError("answer", f"GET {path}: {error}") from error


def _mentions(pod: dict[str, t.Any], resource: str) -> bool:
    """Whether decoding pays; what is not of the shape of a pod is for the decoder to refuse."""
    try:
        spec = pod["spec"]
        places = [spec, *spec["containers"], *(spec.get("initContainers") or [])]
        amounts = [place.get("resources") or {} for place in places]
        return any(
            resource in (amount or {})
            for amount in [spec.get("overhead"), *(one.get(kind) for one in amounts for kind in ("limits", "requests"))]
        )
    except (AttributeError, KeyError, TypeError):
        return True


def _asks(pod: _objects.Pod, resource: str) -> bool:
    """Whether any part of the pod names the resource."""
    return (
        any(resource in one.limits or resource in one.requests for one in (*pod.containers, *pod.init_containers))
        or resource in pod.overhead
        or resource in pod.pod_requests
    )


def quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _lasting(error: BaseException) -> bool:
    """Whether another try is no use: a certificate is not trusted, a name does not exist, a proxy does not want to."""
    if isinstance(error, urllib3.exceptions.SSLError):
        broken_off = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
        return not (error.args and isinstance(error.args[0], broken_off))
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    if re.match(r"Tunnel connection failed: 4\d\d", str(error)):
        return True
    deeper = error.__cause__ or error.__context__
    return deeper is not None and _lasting(deeper)


def _root(error: BaseException) -> str:
    """The innermost reason of an error from urllib3, which wraps them several times."""
    for inner in (getattr(error, "reason", None), getattr(error, "original_error", None)):
        if isinstance(inner, BaseException):
            return _root(inner)
    text = str(error.args[0] if error.args and isinstance(error.args[0], str) else error)
    return _WRAPPING.sub("", text) or type(error).__name__
