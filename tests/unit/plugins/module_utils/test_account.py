# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The account: every rule by which two definitions count, and every one on which tools disagree."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account, _quantity
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import Container, Node, ObjectError, Pod, Taint

# A busy machine is no reason to fail.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

GPU = "nvidia.com/gpu"


def amounts(count):
    return {} if count is None else {GPU: str(count)}


def container(limit=None, request=-1, **more):
    """A container with a limit, and the same as its request as the API server would have it."""
    return Container("c", amounts(limit), amounts(limit if request == -1 else request), **more)


def sidecar(count):
    return container(count, restartable=True)


def pod(*limits, name="p", namespace="d", node="n1", phase="Running", init=(), **more):
    containers = tuple(one if isinstance(one, Container) else container(one) for one in limits)
    return Pod(namespace, name, node=node, phase=phase, containers=containers, init_containers=tuple(init), **more)


def node(count=None, name="n1", capacity=-1, **more):
    more.setdefault("ready", "True")
    return Node(name, allocatable=amounts(count), capacity=amounts(count if capacity == -1 else capacity), **more)


def account(nodes, pods, **more):
    return _account.account(nodes, pods, GPU, **more)


def places(count, item):
    """The node with so many places for pods."""
    return item._replace(allocatable={**item.allocatable, "pods": str(count)})


def room(result):
    """What plain pods may take, what only others may, how many fit by 1, 2, 4 and 8, and the most on one node."""
    scheduler = result["scheduler"]
    return scheduler["usable"], scheduler["tainted"], [*result["placeable"].values()], result["largest_free"]


def both(one, *nodes):
    """What one pod counts by limits, by the scheduler, and why they differ."""
    result = account(nodes or [node(8)], [one])
    reasons = [reason for difference in result["differences"] for reason in difference["reasons"]]
    return result["ledger"]["requested"], result["scheduler"]["requested"], reasons


@pytest.mark.parametrize(
    ("one", "limits", "scheduler", "reasons"),
    [
        pytest.param(pod(2), 2, 2, [], id="one container"),
        pytest.param(pod(1, 2, None), 3, 3, [], id="all containers"),
        pytest.param(pod(2, phase="Pending"), 2, 2, [], id="placed and still Pending, as in ImagePullBackOff"),
        pytest.param(pod(2, node="", phase="Pending"), 0, 0, [], id="not placed"),
        pytest.param(pod(2, phase="Succeeded"), 0, 0, [], id="completed"),
        pytest.param(pod(2, phase="Failed"), 0, 0, [], id="failed, as in UnexpectedAdmissionError"),
        pytest.param(pod(2, phase="Unknown"), 0, 2, ["phase"], id="Unknown"),
        pytest.param(pod(2, phase=""), 0, 2, ["phase"], id="no phase yet"),
        pytest.param(pod(2, terminating_since="2026-03-01T10:00:00Z"), 2, 2, [], id="terminating"),
        pytest.param(pod(2, node="gone"), 2, 0, ["orphan"], id="its node is gone"),
        pytest.param(pod(2, init=[container(1)]), 2, 2, [], id="a small init container"),
        pytest.param(pod(2, init=[container(4)]), 2, 4, ["init_container"], id="a large init container"),
        pytest.param(pod(init=[container(4)]), 0, 4, ["init_container"], id="an init container alone, long finished"),
        pytest.param(
            pod(2, init=[container(4), container(3)]), 2, 4, ["init_container"], id="init containers one by one"
        ),
        pytest.param(pod(1, init=[sidecar(1)]), 1, 2, ["sidecar"], id="a sidecar"),
        pytest.param(pod(1, init=[sidecar(1), sidecar(2)]), 1, 4, ["sidecar"], id="sidecars"),
        pytest.param(
            pod(1, init=[container(1), sidecar(1), container(2)]),
            1,
            3,
            ["sidecar", "init_container"],
            id="sidecar before init",
        ),
        pytest.param(pod(1, init=[container(1), container(2), sidecar(1)]), 1, 2, ["sidecar"], id="sidecar after init"),
        pytest.param(pod(2, overhead={GPU: "1"}), 2, 3, ["overhead"], id="overhead"),
        pytest.param(pod(None, overhead={GPU: "1"}), 0, 1, ["overhead"], id="overhead of a pod that asks for none"),
        pytest.param(pod(2, pod_requests={GPU: "5"}), 2, 2, [], id="requests of the pod as a whole are not for GPUs"),
        pytest.param(pod(container(2, 1)), 2, 1, ["requests"], id="requests below limits"),
        pytest.param(pod(container(None, 1)), 0, 1, ["requests"], id="requests alone"),
        pytest.param(pod(container(2, None)), 2, 0, ["requests"], id="limits alone"),
        pytest.param(
            pod(1, phase="Unknown", init=[sidecar(1)], overhead={GPU: "1"}),
            0,
            3,
            ["phase", "sidecar", "overhead"],
            id="several",
        ),
        pytest.param(pod(nominated_node="n1", node="", phase="Pending"), 0, 0, [], id="nominated, asks for none"),
        pytest.param(pod(container("500m")), 1, 1, [], id="a part of a device is a device"),
        pytest.param(pod(container("1k")), 1000, 1000, [], id="as the API writes a thousand"),
    ],
)
def test_what_a_pod_counts(one, limits, scheduler, reasons):
    assert both(one) == (limits, scheduler, reasons)


