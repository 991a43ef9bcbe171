# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The reader against API servers, good and bad: all of both lists, or one error that says what to do."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import gc
import gzip
import json
import os
import pathlib
import random
import signal
import socket
import stat
import sys
import time
import types

import kubernetes
import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account, _kube, _objects
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import apiserver
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins.apiserver import later, refusing, saying

GPU = "nvidia.com/gpu"
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
TOKEN = "token-that-nobody-may-see"


def node(name, gpus="4"):
    amounts = {"cpu": "8", GPU: gpus}
    return {
        "metadata": {"name": name, "annotations": {"x": GPU}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name, where="a", phase="Running", gpus=1, **more):
    amounts = {GPU: str(gpus)} if gpus else {"cpu": "1"}
    spec = {"containers": [{"name": "main", "resources": {"limits": amounts, "requests": amounts}}], **more}
    if where:
        spec["nodeName"] = where
    return {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec, "status": {"phase": phase}}


HOLDERS = [
    pod("one"),
    pod("two", where="b", gpus=2),
    pod("pulling", phase="Pending"),
    pod("lost", phase="Unknown"),
    pod("init", gpus=0, initContainers=[{"name": "i", "resources": {"limits": {GPU: "1"}}}]),
    pod("overhead", gpus=0, overhead={GPU: "1"}),
]
OTHERS = [pod("cpu", gpus=0), pod("waiting", where="", phase="Pending"), pod("waiting-cpu", where="", gpus=0)]
FINISHED = [pod("done", phase="Succeeded"), pod("failed", phase="Failed")]
#: Its annotation names the resource, it does not hold any.
TALKER = pod("talker", gpus=0)
TALKER["metadata"]["annotations"] = {"note": f"no {GPU} here"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return apiserver.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority):
    return authority.server_context()


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No settings but those of the test."""
    for name in list(os.environ):
        if name.upper().endswith("_PROXY") or name.startswith(("K8S_AUTH_", "KUBERNETES_")):
            monkeypatch.delenv(name)
    for name in ("HOME", "KUBECONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    # The client keeps the last kubeconfig for the whole process.
    kubernetes.client.Configuration.set_default(None)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that would have been made; other threads of this process sleep as ever."""
    made = []
    clock = types.SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=made.append)
    monkeypatch.setattr(_kube, "time", clock)
    return made


def test_only_its_own_pauses_are_seen(pauses):
    time.sleep(0)
    assert pauses == []
    _kube.time.sleep(7)
    assert pauses == [7]


@pytest.fixture
def server(context):
    pods = [one for three in zip(HOLDERS, [*OTHERS, TALKER, *FINISHED]) for one in three]
    with apiserver.Server([node("a"), node("b", "2"), node("none", "0")], pods, context) as running:
        yield running


@pytest.fixture
def reader(server, authority):
    """reader(**options) is one for the server, by a token unless the options say otherwise."""

    def make(**options):
        if "kubeconfig" not in options:
            options = {"host": server.url, "api_key": TOKEN, "ca_cert": authority.file, **options}
        params = {name: options.pop(name, None) for name in _kube.connection_options()}
        assert not options
        return _kube.Reader(types.SimpleNamespace(params=params))

    return make


@pytest.fixture
def look(reader):
    return lambda need="sum", **options: reader(**options).nodes_and_pods(need, GPU)


@pytest.fixture
def fails(look, pauses):
    """The error that a look ends with."""

    def call(kind, *args, **options):
        with pytest.raises(_kube.KubeError) as raised:
            look(*args, **options)
        assert raised.value.kind == kind, str(raised.value)
        text = str(raised.value)
        assert TOKEN not in text
        assert base64.b64encode(TOKEN.encode()).decode() not in text
        return text

    return call


def names(things):
    return [one.name for one in things]


def whole(cluster):
    """That it is the whole of what the server fixture has, once."""
    assert names(cluster.nodes) == ["a", "b", "none"]
    assert names(cluster.pods) == names_of(HOLDERS)
    return True


def names_of(documents):
    return [document["metadata"]["name"] for document in documents]


# What is read


def test_the_pods_that_hold_something_and_all_nodes(look, server):
    cluster = look()
    assert cluster.nodes == [_objects.counted_node(_objects.node_from_json(one), GPU) for one in server.lists[NODES]]
    assert cluster.pods == [_objects.counted_pod(_objects.pod_from_json(one)) for one in HOLDERS]


def test_all_pods_that_are_not_finished(look, server):
    assert sorted(names(look("all").pods)) == sorted(names_of([*HOLDERS, *OTHERS, TALKER]))


