# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""The few fields that accounting needs, straight from Kubernetes protobuf. No input or output here.

Field numbers are those of generated.proto in k8s.io/api core/v1 and k8s.io/apimachinery (meta/v1, runtime); they are
part of the API and never change. Every decoder gives what its namesake in _objects gives for the same object in JSON.
"""

from __future__ import annotations

import bisect
import datetime
import functools
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import (
    Condition,
    Container,
    Node,
    ObjectError,
    Pod,
    Quantities,
    Requirement,
    Taint,
    Term,
    Toleration,
    counted_node,
)

#: What a Kubernetes protobuf body starts with.
MAGIC = b"k8s\0"

_VARINT, _LENGTH = 0, 2
_EPOCH = datetime.datetime(1970, 1, 1)

#: Number, and where its bytes are in the data; for a varint its value and 0.
Field = tuple[int, int, int]


class WireError(ValueError):
    """Bytes that are no (complete) Kubernetes protobuf."""


class Page(t.NamedTuple):
    """One page of a list: each object still encoded."""

    items: list[bytes]
    continue_token: str
    resource_version: str
    #: How many objects the page has, with those that ``mentioning`` left out.
    total: int


def _tags(*lengths: int, varints: tuple[int, ...] = ()) -> frozenset[int]:
    return frozenset([number << 3 | _LENGTH for number in lengths] + [number << 3 | _VARINT for number in varints])


_UNKNOWN = _tags(1, 2, 3)  # typeMeta, raw, contentEncoding
_TYPE_META = _tags(2)  # kind
_LIST = _tags(1, 2)  # metadata, items
_LIST_META = _tags(2, 3)  # resourceVersion, continue
_OBJECT = _tags(1, 2, 3)  # metadata, spec, status
_META_AND_STATUS = _tags(1, 3)
_POD_META = _tags(1, 3, 5, 9)  # name, namespace, uid, deletionTimestamp
_NODE_META = _tags(1, 11)  # name, labels
# The same without what only tells why a pod waits.
_COUNTED_META = _tags(1, 3, 9)
_COUNTED_SPEC = _tags(2, 10, 20, 32, 40)
_COUNTED_STATUS = _tags(1, 11, 18)
_TIME = _tags(varints=(1,))  # seconds
# containers, nodeSelector, nodeName, affinity, schedulerName, initContainers, tolerations, overhead, schedulingGates,
# resourceClaims, resources; priority
_POD_SPEC = _tags(2, 7, 10, 18, 19, 20, 22, 32, 38, 39, 40, varints=(25,))
_POD_STATUS = _tags(1, 2, 11, 18)  # phase, conditions, nominatedNodeName, extendedResourceClaimStatus
_CONDITION = _tags(1, 2, 5, 6)  # type, status, reason, message
_CLAIM_STATUS = _tags(2)  # resourceClaimName
_CONTAINER = _tags(1, 8, 24)  # name, resources, restartPolicy
_RESOURCES = _tags(1, 2)  # limits, requests
_AFFINITY = _tags(1)  # nodeAffinity
_NODE_SPEC = _tags(5, varints=(4,))  # taints; unschedulable
_NODE_STATUS = _tags(1, 2, 4)  # capacity, allocatable, conditions
_ALLOCATABLE = _tags(2)
_NODE_CONDITION = _tags(1, 2)  # type, status
_FIRST = _tags(1)
_ENTRY = _tags(1, 2)  # key, value
_THREE = _tags(1, 2, 3)
_FOUR = _tags(1, 2, 3, 4)


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends."""
    result = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & 0xFFFFFFFFFFFFFFFF, pos
        shift += 7
        if shift > 63:
            raise WireError("a number in the protobuf answer is too long")


