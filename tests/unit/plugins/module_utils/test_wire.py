# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Kubernetes protobuf gives what its JSON gives; what is broken is refused."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _objects, _wire

# A busy machine is no reason to fail.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

GPU = "nvidia.com/gpu"

# An encoder that shares nothing with the decoder: messages as {field of the JSON: (number, kind)}.

TEXTS = {"map": "text"}
QUANTITIES = {"map": "quantity"}
META = {
    "name": (1, "text"),
    "generateName": (2, "text"),
    "namespace": (3, "text"),
    "uid": (5, "text"),
    "resourceVersion": (6, "text"),
    "generation": (7, "int"),
    "creationTimestamp": (8, "time"),
    "deletionTimestamp": (9, "time"),
    "labels": (11, TEXTS),
    "annotations": (12, TEXTS),
}
REQUIREMENT = {"key": (1, "text"), "operator": (2, "text"), "values": (3, ["text"])}
TERM = {"matchExpressions": (1, [REQUIREMENT]), "matchFields": (2, [REQUIREMENT])}
RESOURCES = {"limits": (1, QUANTITIES), "requests": (2, QUANTITIES)}
CONTAINER = {
    "name": (1, "text"),
    "image": (2, "text"),
    "command": (3, ["text"]),
    "resources": (8, RESOURCES),
    "stdin": (16, "int"),
    "restartPolicy": (24, "text"),
}
CONDITION = {
    "type": (1, "text"),
    "status": (2, "text"),
    "lastTransitionTime": (4, "time"),
    "reason": (5, "text"),
    "message": (6, "text"),
}
POD = {
    "metadata": (1, META),
    "spec": (
        2,
        {
            "containers": (2, [CONTAINER]),
            "restartPolicy": (3, "text"),
            "terminationGracePeriodSeconds": (4, "int"),
            "nodeSelector": (7, TEXTS),
            "nodeName": (10, "text"),
            "affinity": (
                18,
                {
                    "nodeAffinity": (
                        1,
                        {
                            "requiredDuringSchedulingIgnoredDuringExecution": (1, {"nodeSelectorTerms": (1, [TERM])}),
                            "preferredDuringSchedulingIgnoredDuringExecution": (
                                2,
                                [{"weight": (1, "int"), "preference": (2, TERM)}],
                            ),
                        },
                    ),
                },
            ),
            "schedulerName": (19, "text"),
            "initContainers": (20, [CONTAINER]),
            "tolerations": (
                22,
                [
                    {
                        "key": (1, "text"),
                        "operator": (2, "text"),
                        "value": (3, "text"),
                        "effect": (4, "text"),
                        "tolerationSeconds": (5, "int"),
                    }
                ],
            ),
            "priority": (25, "int"),
            "overhead": (32, QUANTITIES),
            "schedulingGates": (38, [{"name": (1, "text")}]),
            "resourceClaims": (39, [{"name": (1, "text"), "resourceClaimName": (3, "text")}]),
            "resources": (40, RESOURCES),
        },
    ),
    "status": (
        3,
        {
            "phase": (1, "text"),
            "conditions": (2, [CONDITION]),
            "startTime": (7, "time"),
            "containerStatuses": (8, [{"name": (1, "text"), "ready": (4, "int")}]),
            "nominatedNodeName": (11, "text"),
            "extendedResourceClaimStatus": (18, {"resourceClaimName": (2, "text")}),
        },
    ),
}
NODE = {
    "metadata": (1, META),
    "spec": (
        2,
        {
            "podCIDR": (1, "text"),
            "providerID": (3, "text"),
            "unschedulable": (4, "int"),
            "taints": (
                5,
                [{"key": (1, "text"), "value": (2, "text"), "effect": (3, "text"), "timeAdded": (4, "time")}],
            ),
        },
    ),
    "status": (
        3,
        {
            "capacity": (1, QUANTITIES),
            "allocatable": (2, QUANTITIES),
            "conditions": (4, [CONDITION]),
            "images": (8, [{"names": (1, ["text"]), "sizeBytes": (2, "int")}]),
        },
    ),
}


