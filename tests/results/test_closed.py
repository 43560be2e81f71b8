"""Closed forms as text: their validity, and lines that break between terms."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import sizeup
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError
from sizeup.graph import GraphBuilder
from sizeup.results.closed_forms import ClosedForms
from sizeup.symbolic import Assumptions, Guard, Specialization, SymbolicGraph, assuming, size

FLOAT = dtype("float32")


def _read(example: Mapping[str, int]) -> Specialization:
    """A product of n rows; more than 8 of them are first added to themselves."""
    assumptions = Assumptions(example)
    builder = GraphBuilder("choosy", "made")
    rows = size("rows")
    data = builder.input("data", (rows, 4), FLOAT)  # type: ignore[arg-type]  # a symbolic dimension
    weight = builder.input("weight", (4, 6), FLOAT)
    with assuming(assumptions):
        if rows > 8:
            summed = builder.tensor("summed", (rows, 4), FLOAT)  # type: ignore[arg-type]  # the same
            builder.op("add", [data, data], [summed], name="sum")
            data = summed
    product = builder.tensor("made", (rows, 6), FLOAT)  # type: ignore[arg-type]  # the same
    builder.op("matmul", [data, weight], [product], {"contracted": (-1,)}, name="product", scope="head")
    builder.outputs.append(product)
    return Specialization(builder.freeze(), example, dict(assumptions.guard_sources))


@pytest.fixture
def choosy() -> SymbolicGraph:
    return SymbolicGraph(("rows",), {"rows": 10}, _read)


def test_each_side_of_a_branch_is_read_once_and_every_point_is_exact(choosy: SymbolicGraph) -> None:
    counts = sizeup.count(choosy).at(rows=[1, 8, 9, 100, 8])
    assert counts.macs.tolist() == [24, 192, 216, 2400, 192]
    assert counts.elementwise_ops.tolist() == [0, 0, 36, 400, 0]
    assert choosy.load_count == 2


def test_no_points_need_no_reading(choosy: SymbolicGraph) -> None:
    counts = sizeup.count(choosy).at(rows=[])
    assert counts.macs.tolist() == []
    assert choosy.load_count == 1


def test_formulas_tell_where_they_hold(choosy: SymbolicGraph) -> None:
    forms = sizeup.explain(choosy)
    assert isinstance(forms, ClosedForms)
    assert dict(forms.totals)["MACs"] == "24 * rows"
    assert dict(forms.totals)["elementwise"] == "4 * rows"
    assert forms.validity == (("valid for", "rows >= 9"),)
    assert [(op.name, op.macs) for op in forms.ops] == [("sum", "0"), ("head", "24 * rows")]
    assert "  MACs                   = 24 * rows\n" in str(forms)


def test_bytes_are_priced_at_a_precision(choosy: SymbolicGraph) -> None:
    totals = dict(sizeup.explain(choosy, precision="int8").totals)
    assert totals["written bytes at int8"] == "10 * rows"
    with pytest.raises(SizeupError, match="closed forms need a single precision"):
        sizeup.explain(choosy, precision={"head": "int8"})


def test_neither_an_operator_nor_free_dimensions_is_refused(choosy: SymbolicGraph) -> None:
    with pytest.raises(SizeupError, match="give an operator to explain"):
        sizeup.explain(choosy.at(rows=3))


def test_a_reading_that_does_not_hold_at_its_own_example_is_a_fault() -> None:
    def read(example: Mapping[str, int]) -> Specialization:
        return Specialization(_read(example).graph, example, {Guard("==", size("rows") - 10): "an op"})

    free = SymbolicGraph(("rows",), {"rows": 10}, read)
    with pytest.raises(SizeupError, match="do not hold there"):
        free.at(rows=3)