def test_the_server_selects_and_pages(look, server):
    server.page = 3
    look()
    active = "status.phase!=Succeeded,status.phase!=Failed"
    assert server.asked(NODES) == [{"limit": "500"}]
    first = {"limit": "500", "fieldSelector": f"spec.nodeName!=,{active}"}
    nominated = {"limit": "500", "fieldSelector": f"spec.nodeName=,status.nominatedNodeName!=,{active}"}
    assert server.asked(PODS) == [first, {**first, "continue": "3"}, {**first, "continue": "6"}, nominated]
    look("all")
    assert server.asked(PODS)[-1]["fieldSelector"] == active
    assert {request.headers["Accept"] for request in server.seen} == {f"{apiserver.PROTOBUF}, application/json"}


@pytest.mark.parametrize("selects", [True, False])
def test_a_pod_that_was_promised_a_place_is_part_of_the_sum(look, server, selects):
    """Preemption makes room for it: what is free there is not for others."""
    promised = pod("promised", where="", phase="Pending", gpus=4)
    promised["status"]["nominatedNodeName"] = "a"
    elsewhere = pod("promised-cpu", where="", phase="Pending", gpus=0)
    elsewhere["status"]["nominatedNodeName"] = "a"
    server.lists[PODS].extend([promised, elsewhere])
    server.selects = selects
    cluster = look()
    assert names(cluster.pods) == [*names_of(HOLDERS), "promised"]
    assert cluster.pods[-1].nominated_node == "a"


@pytest.mark.parametrize("protobuf", [True, False])
def test_the_sum_is_that_of_the_whole_account(look, server, protobuf):
    """What the sum leaves out of the objects changes nothing that is told without details."""
    server.protobuf = protobuf
    promised = pod("promised", where="", phase="Pending", gpus=4)
    promised["status"]["nominatedNodeName"] = "a"
    server.lists[PODS].extend([promised, pod("orphan", where="gone")])
    node = json.loads(json.dumps(server.lists[NODES][0]))
    for name, amounts, more in (
        ("amd", {"amd.com/gpu": "8"}, {}),
        ("cordoned", {GPU: "8"}, {"unschedulable": True}),
        ("tainted", {GPU: "8"}, {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}),
        ("stale", {GPU: "0"}, {}),
    ):
        status = {**node["status"], "allocatable": amounts, "capacity": amounts}
        server.lists[NODES].append({"metadata": {"name": name}, "spec": more, "status": status})
    for name, labels in (("labelled", {f"{GPU}.present": "true"}), ("other", {"example.org/gpu": "no"})):
        server.lists[NODES].append({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})
    seen = {need: _account.account(*look(need)[:2], GPU) for need in ("sum", "all")}
    # The nodes themselves are part of the details.
    told = [key for key in seen["all"] if key not in ("nodes", "overcommitted")]
    assert {key: seen["sum"][key] for key in told} == {key: seen["all"][key] for key in told}
    assert seen["sum"]["scheduler"]["nominated"] == 4
    assert any("amd.com/gpu" in warning for warning in seen["sum"]["warnings"])
    assert any("labelled" in warning for warning in seen["sum"]["warnings"])


def test_the_statistics(look, server):
    stats = look().stats
    assert stats["pages"] == len(server.seen)
    assert stats["encoding"] == "protobuf"
    assert stats["resource_versions"] == {"nodes": "7", "pods": "7"}
    assert 0 < stats["seconds"] < 20
    server.protobuf = False
    plain = look().stats
    assert (plain["pages"], plain["encoding"]) == (stats["pages"], "json")
    assert plain["bytes"] > stats["bytes"] > 100


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("broken", [True, False])
def test_the_collector_of_the_caller_is_as_before(look, server, collects, broken):
    before, during = gc.isenabled(), []

    def watch(handler, _query):
        during.append(gc.isenabled())
        return broken and refusing(400)(handler, _query)

    server.trouble[PODS].append(watch)
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(_kube.KubeError) if broken else contextlib.nullcontext():
            look()
        assert (during, gc.isenabled()) == ([False], collects)
    finally:
        (gc.enable if before else gc.disable)()


JSON_AGAIN = {
    "406": refusing(406, "only the following media types are accepted: application/json"),
    "415": refusing(415),
    "no protobuf inside": saying(b"{}", apiserver.PROTOBUF),
}


@pytest.mark.parametrize("need", ["sum", "all"])
@pytest.mark.parametrize("selects", [True, False], ids=["selects", "selects nothing"])
def test_json_gives_the_same_and_so_does_a_server_without_selectors(look, server, need, selects):
    expected = look(need)
    server.protobuf, server.selects = False, selects
    assert look(need)[:2] == expected[:2]
    server.protobuf = True
    assert look(need)[:2] == expected[:2]


