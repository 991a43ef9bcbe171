# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Why a pod waits: each filter of the scheduler, and what the sentence makes of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account, _explain
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import (
    Condition,
    Container,
    Node,
    ObjectError,
    Pod,
    Requirement,
    Taint,
    Term,
    Toleration,
)

# A busy machine is no reason to fail.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

GPU = "nvidia.com/gpu"
TAINT = Taint(GPU, "present", "NoSchedule")


def node(name="n1", gpus=8, cpu="8", memory="32Gi", pods="110", other=None, **more):
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(other or {})}
    if gpus is not None:
        amounts[GPU] = str(gpus)
    return Node(name, allocatable=amounts, ready="True", **more)


def asks(gpus=1, **others):
    amounts = {GPU: str(gpus), **others}
    return (Container("c", amounts, amounts),)


def wants(gpus=1, name="w", more=None, **fields):
    """A pod that waits."""
    return Pod("d", name, uid=name, phase="Pending", containers=asks(gpus, **(more or {})), **fields)


def has(gpus=1, name="h", where="n1", more=None, **fields):
    """A pod that runs."""
    fields.setdefault("phase", "Running")
    return Pod("d", name, uid=name, node=where, containers=asks(gpus, **(more or {})), **fields)


def why(nodes, *pods, classes=()):
    """The one pod that waits, and its reasons as {reason: (nodes, of which with enough free)}."""
    (found,) = _explain.waiting(nodes, pods, GPU, classes)
    return found, {one["reason"]: (one["count"], one["enough"]) for one in found["reasons"]}


# The filters


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(GPU, "Exists"), True),
        (Toleration(GPU, "Exists", effect="NoSchedule"), True),
        (Toleration(GPU, "Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration(GPU, "Equal", "present"), True),
        (Toleration(GPU, "", "present"), True),
        (Toleration(GPU, "Equal", "absent"), False),
        (Toleration(GPU), False),
        (Toleration(GPU, "Gt", "1"), False),
        (Toleration(GPU, "Near", "present"), False),
    ],
)
def test_tolerations(toleration, tolerated):
    assert _explain.tolerates(toleration, TAINT) == tolerated


@pytest.mark.parametrize(("effect", "blocks"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)])
def test_only_some_effects_keep_a_pod_off(effect, blocks):
    taint = Taint("k", "", effect)
    assert _explain.untolerated_taint([taint], []) == (taint if blocks else None)


def test_the_first_taint_that_is_not_tolerated_is_named():
    second, third = Taint("b", "", "NoExecute"), Taint("c", "", "NoSchedule")
    assert _explain.untolerated_taint([TAINT, second, third], [Toleration(GPU, "Exists")]) == second


@pytest.mark.parametrize(
    ("operator", "values", "label", "matches"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("In", (), "a", False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("NotIn", (), "a", False),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("Exists", ("a",), "a", False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "", False),
        ("Gt", ("7",), "8", True),
        ("Gt", ("8",), "8", False),
        ("Lt", ("8",), "-7", True),
        ("Lt", ("8",), "+8", False),
        ("Gt", ("7",), "eight", False),
        ("Gt", ("7",), None, False),
        ("Gt", ("seven",), "8", False),
        ("Gt", ("7", "6"), "8", False),
        ("Gt", ("7",), str(2**63), False),
        ("Gt", ("7",), "1_0", False),
        ("Near", ("a",), "a", False),
    ],
)
def test_requirements_on_labels(operator, values, label, matches):
    labels = {} if label is None else {"k": label}
    assert _explain.label_matches(Requirement("k", operator, values), labels) == matches


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("metadata.name", "In", ("n1",), True),
        ("metadata.name", "In", ("n2",), False),
        ("metadata.name", "NotIn", ("n2",), True),
        ("metadata.name", "In", ("n1", "n2"), False),
        ("metadata.name", "Exists", (), False),
        ("metadata.uid", "In", ("n1",), False),
    ],
)
def test_requirements_on_fields(key, operator, values, matches):
    assert _explain.field_matches(Requirement(key, operator, values), node()) == matches


