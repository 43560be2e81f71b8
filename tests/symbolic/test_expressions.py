"""Whole numbers that are not known yet behave as the numbers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sizeup.errors import SizeupError
from sizeup.symbolic import (
    Assumptions,
    Expression,
    Guard,
    assuming,
    largest,
    quotient,
    size,
    smallest,
    value_at,
)
from sizeup.symbolic.grid import Grid, points_of
from sizeup.symbolic.guards import bounds_of
from sizeup.symbolic.text import form_text, least_sizes, substitute

NAMES = ("batch", "height", "width")
SIZES = st.fixed_dictionaries({name: st.integers(1, 90) for name in NAMES})
_LEAVES = st.one_of(
    st.sampled_from(NAMES).map(lambda name: ("size", name)), st.integers(-9, 9).map(lambda n: ("number", n))
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "max", "min"]), inner, inner),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 9).map(lambda n: ("number", n))),
        st.tuples(st.just("//"), inner, st.sampled_from(NAMES).map(lambda name: ("size", name))),
    ),
    max_leaves=12,
)


def _evaluate(tree: Any, of: dict[str, Any]) -> Any:
    """A tree computed with expressions, or with plain numbers: the oracle is Python's own arithmetic."""
    kind, *parts = tree
    if kind == "size":
        return of[parts[0]]
    if kind == "number":
        return parts[0]
    left, right = (_evaluate(each, of) for each in parts)
    if kind == "max":
        return (
            max(left, right) if isinstance(left, int) and isinstance(right, int) else largest([left, right])
        )
    if kind == "min":
        return (
            min(left, right) if isinstance(left, int) and isinstance(right, int) else smallest([left, right])
        )
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
            "//": lambda: left // right, "%": lambda: left % right}[kind]()  # fmt: skip


@given(_TREES, SIZES)
@example(("max", ("number", 0), ("//", ("size", "batch"), ("size", "height"))), dict.fromkeys(NAMES, 1))
@settings(max_examples=400, deadline=None)
def test_an_expression_has_the_value_of_the_arithmetic_it_came_from(tree: Any, sizes: dict[str, int]) -> None:
    expected = _evaluate(tree, sizes)
    number = _evaluate(tree, {name: size(name) for name in NAMES})
    assert value_at(number, sizes) == expected
    low, high = bounds_of(number, dict.fromkeys(NAMES, (1, 90)))
    assert low <= expected <= high
    text = form_text(number)
    assert eval(text, {"max": max, "min": min}, dict(sizes)) == expected
    half = {"height": sizes["height"]}
    assert value_at(substitute(number, half), sizes) == expected