@pytest.mark.parametrize("path", [NODES, PODS])
@pytest.mark.parametrize("trouble", JSON_AGAIN.values(), ids=list(JSON_AGAIN))
def test_where_protobuf_is_refused_json_is_asked_for(look, server, path, trouble):
    server.trouble[path].append(trouble)
    cluster = look()
    assert whole(cluster)
    assert cluster.stats["encoding"] == ("json" if path == NODES else "json and protobuf")
    asked = [request.headers["Accept"] for request in server.seen if request.path == path]
    assert asked[0] == f"{apiserver.PROTOBUF}, application/json"
    assert set(asked[1:]) == {"application/json"}


def test_protobuf_refused_in_the_middle_goes_on_from_there(look, server):
    server.trouble[PODS].extend([apiserver.fine, JSON_AGAIN["406"]])
    cluster = look()
    assert whole(cluster)
    assert cluster.stats["encoding"] == "json and protobuf"
    assert server.asked(PODS)[1] == server.asked(PODS)[2] == {**server.asked(PODS)[0], "continue": "2"}


@pytest.mark.parametrize("protobuf", [True, False])
def test_an_empty_cluster(look, server, protobuf):
    server.protobuf = protobuf
    server.lists = {NODES: [], PODS: []}
    assert look()[:2] == ([], [])


def test_an_answer_that_something_on_the_way_has_compressed(look, server):
    body = gzip.compress(json.dumps({"items": HOLDERS, "metadata": {}}).encode())
    server.always(PODS, saying(body, Content_Encoding="gzip"))
    cluster = look()
    assert whole(cluster)
    assert len(body) < cluster.stats["bytes"] < len(body) + 2000


def test_a_list_without_items_is_empty(look, server):
    server.always(PODS, saying({"items": None, "metadata": {}}))
    assert look().pods == []


@pytest.mark.parametrize("protobuf", [True, False])
def test_an_empty_page_with_a_token_is_no_end(look, server, protobuf):
    server.protobuf = protobuf
    server.always(PODS, apiserver.paging(([], "x"), (HOLDERS[:2], "y"), ([], "z"), (HOLDERS[2:], ""), ([], "")))
    assert whole(look())
    assert [query.get("continue") for query in server.asked(PODS)] == [None, "x", "y", "z", None]


@pytest.mark.parametrize("tokens", [["x", "x"], ["x", "y", "x"]])
@pytest.mark.parametrize("path", [NODES, PODS])
def test_a_list_that_goes_round_in_circles(fails, server, path, tokens):
    server.always(path, apiserver.paging(*(([], token) for token in tokens)))
    assert f"GET {path}" in (text := fails("answer"))
    assert "again and again" in text


# A place that is lost


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("path", [NODES, PODS])
def test_a_list_whose_place_is_lost_starts_again(look, server, pauses, path, times):
    expired = refusing(410, "The provided continue parameter is too old")
    server.trouble[path].extend([apiserver.fine, expired] * times)
    assert whole(look())
    assert [query.get("continue") for query in server.asked(path)][: 2 * times + 1] == [None, "2"] * times + [None]
    assert pauses == []


def test_a_list_whose_place_is_always_lost(fails, server):
    server.always(PODS, later(refusing(410, "The provided continue parameter is too old")))
    text = fails("unreachable")
    assert "3 times" in text
    assert f"GET {PODS}: 410 Gone: The provided continue parameter is too old" in text
    assert len(server.asked(PODS)) == 6


# Trouble that passes


PASSING = {
    **{str(status): refusing(status, "overloaded") for status in (429, 500, 502, 503, 504)},
    "hangs up": apiserver.drop,
    "breaks off": apiserver.cut,
    "breaks off in chunks": apiserver.cut_chunks,
}


@pytest.mark.parametrize("path", [NODES, PODS])
@pytest.mark.parametrize("trouble", PASSING.values(), ids=list(PASSING))
def test_trouble_that_passes(look, server, pauses, path, trouble):
    server.trouble[path].extend([trouble, trouble, apiserver.fine, trouble])
    assert whole(look())
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("503", "503 Service Unavailable: overloaded"),
        ("429", "429 Too Many Requests: overloaded"),
        ("hangs up", "Connection aborted"),
        ("breaks off", "Connection broken"),
        ("breaks off in chunks", "Connection broken"),
    ],
)
def test_trouble_that_stays(fails, server, pauses, name, words):
    server.always(PODS, later(PASSING[name]))
    text = fails("unreachable")
    assert f"GET {PODS}: " in text
    assert words in text
    assert text.endswith(f"(tries: {_kube.TRIES})")
    assert len(server.asked(PODS)) == 1 + _kube.TRIES
    assert len(pauses) == _kube.TRIES - 1


def test_the_pauses_grow_and_differ(monkeypatch):
    monkeypatch.setattr(_kube, "PAUSES", (1, 8))
    for chance, expected in ((lambda low, _high: low, [0.5, 1, 2, 4, 4]), (lambda _low, high: high, [1, 2, 4, 8, 8])):
        monkeypatch.setattr(random, "uniform", chance)
        assert [_kube._pause(tries) for tries in range(1, 6)] == expected