def fields(data: bytes, pos: int, end: int, wanted: frozenset[int]) -> list[Field]:
    """The wanted fields of a message in their order; the others are skipped by their wire type."""
    found: list[Field] = []
    try:
        while pos < end:
            # Numbers of one and two bytes are read in place: this loop is where the time goes.
            tag = data[pos]
            if tag < 128:
                pos += 1
            elif data[pos + 1] < 128:
                tag += (data[pos + 1] << 7) - 128
                pos += 2
            else:
                tag, pos = _varint(data, pos)
            kind = tag & 7
            if kind == _LENGTH:
                size = data[pos]
                if size < 128:
                    pos += 1
                elif data[pos + 1] < 128:
                    size += (data[pos + 1] << 7) - 128
                    pos += 2
                else:
                    size, pos = _varint(data, pos)
                stop = pos + size
                if stop > end:
                    raise WireError("the protobuf answer is cut off")
                if tag in wanted:
                    found.append((tag >> 3, pos, stop))
                pos = stop
            elif kind == _VARINT:
                value, pos = _varint(data, pos)
                if tag in wanted:
                    found.append((tag >> 3, value, 0))
            elif kind == 1:
                pos += 8
            elif kind == 5:
                pos += 4
            else:
                raise WireError(f"the protobuf answer has a field of the unknown wire type {kind}")
    except IndexError:
        pos = end + 1
    if pos != end:
        raise WireError("the protobuf answer is cut off")
    return found