def test_the_order_of_sidecars_and_init_containers_matters():
    one = pod(1, init=[container(1), sidecar(1), container(2)])
    assert _account.pod_requests(one, GPU) == 3
    assert _account.pod_requests(one._replace(init_containers=one.init_containers[::-1]), GPU) == 2


@pytest.mark.parametrize(
    ("resource", "spec", "overhead", "charged"),
    [
        ("cpu", "2", "250m", 2250),
        ("memory", "1Gi", "1Mi", 2**30 + 2**20),
        ("hugepages-2Mi", "4Mi", "0", 2**22),
        (GPU, "9", "0", 1),
    ],
)
def test_requests_of_the_pod_as_a_whole_take_the_place_of_its_containers(resource, spec, overhead, charged):
    one = Pod("d", "p", containers=(Container("c", {}, {resource: "1"}),), pod_requests={resource: spec})
    assert _account.pod_requests(one._replace(overhead={resource: overhead}), resource) == charged


def test_parts_are_added_before_they_are_rounded():
    assert _account.pod_requests(pod(container("500m"), container("500m")), GPU) == 1
    assert _account.pod_requests(Pod("d", "p", containers=(Container("c", {}, {"cpu": "1u"}),) * 2), "cpu") == 1


@pytest.mark.parametrize("allocatable", [None, "0", "0e5"])
def test_a_node_that_offers_none_is_left_out(allocatable):
    assert account([node(allocatable)], [])["ledger"]["nodes"] == {}


def test_the_four_keys():
    result = account(
        [node(4, "b"), node(8, "a"), node(name="cpu")], [pod(3, node="a"), pod(2, node="b", init=[sidecar(1)])]
    )
    shared = {"nodes": {"a": 8, "b": 4}, "allocatable_total": 12}
    assert _account.ledger_by(result, "limits") == {**shared, "requested": 5, "free": 7}
    assert _account.ledger_by(result, "scheduler") == {**shared, "requested": 6, "free": 6}
    assert list(result["ledger"]["nodes"]) == ["a", "b"]
    with pytest.raises(KeyError):
        _account.ledger_by(result, "guess")


def test_an_empty_cluster():
    result = account([], [])
    assert result["ledger"] == {"nodes": {}, "allocatable_total": 0, "requested": 0, "free": 0}
    assert (result["largest_free"], result["placeable"]) == (0, {"1": 0, "2": 0, "4": 0, "8": 0})
    assert result["warnings"] == ["no node advertises nvidia.com/gpu"]


def test_a_node_line_by_line():
    taints = (Taint(GPU, "yes", "NoSchedule"), Taint("soft", "", "PreferNoSchedule"))
    nodes = [node(3, capacity=4, unschedulable=True, ready="False", taints=taints)]
    pods = [pod(1, init=[sidecar(1)]), pod(2, name="w", node="", phase="Pending", nominated_node="n1")]
    assert account(nodes, pods)["nodes"] == [
        {
            "name": "n1",
            "allocatable": 3,
            "capacity": 4,
            "requested": 1,
            "free": 2,
            "scheduler_requested": 2,
            "scheduler_free": 1,
            "nominated": 2,
            "usable": 0,
            "tainted": 0,
            "placeable": 0,
            "unhealthy": 1,
            "ready": "False",
            "cordoned": True,
            "taints": [{"key": GPU, "value": "yes", "effect": "NoSchedule"}],
        }
    ]