A = Requirement("a", "Exists")
B = Requirement("b", "Exists")


@pytest.mark.parametrize(
    ("selector", "affinity", "matches"),
    [
        ({}, None, True),
        ({"a": "1"}, None, True),
        ({"a": "2"}, None, False),
        ({"b": ""}, None, False),
        ({}, (), False),
        ({}, (Term(),), False),
        ({}, (Term((A,)),), True),
        ({}, (Term((A, B)),), False),
        ({}, (Term((B,)), Term((A,))), True),
        ({"a": "2"}, (Term((A,)),), False),
        ({}, (Term((A,), (Requirement("metadata.name", "In", ("n2",)),)),), False),
    ],
)
def test_node_selector_and_affinity(selector, affinity, matches):
    pod = wants(node_selector=selector, affinity=affinity)
    assert _explain.node_affinity(pod, node(labels={"a": "1"})) == matches


# Reasons


def test_nobody_advertises():
    found, reasons = why([node(gpus=None), node("n2", "0")], wants(2))
    assert reasons == {"not_advertised": (2, 0)}
    assert found["message"] == "asks for 2 of nvidia.com/gpu: no node advertises nvidia.com/gpu"
    assert found["predicted"] == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def test_nobody_advertises_and_a_taint_would_not_matter():
    found, reasons = why([node(gpus=None, taints=(TAINT,))], wants())
    assert reasons == {"not_advertised": (0, 0), "taint": (1, 0)}
    assert found["message"] == "asks for 1 of nvidia.com/gpu: no node advertises nvidia.com/gpu"


def test_no_node_has_so_many():
    found, reasons = why([node(), node("n2", 4, unschedulable=True)], wants(16))
    assert reasons == {"too_large": (1, 0), "cordoned": (1, 0)}
    assert found["message"] == "asks for 16 of nvidia.com/gpu: no node has as many as 16, the largest offers 8"


def test_too_few_anywhere():
    found, reasons = why([node(), node("n2"), node("cpu", None)], has(8), has(7, "i", "n2"), wants(4))
    assert reasons == {"too_few_anywhere": (2, 0), "not_advertised": (1, 0)}
    assert found["message"] == "asks for 4 of nvidia.com/gpu: 1 is free on the nodes it may use"
    assert found["predicted"] == "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def test_none_is_free():
    found, _reasons = why([node(gpus=1)], has(1), wants(1))
    assert found["message"] == "asks for 1 of nvidia.com/gpu: none is free on the nodes it may use"


def test_fragmented():
    found, reasons = why([node(), node("n2")], has(5), has(6, "i", "n2"), wants(4))
    assert reasons == {"fragmented": (2, 0)}
    assert found["message"].endswith("5 are free on the nodes it may use, but no more than 3 on any of them")


def test_pieces_are_no_matter_where_one_node_has_enough_but_lacks_cpu():
    _found, reasons = why([node(cpu="0"), node("n2", 1)], has(where="n2"), wants(more={"cpu": "1"}))
    assert reasons == {"cpu": (1, 1), "too_few": (1, 0)}


def test_pieces_on_the_nodes_it_may_use_matter_though_another_node_has_enough():
    _found, reasons = why([node("n1", 1), node("n2", 1), node("n3", 8, taints=(TAINT,))], wants(2))
    assert reasons == {"fragmented": (2, 0), "taint": (1, 1)}


def test_an_overcommitted_node_takes_nothing_from_the_others():
    _found, reasons = why(
        [node(gpus=1), node("n2", 4), node("n3", 4)], has(8), has(2, "i", "n2"), has(2, "j", "n3"), wants(4)
    )
    assert reasons == {"fragmented": (3, 0)}


def test_a_taint_with_its_key():
    found, reasons = why([node(taints=(TAINT,)), node("n2", 1)], has(where="n2"), wants())
    assert reasons == {"taint": (1, 1), "too_few": (1, 0)}
    assert found["reasons"][0]["detail"] == "nvidia.com/gpu=present:NoSchedule"
    assert found["message"] == (
        "asks for 1 of nvidia.com/gpu: n1 with enough free has the taint nvidia.com/gpu=present:NoSchedule, "
        "which the pod does not tolerate; n2 has too few free"
    )
    assert (
        found["predicted"]
        == "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s)."
    )


