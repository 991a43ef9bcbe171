# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""Kubernetes quantities: apimachinery, pkg/api/resource/quantity.go. No input or output here."""

from __future__ import annotations

import functools
import re
import typing as t
from fractions import Fraction

#: What Kubernetes can count to (a signed 64-bit integer).
LARGEST = 2**63 - 1

#: The finest part of a unit that Kubernetes keeps; anything finer is rounded up to it.
NANO = 10**9

_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?0*\d{1,3}))?", re.ASCII)

_SCALE = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


class QuantityError(ValueError):
    """A text that is no quantity, or one that cannot be a number of things."""


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a Kubernetes quantity")
    sign, number, suffix, exponent = match.groups()
    result = Fraction(number) * NANO
    if suffix:
        result *= _SCALE[suffix]
    elif exponent:
        result *= Fraction(10) ** int(exponent)
    rounded = -(-result.numerator // result.denominator)
    return -rounded if sign == "-" else rounded


def nano(value: t.Any) -> int:
    """A quantity (text or int) in billionths of its unit, in which every quantity is an int: ParseQuantity.

    Raises QuantityError for anything that is no quantity.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * NANO
    raise QuantityError(f"{value!r} is not a Kubernetes quantity")


def quantity(value: t.Any) -> Fraction:
    """The exact value of a quantity, such as 4, "4", "1k", "2e0" or "1500m"; raises QuantityError."""
    return Fraction(nano(value), NANO)


def units(amount: int) -> int:
    """Billionths to whole units, a broken one rounded up: Quantity.Value()."""
    return -(-amount // NANO)


def milli(amount: int) -> int:
    """Billionths to thousandths, a broken one rounded up: Quantity.MilliValue()."""
    return -(-amount // 10**6)


def whole(value: t.Any) -> int:
    """How many things a quantity stands for, a broken one rounded up (500m is 1): Quantity.Value().

    Raises QuantityError for what is no quantity, negative, or more than Kubernetes can count.
    """
    amount = nano(value)
    if amount < 0:
        raise QuantityError(f"{value!r} is negative")
    result = units(amount)
    if result > LARGEST:
        raise QuantityError(f"{value!r} is larger than Kubernetes can count")
    return result