def test_nodes_that_have_nothing_to_do_with_the_resource_are_not_listed():
    nodes = [node(name="cpu"), node("0", "stale"), node(4, "gpu"), node(name="lost")]
    listed = account(nodes, [pod(1, node="lost")])["nodes"]
    assert [one["name"] for one in listed] == ["gpu", "lost", "stale"]


@pytest.mark.parametrize(
    "more", [{"unschedulable": True}, {"ready": "False"}, {"taints": (Taint(GPU, "", "NoSchedule"),)}]
)
def test_cordoned_not_ready_and_tainted_nodes_count(more):
    assert account([node(4, **more)], [pod(1)])["ledger"] == {
        "nodes": {"n1": 4},
        "allocatable_total": 4,
        "requested": 1,
        "free": 3,
    }


def test_free_is_never_held_at_zero():
    result = account([node(1), node(4, "n2")], [pod(3)])
    assert (result["ledger"]["free"], result["scheduler"]["free"], result["scheduler"]["usable"]) == (2, 2, 4)
    assert account([node(1)], [pod(3)])["ledger"]["free"] == -2


def test_an_overcommitted_node_does_not_eat_what_others_have():
    """A device fails while it is in use."""
    result = account([node(1, capacity=4), node(4, "n2")], [pod(3)])
    assert result["overcommitted"] == [{"name": "n1", "allocatable": 1, "requested": 3, "scheduler_requested": 3}]
    assert result["placeable"] == {"1": 4, "2": 2, "4": 1, "8": 0}
    assert "pods hold more than their node offers on n1" in result["warnings"]


@pytest.mark.parametrize("offer", [None, "0"])
def test_a_node_that_advertises_no_more_still_has_its_pods(offer):
    result = account([node(offer, capacity=None)], [pod(2)])
    assert result["ledger"] == {"nodes": {}, "allocatable_total": 0, "requested": 2, "free": -2}
    assert [one["name"] for one in result["overcommitted"]] == ["n1"]


def test_orphans():
    result = account([node(4)], [pod(2, node="gone", init=[sidecar(1)]), pod(name="no-gpu", node="gone")])
    assert result["orphans"] == [{"namespace": "d", "name": "p", "node": "gone", "limits": 2, "scheduler": 0}]
    assert (result["ledger"]["free"], result["scheduler"]["free"], result["scheduler"]["orphaned"]) == (2, 4, 3)
    assert "pods on nodes that do not exist still count: d/p (gone)" in result["warnings"]


def test_terminating_holders():
    result = account(
        [node(4)], [pod(1, terminating_since="2026-03-01T10:00:00Z"), pod(name="q", terminating_since="x")]
    )
    assert result["terminating"] == [
        {"namespace": "d", "name": "p", "node": "n1", "limits": 1, "scheduler": 1, "until": "2026-03-01T10:00:00Z"}
    ]


def test_nominated_pods_reserve_but_do_not_hold():
    waits = pod(3, name="w", node="", phase="Pending", nominated_node="n1")
    result = account([node(4)], [waits])
    assert (result["scheduler"]["requested"], result["scheduler"]["nominated"]) == (0, 3)
    assert (result["ledger"]["free"], result["scheduler"]["usable"], result["largest_free"]) == (4, 1, 1)


def test_a_promise_of_a_node_that_has_gone_is_none():
    waits = pod(3, name="w", node="", phase="Pending", nominated_node="gone")
    result = account([node(4)], [waits])
    assert result == account([node(4)], [waits._replace(nominated_node="")])
    assert (result["scheduler"]["nominated"], result["scheduler"]["usable"]) == (0, 4)


def test_devices_by_dra_are_not_taken_from_what_nodes_advertise():
    result = account([node(), node(4, "n2")], [pod(2, extended_claim="p-gpus")])
    assert (result["ledger"]["requested"], result["scheduler"]["requested"], result["scheduler"]["dra"]) == (2, 0, 2)
    assert result["differences"][0]["reasons"] == ["dra"]
    assert result["overcommitted"] == []
    assert any("ResourceClaim" in warning and "d/p" in warning for warning in result["warnings"])


def test_a_node_that_advertises_keeps_its_own_account_beside_dra():
    assert account([node(4)], [pod(2, extended_claim="stale")])["scheduler"]["requested"] == 2