def number(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def block(at, content):
    return number(at << 3 | 2) + number(len(content)) + content


def encode_field(at, kind, value):
    if isinstance(kind, list):
        return b"".join(encode_field(at, kind[0], one) for one in value)
    if isinstance(kind, dict) and set(kind) == {"map"}:
        return b"".join(
            block(at, block(1, key.encode()) + encode_field(2, kind["map"], one)) for key, one in sorted(value.items())
        )
    if isinstance(kind, dict):
        return block(at, encode(kind, value))
    if kind == "text":
        return block(at, value.encode())
    if kind == "quantity":
        return block(at, block(1, value.encode()))
    if kind == "time":
        moment = datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
        return block(at, number(1 << 3) + number(int(moment.timestamp())) + number(2 << 3) + number(0))
    return number(at << 3) + number(int(value))


def encode(message, item):
    """A message in the order of its JSON; a key that is not in the table is an error of the test."""
    return b"".join(encode_field(*message[key], value) for key, value in item.items())


def body(items, kind="PodList", metadata=None, more=b"", raw_more=b""):
    raw = block(
        1, encode({"resourceVersion": (2, "text"), "continue": (3, "text"), "left": (4, "int")}, metadata or {})
    )
    raw += b"".join(block(2, item) for item in items) + raw_more
    type_meta = block(1, b"v1") + block(2, kind.encode())
    return b"k8s\0" + block(1, type_meta) + block(2, raw) + block(3, b"") + block(4, b"") + more


# Generated objects

names = st.text("abz09-./", min_size=1, max_size=12)
texts = st.text(max_size=12)
quantities = st.sampled_from(["0", "1", "8", "1k", "500m", "2e0", "1Gi", "+1", "1.", "16Ei"])
amounts = st.dictionaries(
    st.sampled_from([GPU, "cpu", "memory", "nvidia.com/gpu.shared", "pods"]), quantities, max_size=4
)
times = st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ")
)


def thing(required=None, **optional):
    return st.fixed_dictionaries(required or {}, optional=optional)


metas = {
    "generateName": texts,
    "namespace": texts,
    "uid": texts,
    "resourceVersion": texts,
    "generation": st.integers(0, 2**63 - 1),
    "creationTimestamp": times,
    "deletionTimestamp": times,
    "labels": st.dictionaries(names, texts, max_size=3),
    "annotations": st.dictionaries(names, texts, max_size=3),
}
requirements = thing(key=texts, operator=st.sampled_from(["In", "Exists", "Gt"]), values=st.lists(texts, max_size=3))
terms = thing(matchExpressions=st.lists(requirements, max_size=2), matchFields=st.lists(requirements, max_size=2))
resources = thing(limits=amounts, requests=amounts)
containers = st.lists(
    thing(
        name=texts,
        image=texts,
        command=st.lists(texts, max_size=2),
        resources=resources,
        stdin=st.booleans(),
        restartPolicy=st.sampled_from(["Always", "Never", ""]),
    ),
    max_size=3,
)
conditions = st.lists(
    thing(
        type=st.sampled_from(["PodScheduled", "Ready", "NotPodScheduled"]),
        status=st.sampled_from(["True", "False", "Unknown", ""]),
        lastTransitionTime=times,
        reason=texts,
        message=texts,
    ),
    max_size=4,
)
pods = thing(
    {"metadata": thing({"name": names}, **metas)},
    spec=thing(
        containers=containers,
        initContainers=containers,
        restartPolicy=texts,
        terminationGracePeriodSeconds=st.integers(0, 2**40),
        nodeSelector=st.dictionaries(names, texts, max_size=3),
        nodeName=texts,
        affinity=thing(
            nodeAffinity=thing(
                requiredDuringSchedulingIgnoredDuringExecution=thing(nodeSelectorTerms=st.lists(terms, max_size=2)),
                preferredDuringSchedulingIgnoredDuringExecution=st.lists(
                    thing(weight=st.integers(1, 100), preference=terms), max_size=2
                ),
            )
        ),
        schedulerName=texts,
        tolerations=st.lists(
            thing(key=texts, operator=texts, value=texts, effect=texts, tolerationSeconds=st.integers(-5, 300)),
            max_size=3,
        ),
        priority=st.integers(-(2**31), 2**31 - 1),
        overhead=amounts,
        schedulingGates=st.lists(thing(name=texts), max_size=2),
        resourceClaims=st.lists(thing(name=texts, resourceClaimName=texts), max_size=2),
        resources=resources,
    ),
    status=thing(
        phase=st.sampled_from(["Pending", "Running", "Unknown", ""]),
        conditions=conditions,
        startTime=times,
        containerStatuses=st.lists(thing(name=texts, ready=st.booleans()), max_size=2),
        nominatedNodeName=texts,
        extendedResourceClaimStatus=thing(resourceClaimName=texts),
    ),
)
nodes = thing(
    {"metadata": thing({"name": names}, **metas)},
    spec=thing(
        podCIDR=texts,
        providerID=texts,
        unschedulable=st.booleans(),
        taints=st.lists(thing(key=texts, value=texts, effect=texts, timeAdded=times), max_size=3),
    ),
    status=thing(
        capacity=amounts,
        allocatable=amounts,
        conditions=conditions,
        images=st.lists(thing(names=st.lists(texts, max_size=2), sizeBytes=st.integers(0, 2**40)), max_size=2),
    ),
)


