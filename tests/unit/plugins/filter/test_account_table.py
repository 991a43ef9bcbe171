# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The account as the page that people read."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gsb.fake_gpu_lab.plugins.filter import lab as filters
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account, _explain
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._objects import Condition, Container, Node, Pod, Taint
from ansible_collections.gsb.fake_gpu_lab.plugins.modules import gpu_ledger
from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _account_table, _table

GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def node(name, gpus, capacity=None, **more):
    return Node(
        name,
        allocatable={**AMOUNTS, GPU: str(gpus)},
        capacity={**AMOUNTS, GPU: str(gpus if capacity is None else capacity)},
        **{"ready": "True", **more},
    )


def pod(name, gpus, on="", **more):
    amounts = {GPU: str(gpus)}
    containers = (Container("main", amounts, amounts),)
    phase = "Running" if on else "Pending"
    return Pod("team", name, uid=name, node=on, phase=phase, containers=containers, **more)


def account(nodes, pods, level="full"):
    counted = _account.account(nodes, pods, GPU, every_pod=True)
    look = gpu_ledger.Look(counted, _explain.waiting(nodes, pods, GPU), {}, [])
    return {**counted, "details": gpu_ledger.details(look, level)}


def page(nodes, pods, lang="en", level="full"):
    return _account_table.account_lines(account(nodes, pods, level), lang)


def table(lines, first="node "):
    """The rows of the nodes."""
    start = next(at for at, line in enumerate(lines) if line.startswith(first)) + 1
    return lines[start : lines.index("", start)]


def test_what_is_not_looked_at_here_is_told_by_the_scheduler():
    said = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    pods = [pod("apart", 1, condition=Condition("False", "Unschedulable", said)), pod("huge", 64)]
    lines = page([node("n1", 4)], pods)
    assert f"      the scheduler says: {said}" in lines
    assert len([line for line in lines if "the scheduler says" in line]) == 1


def test_a_name_that_nobody_has_says_what_there_is():
    counted = {
        **account([node("n1", 0)], []),
        "warnings": ["no node advertises it", "nodes also advertise amd.com/gpu"],
    }
    assert "nodes also advertise amd.com/gpu" in _account_table.account_lines(counted)


CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
MIXED = (
    [
        node("a100-1", 8),
        node("a100-2", 8, unschedulable=True, labels={"zone": "eu"}),
        node("h100-1", 8, taints=(Taint("team", "vision", "NoSchedule"),), labels={"zone": "eu"}),
        node("lost-1", 2, capacity=4),
        node("off-1", 4, ready="False", taints=(NOT_READY,), labels={"zone": "eu"}),
        node("slots-1", 40),
        Node("cpu-1", ready="True", allocatable=AMOUNTS),
    ],
    [
        pod("train", 8, "a100-1"),
        pod("eval", 3, "a100-2"),
        pod("old", 1, "h100-1", terminating_since="2026-03-01T10:00:00Z"),
        pod("big", 3, "lost-1"),
        pod("slot", 10, "slots-1"),
        pod("init", 1, "slots-1", init_containers=(Container("warm", {GPU: "2"}, {GPU: "2"}),)),
        pod("huge", 64),
        pod("picky", 4, node_selector={"zone": "eu"}),
    ],
)
PAGES = {
    "en": """\
nvidia.com/gpu      by limits  by the scheduler
allocatable in all         70                70
requested                  26                27
free                       44                43
usable now                                   28
behind taints                                 7
Room for pods: 28 with 1, 14 with 2, 7 with 4, 3 with 8. The most on one node: 28.

node     GPUs  requested  free
a100-1      8          8     0  [########]
a100-2      8          3     5  [###.....]          cordoned
h100-1      8          1     7  [#.......]          taint team=vision
lost-1      2          3    -1  [##!]               2 unhealthy, overcommitted
off-1       4          0     4  [....]              not ready
slots-1    40         12    28  [####............]

2 waiting:
  team/huge: asks for 64 of nvidia.com/gpu: no node has as many as 64, the largest offers 40
  team/picky: asks for 4 of nvidia.com/gpu: a100-2 with enough free is cordoned; off-1 with enough
      free is not ready; h100-1 with enough free has the taint team=vision:NoSchedule, which the pod
      does not tolerate; 4 nodes (1 of them with enough free) do not match its node selector zone=eu

Counted in two ways, by limits and as the scheduler does:
  team/init (slots-1): 1 and 2, because an init container asks for more than what runs after it

Being deleted, and holding on until they have ended:
  team/old (h100-1): 1, grace until 2026-03-01T10:00:00Z
""",
    "ko": """\
nvidia.com/gpu   limits 기준  스케줄러 기준
광고 합계                 70             70
요청                      26             27
남음                      44             43
지금 쓸 수 있음                          28
taint 뒤                                  7
들어갈 수 있음: 1장짜리 28개, 2장짜리 14개, 4장짜리 7개, 8장짜리 3개. 한 노드에 최대 28.

노드     장수  요청  남음
a100-1      8     8     0  [########]
a100-2      8     3     5  [###.....]          cordoned
h100-1      8     1     7  [#.......]          taint team=vision
lost-1      2     3    -1  [##!]               2 unhealthy, overcommitted
off-1       4     0     4  [....]              not ready
slots-1    40    12    28  [####............]

기다리는 파드 2개:
  team/huge: asks for 64 of nvidia.com/gpu: no node has as many as 64, the largest offers 40
  team/picky: asks for 4 of nvidia.com/gpu: a100-2 with enough free is cordoned; off-1 with enough
      free is not ready; h100-1 with enough free has the taint team=vision:NoSchedule, which the pod
      does not tolerate; 4 nodes (1 of them with enough free) do not match its node selector zone=eu

두 기준(limits, 스케줄러)으로 다르게 세는 파드:
  team/init (slots-1): 1, 2: an init container asks for more than what runs after it

삭제되는 중이고 끝날 때까지 쥐고 있는 파드:
  team/old (h100-1): 1장, 끝낼 시한 2026-03-01T10:00:00Z
""",
    "both": """\
nvidia.com/gpu                  by limits / limits 기준  by the scheduler / 스케줄러 기준
allocatable in all / 광고 합계                       70                                70
requested / 요청                                     26                                27
free / 남음                                          44                                43
usable now / 지금 쓸 수 있음                                                           28
behind taints / taint 뒤                                                                7
Room for pods: 28 with 1, 14 with 2, 7 with 4, 3 with 8. The most on one node: 28.
들어갈 수 있음: 1장짜리 28개, 2장짜리 14개, 4장짜리 7개, 8장짜리 3개. 한 노드에 최대 28.

node     GPUs  requested  free
노드     장수       요청  남음
a100-1      8          8     0  [########]
a100-2      8          3     5  [###.....]          cordoned
h100-1      8          1     7  [#.......]          taint team=vision
lost-1      2          3    -1  [##!]               2 unhealthy, overcommitted
off-1       4          0     4  [....]              not ready
slots-1    40         12    28  [####............]

2 waiting: / 기다리는 파드 2개:
  team/huge: asks for 64 of nvidia.com/gpu: no node has as many as 64, the largest offers 40
  team/picky: asks for 4 of nvidia.com/gpu: a100-2 with enough free is cordoned; off-1 with enough
      free is not ready; h100-1 with enough free has the taint team=vision:NoSchedule, which the pod
      does not tolerate; 4 nodes (1 of them with enough free) do not match its node selector zone=eu

Counted in two ways, by limits and as the scheduler does: / 두 기준(limits, 스케줄러)으로 다르게 세는 파드:
  team/init (slots-1): 1 and 2, because an init container asks for more than what runs after it / 1,
      2: an init container asks for more than what runs after it

Being deleted, and holding on until they have ended: / 삭제되는 중이고 끝날 때까지 쥐고 있는 파드:
  team/old (h100-1): 1, grace until 2026-03-01T10:00:00Z / 1장, 끝낼 시한 2026-03-01T10:00:00Z
""",
}
EMPTY = """\
nvidia.com/gpu
allocatable in all  0
requested           0
free                0
usable now          0
Room for pods: 0 with 1, 0 with 2, 0 with 4, 0 with 8. The most on one node: 0.

(no node advertises any)

no node advertises nvidia.com/gpu

No pod waits for one.
"""
ONE = """\
nvidia.com/gpu
allocatable in all  4
requested           0
free                4
usable now          4
Room for pods: 4 with 1, 2 with 2, 1 with 4, 0 with 8. The most on one node: 4.

node  GPUs  requested  free
one      4          0     4  [....]

No pod waits for one.
"""


@pytest.mark.parametrize("lang", PAGES)
def test_a_mixed_cluster(lang):
    assert filters.account_table(account(*MIXED), lang) + "\n" == PAGES[lang]


def test_an_empty_cluster_and_one_node():
    assert filters.account_table(account([], [])) + "\n" == EMPTY
    assert filters.account_table(account([node("one", 4)], [])) + "\n" == ONE


def test_no_page_is_wider_than_it_must_be():
    for lang in PAGES:
        # A heading in two languages is one line.
        lines = [line for line in page(*MIXED, lang) if lang != "both" or not line.endswith(":")]
        assert max(map(_table.width, lines)) <= _account_table.WIDTH
        assert [line for line in page(*MIXED, lang) if line != line.rstrip()] == []


def test_forty_nodes_are_shown_in_order():
    rows = table(page([node(f"n{number:02}", 1, unschedulable=number == 30) for number in range(40)], []))
    assert [row.split()[0] for row in rows] == [f"n{number:02}" for number in range(40)]


