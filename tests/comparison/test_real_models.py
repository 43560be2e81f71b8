"""mobilenet_v2 in three formats: what converters did to it is found, and no MAC is left unexplained."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sizeup

pytestmark = pytest.mark.extras

MACS = 300_774_272
CHANNELS = 17_056  # of all batch norms: what folding leaves out for each is one number of two
CONVOLUTIONS, ACTIVATED, RESIDUALS = 52, 35, 10


@cache
def module() -> Any:
    from formats.onnx.exporting import with_distinct_weights
    from sizeup.formats.torch.zoo import import_torchvision

    library = import_torchvision()
    if library is None:
        pytest.skip("torchvision is not installed")
    return with_distinct_weights(library.models.mobilenet_v2()).eval()


@cache
def from_torch() -> sizeup.Report:
    return sizeup.analyze(module(), inputs=((1, 3, 224, 224),))


@cache
def from_onnx(newer: bool = True) -> sizeup.Report:
    import torch

    from formats.onnx.exporting import by_export, by_tracing

    export = by_export if newer else by_tracing
    return sizeup.analyze(export(module(), (torch.zeros(1, 3, 224, 224),)))


@cache
def from_tflite(shared: Path) -> sizeup.Report:
    pytest.importorskip("ai_edge_litert")
    return sizeup.analyze(shared / "models" / "tflm_mobilenetv2_224.tflite")


def products(report: sizeup.Report) -> list[int]:
    """Convolutions and matrix products in the order in which they run."""
    return [index for index, op in enumerate(report.graph.ops) if op.kind in ("conv", "matmul")]


def check(comparison: sizeup.Comparison) -> None:
    """Nothing is unexplained, and each product stands for the one at the same place of the other model."""
    assert comparison.a.totals.macs == comparison.b.totals.macs == MACS
    assert comparison.unexplained_macs == 0
    assert comparison.differences.unexplained_rows == ()
    assert all(row.macs == 0 for row in comparison.rows)
    ours, theirs = products(comparison.a), products(comparison.b)
    expected = dict(zip(ours, theirs, strict=True))
    for row in comparison.rows:
        assert [expected[op] for op in row.a if op in expected] == [op for op in row.b if op in theirs]


def kinds(comparison: sizeup.Comparison) -> Counter[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return Counter((row.status, row.a_op_kinds, row.b_op_kinds) for row in comparison.rows)


@pytest.mark.parametrize("newer", [True, False])
def test_onnx_export_folds_norms_and_drops_dropout(newer: bool) -> None:
    comparison = sizeup.compare(from_torch(), from_onnx(newer))
    check(comparison)
    counts = kinds(comparison)
    assert counts["fused", ("conv", "batch_norm"), ("conv",)] == CONVOLUTIONS
    assert counts["removed", ("identity",), ()] == 1
    assert counts["same", ("relu6",), ("clamp",)] == ACTIVATED
    assert counts["same", ("add",), ("add",)] == RESIDUALS
    assert {row.status for row in comparison.rows} == {"fused", "removed", "same"}
    assert comparison.differences.params_by_status["fused"] == -CHANNELS


def test_tflite_file_has_activations_inside_and_padding_apart(shared: Path) -> None:
    comparison = sizeup.compare(from_torch(), from_tflite(shared))
    check(comparison)
    counts = kinds(comparison)
    assert counts["fused", ("conv", "batch_norm", "relu6"), ("conv (relu6)",)] == ACTIVATED
    assert counts["fused", ("conv", "batch_norm"), ("conv",)] == CONVOLUTIONS - ACTIVATED
    # The stem and seventeen depthwise convolutions pad; the file's input has channels first.
    assert counts["added", (), ("pad",)] == 18
    assert counts["added", (), ("transpose",)] == 1
    assert counts["removed", ("identity",), ()] == 1
    pads = [row for row in comparison.rows if row.b_op_kinds == ("pad",)]
    assert all("the other model fuses into the next op" in row.reason for row in pads)
    assert comparison.differences.params_by_status["fused"] == -CHANNELS
    types = {
        (each.before, each.after)
        for row in comparison.rows
        for each in row.changes
        if each.column == "precision"
    }
    assert types == {("fp32", "int8")}


def test_onnx_against_tflite(shared: Path) -> None:
    comparison = sizeup.compare(from_onnx(True), from_tflite(shared))
    check(comparison)
    counts = kinds(comparison)
    assert counts["fused", ("conv", "clamp"), ("conv (relu6)",)] == ACTIVATED
    assert counts["added", (), ("pad",)] == 18


def test_every_format_equals_itself(shared: Path) -> None:
    for report in (from_torch(), from_onnx(True), from_tflite(shared)):
        comparison = sizeup.compare(report, report)
        assert set(comparison.counts) == {"same"}
        assert all(row.a == row.b for row in comparison.rows)
        assert comparison.headline.startswith("B does not differ from A")


def test_smaller_input_changes_sizes_alone() -> None:
    smaller = sizeup.analyze(module(), inputs=((1, 3, 192, 192),))
    comparison = sizeup.compare(from_torch(), smaller)
    assert comparison.unexplained_macs == 0
    assert set(comparison.counts) == {"same", "changed"}
    assert all(row.a == row.b for row in comparison.rows)
    # All but the last layer see a picture of (192 / 224)^2 = 36 / 49 of the places.
    assert smaller.totals.macs - 1_280_000 == (MACS - 1_280_000) * 36 // 49
    assert comparison.differences.explained_macs["changed"] == smaller.totals.macs - MACS


def test_attention_taken_apart_is_one_row_a_layer() -> None:
    import torch

    from formats.onnx.exporting import by_export

    with torch.no_grad():
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        network = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    inputs = (torch.zeros(1, 10, 32),)
    comparison = sizeup.compare(
        sizeup.analyze(network, inputs=inputs), sizeup.analyze(by_export(network, inputs, optimize=False))
    )
    assert comparison.a.totals.macs == comparison.b.totals.macs > 0
    assert comparison.unexplained_macs == 0
    assert all(row.macs == 0 for row in comparison.rows)
    apart = [row for row in comparison.rows if "softmax" in row.b_op_kinds]
    assert len(apart) == 3
    assert {row.status for row in apart} == {"split"}