def test_a_server_that_names_a_time_is_asked_again_then(look, server, pauses):
    server.trouble[PODS].extend([refusing(429, Retry_After="7")] * 2 * _kube.TRIES)
    assert whole(look())
    assert len(pauses) == 2 * _kube.TRIES
    assert all(7 <= pause <= 8 for pause in pauses)


NOW = 1_800_000_000
DATE = email.utils.formatdate(NOW + 30, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3),
        ({"Retry-After": DATE}, 30),
        ({"Retry-After": DATE, "Date": email.utils.formatdate(NOW + 10, usegmt=True)}, 20),
        ({"Retry-After": DATE, "Date": "noon"}, 30),
        ({"Retry-After": email.utils.formatdate(NOW - 30, usegmt=True)}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "1.5"}, None),
        ({}, None),
    ],
)
def test_retry_after(monkeypatch, headers, seconds):
    monkeypatch.setattr(time, "time", lambda: NOW)
    assert _kube._retry_after(headers) == seconds


def test_a_server_that_asks_for_more_time_than_there_is(fails, server, pauses):
    server.always(PODS, refusing(503, "starting", Retry_After="30"))
    with _kube.time_limit(20):
        text = fails("unreachable")
    assert "503 Service Unavailable: starting (tries: 1; the server asks to wait 30 seconds)" in text
    assert pauses == []


def test_one_connection_is_enough(look, server):
    look()
    assert len(server.seen) > 3
    assert server.connections == 1


def test_a_connection_that_the_server_closes_after_each_answer(look, server):
    def closing(handler, _query):
        handler.close_connection = True

    server.always(PODS, closing)
    assert whole(look())


def test_nobody_listens(fails, reader, pauses):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"https://127.0.0.1:{probe.getsockname()[1]}"
        text = fails("unreachable", host=host)
    assert text.startswith(f"GET {NODES}: {host}: ")
    assert "Connection refused (tries: " in text


# Time


def time_up():
    """The time limit ends now, however fast the machine is."""
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def test_a_slow_server_is_given_up_in_time(look, server, pauses):
    def slow(handler, query):
        time_up()
        return apiserver.hang(handler, query)

    server.trouble[PODS].extend([refusing(503, "busy"), slow])
    with pytest.raises(_kube.KubeError) as raised, _kube.time_limit(30):
        look()
    assert raised.value.kind == "unreachable"
    said = f"GET {PODS}: 503 Service Unavailable: busy"
    within = "no complete answer from the API server within 30 seconds"
    assert str(raised.value) == f"{within} (waiting for GET {PODS}, after {said})"
    assert len(pauses) == 1


def test_an_answer_that_drips(look, server):
    def drip(handler, _query):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        time_up()
        while not handler.api.over.wait(0.005):
            handler.wfile.write(b" ")

    server.trouble[NODES].append(drip)
    with pytest.raises(_kube.KubeError, match=f"waiting for GET {NODES}"), _kube.time_limit(30):
        look()


def test_a_pause_ends_with_the_time(look, server, monkeypatch):
    monkeypatch.setattr(_kube, "PAUSES", (20, 20))

    def busy(handler, _query):
        handler.refuse(503, "busy")
        time_up()
        return True

    server.always(PODS, busy)
    with pytest.raises(_kube.KubeError, match="503 Service Unavailable: busy"), _kube.time_limit(30):
        look()


@pytest.fixture
def alarm():
    """What stands for the alarm of whoever calls."""
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_args: rung.append(1))
    yield rung
    signal.signal(signal.SIGALRM, before)


