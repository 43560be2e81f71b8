"""What people read: the console at several widths, Markdown, and what Python shows of a report."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import sizeup
from blessed import assert_golden
from networks import FLOAT, chain, looping, three_convolutions, tied_embedding, with_unknown
from sizeup.errors import SizeupError
from sizeup.graph import Graph, GraphBuilder, RecordedRun
from sizeup.render.console.columns import shortened
from sizeup.render.console.report import render
from sizeup.render.markdown import lines
from sizeup.results.table import build_table


def printed(graph: Graph, width: int, precision: str | None = None, **view_options: Any) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    render(sizeup.analyze(graph, precision=precision), console, **view_options)
    return buffer.getvalue()


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("graph", [three_convolutions(), with_unknown()], ids=lambda graph: graph.name)
def test_console_report_is_kept(graph: Graph, width: int) -> None:
    assert_golden(f"{graph.name}.{width}.txt", printed(graph, width))


def test_markdown_report_is_kept() -> None:
    assert_golden("with_unknown.md", "".join(lines(sizeup.analyze(with_unknown()))))


@pytest.mark.parametrize("width", [60, 80, 100, 160, 250])
@pytest.mark.parametrize("by", ["op", "module", "kind"])
@pytest.mark.parametrize(
    "graph",
    [three_convolutions(), with_unknown(), tied_embedding(), looping(None), chain(300)],
    ids=lambda graph: graph.name,
)
def test_no_line_is_wider_than_the_terminal(graph: Graph, by: str, width: int) -> None:
    for line in printed(graph, width, by=by).splitlines():
        assert cell_len(line.rstrip()) <= width, line


def test_macs_and_flops_stand_side_by_side_and_exact() -> None:
    text = printed(three_convolutions(), 80)
    assert "3.28 M (3,276,800) multiply-accumulates" in text
    assert "6.55 M (6,553,600) at 2 per MAC" in text


def test_receipt_says_all_or_names_what_is_missing() -> None:
    assert "3 of 3 operators counted\n" in printed(three_convolutions(), 80)
    text = printed(with_unknown(), 80)
    assert "1 of 3 operators counted; the totals are incomplete" in text
    assert "1 x mylib.fancy: no cost rule for mylib.fancy" in text
    assert "--rules" in text
    assert "884,736) multiply-accumulates, incomplete" in text


def test_total_of_nothing_known_is_unknown_not_zero() -> None:
    builder = GraphBuilder("opaque")
    x = builder.input("x", (1,), FLOAT)
    builder.op("mylib.fancy", [x], [builder.tensor("y", (1,), FLOAT)])
    text = printed(builder.freeze(), 80)
    assert "MACs         unknown\n" in text
    assert "FLOPs        unknown\n" in text


def test_unknown_row_shows_a_question_mark_not_a_zero() -> None:
    row = next(line for line in printed(with_unknown(), 80).splitlines() if line.startswith("1  "))
    assert "?" in row.split()


def test_precision_is_stated() -> None:
    assert "int8" in printed(three_convolutions(), 80, "int8")
    assert "int8" not in printed(three_convolutions(), 80)


def test_names_cannot_steer_the_terminal() -> None:
    builder = GraphBuilder("evil\x1b[2Jname")
    x = builder.input("in[red]put\x07", (1,), FLOAT)
    y = builder.tensor("y\r\n", (1,), FLOAT)
    builder.op("relu", [x], [y], name="\x1b]0;title\x07")
    text = printed(builder.freeze(), 80)
    assert not set(text) & set("\x1b\x07\r")
    assert "in[red]put" in text


def test_table_without_macs_has_no_share() -> None:
    text = printed(chain(3), 80)
    assert "share" not in text
    assert "NaN" not in text


def test_empty_model_prints_its_headline() -> None:
    assert "0 of 0 operators counted" in printed(GraphBuilder("nothing").freeze(), 80)


def test_ascii_terminal_gets_ascii() -> None:
    buffer = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    builder = GraphBuilder("long")
    x = builder.input("x", (1,), FLOAT)
    builder.op("relu", [x], [builder.tensor("y" * 90, (1,), FLOAT)])
    render(sizeup.analyze(builder.freeze()), Console(file=buffer, width=80))
    buffer.flush()
    buffer.seek(0)
    assert "..." in buffer.read()


def test_few_operators_are_shown_one_by_one_and_many_by_module() -> None:
    assert build_table(sizeup.analyze(chain(40))).by == "op"
    shown = build_table(sizeup.analyze(chain(200)))
    assert (shown.by, len(shown.entries)) == ("module", 20)


def test_depth_is_cut_so_that_a_table_fits_a_screen() -> None:
    assert [entry.label for entry in build_table(sizeup.analyze(chain(2000)), "module").entries] == ["block"]


def test_single_module_around_everything_is_opened() -> None:
    shown = build_table(sizeup.analyze(chain(2000)))
    assert (shown.by, shown.depth, len(shown.entries)) == ("module", 2, 30)
    assert shown.rest is not None
    assert shown.rest.ops == 2000 - 30 * 10


def test_model_without_modules_shows_its_costliest_operators() -> None:
    builder = GraphBuilder("flat")
    x = builder.input("x", (1, 1), FLOAT)
    for index in range(100):
        y = builder.tensor(f"y{index}", (1, index + 1), FLOAT)
        builder.op("relu", [x], [y])
        x = y
    shown = build_table(sizeup.analyze(builder.freeze()))
    assert [entry.index for entry in shown.entries[:3]] == [99, 98, 97]
    assert len(shown.entries) == 30
    assert shown.rest is not None
    assert shown.rest.label == "(70 more operators)"


@pytest.mark.parametrize("top", [1, 2, 3, 99])
def test_rows_left_out_are_added_up(top: int) -> None:
    for by in ("op", "module", "kind"):
        shown = build_table(sizeup.analyze(three_convolutions()), by, None, top)
        rows = [*shown.entries, *([shown.rest] if shown.rest else [])]
        assert sum(row.macs or 0 for row in rows) == 3_276_800
        assert sum(row.params for row in rows) == 3_200
        assert len(shown.entries) <= top


def test_top_shows_the_costliest_first() -> None:
    shown = build_table(sizeup.analyze(three_convolutions()), top=2)
    assert [entry.label for entry in shown.entries] == ["body.pointwise", "stem.conv"]


def test_what_computes_nothing_is_ordered_by_what_it_moves() -> None:
    builder = GraphBuilder("moves")
    for size in (10, 30, 20):
        x = builder.input(f"x{size}", (size,), FLOAT)
        builder.op("copy", [x], [builder.tensor(f"y{size}", (size,), FLOAT)])
    shown = build_table(sizeup.analyze(builder.freeze()), "op", top=2)
    assert [entry.label for entry in shown.entries] == ["y30", "y20"]


def test_depth_goes_with_modules_only() -> None:
    with pytest.raises(SizeupError, match="a depth applies to modules"):
        build_table(sizeup.analyze(three_convolutions()), "kind", 2)


def test_long_names_are_cut_where_they_still_differ() -> None:
    names = [f"encoder.layers.encoder_layer_{i}.self_attention" for i in range(9)]
    cut = shortened(names, 26, "~")
    assert len(set(cut)) == 9
    assert {len(each) for each in cut} == {26}
    assert shortened(["short", "a" * 30], 10, "~") == ["short", "aaaaa~aaaa"]


def test_markdown_cells_cannot_break_the_table() -> None:
    builder = GraphBuilder("a|b<script>")
    x = builder.input("x", (1,), FLOAT)
    builder.op("relu", [x], [builder.tensor("y|z", (1,), FLOAT)])
    text = "".join(lines(sizeup.analyze(builder.freeze())))
    assert "<script>" not in text
    rows = [line for line in text.splitlines() if line.startswith("| 0")]
    assert rows[0].count("|") - rows[0].count("\\|") == text.splitlines()[-1].count("|")


def test_repr_is_a_few_plain_lines() -> None:
    text = repr(sizeup.analyze(with_unknown()))
    assert text.splitlines()[0] == "Report on with_unknown (torch)"
    assert len(text.splitlines()) == 5 + 1  # and its note
    assert "1 of 3 operators counted" in text


def test_notebook_table_escapes_names() -> None:
    builder = GraphBuilder("<script>alert(1)</script>")
    html = sizeup.analyze(builder.freeze())._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert sizeup.analyze(three_convolutions())._repr_html_().count("<tr>") == 9 + 1 + 3 + 1


def recurrent() -> Graph:
    """One operator that takes what is not known, as torch ran it."""
    builder = GraphBuilder("recurrent", "torch")
    x, y = builder.input("x", (50, 64), FLOAT), builder.tensor("y", (50, 128), FLOAT)
    attrs = {"rows": (50,), "matrices": (), "units": 128}
    builder.op("lstm", [x], [y], attrs, source="aten.lstm", name="lstm")
    builder.outputs.append(y)
    builder.run = RecordedRun((0, 1), (0, 0))
    return builder.freeze()


def test_a_peak_without_what_kernels_take_is_called_a_lower_bound() -> None:
    shown = " ".join(printed(recurrent(), 160).split())
    assert "memory at least 37.5 KiB peak activation memory" in shown
    assert "excluded workspace of lstm, size unknown" in shown
    assert "at least 37.5 KiB peak activation memory" in repr(sizeup.analyze(recurrent()))
    assert sizeup.analyze(recurrent()).to_dict()["memory"]["unmodeled_kernels"] == ["aten.lstm"]


def test_a_plan_of_code_says_how_it_counts() -> None:
    assert any(
        "sizeup analyze reports the peak of an eager run" in note for note in sizeup.plan(recurrent()).notes
    )
    assert not sizeup.plan(three_convolutions()).notes
