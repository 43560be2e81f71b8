from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.ops.traced_formulas import TracedInt

_SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}

numbers = st.integers(1, 99)
leaves = numbers | numbers.map(lambda value: TracedInt.named("size", value))


def joined(parts: tuple[int, str, int]) -> int:
    left, sign, right = parts
    # A quotient may be 0, by which no rule divides.
    return _SIGNS[sign](left, right or 1) if sign == "//" else _SIGNS[sign](left, right)


expressions = st.recursive(
    leaves,
    lambda inner: st.tuples(inner, st.sampled_from(list(_SIGNS)), inner).map(joined),
    max_leaves=12,
)


def evaluated(text: str) -> int:
    return int(eval(text.replace("size ", "").replace(",", "").replace(" x ", " * ").replace("^", "**")))


@given(expressions)
def test_text_of_any_formula_computes_its_value(value: int) -> None:
    if isinstance(value, TracedInt):
        assert evaluated(value.text) == int(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (TracedInt.named("a", 2000) * 3, "a 2,000 x 3"),
        (3 * (TracedInt.named("a", 2) * TracedInt.named("b", 4)), "3 x a 2 x b 4"),
        (3 * (TracedInt.named("a", 9) // 2), "3 x (a 9 // 2)"),
        (TracedInt.named("a", 9) * 2 // 3, "(a 9 x 2) // 3"),
        (5 - (TracedInt.named("a", 2) - 1), "5 - (a 2 - 1)"),
        ((1 + TracedInt.named("a", 2)) ** 2, "(1 + a 2) ^ 2"),
        (math.prod([TracedInt.named("a", 2), TracedInt.named("b", 3)]), "a 2 x b 3"),
        (sum([TracedInt.named("a", 2), TracedInt.named("b", 3)]), "a 2 + b 3"),
    ],
)
def test_formula_reads_as_one_would_write_it(value: TracedInt, text: str) -> None:
    assert value.text == text


def test_what_cannot_be_followed_is_a_plain_number() -> None:
    size = TracedInt.named("a", 9)
    assert not isinstance(size / 3, TracedInt)
    assert not isinstance(size * 0.5, TracedInt)
    assert not isinstance(int(size), TracedInt)
    assert not isinstance(size % 2, TracedInt)
    assert size**-1 == 1 / 9