@pytest.mark.parametrize(
    "other", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "gpu.intel.com/i915", "huawei.com/Ascend910",
              "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron", "cambricon.com/mlu", "nvidia.com/gpumem"]
)  # fmt: skip
def test_only_the_exact_name_counts_and_others_are_told(other):
    """MIG instances, shared devices and other vendors have names of their own."""
    item = node(4)
    nodes = [item._replace(allocatable={**item.allocatable, other: "7"})]
    pods = [Pod("d", "p", node="n1", phase="Running", containers=(Container("c", {other: "1"}, {other: "1"}),))]
    result = account(nodes, pods)
    assert (result["ledger"]["allocatable_total"], result["ledger"]["requested"]) == (4, 0)
    assert result["warnings"] == [f"nodes also advertise {other}, which this account does not cover"]
    assert _account.account(nodes, pods, other)["ledger"]["free"] == 6


@pytest.mark.parametrize(
    "other", ["cpu", "pods", "hugepages-2Mi", "nvidia.com/hostdev", "rdma/shared", "example.com/dongle"]
)
def test_what_is_no_accelerator_is_not_told(other):
    item = node(4)
    assert account([item._replace(allocatable={**item.allocatable, other: "7"})], [])["warnings"] == []


@pytest.mark.parametrize(
    ("item", "warning"),
    [
        (node(3, capacity=4), "nodes have devices that they do not offer, unhealthy or not served: n1 (1)"),
        (node(0, capacity=4), "nodes have devices that they do not offer, unhealthy or not served: n1 (4)"),
        (node(0), 'nodes still list nvidia.com/gpu as "0", left by a device plugin that has gone: n1'),
        (
            node(0, labels={f"{GPU}.present": "true"}),
            "nodes are labelled as having nvidia.com/gpu but advertise none: n1",
        ),
        (node(labels={f"{GPU}.count": "8"}), "nodes are labelled as having nvidia.com/gpu but advertise none: n1"),
        (
            node(16, labels={f"{GPU}.replicas": "4"}),
            "nodes share their devices: nvidia.com/gpu counts slots there, not devices: n1 (4 for each device)",
        ),
    ],
)
def test_what_misleads_is_told(item, warning):
    assert warning in account([item], [])["warnings"]


@pytest.mark.parametrize(
    "labels", [{f"{GPU}.replicas": "1"}, {f"{GPU}.replicas": "many"}, {f"{GPU}.count": "4"}, {f"{GPU}.present": "true"}]
)
def test_nothing_is_told_where_nothing_misleads(labels):
    assert account([node(4, labels=labels)], [pod(1)])["warnings"] == []


def test_a_negative_sum_is_told():
    assert "pods hold 2 more of nvidia.com/gpu than the nodes offer" in account([node(1)], [pod(3)])["warnings"]


def test_many_names_are_cut_short():
    warnings = account([node(0, name) for name in "edcba"], [])["warnings"]
    assert warnings[1].endswith(": a, b, c and 2 more")


@pytest.mark.parametrize(
    "more",
    [
        {"unschedulable": True},
        {"ready": "False"},
        {"ready": "Unknown"},
        {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),)},
        {"taints": (Taint("node.kubernetes.io/unreachable", "", "NoExecute"),)},
    ],
)
def test_nothing_can_be_placed_where_no_pod_may_go(more):
    result = account([node(8, **more), node(5, "n2")], [])
    assert (result["largest_free"], result["placeable"]) == (5, {"1": 5, "2": 2, "4": 1, "8": 0})
    assert result["scheduler"]["usable"] == 5


@pytest.mark.parametrize(
    ("taint", "usable", "tainted"),
    [
        (Taint("x", "y", "NoSchedule"), 5, 7),
        (Taint("x", "y", "NoExecute"), 5, 7),
        (Taint(GPU, "", "NoSchedule"), 5, 7),
        (Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"), 5, 7),
        (Taint("x", "y", "PreferNoSchedule"), 12, 0),
    ],
)
def test_what_is_behind_a_taint_is_no_room_for_a_plain_pod(taint, usable, tainted):
    result = account([node(8, taints=(taint,)), node(5, "n2")], [pod(1)])
    assert room(result)[:2] == (usable, tainted)
    assert result["placeable"]["8"] == 0
    assert result["placeable"]["4"] == (2 if usable == 12 else 1)
    assert result["largest_free"] == (7 if usable == 12 else 5)
    assert [(one["usable"], one["tainted"]) for one in result["nodes"]] == [(7, 0) if usable == 12 else (0, 7), (5, 0)]


@pytest.mark.parametrize(
    "more", [{"unschedulable": True}, {"ready": "False"}, {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)}]
)  # fmt: skip
def test_where_no_pod_may_go_a_taint_hides_nothing(more):
    more = {**more, "taints": (*more.get("taints", ()), Taint("x", "y", "NoSchedule"))}
    assert room(account([node(8, **more)], [])) == (0, 0, [0, 0, 0, 0], 0)