def test_each_taint_is_a_reason_of_its_own():
    found, _reasons = why(
        [node(taints=(TAINT,)), node("n2", taints=(Taint("kwok.x-k8s.io/node", "", "NoSchedule"),))], wants()
    )
    details = [one["detail"] for one in found["reasons"]]
    assert details == ["kwok.x-k8s.io/node:NoSchedule", "nvidia.com/gpu=present:NoSchedule"]
    assert found["predicted"] == "0/2 nodes are available: 2 node(s) had untolerated taint(s)."


def test_cordoned():
    taint = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    found, reasons = why([node(unschedulable=True, taints=(taint,))], wants())
    assert reasons == {"cordoned": (1, 1)}
    assert found["message"].endswith(": n1 with enough free is cordoned")
    assert found["predicted"] == "0/1 nodes are available: 1 node(s) were unschedulable."
    tolerant = wants(tolerations=(Toleration(taint.key, "Exists"),))
    assert why([node(unschedulable=True, taints=(taint,))], tolerant)[1] == {"fits": (1, 1)}


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
def test_not_ready(key):
    taints = (Taint(key, "", "NoSchedule"), Taint(key, "", "NoExecute"))
    found, reasons = why([node(taints=taints)], wants(tolerations=(Toleration(key, "Exists", effect="NoExecute"),)))
    assert reasons == {"not_ready": (1, 1)}
    assert found["message"].endswith(": n1 with enough free is not ready")


def test_selector_and_affinity():
    pod = wants(node_selector={"zone": "b", "disk": "ssd"}, affinity=(Term((A,)),))
    found, reasons = why([node(), node("n2"), node("n3")], pod)
    assert reasons == {"selector_or_affinity": (3, 3)}
    assert found["message"].endswith(": no node matches its node selector disk=ssd,zone=b and required node affinity")
    assert found["predicted"] == "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("nodes", "more", "reason", "detail", "word"),
    [
        ([node(cpu="1500m")], {"cpu": "1"}, "cpu", "", "Insufficient cpu"),
        ([node(memory="3Gi")], {"memory": "2Gi"}, "memory", "", "Insufficient memory"),
        ([node(pods="1")], {}, "pods", "", "Too many pods"),
        ([node()], {"ephemeral-storage": "1"}, "other_resource", "ephemeral-storage", "Insufficient ephemeral-storage"),
        ([node(other={"rdma/ib": "0"})], {"rdma/ib": "1"}, "other_resource", "rdma/ib", "Insufficient rdma/ib"),
    ],
)
def test_what_is_short_on_a_node_with_free_gpus(nodes, more, reason, detail, word):
    found, reasons = why(nodes, has(more=more), wants(more=more))
    assert reasons == {reason: (1, 1)}
    assert found["reasons"][0]["detail"] == detail
    assert "n1 with enough free has" in found["message"]
    assert found["predicted"] == f"0/1 nodes are available: 1 {word}."


def test_pods_without_gpus_take_cpu_and_slots_too():
    """Pods that have ended, wait, or are on another node do not."""
    plain = Pod("d", "cpu", node="n1", phase="Running", containers=(Container("c", {}, {"cpu": "7500m"}),))
    pods = [plain, plain._replace(phase="Succeeded"), plain._replace(node=""), plain._replace(node="n2")]
    _found, reasons = why([node(pods="2")], *pods, wants(more={"cpu": "500m"}))
    assert reasons == {"fits": (1, 1)}
    assert why([node(pods="2")], *pods, wants(more={"cpu": "501m"}))[1] == {"cpu": (1, 1)}
    assert why([node(pods="1")], *pods, wants(more={"cpu": "500m"}))[1] == {"pods": (1, 1)}


def test_everything_that_is_short_is_named():
    found, reasons = why([node(gpus=1, pods="0", cpu="0")], wants(2, more={"cpu": "1"}))
    assert reasons == {"too_large": (1, 0), "pods": (1, 0), "cpu": (1, 0)}
    assert (
        found["predicted"]
        == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, 1 Too many pods."
    )


