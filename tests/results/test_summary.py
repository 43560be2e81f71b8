from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from networks import FLOAT, chain, looping, three_convolutions, tied_embedding, with_unknown
from sizeup.cost import count
from sizeup.dtypes import precision
from sizeup.graph import Graph, GraphBuilder
from sizeup.results.report import Report, report_of
from sizeup.results.rows import Group, OpRow


def report(graph: Graph, at: str | None = None) -> Report:
    return report_of(graph, count(graph), precision(at) if at else None)


def test_totals_are_those_worked_out_by_hand() -> None:
    totals = report(three_convolutions()).totals
    assert (totals.macs, totals.flops, totals.params) == (3_276_800, 6_553_600, 3_200)
    assert totals.weight_bytes == 3_200 * 4
    # read: inputs 12,288 + 32,768 + 32,768 and 3,200 weights; written: 32,768 + 32,768 + 65,536
    assert (totals.read_bytes, totals.written_bytes) == (4 * 81_024, 4 * 131_072)


def test_precision_prices_bytes_and_leaves_counts_alone() -> None:
    stored, int4 = report(three_convolutions()), report(three_convolutions(), "int4")
    assert int4.totals.macs == stored.totals.macs
    assert int4.totals.read_bytes == stored.totals.read_bytes // 8
    assert int4.totals.weight_bytes == 1_600
    assert {row.precision for row in int4.ops} == {"int4"}
    assert {row.precision for row in stored.ops} == {"fp32"}


def test_indices_keep_their_type_at_any_precision() -> None:
    # 128 indices of 8 bytes, 128 rows of 256 numbers at 2 bytes
    row = report(tied_embedding(), "fp16").ops[0]
    assert row.read_bytes == 128 * 8 + 128 * 256 * 2


def test_precision_of_a_row_is_that_of_what_is_priced() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (3,), FLOAT)
    from sizeup.dtypes import dtype

    mask = builder.tensor("mask", (3,), dtype("bool"))
    builder.op("compare", [x], [mask])
    view = builder.tensor("view", (3, 1), FLOAT)
    builder.op("view", [x], [view])
    rows = report(builder.freeze(), "int8").ops
    assert [row.precision for row in rows] == ["bool", "int8"]


def test_complete_model_has_full_coverage() -> None:
    summary = report(three_convolutions())
    assert summary.coverage == 1.0
    assert summary.unknown_ops == ()


def test_unknown_op_is_reported_not_free() -> None:
    summary = report(with_unknown())
    assert summary.coverage == pytest.approx(1 / 3)
    assert {(each.op_kind, each.count) for each in summary.unknown_ops} == {("mylib.fancy", 1), ("relu", 1)}
    row = summary.ops[1]
    assert not row.known
    assert row.macs is None
    assert row.flops is None
    assert row.elementwise_ops is None
    assert row.intensity is None
    assert row.reason == "no cost rule for mylib.fancy"


def test_op_of_unknown_shape_shows_no_zero_bytes() -> None:
    row = report(with_unknown()).ops[2]
    assert row.written_bytes is None
    assert row.reason is not None
    assert "depends on data" in row.reason


def test_part_that_is_known_stays_beside_known_false() -> None:
    row = report(looping(None)).ops[0]
    assert (row.known, row.macs) == (False, 64)
    assert report(looping(None)).totals.macs == 64
    assert report(looping(7)).ops[0].macs == 448


def test_shared_parameters_count_once() -> None:
    summary = report(tied_embedding())
    assert summary.totals.params == 256_000
    assert [row.params for row in summary.ops] == [256_000, 0]
    assert summary.totals.macs == 32_768_000


def test_intensity_is_flops_for_each_byte() -> None:
    first = report(three_convolutions()).ops[0]
    assert first.intensity == 2 * 884_736 / (4 * (12_288 + 864 + 32_768))


def test_modules_are_cut_at_the_asked_depth() -> None:
    summary = report(three_convolutions())
    assert [(row.module, row.ops, row.macs) for row in summary.by_module(1)] == [
        ("stem", 1, 884_736),
        ("body", 2, 2_392_064),
    ]
    assert [row.module for row in summary.by_module()] == ["stem.conv", "body.depthwise", "body.pointwise"]


def test_scopes_with_slashes_keep_their_dots() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (3,), FLOAT)
    y = builder.tensor("y", (3,), FLOAT)
    builder.op("relu", [x], [y], scope="/layer1/layer1.0/relu")
    summary = report(builder.freeze())
    assert [row.module for row in summary.by_module(2)] == ["layer1/layer1.0"]


def test_tree_holds_every_module_with_what_is_inside_it() -> None:
    tree = {row.module: row for row in report(three_convolutions()).module_tree()}
    assert tree[""].macs == 3_276_800
    assert tree["body"].macs == tree["body.depthwise"].macs + tree["body.pointwise"].macs == 2_392_064