def test_what_is_promised_or_held_too_much_is_not_behind_a_taint():
    waits = pod(3, name="w", node="", phase="Pending", nominated_node="n1")
    nodes = [node(4, taints=(Taint("x", "", "NoSchedule"),)), node(1, "n2", taints=(Taint("x", "", "NoSchedule"),))]
    assert room(account(nodes, [waits, pod(2, node="n2")]))[:2] == (0, 1)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, (0, 0, [0, 0, 0, 0], 0)),
        (2, (0, 0, [0, 0, 0, 0], 0)),
        (3, (8, 0, [1, 1, 1, 1], 8)),
        (4, (8, 0, [2, 2, 2, 1], 8)),
        (5, (8, 0, [3, 3, 2, 1], 8)),
        (110, (8, 0, [8, 4, 2, 1], 8)),
    ],
)
def test_a_node_takes_no_more_pods_than_it_has_places(count, expected):
    """Two places are taken, by a pod that has no GPUs and by one that was promised the node."""
    plain = pod(None, name="plain")
    there = [plain, pod(None, name="next", node="", phase="Pending", nominated_node="n1")]
    elsewhere = [
        plain._replace(name="ended", phase="Succeeded"),
        plain._replace(name="failed", phase="Failed"),
        plain._replace(name="waits", node="", phase="Pending"),
        plain._replace(name="far", node="n2"),
        plain._replace(name="lost", node="gone"),
    ]
    nodes = [places(count, node(8)), places(9, node(name="n2"))]
    result = account(nodes, [*there, *elsewhere], every_pod=True)
    assert room(result) == expected
    (listed,) = result["nodes"]
    assert (listed["usable"], listed["placeable"]) == (expected[0], expected[2][0])


def test_behind_a_taint_places_count_too():
    item = node(8, taints=(Taint("x", "", "NoSchedule"),))
    assert room(account([places(1, item)], [], every_pod=True))[:2] == (0, 8)
    assert room(account([places(1, item)], [pod(None)], every_pod=True))[:2] == (0, 0)


def test_a_node_that_names_no_number_of_pods_takes_none():
    """As the scheduler has it: AllowedPodNumber is 0."""
    assert room(account([node(8)], [], every_pod=True)) == (0, 0, [0, 0, 0, 0], 0)


def test_places_are_not_guessed_where_not_every_pod_is_known():
    assert room(account([places(1, node(8))], [pod(4)])) == (4, 0, [4, 2, 1, 0], 4)


def test_the_account_of_a_node_with_places_does_not_change_with_each_pod():
    """Two looks in a row are compared; pods without GPUs come and go."""
    nodes = [places(110, node(4))]
    assert account(nodes, [pod(1)], every_pod=True) == account(nodes, [pod(1), pod(None, name="q")], every_pod=True)


def test_places_that_cannot_be_read_are_named():
    with pytest.raises(ObjectError, match=r"node n1: status.allocatable\[pods\]: 'many'"):
        account([places("many", node(8))], [], every_pod=True)


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        ([node("many")], [], r"node n1: status.allocatable\[nvidia.com/gpu\]: 'many' is not"),
        ([node(1, capacity="-1")], [], r"node n1: status.capacity\[nvidia.com/gpu\]: '-1' is negative"),
        ([], [pod(1, "x")], r"pod d/p, container c: limits\[nvidia.com/gpu\]: 'x'"),
        ([], [pod(container(1, "x"))], r"pod d/p, container c: requests\[nvidia.com/gpu\]: 'x'"),
        ([], [pod(1, init=[container("-1")])], r"pod d/p, container c: requests\[nvidia.com/gpu\]: '-1' is negative"),
        ([], [pod(1, overhead={GPU: "?"})], r"pod d/p: spec.overhead\[nvidia.com/gpu\]: '\?'"),
        ([], [pod("9E", "9E")], "pod d/p: asks for more nvidia.com/gpu than Kubernetes can count"),
    ],
)
def test_what_cannot_be_counted_is_named(nodes, pods, says):
    with pytest.raises(ObjectError, match=says):
        account(nodes, pods)