def test_the_first_filter_that_refuses_a_node_counts():
    cordoned = node(unschedulable=True, taints=(TAINT,), gpus=0)
    tainted = node("n2", gpus=0, taints=(TAINT,))
    found, reasons = why([cordoned, tainted, node("n3")], has(8, where="n3"), wants())
    assert reasons == {"cordoned": (1, 0), "taint": (1, 0), "too_few_anywhere": (1, 0)}
    assert found["predicted"] == (
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable."
    )


#: A node that is cordoned, one that is not ready, one with a taint, and two that are none of it.
TROUBLED = [
    node("kb1", labels={"host": "kb1", "zone": "a"}),
    node("kb2", labels={"host": "kb2"}, unschedulable=True),
    node("kb3", labels={"host": "kb3"}, taints=(Taint("x", "y", "NoSchedule"),)),
    node("kb4", labels={"host": "kb4"}, taints=(Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),)),
    node("kb5", labels={"host": "kb5", "zone": "a"}),
]
SAID = (
    "0/5 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector, "
    "2 node(s) had untolerated taint(s)."
)


def pinned(name):
    return {"affinity": (Term((Requirement("host", "In", (name,)),)),)}


@pytest.mark.parametrize(
    ("choice", "selection"),
    [
        ({"node_selector": {"zone": "zz"}}, "node selector zone=zz"),
        ({"affinity": (Term((Requirement("zone", "In", ("zz",)),)),)}, "required node affinity"),
        (pinned("gone"), "required node affinity"),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_where_no_node_matches_that_alone_is_told(choice, selection, full):
    """Uncordoning a node would not help; the scheduler names it by its first filter all the same."""
    pods = [has(8, f"h{at}", f"kb{at}") for at in range(1, 6)] if full else []
    found, reasons = why(TROUBLED, *pods, wants(**choice))
    assert reasons == {"selector_or_affinity": (5, 0 if full else 5)}
    assert found["message"] == f"asks for 1 of nvidia.com/gpu: no node matches its {selection}"
    assert found["predicted"] == SAID


def test_where_no_node_matches_and_none_is_as_large_both_are_told():
    found, _reasons = why(TROUBLED, wants(9, node_selector={"zone": "zz"}))
    assert found["message"] == (
        "asks for 9 of nvidia.com/gpu: no node has as many as 9, the largest offers 8; "
        "no node matches its node selector zone=zz"
    )
    assert found["predicted"] == SAID


@pytest.mark.parametrize(
    ("name", "reason", "says"),
    [
        ("kb2", "cordoned", "kb2 with enough free is cordoned"),
        ("kb3", "taint", "kb3 with enough free has the taint x=y:NoSchedule, which the pod does not tolerate"),
        ("kb4", "not_ready", "kb4 with enough free is not ready"),
    ],
)
@pytest.mark.parametrize("by_field", [False, True])
def test_what_bars_a_node_is_told_of_those_that_match_only(name, reason, says, by_field):
    """By a label, or by its name as a DaemonSet's pod."""
    field = {"affinity": (Term(fields=(Requirement("metadata.name", "In", (name,)),)),)}
    found, reasons = why(TROUBLED, wants(**(field if by_field else pinned(name))))
    assert reasons == {reason: (1, 1), "selector_or_affinity": (4, 4)}
    assert [one["nodes"] for one in found["reasons"] if one["reason"] == reason] == [[name]]
    assert found["message"] == (
        f"asks for 1 of nvidia.com/gpu: {says}; 4 nodes with enough free do not match its required node affinity"
    )
    assert found["predicted"] == SAID


def test_the_only_node_that_matches_is_told_though_it_is_full():
    found, reasons = why(TROUBLED, has(8, where="kb2"), wants(**pinned("kb2")))
    assert reasons == {"cordoned": (1, 0), "selector_or_affinity": (4, 4)}
    assert "kb2 is cordoned" in found["message"]


def test_a_node_that_does_not_match_does_not_hide_those_that_do():
    nodes = [*TROUBLED, node("kb6", unschedulable=True, labels={"zone": "a"})]
    found, reasons = why(nodes, has(8, where="kb1"), has(8, "i", "kb5"), wants(node_selector={"zone": "a"}))
    assert reasons == {"too_few": (2, 0), "cordoned": (1, 1), "selector_or_affinity": (3, 3)}
    assert "kb6 with enough free is cordoned" in found["message"]
    assert "kb2" not in found["message"]


def test_nodes_without_the_resource_are_counted_but_not_told():
    control = node("control", None, taints=(Taint("node-role.kubernetes.io/control-plane", "", "NoSchedule"),))
    found, reasons = why([control, node("cpu", None), node()], has(8), wants())
    assert reasons == {"too_few_anywhere": (1, 0), "taint": (1, 0), "not_advertised": (1, 0)}
    assert found["message"] == "asks for 1 of nvidia.com/gpu: none is free on the nodes it may use"


def test_scheduling_gates():
    found, reasons = why([node()], wants(gates=("kueue.x-k8s.io/admission", "quota")))
    assert reasons == {"scheduling_gate": (0, 0)}
    assert found["message"].endswith(": it is held back by the scheduling gate kueue.x-k8s.io/admission, quota")
    assert found["predicted"] == ""


def test_a_pod_that_is_being_deleted_waits_for_nothing():
    assert why([node()], wants(terminating_since="2026-03-01T10:00:00Z"))[1] == {"deleting": (0, 0)}


def test_nominated_waits_for_its_victims():
    victim = has(8, "victim", terminating_since="2026-03-01T10:00:00Z", priority=0)
    found, reasons = why([node()], victim, wants(4, nominated_node="n1", priority=10))
    assert reasons == {"nominated": (1, 0), "too_few_anywhere": (1, 0)}
    assert "it was promised node n1 and waits for d/victim to leave" in found["message"]
    found, _reasons = why([node()], has(8), wants(4, nominated_node="n1"))
    assert "waits for pods to leave" in found["message"]


@pytest.mark.parametrize("nodes", [[], [node()], [node(gpus=1)], [node(unschedulable=True)]])
def test_of_a_promised_node_that_has_gone_nothing_is_said(nodes):
    """Nor do its victims matter, who hold on to their pods for a while."""
    victim = has(8, "victim", "gone", terminating_since="2026-03-01T10:00:00Z")
    promised = wants(4, nominated_node="gone")
    assert why(nodes, victim, promised) == why(nodes, victim, promised._replace(nominated_node=""))


def test_a_node_promised_to_another_pod_is_reserved():
    first = wants(6, "first", nominated_node="n1", priority=10)
    found = {one["name"]: one for one in _explain.waiting([node()], [first, wants(4, "second", priority=10)], GPU)}
    assert [one["reason"] for one in found["second"]["reasons"]] == ["reserved"]
    assert [one["reason"] for one in found["first"]["reasons"]] == ["nominated", "fits"]
    found = {one["name"]: one for one in _explain.waiting([node()], [first, wants(4, "second", priority=11)], GPU)}
    assert [one["reason"] for one in found["second"]["reasons"]] == ["fits"]


@pytest.mark.parametrize(
    "device_class",
    [
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}},
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU, "selectors": []}},
    ],
)
def test_a_device_class_answers_for_nodes_that_advertise_none(device_class):
    found, reasons = why([node(gpus=None), node("n2", 1)], has(where="n2"), wants(), classes=[device_class])
    assert reasons == {"dra": (1, 0), "too_few_anywhere": (1, 0)}
    assert "on n1 its ResourceClaim for the devices would have to be met" in found["message"]
    assert found["predicted"] == "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 cannot allocate all claims."