def test_the_limit_is_gone_afterwards(alarm):
    with _kube.time_limit(30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    signal.raise_signal(signal.SIGALRM)
    assert alarm == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_first_ring_that_is_lost():
    class Swallowing:
        def __del__(self):
            signal.pause()

    with pytest.raises(_kube.KubeError, match="within 0.01 seconds"), _kube.time_limit(0.01):
        Swallowing()
        signal.pause()


# What is no answer


WRONG = [
    (saying(b"<html>Please log in</html>", "text/html"), "did not answer with JSON but with text/html"),
    (saying({"items": []}, None), "did not answer with JSON but with no content type"),
    (saying({"items": []}, "application/octet-stream"), "with application/octet-stream"),
    (saying(b"<html>Please log in</html>"), "did not answer with JSON: "),
    (saying(b'{"items": ['), "did not answer with JSON: "),
    (saying(b"[" * 100_000), "did not answer with JSON: "),
    (saying([]), "no Kubernetes object"),
    (saying({"kind": "Status"}), "no list of objects"),
    (saying({"items": ["pod"]}), "no list of objects"),
    (saying({"items": {}}), "no list of objects"),
    (saying({"items": [], "metadata": "none"}), "no list of objects"),
    (saying({"items": [], "metadata": {"continue": ["x"]}}), "no list of objects"),
    (saying(b"k8s\0\x12\x7f\x00", apiserver.PROTOBUF), "broken protobuf"),
    (refusing(302, "elsewhere", Location="/elsewhere"), "302 Found"),
    (refusing(400, "bad request"), "400 Bad Request: bad request"),
]


@pytest.mark.parametrize("path", [NODES, PODS])
@pytest.mark.parametrize(("trouble", "words"), WRONG)
def test_what_is_no_answer(fails, server, path, trouble, words):
    server.always(path, trouble)
    text = fails("answer")
    assert f"GET {path}" in text
    assert words in text
    assert {request.path for request in server.seen} <= {NODES, PODS}


@pytest.mark.parametrize("protobuf", [True, False])
def test_an_object_that_cannot_be_read_is_named(fails, server, protobuf):
    server.protobuf = protobuf
    broken = {"metadata": {"name": "broken", "namespace": "n"}, "spec": {"containers": GPU, "nodeName": "a"}}
    if protobuf:
        item = apiserver.field(2, apiserver.field(1, apiserver.field(1, GPU)) + b"\x12\x7f")
        body = apiserver.envelope("PodList", apiserver.field(1, b"") + item)
        server.always(PODS, saying(body, apiserver.PROTOBUF))
    else:
        server.always(PODS, saying({"metadata": {}, "items": [{**broken, "status": {}}]}))
    text = fails("answer")
    assert f"GET {PODS}: " in text
    assert protobuf or "n/broken" in text


def test_a_list_that_does_not_exist(fails, server):
    server.always(NODES, refusing(404, "the server could not find the requested resource"))
    assert f"GET {NODES}: 404 Not Found: the server could not find" in fails("missing")


# Who is let in


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (NODES, {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}),
        (PODS, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}),
    ],
)
def test_the_right_that_is_missing(fails, server, path, rule):
    said = f'{path[8:]} is forbidden: User "learner" cannot list resource "{path[8:]}" at the cluster scope'
    server.always(path, refusing(403, said))
    text = fails("refused")
    assert text.startswith(f"GET {path}: 403 Forbidden: {said}. The right to list {path[8:]} is missing.")
    assert yaml.safe_load(text.partition("of a ClusterRole: ")[2]) == [rule]


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda reader: reader.config_maps("x"), {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}),
        (lambda reader: reader.namespace("x"), {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}),
        (
            lambda reader: reader.custom("g.x", "v1", "ks"),
            {"apiGroups": ["g.x"], "resources": ["ks"], "verbs": ["list"]},
        ),
    ],
)
def test_the_right_that_is_missing_for_other_things(reader, server, call, rule):
    for path in ("/api/v1/namespaces/x/configmaps", "/api/v1/namespaces/x", "/apis/g.x/v1/ks"):
        server.always(path, refusing(403, "forbidden"))
    with pytest.raises(_kube.KubeError) as raised:
        call(reader())
    assert yaml.safe_load("- " + str(raised.value).partition(": - ")[2]) == [rule]


@pytest.mark.parametrize(
    ("cannot", "rule"),
    [
        (
            'impersonate resource "users" in API group ""',
            {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
        ),
        ('list resource "pods" in API group ""', {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}),
        ("do that", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}),
    ],
)
def test_the_right_that_the_server_names(fails, server, cannot, rule):
    server.always(NODES, refusing(403, f'User "learner" cannot {cannot} at the cluster scope'))
    assert yaml.safe_load(fails("refused").partition("of a ClusterRole: ")[2]) == [rule]


def test_a_refusal_that_is_not_of_the_api_server(fails, server):
    def page(handler, _query):
        handler.say(403, b"<html>\n Not in this building </html>", "text/html")
        return True

    server.always(NODES, page)
    assert fails("refused") == f"GET {NODES}: 403 Forbidden: <html> Not in this building </html>"


@pytest.mark.parametrize("protobuf", [True, False])
@pytest.mark.parametrize("status", [400, 403, 410, 503])
def test_the_words_of_the_server_in_either_encoding(look, server, pauses, status, protobuf):
    server.protobuf = protobuf
    server.always(PODS, refusing(status, "닫힘: closed"))
    with pytest.raises(_kube.KubeError, match=f"GET {PODS}: {status} [A-Z][A-Za-z ]+: 닫힘: closed"):
        look()


def test_a_status_that_is_broken(fails, server):
    def broken(handler, _query):
        handler.say(400, b"k8s\0\x12\x7f", apiserver.PROTOBUF)
        return True

    server.always(PODS, broken)
    assert "400 Bad Request: k8s" in fails("answer")


def test_a_token_that_is_not_taken(fails, server):
    server.token = "another"
    text = fails("refused")
    assert text.startswith(f"GET {NODES}: 401 Unauthorized")
    assert "The credentials used are the token of the option api_key" in text


