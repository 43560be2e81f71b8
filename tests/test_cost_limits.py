"""Numbers that no cost can have: negative ones, and those that do not fit 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sizeup.closed_forms.cost import SymbolicCost
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.errors import InvalidGraph, RuleError
from sizeup.graph import Body, Constant, GraphBuilder
from sizeup.ops import op_rule, temporary_cost_rules
from sizeup.symbolic import Specialization, SymbolicGraph, size

FLOAT = dtype("float32")


def one_op(kind: str, weight: tuple[int, ...] | None = (4, 4), **attrs: object) -> GraphBuilder:
    builder = GraphBuilder("net")
    x = builder.input("x", (2, 4), FLOAT)
    w = builder.tensor("w", weight, FLOAT, Constant("parameter"))
    builder.op(kind, [x, w], [builder.tensor("y", (2, 4), FLOAT)], attrs)
    return builder


def test_a_negative_count_of_an_operator_is_unknown_and_cancels_nothing() -> None:
    builder = one_op("matmul", contracted=(1,))
    y = builder.tensor("z", (2, 4), FLOAT)
    builder.op("pool", [0], [y], {"taps": -1_000})
    cost = count(builder.freeze())
    assert (cost.total_macs, cost.total_elementwise) == (2 * 4 * 4, 0)
    assert cost.reasons == {1: "its count is negative (-8,000)"}


@pytest.mark.parametrize(("answer", "problem"), [(-1, r"negative \(-1\)"), (0.5, "0.5, not an integer")])
def test_a_rule_from_outside_that_gives_no_count_is_an_error(answer: Any, problem: str) -> None:
    with temporary_cost_rules():
        op_rule("mine")(lambda call: answer)
        with pytest.raises(RuleError, match=problem):
            count(one_op("mine").freeze())


@pytest.mark.parametrize("type_", [int, np.int64, np.uint64])
def test_the_largest_count_is_the_same_for_all_integers(type_: Callable[[int], Any]) -> None:
    with temporary_cost_rules():
        op_rule("most")(lambda call: type_(2**62))
        op_rule("more")(lambda call: type_(2**62 + 1))
        assert count(one_op("most").freeze()).total_macs == 2**62
        with pytest.raises(RuleError, match="does not fit 64 bits"):
            count(one_op("more").freeze())


def test_a_cost_cannot_be_made_with_negative_numbers() -> None:
    cost = count(one_op("matmul", contracted=(1,)).freeze())
    for column in ("macs", "elementwise", "params"):
        with pytest.raises(RuleError, match="is negative"):
            replace(cost, **{column: -1 - getattr(cost, column)})
    for side in ("reads", "writes", "parameters"):
        accesses = getattr(cost, side)
        with pytest.raises(RuleError, match=f"elements in `{side}` is negative"):
            replace(cost, **{side: replace(accesses, elements=-accesses.elements)})
    with pytest.raises(RuleError, match="bytes"):
        replace(cost, stored_bytes=-1)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (None, "'w' has no known shape, so the parameters cannot be counted"),
        ((2**40, 2**40), "takes more than 64 PiB"),
        ((2**63,), "takes more than 64 PiB"),
    ],
)
def test_parameters_that_cannot_be_counted_are_an_error(shape: Any, problem: str) -> None:
    with pytest.raises(InvalidGraph, match=problem):
        count(one_op("add", shape).freeze())


def test_parameters_whose_sum_does_not_fit_64_bits_are_an_error() -> None:
    builder = one_op("add")
    for place in range(2**9 + 1):
        builder.tensor(f"w{place}", (2**54,), FLOAT, Constant("parameter"))
    with pytest.raises(InvalidGraph, match="parameters do not fit 64 bits"):
        count(builder.freeze())


def test_the_most_parameters_are_counted() -> None:
    builder = GraphBuilder()
    for place in range(2**8):
        builder.tensor(f"w{place}", (2**54,), FLOAT, Constant("parameter"))
    assert count(builder.freeze()).total_params == 2**62


def test_many_accesses_of_one_row_that_overflow_together_are_unknown() -> None:
    builder = GraphBuilder()
    large = [builder.input(f"x{place}", (2**54,), FLOAT) for place in range(18)]
    builder.op("concat", large, [builder.tensor("y", (9, 2**50), FLOAT)])
    assert count(builder.freeze()).reasons == {0: "its count does not fit 64 bits"}


def test_a_negative_dimension_or_trip_count_is_no_graph() -> None:
    builder = one_op("add", (-2, -2))
    with pytest.raises(InvalidGraph, match=r"'w' has a negative dimension: \[-2, -2\]"):
        builder.freeze()
    builder = one_op("add")
    builder.op("loop", [], [], bodies=(Body("body", one_op("add").freeze(), -3),))
    with pytest.raises(InvalidGraph, match="runs 'body' -3 times"):
        builder.freeze()


def pooled(taps: Any) -> SymbolicCost:
    """A pool over rows that have no size yet."""

    def read(example: Mapping[str, int]) -> Specialization:
        builder = GraphBuilder("pool")
        rows: Any = (size("rows"), 4)
        x, y = builder.input("x", rows, FLOAT), builder.tensor("y", rows, FLOAT)
        builder.op("pool", [x], [y], {"taps": taps})
        return Specialization(builder.freeze(), example, {})

    return SymbolicCost(SymbolicGraph(("rows",), {"rows": 10}, read))


def test_a_closed_form_that_is_negative_is_unknown() -> None:
    counts = pooled(-5).at(rows=3)
    assert (counts.elementwise_ops, counts.is_known) == (0, False)


def test_a_closed_form_that_is_negative_at_another_point_is_an_error_there() -> None:
    cost = pooled(20 - size("rows"))
    assert cost.at(rows=15).elementwise_ops == 5 * 15 * 4
    with pytest.raises(RuleError, match=r"negative at one of the points \(-500\)"):
        _ = cost.at(rows=[15, 25]).elementwise_ops