# Lists with about every field that nodes and pods have, as the serializer of Kubernetes 1.36 encodes them.
ENCODED = json.loads(pathlib.Path(__file__).with_name("encoded.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("kind", "from_wire", "from_json"),
    [
        ("pods", _wire.pod_from_wire, _objects.pod_from_json),
        ("nodes", _wire.node_from_wire, _objects.node_from_json),
    ],
)
def test_what_kubernetes_encodes_is_what_it_says_in_json(kind, from_wire, from_json):
    page = _wire.page(base64.b64decode(ENCODED[kind]["protobuf"]))
    assert page.resource_version == "4712"
    assert page.total == len(ENCODED[kind]["items"])
    assert page.continue_token == ("bmV4dA" if kind == "pods" else "")
    assert [from_wire(item) for item in page.items] == [from_json(item) for item in ENCODED[kind]["items"]]


@pytest.mark.parametrize(("kind", "message"), [("pods", POD), ("nodes", NODE)])
def test_the_encoder_of_these_tests_agrees_with_kubernetes(kind, message):
    """As far as it knows the fields; the rest of an object is left out on both sides."""

    def known(shape, item):
        if isinstance(shape, list):
            return [known(shape[0], one) for one in item]
        if not isinstance(shape, dict) or set(shape) == {"map"}:
            return item
        return {key: known(shape[key][1], value) for key, value in item.items() if key in shape and value is not None}

    decode = _wire.pod_from_wire if kind == "pods" else _wire.node_from_wire
    page = _wire.page(base64.b64decode(ENCODED[kind]["protobuf"]))
    for wire, item in zip(page.items, ENCODED[kind]["items"]):
        assert decode(encode(message, known(message, item))) == decode(wire)


@given(pods)
def test_a_pod_is_the_same_in_both_encodings(item):
    assert _wire.pod_from_wire(encode(POD, item)) == _objects.pod_from_json(json.loads(json.dumps(item)))


@given(nodes)
def test_a_node_is_the_same_in_both_encodings(item):
    assert _wire.node_from_wire(encode(NODE, item)) == _objects.node_from_json(json.loads(json.dumps(item)))


@given(pods)
def test_a_counted_pod_is_the_same_in_both_encodings(item):
    assert _wire.counted_pod_from_wire(encode(POD, item)) == _objects.counted_pod(
        _wire.pod_from_wire(encode(POD, item))
    )


@given(nodes, st.sampled_from([GPU, "amd.com/gpu", "cpu", "example.org/none"]))
def test_a_counted_node_is_the_same_in_both_encodings(item, resource):
    whole = _wire.node_from_wire(encode(NODE, item))
    assert _wire.counted_node_from_wire(encode(NODE, item), resource) == _objects.counted_node(whole, resource)


@given(st.lists(pods, max_size=4), st.text(max_size=8), st.text(max_size=8))
def test_a_page_gives_back_its_objects(items, token, version):
    encoded = [encode(POD, item) for item in items]
    page = _wire.page(body(encoded, metadata={"resourceVersion": version, "continue": token, "left": 7}))
    assert page == (encoded, token, version, len(items))
    assert [_wire.pod_from_wire(item) for item in page.items] == [_objects.pod_from_json(item) for item in items]


@given(st.lists(pods, max_size=4))
def test_only_what_does_not_name_the_resource_is_left_out(items):
    encoded = [encode(POD, item) for item in items]
    page = _wire.page(body(encoded), GPU)
    assert page.items == [item for item in encoded if _wire.mentions(item, GPU)]
    assert page.total == len(items)
    for item, wire in zip(items, encoded):
        if f'"{GPU}"' in json.dumps(item):
            assert _wire.mentions(wire, GPU)


EXAMPLE = {
    "metadata": {"name": "train", "namespace": "team", "deletionTimestamp": "2026-03-01T10:00:00Z"},
    "spec": {
        "containers": [{"name": "c", "image": "x" * 300, "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}],
        "nodeName": "n1",
        "priority": -1,
    },
    "status": {"phase": "Running"},
}


@given(st.data())
def test_an_object_that_is_cut_off_is_refused_or_says_less(data):
    """A message may end between two of its fields; the lengths around it then no longer agree."""
    whole = encode(POD, EXAMPLE)
    cut = data.draw(st.integers(0, len(whole) - 1))
    edges = [len(encode(POD, dict(list(EXAMPLE.items())[:count]))) for count in range(3)]
    if cut in edges[1:]:
        assert _wire.pod_from_wire(whole[:cut]).name == "train"
    else:
        with pytest.raises((_wire.WireError, _objects.ObjectError)):
            _wire.pod_from_wire(whole[:cut])


@given(st.data())
def test_a_page_that_is_cut_off_is_refused(data):
    whole = body([encode(POD, EXAMPLE)] * 2, metadata={"continue": "next", "resourceVersion": "1"})
    raw_ends = len(whole) - len(block(3, b"") + block(4, b""))
    with pytest.raises(_wire.WireError):
        _wire.page(whole[: data.draw(st.integers(0, raw_ends - 1))])


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(noise):
    for decode in (_wire.pod_from_wire, _wire.node_from_wire, _wire.page, lambda data: _wire.page(_wire.MAGIC + data)):
        with contextlib.suppress(_wire.WireError, _objects.ObjectError):
            decode(noise)


@given(st.data())
def test_a_flipped_byte_is_decoded_or_refused(data):
    wire = bytearray(encode(POD, EXAMPLE))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(_wire.WireError, _objects.ObjectError):
        _wire.pod_from_wire(bytes(wire))


def test_fields_nobody_knows_are_skipped_by_their_wire_type():
    unknown = number(900 << 3) + number(2**63) + number(901 << 3 | 1) + b"12345678" + number(902 << 3 | 5) + b"1234"
    unknown += block(903, b"\xff\xff")
    spec = unknown + encode(POD["spec"][1], EXAMPLE["spec"]) + unknown
    wire = unknown + block(1, unknown + encode(META, EXAMPLE["metadata"])) + block(2, spec) + unknown
    wire += block(3, encode(POD["status"][1], EXAMPLE["status"]))
    assert _wire.pod_from_wire(wire) == _objects.pod_from_json(EXAMPLE)
    assert _wire.page(body([wire], more=unknown, raw_more=unknown)).items == [wire]


@pytest.mark.parametrize("kind", [3, 4, 6, 7])
def test_a_wire_type_nobody_knows_is_refused(kind):
    with pytest.raises(_wire.WireError, match=f"wire type {kind}"):
        _wire.pod_from_wire(number(900 << 3 | kind))


def test_the_last_value_counts():
    wire = block(1, block(1, b"old") + block(3, b"old")) + block(1, block(1, b"new") + block(9, number(8) + number(60)))
    wire += block(2, block(10, b"old") + block(10, b"n1") + number(25 << 3) + number(1) + number(25 << 3) + number(-7))
    pod = _wire.pod_from_wire(wire)
    assert (pod.namespace, pod.name, pod.node, pod.priority) == ("old", "new", "n1", -7)
    assert pod.terminating_since == "1970-01-01T00:01:00Z"


def test_empty_texts_and_a_zero_are_what_is_missing():
    wire = encode(NODE, {"metadata": {"name": "n", "namespace": ""}, "spec": {"unschedulable": False}})
    assert _wire.node_from_wire(wire) == _objects.Node("n")
    entry = block(1, b"cpu")
    assert _wire.node_from_wire(wire + block(3, block(2, entry) + block(2, entry + block(2, b""))))[2] == {"cpu": "0"}


def test_without_a_name_nothing_counts():
    with pytest.raises(_objects.ObjectError, match="a pod without a name"):
        _wire.pod_from_wire(b"")
    with pytest.raises(_objects.ObjectError, match="a node without a name"):
        _wire.node_from_wire(b"")


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (block(1, block(1, b"\xff")), "no UTF-8"),
        (number(900 << 3) + b"\xff" * 11, "too long"),
        (b"\xff" * 11, "too long"),
        (block(1, block(1, b"p") + block(9, number(8) + number(2**62))), "out of range"),
        (b"\x0a\x05ab", "cut off"),
        (block(1, b"\x0a\x05ab") + b"abcdef", "cut off"),
        (block(1, b"\x09123") + block(2, b"12345"), "cut off"),
    ],
)
def test_what_is_broken_is_refused(wire, says):
    with pytest.raises(_wire.WireError, match=says):
        _wire.pod_from_wire(wire)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "no Kubernetes protobuf"),
        (b'{"kind": "PodList"}', "no Kubernetes protobuf"),
        (b"k8s\0", "without a kind"),
        (body([], kind="Status"), "is a Status, not a list"),
        (body([], more=block(3, b"gzip")), "encoded as gzip"),
        (b"k8s\0" + block(1, block(1, b"v1") + block(2, b"PodList")), "cut off"),
    ],
)
def test_what_is_no_list_is_refused(answer, says):
    with pytest.raises(_wire.WireError, match=says):
        _wire.page(answer)


def test_an_empty_page_may_have_a_next_one():
    assert _wire.page(body([], metadata={"continue": "more"})) == ([], "more", "", 0)
