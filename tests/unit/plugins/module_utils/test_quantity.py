# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Quantities as Kubernetes writes and reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _quantity

# A busy machine is no reason to fail.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("4", 4),
        (4, 4),
        ("+4", 4),
        ("-4", -4),
        ("004", 4),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("1k", 1000),
        ("8M", 8 * 10**6),
        ("1Ki", 1024),
        ("2Ei", 2 * 2**60),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e3", 1000),
        ("2e0", 2),
        ("2e+1", 20),
        ("20e-1", 2),
        ("1500m", Fraction(3, 2)),
        ("3000m", 3),
        ("4000000u", 4),
        ("4000000000n", 4),
        ("1.5Gi", Fraction(3, 2) * 2**30),
        ("1Mi", 2**20),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("3G", 3 * 10**9),
        ("3T", 3 * 10**12),
        ("3P", 3 * 10**15),
        ("0.1Ki", Fraction(1024, 10)),
        ("1E-3", Fraction(1, 1000)),
        ("1e003", 1000),
        ("12345678901234567890123", 12345678901234567890123),
        ("1e30", 10**30),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1.0000000001", 1 + Fraction(1, 10**9)),
    ],
)
def test_a_quantity_has_its_exact_value(text, value):
    assert _quantity.quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "4 ", " 4", "4\n", "K", "4K", "4KI", "1mi", "0x4", "1_000", "٤", "four", ".", "-", "1e", "1e3k", "1.1.", "1,000",
     "NaN", "inf", "1e9999", None, True, 4.0, 0.5, [4], {"value": 4}],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(_quantity.QuantityError, match="not a Kubernetes quantity"):
        _quantity.quantity(text)


@given(st.integers(0, 2**63 - 1))
def test_every_count_survives_the_ways_of_writing_it(count):
    assert _quantity.whole(str(count)) == _quantity.whole(count) == count
    assert _quantity.whole(f"{count}e0") == _quantity.whole(f"{count * 1000}m") == count
    assert _quantity.whole(f"{count}.000") == count


@given(st.text(max_size=8))
def test_any_text_is_a_number_or_refused(text):
    try:
        _quantity.quantity(text)
    except _quantity.QuantityError as error:
        assert repr(text) in str(error)


@pytest.mark.parametrize(
    ("text", "count"),
    [("500m", 1), ("1500m", 2), ("1n", 1), ("1u", 1), (".5", 1), ("0.5Ki", 512), ("1e-9", 1), ("0", 0), ("0m", 0),
     ("9223372036854775807", 2**63 - 1), ("7Ei", 7 * 2**60), ("9E", 9 * 10**18), (7, 7), ("-0", 0)],
)  # fmt: skip
def test_a_broken_device_is_a_device_as_value_has_it(text, count):
    assert _quantity.whole(text) == count


@pytest.mark.parametrize(
    ("text", "why"),
    [("-1", "negative"), ("-1n", "negative"), (-1, "negative"), ("8Ei", "larger"), ("1e30", "larger"), (2**63, "larger"),
     ("9223372036854775807.1", "larger"), ("four", "not a Kubernetes quantity")],
)  # fmt: skip
def test_devices_are_countable_and_not_negative(text, why):
    with pytest.raises(_quantity.QuantityError, match=why):
        _quantity.whole(text)


@pytest.mark.parametrize(
    ("text", "thousandths"), [("1", 1000), ("100m", 100), ("1u", 1), ("1.0001", 1001), ("2k", 2 * 10**6)]
)
def test_cpu_counts_in_thousandths_as_millivalue_has_it(text, thousandths):
    assert _quantity.milli(_quantity.nano(text)) == thousandths


@given(st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**9))
def test_the_parts_of_a_unit_add_up(number):
    amount = int(number * _quantity.NANO)
    assert _quantity.quantity(f"{amount}n") * _quantity.NANO == amount == _quantity.nano(f"{amount}n")
    assert 0 <= _quantity.units(amount) * _quantity.NANO - amount < _quantity.NANO
    assert 0 <= _quantity.milli(amount) * 10**6 - amount < 10**6
