"""The page of worked examples: one per op kind, from the rows that test the cost rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from documentation.links import ROOT
from documentation.tables import table
from sizeup.ops import OpRule, cost_rules

if TYPE_CHECKING:
    from ops.rows import Row

_HEAD = """\
# Worked examples of operators

One example per op kind: shapes of its inputs and outputs, and its cost in MACs, elementwise operations, and
elements read and written. The numbers were computed by hand, and `tests/ops/test_rules.py` compares them with
the [cost rules](../operators.md). `-` is an omitted input, `()` a scalar. Control flow has no row: it costs
what its bodies cost.
"""


def examples() -> dict[str, Row]:
    """The first row of each op kind."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from ops.linalg_rows import LINALG
        from ops.rows import ROWS
    finally:
        sys.path.pop(0)
    return {row.kind: row for row in reversed((*ROWS, *LINALG))}


def page() -> Iterator[str]:
    """The page: a table per family."""
    yield _HEAD
    rows = examples()
    families: dict[str, list[OpRule]] = {}
    for rule in sorted(cost_rules(), key=lambda rule: (rule.family, rule.kind)):
        if rule.kind in rows:
            families.setdefault(rule.family, []).append(rule)
    head = ("op kind", "cost rule", "example", "MACs", "elementwise", "read", "written")
    for family, rules in families.items():
        yield f"\n## {family}\n"
        yield from table(head, (_cells(rule, rows[rule.kind]) for rule in rules), "lllrrrr")


def _cells(rule: OpRule, row: Row) -> tuple[str, ...]:
    settings = "".join(f", `{name}={value!r}`" for name, value in row.attrs.items())
    example = f"{_shapes(row.inputs)} → {_shapes(row.outputs)}{settings}"
    costs = (row.macs, row.elementwise, sum(row.reads), sum(row.writes))
    return f"`{rule.kind}`", rule.summary, example, *(f"{cost:,}" for cost in costs)


def _shapes(shapes: Sequence[tuple[int, ...] | None]) -> str:
    return ", ".join("-" if shape is None else "x".join(map(str, shape)) or "()" for shape in shapes)
