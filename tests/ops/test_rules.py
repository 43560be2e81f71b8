"""All rules, each against rows worked out by hand, on plain numbers and on symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ops.linalg_rows import LINALG
from ops.rows import ROWS as OTHER_ROWS
from ops.rows import Row
from ops.symbols import Symbol, value_of
from sizeup.cost import Cost, count
from sizeup.dtypes import dtype
from sizeup.graph import ABSENT, Graph, GraphBuilder
from sizeup.ops import Call, OpRule, Value, cost_rule_of, cost_rules

# Their cost is that of the graphs that they carry: see tests/test_cost_of_bodies.py.
CONTROL = {"if", "loop", "scan", "call", "call_once"}
# Its cost depends on data.
UNKNOWABLE = {"roi_pool"}
# Not dimensions: how a format samples or pools, and which input is which.
PLAIN_ATTRIBUTES = {"taps", "cached", "score_functions"}
ROWS = [*OTHER_ROWS, *LINALG]


def one_operator(row: Row) -> Graph:
    builder = GraphBuilder(row.kind)
    inputs = [
        ABSENT if shape is None else builder.input(f"in{place}", shape, dtype("float32"))
        for place, shape in enumerate(row.inputs)
    ]
    outputs = [
        builder.tensor(f"out{place}", shape, dtype("float32")) for place, shape in enumerate(row.outputs)
    ]
    builder.op(row.kind, inputs, outputs, row.attrs)
    builder.outputs.extend(outputs)
    return builder.freeze()


def name_of(row: Row) -> str:
    return f"{row.kind}-{row.inputs}".replace(" ", "")


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_rule_gives_the_hand_count(row: Row) -> None:
    cost: Cost = count(one_operator(row))
    assert cost.known.tolist() == [True], cost.reasons
    assert cost.macs.tolist() == [row.macs]
    assert cost.elementwise.tolist() == [row.elementwise]
    assert cost.reads.elements.tolist() == list(row.reads)
    assert cost.writes.elements.tolist() == list(row.writes)


def test_every_rule_has_a_row() -> None:
    own = {rule.kind for rule in cost_rules() if rule.family == "own"}  # of users, or of other tests
    with_rows = {row.kind for row in ROWS}
    assert {rule.kind for rule in cost_rules()} - own == with_rows | CONTROL | UNKNOWABLE


def test_rule_of_the_unknowable_says_so() -> None:
    builder = GraphBuilder()
    data = builder.input("data", (1, 2, 8, 8), dtype("float32"))
    made = builder.tensor("made", (3, 2, 2, 2), dtype("float32"))
    builder.op("roi_pool", [data], [made])
    cost = count(builder.freeze())
    assert cost.known.tolist() == [False]
    assert "depends on data" in cost.reasons[0]


def symbolic(row: Row) -> tuple[Call, dict[str, int]]:
    """The row's call with a symbol for every dimension, and what each symbol stands for."""
    sizes: dict[str, int] = {}

    def symbol(value: Any) -> Any:
        if type(value) is not int or value == 1:  # a size of 1 is not symbolic
            return value
        made = Symbol.named(f"d{len(sizes)}")
        sizes[f"d{len(sizes)}"] = value
        return made

    def value(shape: Sequence[int]) -> Value:
        return Value(tuple(symbol(size) for size in shape))

    attrs = {name: each if name in PLAIN_ATTRIBUTES else symbol(each) for name, each in row.attrs.items()}
    inputs = [None if shape is None else value(shape) for shape in row.inputs]
    return Call(inputs, [value(shape) for shape in row.outputs], attrs), sizes


def formulas(rule: OpRule, call: Call) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in ("macs", "elementwise"):
        formula = getattr(rule, part)
        if formula is not None:
            found[part] = [formula(call)]
    for part in ("reads", "writes", "updates"):
        traffic = getattr(rule, part)
        if traffic is not None:
            found[part] = list(traffic(call))
    return found


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_rule_never_casts_a_dimension(row: Row) -> None:
    rule = cost_rule_of(row.kind)
    assert rule is not None
    call, sizes = symbolic(row)
    plain = Call(
        [None if shape is None else Value(shape) for shape in row.inputs],
        [Value(shape) for shape in row.outputs],
        row.attrs,
    )
    with_symbols = formulas(rule, call)
    evaluated = {part: [value_of(each, sizes) for each in column] for part, column in with_symbols.items()}
    assert evaluated == formulas(rule, plain)


def test_symbols_refuse_to_be_numbers() -> None:
    symbol = Symbol.named("n")
    for cast in (int, float, bool, range, [1, 2].__getitem__, hash):
        with pytest.raises(TypeError):
            cast(symbol)
    for compare in ("__lt__", "__gt__", "__le__", "__ge__"):
        with pytest.raises(TypeError):
            getattr(symbol, compare)(2)
    with pytest.raises(TypeError):
        _ = symbol == 2
    assert value_of((3 * symbol - 1) // 2 + symbol**2, {"n": 5}) == 32