@given(_TREES, st.lists(SIZES, min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_columns_of_points_have_the_values_of_single_points(tree: Any, points: list[dict[str, int]]) -> None:
    number = _evaluate(tree, {name: size(name) for name in NAMES})
    columns, _ = points_of(NAMES, {name: [point[name] for point in points] for name in NAMES})
    (values,) = Grid(columns).values([number])
    assert values.tolist() == [_evaluate(tree, point) for point in points]


def test_steps_of_two_become_one_division() -> None:
    height = size("height")
    thrice = height
    for _ in range(3):
        thrice = (thrice - 1) // 2 + 1
    assert str(thrice) == "((height + 7)//8)"


def test_a_shared_factor_is_written_in_front() -> None:
    batch, side = size("batch"), size("side")
    assert form_text(6 * batch * side + 4 * batch) == "2 * batch * (3 * side + 2)"
    factors = ((side - 3) // 2) * ((batch - 1) // 2) * 9
    assert form_text(factors) == "9 * (((batch + 1)//2) - 1) * (((side + 1)//2) - 2)"


def test_counts_beyond_64_bits_are_exact_and_not_wrapped() -> None:
    side = size("side")
    grid = Grid({"side": np.array([3, 10**9], np.int64)})
    (values,) = grid.values([side**3 * 7])
    assert values.tolist() == [189, 7 * 10**27]
    (narrow,) = grid.values([side * 2])
    assert narrow.dtype == np.int64


def test_what_is_large_on_the_way_only_is_exact_too() -> None:
    side = size("side")
    (values,) = Grid({"side": np.array([3 * 10**9], np.int64)}).values([quotient(side**3 + 1, side**2 + 1)])
    assert values.tolist() == [((3 * 10**9) ** 3 + 1) // ((3 * 10**9) ** 2 + 1)]


def test_one_and_two_taken_away_are_kept_apart_though_python_hashes_them_alike() -> None:
    side = size("side")
    grid = Grid({"side": np.array([3, 7], np.int64)})
    (values,) = grid.values([largest([-side, 4 - 2 * side]) + largest([-2 * side, side - 40])])
    assert values.tolist() == [-8, -21]
    heard = Assumptions({"side": 3})
    with assuming(heard):
        assert side * side - side >= 2
        assert side * side - 2 * side >= 2
    assert [str(each) for each in heard.guards] == ["side**2 >= side + 2", "side**2 >= 2*side + 2"]
    assert {-side: "once", -2 * side: "twice"}[-2 * side] == "twice"


def test_a_comparison_that_sizes_decide_is_an_error_without_a_listener() -> None:
    with pytest.raises(TypeError, match="comparison of symbolic dimensions"):
        _ = size("batch") == 1
    with pytest.raises(TypeError, match="symbolic dimensions have no value"):
        int(size("batch"))
    assert size("batch") == size("batch")
    assert (size("batch") + 1 > size("batch")) is True


def test_an_example_decides_and_what_it_decided_is_a_condition() -> None:
    assumptions = Assumptions({"batch": 3})
    with assuming(assumptions):
        assert size("batch") != 1
        assert size("batch") < 16
        assert size("batch") > 0  # at every size: no condition
    assert [str(each) for each in assumptions.guards] == ["batch != 1", "batch <= 15"]
    grid = Grid({"batch": np.array([1, 2, 15, 16])})
    assert grid.holds(assumptions.guards).tolist() == [False, True, True, False]


@pytest.mark.parametrize("relation", ["==", "!=", ">="])
@pytest.mark.parametrize("value", [-2, 0, 3])
def test_a_condition_or_its_opposite_holds(relation: Any, value: int) -> None:
    condition = Guard(relation, size("x") - 5 + value)
    grid = Grid({"x": np.arange(1, 12)})
    assert (grid.holds((condition,)) ^ grid.holds((condition.negated(),))).all()
    both = Guard("and", parts=(condition, Guard(">=", size("x") - 3)))
    assert (grid.holds((both,)) ^ grid.holds((both.negated(),))).all()


def test_guards_on_one_dimension_give_the_least_size() -> None:
    height = size("height")
    conditions = [Guard("!=", (height + 31) // 32 - 1), Guard("!=", (height + 1) // 2 - 1)]
    least, others = least_sizes(conditions, ["height"])
    assert (least["height"][0], others) == (33, [])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 1}, "sizes are missing: height"),
        ({"batch": 1, "height": 2, "depth": 3}, "unknown symbolic dimension 'depth'"),
        ({"batch": 0, "height": 2}, "at least 1"),
        ({"batch": 1.5, "height": 2}, "sizes are integers"),
        ({"batch": [1, 2], "height": [1, 2, 3]}, "do not broadcast"),
        ({"batch": [[1], [2, 3]], "height": 2}, "rows of equal length"),
        ({"batch": [1, 2**70], "height": 2}, "below 2\\^62"),
        ({"batch": np.array([1, None]), "height": 2}, "sizes are integers"),
    ],
)
def test_sizes_that_make_no_points_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        points_of(("batch", "height"), sizes)


def test_numbers_of_python_in_a_column_are_sizes() -> None:
    columns, shape = points_of(("batch",), {"batch": np.array([1, 2**61], object)})
    assert (columns["batch"].tolist(), columns["batch"].dtype, shape) == ([1, 2**61], np.int64, (2,))


def test_an_expression_stays_an_expression_under_numbers_of_numpy() -> None:
    assert isinstance(size("x") * int(np.int64(3)), Expression)