def test_parameters_that_no_operator_uses_have_a_row_of_their_own() -> None:
    summary = report(with_unknown())
    for rows in (
        summary.by_op_kind(),
        summary.by_module(),
        summary.by_module_and_op_kind(),
        summary.module_tree(),
    ):
        unused = [row for row in rows if row.module == "(unused parameters)"]
        assert [(row.params, row.ops, row.macs) for row in unused] == [(10, 0, 0)]


def test_kinds_come_with_the_costliest_first() -> None:
    summary = report(tied_embedding())
    assert [row.op_kind for row in summary.by_op_kind()] == ["matmul", "embedding"]
    both = summary.by_module_and_op_kind()
    assert [(row.module, row.op_kind) for row in both] == [("embedding", "embedding"), ("head", "matmul")]


def test_rows_can_be_sliced_and_counted_from_the_end() -> None:
    rows = report(three_convolutions()).ops
    assert [row.index for row in rows[1:]] == [1, 2]
    assert rows[-1].index == 2
    with pytest.raises(IndexError, match=r"out of range \(0 to 2\)"):
        rows[3]


def test_rows_of_a_large_graph_are_made_only_when_asked_for() -> None:
    cost = count(chain(100_000))
    summary = report_of(cost.graph, cost)
    tracemalloc.start()
    assert summary.totals.elementwise_ops == 1_000_000
    assert summary.ops[99_999].name == "y99999"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 100,000 rows of 14 fields take over 20 MB; sums of the columns that are there, and one row, take few.
    assert peak < 7_000_000
    assert len(summary.by_module(2)) == 10_000


def test_cost_of_another_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="another graph"):
        report_of(chain(1), count(chain(1)))


_SCOPES = st.sampled_from(["", "a", "a.b", "a.b.c", "b", "/a/b.c"])
_KINDS = st.sampled_from(["relu", "matmul", "view", "softmax", "nobody.knows", "shapeless"])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains of operators, known and unknown, with shared, unused and ordinary parameters."""
    from sizeup.graph import Constant

    builder = GraphBuilder("drawn")
    x = builder.input("x", (4, 4), FLOAT)
    weights = [builder.tensor(f"w{i}", (4, 4), FLOAT, Constant("parameter")) for i in range(3)]
    for index, kind in enumerate(draw(st.lists(_KINDS, max_size=12))):
        shapeless = kind == "shapeless"
        y = builder.tensor(f"y{index}", None if shapeless else (4, 4), FLOAT)
        inputs = [x, draw(st.sampled_from(weights))] if kind == "matmul" else [x]
        kind = "relu" if shapeless else kind
        builder.op(kind, inputs, [y], {"contracted": (1,)}, scope=draw(_SCOPES))
        x = x if shapeless else y
    return builder.freeze()


def _sums(rows: Iterable[Group] | Iterable[OpRow]) -> dict[str, int]:
    names = ("macs", "elementwise_ops", "params", "read_bytes", "written_bytes")
    return {name: sum(getattr(row, name) or 0 for row in rows) for name in names}


@given(graphs(), st.sampled_from([None, "int8", "fp16"]))
def test_every_roll_up_adds_up_to_the_totals(graph: Graph, at: str | None) -> None:
    summary = report(graph, at)
    expected = {name: getattr(summary.totals, name) for name in _sums([])}
    for rows in (
        summary.by_op_kind(),
        summary.by_module(),
        summary.by_module(1),
        summary.by_module_and_op_kind(1),
    ):
        assert _sums(rows) == expected
        assert sum(row.ops for row in rows) == len(graph.ops)
        assert sum(row.unknown_ops for row in rows) == len(graph.ops) - summary.known_ops
    unused = sum(row.params for row in summary.by_op_kind() if row.op_kind == "(unused parameters)")
    rows_sum = _sums(summary.ops)
    assert {**rows_sum, "params": rows_sum["params"] + unused} == expected
    assert _sums([summary.module_tree()[0]]) == expected


def test_memory_gives_its_figures_by_name() -> None:
    memory = report(three_convolutions()).memory
    # The last convolution: 32 x 32 x 32 numbers in, 64 x 32 x 32 out.
    assert memory.peak_bytes == memory.usage.peak_bytes == (32 + 64) * 1024 * 4
    assert (memory.best_peak_bytes, memory.arena_bytes) == (None, None)
    assert repr(memory) == "<Memory: peak 393,216 B>"
    unknown = report(with_unknown()).memory
    assert unknown.peak_bytes is None
    assert repr(unknown) == "<Memory: the size of 1 tensor depends on data>"


def test_a_printed_report_tells_the_peak() -> None:
    assert "\n  384 KiB peak activation memory\n" in repr(report(three_convolutions()))
    assert "\n  memory unknown: the size of 1 tensor depends on data\n" in repr(report(with_unknown()))