@pytest.mark.parametrize(("count", "more"), [(41, 1), (60, 20)])
def test_of_more_nodes_those_that_need_a_look_come_first(count, more):
    nodes = [node(f"n{number:02}", 4) for number in range(count)]
    nodes[-1] = nodes[-1]._replace(unschedulable=True)
    nodes[-5] = nodes[-5]._replace(ready="Unknown")
    pods = [pod("fat", 6, nodes[-9].name)]
    rows = table(page(nodes, pods))
    names = [row.split()[0] for row in rows[:-1]]
    first = [nodes[-9].name, nodes[-5].name, nodes[-1].name]
    assert names == [*first, *[one.name for one in nodes if one.name not in first][:37]]
    assert rows[-1] == f"... and {more} more"


def test_a_summary_counts_what_it_leaves_out():
    lines = page([node(f"n{number:02}", 4) for number in range(60)], [], level="summary")
    assert len(table(lines)) == 21
    assert table(lines)[-1] == "... and 40 more"


def test_more_waiting_pods_than_a_page_holds():
    lines = page([node("n", 4)], [pod(f"w{number:02}", 9) for number in range(45)], "both")
    assert "45 waiting: / 기다리는 파드 45개:" in lines
    assert lines[-1] == "  ... and 5 more / ... 그리고 5개 더"
    assert sum(line.startswith("  team/w") for line in lines) == 40


@pytest.mark.parametrize(
    ("used", "offered", "bar"),
    [
        (0, 0, "[]"),
        (0, 4, "[....]"),
        (3, 4, "[###.]"),
        (4, 4, "[####]"),
        (6, 4, "[####!!]"),
        (3, 0, "[!!!]"),
        (16, 16, "[################]"),
        (1, 400, "[#...............]"),
        (399, 400, "[###############.]"),
        (400, 400, "[################]"),
        (500, 400, "[################!!!!!!!!!!!!!!!!]"),
    ],
)
def test_bars(used, offered, bar):
    assert _account_table.gauge(used, offered) == bar


def test_an_overcommitted_node_and_one_with_promises():
    nodes = [node("gone", 0, capacity=2), node("promised", 4)]
    pods = [pod("a", 2, "gone"), pod("b", 4, "promised"), pod("next", 2, nominated_node="promised")]
    assert table(page(nodes, pods)) == [
        "gone         0          2    -2  [!!]    2 unhealthy, overcommitted",
        "promised     4          4     0  [####]  2 promised",
    ]


@pytest.mark.parametrize(
    ("more", "pods", "says"),
    [
        ({"places": "1"}, [pod("a", 0, "n")], "no place for another pod"),
        ({"places": "1"}, [pod("a", 4, "n")], ""),
        ({"places": "3"}, [pod("a", 0, "n")], "places for 2 more"),
        ({"places": "5"}, [pod("a", 0, "n")], ""),
        ({"places": "0", "unschedulable": True}, [], "cordoned"),
        ({"unschedulable": True, "taints": (CORDON,)}, [], "cordoned"),
        ({"taints": (CORDON,)}, [], "taint node.kubernetes.io/unschedulable"),
        (
            {"taints": (Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),)},
            [],
            "taint node.kubernetes.io/disk-pressure",
        ),
        ({"ready": "True", "taints": (NOT_READY,)}, [], "not ready"),
        ({"places": "0", "taints": (Taint("x", "y", "NoExecute"),)}, [], "taint x=y, no place for another pod"),
    ],
)
def test_what_leaves_no_room_stands_beside_the_node(more, pods, says):
    item = node("n", 4, **{key: value for key, value in more.items() if key != "places"})
    item = item._replace(allocatable={**item.allocatable, "pods": more.get("places", "110")})
    (row,) = table(page([item], pods))
    assert row.partition("]")[2].strip() == says


def test_long_names_are_whole():
    long = "n" * 63
    lines = page([node(long, 4), node("short", 4)], [pod("p" * 130, 9)])
    first, second = table(lines)
    assert first.startswith(f"{long}     4 ")
    assert second.index("[") == first.index("[")
    assert f"  team/{'p' * 130}:" in lines


def test_a_long_reason_is_wrapped_between_words():
    nodes = [
        node(f"node-{number}", 4, taints=(Taint(f"team-{number}", "x" * 20, "NoSchedule"),)) for number in range(9)
    ]
    (entry,) = account(nodes, [pod("w", 2)])["details"]["waiting"]
    lines = page(nodes, [pod("w", 2)])
    lines = lines[lines.index("1 waiting:") + 1 :]
    assert len(lines) > 3
    assert all(len(line) <= _account_table.WIDTH and line.startswith("      ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"team/w: {entry['message']}"


@pytest.mark.parametrize("value", [None, "text", {}, {"details": {}}, {**account([], []), "details": None}])
def test_what_has_no_details_is_refused(value):
    with pytest.raises(AnsibleFilterError, match="not what the module returns"):
        filters.account_table(value)


def test_another_language_is_refused():
    with pytest.raises(AnsibleFilterError, match="'de' is no language of the lab"):
        filters.account_table(account(*MIXED), "de")