def test_what_does_not_count_need_not_be_readable():
    assert account([], [pod("many", phase="Failed"), pod("many", node="")])["ledger"]["requested"] == 0


# Properties

counts = st.one_of(st.none(), st.integers(0, 16))
containers = st.builds(container, counts, st.one_of(st.just(-1), counts))
inits = st.builds(container, counts, restartable=st.booleans())
names = st.sampled_from(["n1", "n2", "n3", "gone", ""])
some_pods = st.lists(
    st.builds(
        lambda limits, **more: pod(*limits, **more),
        st.lists(containers, max_size=3),
        node=names,
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]),
        init=st.lists(inits, max_size=4),
        overhead=st.sampled_from([{}, {}, {GPU: "1"}]),
        terminating_since=st.sampled_from(["", "2026-03-01T10:00:00Z"]),
        nominated_node=names,
        extended_claim=st.sampled_from(["", "", "claim"]),
    ),
    max_size=8,
).map(lambda pods: [one._replace(name=f"p{at}", uid=str(at)) for at, one in enumerate(pods)])
some_nodes = st.lists(
    st.builds(
        node,
        counts,
        name=st.sampled_from(["n1", "n2", "n3"]),
        capacity=counts,
        unschedulable=st.booleans(),
        ready=st.sampled_from(["True", "False", ""]),
    ),
    max_size=3,
    unique_by=lambda one: one.name,
)


@given(some_nodes, some_pods)
def test_the_sums_hold(nodes, pods):
    result = account(nodes, pods)
    ledger, scheduler = result["ledger"], result["scheduler"]
    listed = result["nodes"]
    for one in (ledger, scheduler):
        assert one["free"] == one["allocatable_total"] - one["requested"]
        assert one["allocatable_total"] == sum(one["nodes"].values()) == sum(entry["allocatable"] for entry in listed)
    orphaned = sum(one["limits"] for one in result["orphans"])
    assert ledger["requested"] == sum(entry["requested"] for entry in listed) + orphaned
    assert scheduler["requested"] == sum(entry["scheduler_requested"] for entry in listed)
    gap = sum(one["limits"] - one["scheduler"] for one in result["differences"])
    assert ledger["requested"] - scheduler["requested"] == gap
    assert all(one["reasons"] and one["message"] for one in result["differences"])
    assert result["placeable"]["1"] == scheduler["usable"] >= result["largest_free"] >= 0
    assert 0 not in ledger["nodes"].values()


@given(some_nodes, some_pods, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(nodes, pods, order: random.Random):
    before = account(nodes, pods)
    order.shuffle(nodes)
    order.shuffle(pods)
    assert account(nodes, pods) == before


def in_use_over_time(one):
    """How many devices a pod has in use at each moment of its life, container by container, as a kubelet runs it."""

    def request(item):
        return _quantity.quantity(item.requests.get(GPU, "0"))

    running = Fraction(0)
    for item in one.init_containers:
        yield running + request(item)
        running += request(item) if item.restartable else 0
    yield running + sum((request(item) for item in one.containers), Fraction(0))


@given(some_pods)
def test_the_scheduler_charges_the_most_that_is_in_use_at_one_time(pods):
    for one in pods:
        most = max(in_use_over_time(one)) + _quantity.quantity(one.overhead.get(GPU, "0"))
        assert _account.pod_requests(one, GPU) == most


@given(some_nodes, some_pods)
def test_the_scheduler_number_is_the_sum_over_pods_on_nodes_that_exist(nodes, pods):
    offers = {one.name: _quantity.quantity(one.allocatable.get(GPU, "0")) for one in nodes}
    total = Fraction(0)
    for one in pods:
        by_claim = one.extended_claim and not offers.get(one.node)
        if one.node in offers and one.phase not in ("Succeeded", "Failed") and not by_claim:
            total += max(in_use_over_time(one)) + _quantity.quantity(one.overhead.get(GPU, "0"))
    assert account(nodes, pods)["scheduler"]["requested"] == total
