# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from lab_machine import GPU


def written(machine):
    lines = machine.file("advertised.txt").splitlines()
    return [tuple(line.split("=", 1)) for line in lines]


def test_four_lines_in_order(machine):
    assert [key for key, _ in written(machine)] == ["node", "capacity", "allocatable", "product"]


def test_names_the_real_node_and_its_product(machine, real_node):
    fields = dict(written(machine))
    assert fields["node"] == real_node["metadata"]["name"]
    assert fields["product"] == real_node["metadata"]["labels"]["nvidia.com/gpu.product"]


def test_numbers_are_ones_this_node_has_advertised(machine, real_node):
    fields = dict(written(machine))
    assert fields["capacity"] == fields["allocatable"]
    # The pool is 2 until step 6 makes it 4; what was true then stays right.
    assert fields["capacity"] in {"2", real_node["status"]["capacity"][GPU]}


def test_node_advertises(real_node):
    assert int(real_node["status"]["capacity"][GPU]) >= 2
    assert real_node["status"]["allocatable"][GPU] == real_node["status"]["capacity"][GPU]
