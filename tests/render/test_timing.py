"""Beside a latency: on how many cores, and whether the runtime takes such a file at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from networks import three_convolutions, with_unknown
from sizeup.render.console.columns import table_text
from sizeup.render.console.latency import latency_lines
from sizeup.results.report import details_of
from sizeup.results.table import By, build_table


def text_of(format: str, target: str) -> str:
    estimate = sizeup.estimate(replace(three_convolutions(), format=format), target)
    return "\n".join(f"{label}: {text}" for label, text in latency_lines(details_of(estimate)))


def test_data_sheet_counts_all_cores_and_says_so() -> None:
    assert "on rpi5/ort, all 4 cores" in text_of("onnx", "rpi5/ort")
    assert "core" not in text_of("torch", "rtx4090").partition("\n")[0]


@pytest.mark.parametrize("is_known", [True, False])
def test_energy_is_at_most_that_at_the_design_power_if_all_operators_have_a_latency(
    is_known: bool, tmp_path: Path
) -> None:
    graph = three_convolutions() if is_known else with_unknown()
    report = sizeup.analyze(graph, target="rtx-4090/torch-eager")
    for name in ("report.md", "report.html"):
        report.save(tmp_path / name)
        text = (tmp_path / name).read_text("utf-8")
        _, _, energy = text.partition("| energy |" if name.endswith("md") else "<dt>Energy</dt>")
        line = energy.partition("from the design power")[0]
        assert line
        assert ("at most" in line) is is_known
        assert ("without operators of unknown latency" in line) is not is_known


def test_fit_says_on_how_many_threads_it_was_measured() -> None:
    assert "on rpi5/ncnn, 4 threads" in text_of("onnx", "rpi5/ncnn")


@pytest.mark.parametrize(
    ("format", "target", "remarked"),
    [
        ("tflite", "rpi5/ort", True),
        ("onnx", "rpi5/litert", True),
        ("onnx", "rpi5/ort", False),
        ("tflite", "rpi5/litert", False),
        ("torch", "rpi5/ort", False),  # code can be exported
        ("onnx", "rpi5/ncnn", False),  # has its own format, which others are converted to
    ],
)
def test_file_that_the_runtime_does_not_read_is_remarked(format: str, target: str, remarked: bool) -> None:
    assert (f"does not read .{format} files" in text_of(format, target)) == remarked


@pytest.mark.parametrize("top", [None, 1])
@pytest.mark.parametrize("by", ["op", "module", "kind", "precision"])
def test_times_of_the_rows_add_up_to_that_of_a_pass(by: By, top: int | None) -> None:
    """The per-inference overhead is a separate row, without an operator."""
    report = sizeup.analyze(three_convolutions(), target="rtx3090", precision="fp16", basis="calibrated")
    assert report.latency is not None
    start = report.latency.overhead_seconds
    assert start > 0
    shown = build_table(report, by, top=top)
    *rows, total = shown.rows
    assert sum(row.seconds or 0.0 for row in rows) == pytest.approx(total.seconds, rel=1e-12)
    assert total.seconds == report.latency.seconds
    assert [row.seconds for row in rows if row.label == "(per-inference overhead)"] == [start]
    of_operators = sum(each.ms or 0.0 for each in report.ops) / 1e3
    assert of_operators + start == pytest.approx(total.seconds)


@pytest.mark.parametrize(("target", "is_shown"), [("rpi5/ort", True), ("stm32f746/tflm-cmsis-nn", False)])
def test_bounds_are_shown_if_memory_takes_time_too(target: str, is_shown: bool, shared: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    report = sizeup.analyze(shared / "models" / "mlperf_kws_int8.tflite", target=target)
    text = table_text(build_table(report, "op", None, None), None).plain
    assert ("bound by" in text) is is_shown
    assert "nothing" not in text