def _text(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a text in the protobuf answer is no UTF-8: {error}") from error


def _texts(data: bytes, start: int, stop: int, wanted: frozenset[int]) -> dict[int, str]:
    """The texts of a message by their number; the last one counts."""
    return {number: _text(data, at, to) for number, at, to in fields(data, start, stop, wanted)}


def page(body: bytes, mentioning: str = "") -> Page:
    """A list as the API server sends it: magic, runtime.Unknown, PodList or NodeList.

    With ``mentioning``, only the objects whose bytes hold that text, see mentions().
    Raises WireError when the body is something else or not complete.
    """
    if not body.startswith(MAGIC):
        raise WireError("the answer is no Kubernetes protobuf")
    kind = encoding = ""
    start = stop = 0
    for number, at, to in fields(body, len(MAGIC), len(body), _UNKNOWN):
        if number == 1:
            kind = _texts(body, at, to, _TYPE_META).get(2, kind)
        elif number == 2:
            start, stop = at, to
        else:
            encoding = _text(body, at, to)
    if encoding:
        raise WireError(f"the protobuf answer is encoded as {encoding}")
    if not kind.endswith("List"):
        raise WireError(f"the protobuf answer is a {kind or 'thing without a kind'}, not a list")
    if not start:
        raise WireError("the protobuf answer is cut off")
    metadata: dict[int, str] = {}
    spans = []
    for number, at, to in fields(body, start, stop, _LIST):
        if number == 2:
            spans.append((at, to))
        else:
            metadata.update(_texts(body, at, to, _LIST_META))
    total = len(spans)
    if mentioning:
        spans = _spans_with(body, mentioning.encode(), spans)
    return Page([body[at:to] for at, to in spans], metadata.get(3, ""), metadata.get(2, ""), total)


def _spans_with(body: bytes, needle: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that hold the needle, by one search from hit to hit."""
    found = []
    starts = [at for at, _to in spans]
    hit = body.find(needle, starts[0]) if spans else -1
    while hit >= 0:
        at, to = spans[bisect.bisect_right(starts, hit) - 1]
        if hit + len(needle) <= to:
            found.append((at, to))
            hit = to - 1
        hit = body.find(needle, hit + 1)
    return found


def mentions(item: bytes, resource: str) -> bool:
    """False when an encoded object cannot name the resource; true when it may, in whatever field."""
    return item.find(resource.encode()) >= 0


# Most of these parts are the same in thousands of objects.


@functools.lru_cache(maxsize=4096)
def _text_entry(entry: bytes) -> tuple[str, str]:
    """An entry of map<string, string>."""
    texts = _texts(entry, 0, len(entry), _ENTRY)
    return texts.get(1, ""), texts.get(2, "")


@functools.lru_cache(maxsize=4096)
def _quantity_entry(entry: bytes) -> tuple[str, str]:
    """An entry of map<string, Quantity>; a Quantity is a message with its text."""
    key, value = "", "0"
    for number, at, to in fields(entry, 0, len(entry), _ENTRY):
        if number == 1:
            key = _text(entry, at, to)
        else:
            value = _texts(entry, at, to, _FIRST).get(1, value)
    return key, value


@functools.lru_cache(maxsize=4096)
def _resources(message: bytes) -> tuple[Quantities, Quantities]:
    """The limits and requests of ResourceRequirements."""
    maps: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for number, at, to in fields(message, 0, len(message), _RESOURCES):
        key, value = _quantity_entry(message[at:to])
        maps[number - 1][key] = value
    return maps


@functools.lru_cache(maxsize=4096)
def _toleration(message: bytes) -> Toleration:
    texts = _texts(message, 0, len(message), _FOUR)
    return Toleration(*(texts.get(number, "") for number in range(1, 5)))


@functools.lru_cache(maxsize=4096)
def _taint(message: bytes) -> Taint:
    texts = _texts(message, 0, len(message), _THREE)
    return Taint(*(texts.get(number, "") for number in range(1, 4)))


def _container(data: bytes, start: int, stop: int, init: bool) -> Container:
    name = restart = ""
    limits: Quantities = {}
    requests: Quantities = {}
    for number, at, to in fields(data, start, stop, _CONTAINER):
        if number == 1:
            name = _text(data, at, to)
        elif number == 8:
            limits, requests = _resources(data[at:to])
        else:
            restart = _text(data, at, to)
    return Container(name, limits, requests, init and restart == "Always")


def _requirement(data: bytes, start: int, stop: int) -> Requirement:
    key = operator = ""
    values = []
    for number, at, to in fields(data, start, stop, _THREE):
        text = _text(data, at, to)
        if number == 1:
            key = text
        elif number == 2:
            operator = text
        else:
            values.append(text)
    return Requirement(key, operator, tuple(values))


@functools.lru_cache(maxsize=4096)
def _required_affinity(affinity: bytes) -> tuple[Term, ...] | None:
    """Affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms."""
    terms: list[Term] | None = None
    for _affinity, at, to in fields(affinity, 0, len(affinity), _AFFINITY):
        for _selector, start, stop in fields(affinity, at, to, _FIRST):
            terms = [] if terms is None else terms
            for _term, first, last in fields(affinity, start, stop, _FIRST):
                lists: tuple[list[Requirement], list[Requirement]] = ([], [])
                for number, here, there in fields(affinity, first, last, _ENTRY):
                    lists[number - 1].append(_requirement(affinity, here, there))
                terms.append(Term(tuple(lists[0]), tuple(lists[1])))
    return None if terms is None else tuple(terms)


def _time(data: bytes, start: int, stop: int) -> str:
    """meta/v1 Time as its JSON is written."""
    seconds = 0
    for _number, value, _end in fields(data, start, stop, _TIME):
        seconds = _signed(value)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError as error:
        raise WireError(f"a time in the protobuf answer is out of range: {seconds} s") from error
    return moment.isoformat() + "Z"


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _sections(item: bytes, metadata: frozenset[int], spec: frozenset[int], status: frozenset[int]) -> list[list[Field]]:
    """The fields of metadata, spec and status; a section that comes twice is merged, as protobuf wants it."""
    sections: list[list[Field]] = [[], [], []]
    wanted = (metadata, spec, status)
    for number, at, to in fields(item, 0, len(item), _OBJECT):
        sections[number - 1] += fields(item, at, to, wanted[number - 1])
    return sections


def _named(name: str, kind: str) -> str:
    if not name:
        raise ObjectError(f"a {kind} without a name cannot be counted")
    return name


def counted_pod_from_wire(item: bytes) -> Pod:
    """The counted_pod() of a pod, without reading the rest."""
    return _pod(item, _COUNTED_META, _COUNTED_SPEC, _COUNTED_STATUS)


def pod_from_wire(item: bytes) -> Pod:
    """A pod from its protobuf, equal to pod_from_json() of its JSON; raises WireError."""
    return _pod(item, _POD_META, _POD_SPEC, _POD_STATUS)


def _pod(item: bytes, meta_tags: frozenset[int], spec_tags: frozenset[int], status_tags: frozenset[int]) -> Pod:
    metadata, spec, status = _sections(item, meta_tags, spec_tags, status_tags)
    name = namespace = uid = deleted = ""
    for number, at, to in metadata:
        if number == 1:
            name = _text(item, at, to)
        elif number == 3:
            namespace = _text(item, at, to)
        elif number == 5:
            uid = _text(item, at, to)
        else:
            deleted = _time(item, at, to)

    node = scheduler = ""
    priority = 0
    affinity: tuple[Term, ...] | None = None
    containers, init_containers, tolerations, gates, claims = [], [], [], [], []
    selector, overhead = {}, {}
    requests: Quantities = {}
    for number, at, to in spec:
        if number == 22:
            tolerations.append(_toleration(item[at:to]))
        elif number == 2:
            containers.append(_container(item, at, to, False))
        elif number == 10:
            node = _text(item, at, to)
        elif number == 19:
            scheduler = _text(item, at, to)
        elif number == 25:
            priority = _signed(at)
        elif number == 20:
            init_containers.append(_container(item, at, to, True))
        elif number == 18:
            affinity = _required_affinity(item[at:to])
        elif number == 7:
            key, value = _text_entry(item[at:to])
            selector[key] = value
        elif number == 32:
            key, value = _quantity_entry(item[at:to])
            overhead[key] = value
        elif number == 38:
            gates.append(_texts(item, at, to, _FIRST).get(1, ""))
        elif number == 39:
            claims.append(_texts(item, at, to, _FIRST).get(1, ""))
        else:
            requests = _resources(item[at:to])[1]

    phase = nominated = extended = ""
    condition = Condition()
    for number, at, to in status:
        if number == 1:
            phase = _text(item, at, to)
        elif number == 11:
            nominated = _text(item, at, to)
        elif number == 18:
            extended = _texts(item, at, to, _CLAIM_STATUS).get(2, "")
        elif item.find(b"PodScheduled", at, to) >= 0:
            texts = _texts(item, at, to, _CONDITION)
            if texts.get(1) == "PodScheduled":
                condition = Condition(texts.get(2, ""), texts.get(5, ""), texts.get(6, ""))

    return Pod(
        namespace,
        _named(name, "pod"),
        uid,
        node,
        phase,
        tuple(containers),
        tuple(init_containers),
        overhead,
        requests,
        priority,
        scheduler,
        tuple(gates),
        selector,
        affinity,
        tuple(tolerations),
        deleted,
        nominated,
        tuple(claims),
        extended,
        condition,
    )


def counted_node_from_wire(item: bytes, resource: str) -> Node:
    """The counted_node() of a node, without reading the rest."""
    if mentions(item, resource):
        return counted_node(node_from_wire(item), resource)
    name, allocatable = "", {}
    for number, start, stop in fields(item, 0, len(item), _META_AND_STATUS):
        for _number, at, to in fields(item, start, stop, _FIRST if number == 1 else _ALLOCATABLE):
            if number == 1:
                name = _text(item, at, to)
            else:
                key, value = _quantity_entry(item[at:to])
                allocatable[key] = value
    return Node(_named(name, "node"), allocatable=allocatable)


def node_from_wire(item: bytes) -> Node:
    """A node from its protobuf, equal to node_from_json() of its JSON; raises WireError."""
    metadata, spec, status = _sections(item, _NODE_META, _NODE_SPEC, _NODE_STATUS)
    name, labels = "", {}
    for number, at, to in metadata:
        if number == 1:
            name = _text(item, at, to)
        else:
            key, value = _text_entry(item[at:to])
            labels[key] = value
    taints, unschedulable = [], False
    for number, at, to in spec:
        if number == 5:
            taints.append(_taint(item[at:to]))
        else:
            unschedulable = at != 0
    amounts: tuple[dict[str, str], dict[str, str]] = ({}, {})
    ready = ""
    for number, at, to in status:
        if number == 4:
            texts = _texts(item, at, to, _NODE_CONDITION) if item.find(b"\5Ready", at, to) >= 0 else {}
            if texts.get(1) == "Ready":
                ready = texts.get(2, "")
        else:
            key, value = _quantity_entry(item[at:to])
            amounts[number - 1][key] = value
    return Node(_named(name, "node"), labels, amounts[1], amounts[0], unschedulable, tuple(taints), ready)