def test_the_names_of_device_classes():
    classes = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": {"extendedResourceName": GPU}}]
    implicit = {"deviceclass.resource.kubernetes.io/a", "deviceclass.resource.kubernetes.io/b"}
    assert _explain.extended_resources(classes) == {*implicit, GPU}


def test_claims_decide_where_everything_else_fits():
    found, reasons = why([node()], wants(claims=("card",)))
    assert reasons == {"dra": (1, 1)}
    assert "its ResourceClaim card would have to be met" in found["message"]


def test_what_fits_is_said_with_what_the_scheduler_said():
    condition = Condition(
        "False", "Unschedulable", "0/1 nodes are available: 1 node(s) had volume node affinity conflict."
    )
    found, reasons = why([node()], wants(condition=condition))
    assert reasons == {"fits": (1, 1)}
    assert (found["predicted"], found["scheduler_message"]) == ("", condition.message)
    assert (
        "n1 with enough free would take it, by its size, selectors, affinity to nodes and tolerations"
        in found["message"]
    )


def test_another_scheduler_may_have_other_rules():
    found, _reasons = why([node(gpus=None)], wants(scheduler="volcano"))
    assert found["message"].endswith("; it is up to the scheduler volcano, which may have other rules")


def test_no_node_at_all():
    found, reasons = why([], wants())
    assert found["message"].startswith("asks for 1 of nvidia.com/gpu: there is no node")
    assert found["predicted"] == "no nodes available to schedule pods"
    assert reasons == {"not_advertised": (0, 0)}