def test_a_caller_that_the_server_takes_for_nobody(fails, server):
    server.always(NODES, refusing(403, 'User "system:anonymous" cannot list resource "nodes"'))
    text = fails("refused")
    assert "The credentials used are the token" in text
    assert "ClusterRole" not in text


def test_a_token_that_no_header_can_hold(fails, server):
    assert "such as the token" in fails("config", api_key=f"{TOKEN}\nX: y")
    assert server.seen == []


@pytest.fixture
def kubeconfig(server, authority, tmp_path):
    """kubeconfig(user, **cluster) is the path of a file that says how to get to the server."""

    def write(user, **cluster):
        cluster = {"server": server.url, "certificate-authority": authority.file, **cluster}
        path = tmp_path / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "lab",
                    "contexts": [
                        {"name": name, "context": {"cluster": "lab", "user": who}}
                        for name, who in (("lab", "learner"), ("other", "stranger"))
                    ],
                    "clusters": [{"name": "lab", "cluster": cluster}],
                    "users": [{"name": "learner", "user": user}, {"name": "stranger", "user": {"token": "wrong"}}],
                }
            )
        )
        return str(path)

    return write


def encoded(path):
    with open(path, "rb") as handle:
        return base64.b64encode(handle.read()).decode()


@pytest.mark.parametrize("inline", [True, False])
def test_a_kubeconfig_with_a_client_certificate(look, server, kubeconfig, authority, inline):
    certificate, key = authority.issue("learner")
    server.token = "not asked for"
    user = {"client-certificate": certificate, "client-key": key}
    if inline:
        user = {f"{name}-data": encoded(path) for name, path in user.items()}
    assert whole(look(kubeconfig=kubeconfig(user)))
    assert {request.caller for request in server.seen} == {"learner"}


def test_a_kubeconfig_with_a_token(look, server, kubeconfig):
    server.token = TOKEN
    assert whole(look(kubeconfig=kubeconfig({"token": TOKEN})))


def test_a_kubeconfig_whose_token_is_not_taken(fails, server, kubeconfig):
    server.token = "another"
    path = kubeconfig({"token": TOKEN})
    assert f"The credentials used are those of user learner, context lab of {path}" in fails("refused", kubeconfig=path)
    assert "user stranger, context other of" in fails("refused", kubeconfig=path, context="other")


def test_a_kubeconfig_that_is_no_file(look, fails, server, kubeconfig):
    with open(kubeconfig({"token": TOKEN}), encoding="utf-8") as handle:
        given = json.load(handle)
    server.token = TOKEN
    assert whole(look(kubeconfig=given))
    assert "context other of the kubeconfig given" in fails("refused", kubeconfig=given, context="other")


@pytest.fixture
def plugin(tmp_path):
    """plugin(script) is the entry of a kubeconfig for a credential plugin."""

    def write(script):
        path = tmp_path / "plugin"
        path.write_text(f"#!{sys.executable}\n{script}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(path),
                "interactiveMode": "Never",
                "env": [{"name": "SECRET", "value": TOKEN}],
            }
        }

    return write


def test_a_credential_plugin(look, server, kubeconfig, plugin):
    server.token = TOKEN
    script = """
import json, os
status = {"token": os.environ["SECRET"]}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""
    assert whole(look(kubeconfig=kubeconfig(plugin(script))))


@pytest.mark.parametrize("script", ["raise SystemExit('no badge')", "print('words')", "print('{}')"])
def test_a_credential_plugin_that_fails(fails, server, kubeconfig, plugin, script):
    server.token = TOKEN
    text = fails("refused", kubeconfig=kubeconfig(plugin(script)))
    assert "user learner, context lab" in text
    assert "exec:" in text


RENEWING = """
import json, os, pathlib
runs = pathlib.Path(__file__ + ".runs")
runs.touch()
token = os.environ["SECRET"] if runs.read_text() else "old"
runs.write_text(runs.read_text() + "x")
status = {"token": token, "expirationTimestamp": "2020-01-01T00:00:00Z"}
if os.path.exists(__file__ + ".broken") and token != "old":
    raise SystemExit("the vault is shut")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


def test_a_token_that_has_run_out_is_renewed(look, server, kubeconfig, plugin):
    server.token = TOKEN
    assert whole(look(kubeconfig=kubeconfig(plugin(RENEWING))))


def test_a_token_that_has_run_out_and_cannot_be_renewed(fails, server, kubeconfig, plugin, tmp_path):
    server.token = TOKEN
    (tmp_path / "plugin.broken").touch()
    text = fails("refused", kubeconfig=kubeconfig(plugin(RENEWING)))
    assert "401 Unauthorized" in text
    assert text.count("exec: ") == 1


