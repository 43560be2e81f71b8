"""Quotients of free numbers: arithmetic and comparisons as those of fractions, at every size."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.symbolic import Assumptions, Ratio, as_ratio, assuming, divide, size, value_at

BATCH, HEIGHT = size("batch"), size("height")
SIZES = st.fixed_dictionaries({"batch": st.integers(1, 40), "height": st.integers(1, 40)})
# Positive at every size, so that each may divide.
NUMBERS = st.sampled_from(
    [
        1,
        3,
        12,
        2.5,
        BATCH,
        6 * BATCH,
        BATCH * HEIGHT,
        (HEIGHT + 3) // 4,
        BATCH * HEIGHT + 4 * BATCH,
        HEIGHT + 4,
    ]
)
STEPS = st.lists(st.tuples(st.sampled_from("+*/"), NUMBERS), min_size=1, max_size=4)


def _fraction(number: Any, sizes: dict[str, int]) -> Fraction:
    ratio = as_ratio(number)
    return Fraction(value_at(ratio.numerator, sizes), value_at(ratio.denominator, sizes))


def _computed(start: Any, steps: list[tuple[str, Any]]) -> Any:
    for sign, number in steps:
        start = {"+": start.__add__, "*": start.__mul__, "/": start.__truediv__}[sign](number)
    return start


@given(NUMBERS, STEPS, SIZES)
def test_a_ratio_has_the_value_of_the_fraction(start: Any, steps: list[Any], sizes: dict[str, int]) -> None:
    plain = _fraction(start, sizes)
    expected = _computed(plain, [(sign, _fraction(number, sizes)) for sign, number in steps])
    assert _fraction(_computed(as_ratio(start), steps), sizes) == expected


@given(NUMBERS, STEPS, NUMBERS, SIZES)
def test_comparisons_are_those_of_fractions(
    start: Any, steps: list[Any], other: Any, sizes: dict[str, int]
) -> None:
    ratio = _computed(as_ratio(start), steps)
    left, right = _fraction(ratio, sizes), _fraction(other, sizes)
    with assuming(Assumptions(sizes)):
        results = (ratio > other, ratio >= other, ratio < other, ratio <= other, ratio == other)
    assert results == (left > right, left >= right, left < right, left <= right, left == right)


def test_what_both_share_is_left_out() -> None:
    ratio = Ratio(6 * BATCH * HEIGHT + 9 * BATCH, 3 * BATCH)
    assert (str(ratio.numerator), ratio.denominator) == ("2*height + 3", 1)
    ratio = Ratio(BATCH * HEIGHT, 4 * BATCH * BATCH)
    assert (str(ratio.numerator), str(ratio.denominator)) == ("height", "4*batch")
    assert (Ratio(0, HEIGHT).numerator, Ratio(0, HEIGHT).denominator) == (0, 1)


def test_plain_numbers_are_divided_as_floats() -> None:
    assert divide(7, 2) == 3.5
    assert isinstance(divide(HEIGHT, 2), Ratio)


def test_nothing_is_divided_by_nothing() -> None:
    with pytest.raises(ZeroDivisionError):
        Ratio(BATCH, 0)