@pytest.mark.parametrize(
    "pod",
    [has(), has(where="", phase="Succeeded"), has(where="", phase="Failed"),
     Pod("d", "p", phase="Pending", containers=(Container("c", {}, {"cpu": "1"}),)), has(where="gone", phase="Pending")],
)  # fmt: skip
def test_who_does_not_wait_for_the_resource(pod):
    assert _explain.waiting([node()], [pod], GPU) == []


def test_init_containers_sidecars_and_overhead_are_asked_for_too():
    item = Container("i", {}, {GPU: "9"})
    pod = wants(1)._replace(init_containers=(item,))
    assert why([node()], pod)[0]["asks"] == 9
    assert why([node()], pod._replace(init_containers=(item._replace(restartable=True),)))[0]["asks"] == 10
    assert why([node()], wants(1, overhead={GPU: "2"}))[0]["asks"] == 3


def test_pods_are_sorted_and_nodes_cut_short():
    nodes = [node(f"n{at:02}", 1) for at in range(12)]
    found = _explain.waiting(nodes, [wants(2, "b"), wants(2, "a")], GPU)
    assert [one["name"] for one in found] == ["a", "b"]
    assert found[0]["reasons"][0]["count"] == 12
    assert found[0]["reasons"][0]["nodes"] == [f"n{at:02}" for at in range(10)]


def test_what_cannot_be_read_is_named():
    with pytest.raises(ObjectError, match=r"node n1: status.allocatable\[nvidia.com/gpu\]: 'x'"):
        why([node(gpus="x")], wants())
    with pytest.raises(ObjectError, match=r"pod d/h, container c: requests\[nvidia.com/gpu\]: 'x'"):
        why([node()], has("x"), wants())


# Against a slow reading of the same rules

gpus = st.integers(0, 4)
taints = st.lists(
    st.sampled_from([TAINT, Taint("k", "", "NoExecute"), Taint("soft", "", "PreferNoSchedule")]), max_size=2
)
nodes_of = st.lists(
    st.builds(
        lambda gpus, cpu, pods, **more: node("", gpus, cpu, pods=pods, **more),
        st.one_of(st.none(), gpus),
        st.sampled_from(["0", "1", "2", "4"]),
        st.sampled_from(["0", "1", "5"]),
        unschedulable=st.booleans(),
        taints=taints.map(tuple),
        labels=st.sampled_from([{}, {"a": "1"}]),
    ),
    max_size=4,
).map(lambda found: [one._replace(name=f"n{at}") for at, one in enumerate(found)])
pods_of = st.lists(
    st.builds(
        lambda gpus, cpu, where, **more: has(gpus, "", where, {"cpu": cpu}, **more),
        gpus,
        st.sampled_from(["0", "500m", "1"]),
        st.sampled_from(["", "", "n0", "n1", "n2"]),
        phase=st.sampled_from(["Pending", "Running", "Succeeded"]),
        tolerations=st.sampled_from([(), (Toleration(operator="Exists"),), (Toleration(GPU, "Exists"),)]),
        node_selector=st.sampled_from([{}, {"a": "1"}]),
    ),
    max_size=8,
).map(lambda found: [one._replace(name=f"p{at}", uid=f"p{at}") for at, one in enumerate(found)])