def test_credentials_that_have_gone(reader):
    def renew(_configuration):
        raise kubernetes.config.ConfigException("Token file exists but empty.")

    account = reader()
    account._api.configuration.refresh_api_key_hook = renew
    with pytest.raises(_kube.KubeError, match="cannot be renewed: Token file exists but empty") as raised:
        account.nodes_and_pods("sum", GPU)
    assert raised.value.kind == "config"


def test_a_credential_plugin_that_hangs(look, kubeconfig, plugin):
    with pytest.raises(_kube.KubeError) as raised, _kube.time_limit(0.5):
        look(kubeconfig=kubeconfig(plugin("import signal; signal.alarm(30); signal.pause()")))
    assert "within 0.5 seconds (waiting for the credentials)" in str(raised.value)


def test_a_credential_plugin_that_hangs_does_not_outlive_the_time(look, kubeconfig, plugin, tmp_path):
    marker = tmp_path / "number"
    script = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(60)"
    with pytest.raises(_kube.KubeError), _kube.time_limit(3):
        look(kubeconfig=kubeconfig(plugin(script)))
    for _ in range(500):
        try:
            state = pathlib.Path(f"/proc/{marker.read_text()}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail(f"the plugin is still there, in state {state}")


@pytest.mark.parametrize("given", [[], ["a"], 5, True])
def test_what_is_no_kubeconfig(fails, given):
    text = fails("config", kubeconfig=given)
    assert text == f"kubeconfig: must be a path or the content of a kubeconfig, not {given!r}"


def test_a_host_without_credentials(fails, tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes.config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    assert "host alone is not enough: give api_key" in fails("config", api_key=None)


def test_a_credential_plugin_that_is_not_there(fails, server, kubeconfig):
    server.token = TOKEN
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent/plugin"}}
    assert "/nonexistent/plugin" in fails("refused", kubeconfig=kubeconfig(user))


def test_the_account_of_a_pod(fails, server, authority, tmp_path, monkeypatch):
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(kubernetes.config.incluster_config, "SERVICE_CERT_FILENAME", authority.file)
    monkeypatch.setattr(kubernetes.config.incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    server.token = "another"
    assert "those of this pod's service account" in fails("refused", host=None, api_key=None, ca_cert=None)


@pytest.mark.parametrize("option", ["username", "cert_file"])
def test_other_credentials_that_are_not_taken(fails, server, authority, option):
    server.token = "another"
    certificate, key = apiserver.Authority(authority.folder, "other").issue("learner")
    options = {"username": "learner", "password": TOKEN}
    words = "the user name learner and its password"
    if option == "cert_file":
        options = {"client_cert": certificate, "client_key": key}
        # A certificate that the server does not know ends the connection before any answer.
        fails("unreachable", api_key=None, **options)
        options = dict(zip(("client_cert", "client_key"), authority.issue("expelled")))
        server.always(NODES, refusing(401, "Unauthorized"))
        words = f"the client certificate {options['client_cert']}"
    assert words in fails("refused", api_key=None, **options)


def test_a_user_name_and_password(look, server):
    assert whole(look(api_key=None, username="learner", password=TOKEN))
    basic = base64.b64encode(f"learner:{TOKEN}".encode()).decode()
    assert {request.headers["Authorization"] for request in server.seen} == {f"Basic {basic}"}


# The way there


def test_a_server_that_is_not_trusted(fails, server, authority, pauses):
    stranger = apiserver.Authority(authority.folder, "stranger")
    text = fails("unreachable", ca_cert=stranger.file)
    assert "certificate verify failed" in text
    assert (server.seen, pauses) == ([], [])


def test_a_server_with_another_name(fails, server, pauses):
    text = fails("unreachable", host=server.url.replace("127.0.0.1", "localhost"))
    assert "localhost" in text.partition(server.url[-5:])[2]
    assert (server.seen, pauses) == ([], [])


def test_a_server_that_does_not_speak_tls(fails, authority, pauses):
    with apiserver.Server() as plain:
        text = fails("unreachable", host=plain.url.replace("http:", "https:"))
    assert "SSL" in text
    assert pauses == []


@pytest.mark.parametrize(("number", "tries"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, _kube.TRIES)])
def test_a_name_that_does_not_resolve(fails, monkeypatch, number, tries):
    asked = []

    def lookup(host, *_args, **_more):
        asked.append(host)
        raise socket.gaierror(number, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    text = fails("unreachable", host="https://api.lab.invalid:6443")
    assert text.startswith(f"GET {NODES}: https://api.lab.invalid:6443: ")
    assert "no such name" in text
    assert asked == ["api.lab.invalid"] * tries


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
def test_a_file_that_is_not_there(fails, server, option):
    assert "No such file or directory: '/nonexistent/file'" in fails("config", **{option: "/nonexistent/file"})
    assert server.seen == []


@pytest.mark.parametrize("host", ["https://", "https://["])
def test_an_address_that_is_none(fails, host, pauses):
    fails("config", host=host)
    assert pauses == []


def test_a_password_in_the_address_is_not_told(fails, server, pauses):
    server.always(NODES, apiserver.drop)
    assert TOKEN not in fails("unreachable", host=server.url.replace("//", f"//learner:{TOKEN}@"))


@pytest.fixture
def proxy():
    with apiserver.Proxy() as running:
        yield running


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_of_the_environment(look, server, proxy, monkeypatch, name):
    monkeypatch.setenv(name, proxy.url)
    assert whole(look())
    assert proxy.asked == [(f"127.0.0.1:{server.port}", "")]


@pytest.mark.parametrize("exceptions", ["127.0.0.1", "localhost,127.0.0.0/8"])
def test_a_proxy_of_the_environment_that_is_not_for_this_server(look, proxy, monkeypatch, exceptions):
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert whole(look())
    assert proxy.asked == []


def test_a_proxy_for_plain_http_only(look, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    assert whole(look())
    assert proxy.asked == []


def test_the_proxy_of_the_option(look, server, proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert whole(look(proxy=proxy.url, proxy_headers={"proxy_basic_auth": "learner:secret"}))
    basic = base64.b64encode(b"learner:secret").decode()
    assert proxy.asked == [(f"127.0.0.1:{server.port}", f"Basic {basic}")]
    assert whole(look(proxy=proxy.url, no_proxy="127.0.0.1"))
    assert len(proxy.asked) == 1


def test_a_proxy_that_does_not_let_through(fails, server, pauses):
    with apiserver.Proxy(407) as proxy:
        text = fails("unreachable", proxy=proxy.url)
    assert f"{server.url} by the proxy {proxy.url[7:]}: Tunnel connection failed: 407" in text
    assert (len(proxy.asked), pauses, server.seen) == (1, [], [])
    with apiserver.Proxy(503) as proxy:
        assert "Tunnel connection failed: 503" in fails("unreachable", proxy=proxy.url)
    assert len(proxy.asked) == _kube.TRIES


# Pods on nodes that were not listed


@pytest.mark.parametrize("protobuf", [True, False])
def test_a_node_that_is_younger_than_the_list(look, server, protobuf):
    server.protobuf = protobuf
    server.lists[PODS] += [pod("x", where="young"), pod("y", where="young"), pod("z", where="gone")]
    server.single[f"{NODES}/young"] = node("young", "8")
    cluster = look()
    assert names(cluster.nodes) == ["a", "b", "none", "young"]
    assert {one.node for one in cluster.pods} == {"a", "b", "young", "gone"}
    assert len(server.asked(f"{NODES}/young")) == len(server.asked(f"{NODES}/gone")) == 1


def test_a_node_that_may_not_be_asked_for(fails, server):
    server.lists[PODS].append(pod("x", where="young"))
    server.always(f"{NODES}/young", refusing(403, "forbidden"))
    text = fails("refused")
    assert f"GET {NODES}/young: 403 Forbidden: forbidden. The right to get nodes is missing." in text
    assert "verbs: [get, list]" in text


# Plain lists


def test_plain_lists_are_json_and_not_tried_again(reader, server, pauses):
    assert names_of(reader().nodes()) == ["a", "b", "none"]
    assert names_of(reader().pods()) == names_of(server.lists[PODS])
    assert {request.headers["Accept"] for request in server.seen} == {"application/json"}
    server.trouble[PODS].append(refusing(503, "busy"))
    with pytest.raises(_kube.KubeError, match="503 Service Unavailable: busy"):
        reader().pods()
    server.always(PODS, saying(apiserver.envelope("PodList", b""), apiserver.PROTOBUF))
    with pytest.raises(_kube.KubeError, match="did not answer with JSON"):
        reader().pods()
    assert pauses == []


def test_a_kind_that_is_not_there_and_one_that_may_not_be_seen(reader, server):
    assert reader().custom("g.x", "v1", "ks") is None
    assert reader().namespace("x") is None
    server.always("/api/v1/namespaces/x", refusing(400, "odd"))
    with pytest.raises(_kube.KubeError, match="400 Bad Request: odd"):
        reader().namespace("x")


def test_impersonation(look, server):
    assert whole(look(impersonate_user="someone", impersonate_groups=["one", "two"]))
    assert {request.headers["Impersonate-User"] for request in server.seen} == {"someone"}
    assert server.seen[0].headers.get_all("Impersonate-Group") == ["one", "two"]


def test_no_client(monkeypatch):
    monkeypatch.setattr(_kube, "IMPORT_ERROR", "No module named 'kubernetes'")
    with pytest.raises(_kube.KubeError, match="No module named 'kubernetes'") as raised:
        _kube.Reader(None)
    assert raised.value.kind == "library"