def refused(pod, one, pods):
    """What keeps a pod from a node, in the words of the scheduler."""
    cpu = {"0": 0, "500m": 500, "1": 1000, "2": 2000, "4": 4000}
    if one.unschedulable and not any(
        toleration.key in ("", "node.kubernetes.io/unschedulable") for toleration in pod.tolerations
    ):
        return ["node(s) were unschedulable"]
    for taint in one.taints:
        if taint.effect != "PreferNoSchedule" and not any(
            toleration.key in ("", taint.key) for toleration in pod.tolerations
        ):
            return ["node(s) had untolerated taint(s)"]
    if not set(pod.node_selector.items()) <= set(one.labels.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    there = [other for other in pods if other.node == one.name and other.phase != "Succeeded"]
    words = []
    if len(there) + 1 > int(one.allocatable["pods"]):
        words.append("Too many pods")
    for resource, size in (("cpu", cpu.__getitem__), (GPU, int)):
        want = size(pod.containers[0].requests[resource])
        used = sum(size(other.containers[0].requests[resource]) for other in there)
        if want and want > size(one.allocatable.get(resource, "0")) - used:
            words.append(f"Insufficient {resource}")
    return words


@given(nodes_of, pods_of, st.randoms(use_true_random=False))
def test_the_prediction_is_that_of_a_slow_scheduler(nodes, pods, order: random.Random):
    found = _explain.waiting(nodes, pods, GPU)
    for one in found:
        (pod,) = (pod for pod in pods if pod.name == one["name"])
        words = [refused(pod, item, pods) for item in nodes]
        if not nodes:
            assert one["predicted"] == "no nodes available to schedule pods"
        elif all(words):
            flat = [word for some in words for word in some]
            counted = sorted(f"{flat.count(word)} {word}" for word in set(flat))
            assert one["predicted"] == f"0/{len(nodes)} nodes are available: {', '.join(counted)}."
        else:
            assert one["predicted"] == ""
            assert next(reason["count"] for reason in one["reasons"] if reason["reason"] == "fits") == words.count([])
        matching = [item.name for item in nodes if set(pod.node_selector.items()) <= set(item.labels.items())]
        for reason in one["reasons"]:
            # At most four nodes: all of them are named.
            if reason["reason"] == "selector_or_affinity":
                assert set(reason["nodes"]) == {item.name for item in nodes} - set(matching)
            else:
                assert set(reason["nodes"]) <= set(matching)
        assert {reason["reason"] for reason in one["reasons"]} <= set(_explain.REASONS)
        assert len(one["message"]) > len("asks for 1 of nvidia.com/gpu: ")
    waits = {
        pod.name for pod in pods if not pod.node and pod.phase != "Succeeded" and pod.containers[0].requests[GPU] != "0"
    }
    assert {one["name"] for one in found} == waits
    order.shuffle(nodes)
    order.shuffle(pods)
    assert _explain.waiting(nodes, pods, GPU) == found


@settings(max_examples=50)
@given(nodes_of, pods_of, st.sampled_from([1, 2, 4]))
def test_as_many_plain_pods_fit_as_the_account_promises(nodes, pods, size):
    """Placed one by one where the filters let them, until no node takes one more."""
    promised = _account.account(nodes, pods, GPU, every_pod=True)["placeable"][str(size)]
    plain = wants(size, "plain")
    for count in range(promised + 1):
        found = next(one for one in _explain.waiting(nodes, [*pods, plain], GPU) if one["name"] == "plain")
        fits = [reason["nodes"] for reason in found["reasons"] if reason["reason"] == "fits"]
        assert bool(fits) == (count < promised)
        if fits:
            pods = [*pods, has(size, f"placed-{count}", fits[0][-1])]
