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


def check(found: sizeup.Comparison) -> None:
    """Nothing is unexplained, and each product stands for the one at the same place of the other model."""
    assert found.a.totals.macs == found.b.totals.macs == MACS
    assert found.unexplained_macs == 0
    assert found.differences.unexplained_rows == ()
    assert all(row.macs == 0 for row in found.rows)
    ours, theirs = products(found.a), products(found.b)
    expected = dict(zip(ours, theirs, strict=True))
    for row in found.rows:
        assert [expected[op] for op in row.a if op in expected] == [op for op in row.b if op in theirs]


def kinds(found: sizeup.Comparison) -> Counter[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return Counter((row.status, row.kinds_a, row.kinds_b) for row in found.rows)


@pytest.mark.parametrize("newer", [True, False])
def test_onnx_export_folds_norms_and_drops_dropout(newer: bool) -> None:
    found = sizeup.compare(from_torch(), from_onnx(newer))
    check(found)
    told = kinds(found)
    assert told["fused", ("conv", "batch_norm"), ("conv",)] == CONVOLUTIONS
    assert told["removed", ("identity",), ()] == 1
    assert told["same", ("relu6",), ("clamp",)] == ACTIVATED
    assert told["same", ("add",), ("add",)] == RESIDUALS
    assert {row.status for row in found.rows} == {"fused", "removed", "same"}
    assert found.differences.params_by_status["fused"] == -CHANNELS


def test_tflite_file_has_activations_inside_and_padding_apart(shared: Path) -> None:
    found = sizeup.compare(from_torch(), from_tflite(shared))
    check(found)
    told = kinds(found)
    assert told["fused", ("conv", "batch_norm", "relu6"), ("conv (relu6)",)] == ACTIVATED
    assert told["fused", ("conv", "batch_norm"), ("conv",)] == CONVOLUTIONS - ACTIVATED
    # The stem and seventeen depthwise convolutions pad; the file's input has channels first.
    assert told["added", (), ("pad",)] == 18
    assert told["added", (), ("transpose",)] == 1
    assert told["removed", ("identity",), ()] == 1
    pads = [row for row in found.rows if row.kinds_b == ("pad",)]
    assert all("the other model has within" in row.why for row in pads)
    assert found.differences.params_by_status["fused"] == -CHANNELS
    types = {(each.before, each.after) for row in found.rows for each in row.changes if each.column == "type"}
    assert types == {("fp32", "int8")}


def test_onnx_against_tflite(shared: Path) -> None:
    found = sizeup.compare(from_onnx(True), from_tflite(shared))
    check(found)
    told = kinds(found)
    assert told["fused", ("conv", "clamp"), ("conv (relu6)",)] == ACTIVATED
    assert told["added", (), ("pad",)] == 18


def test_every_format_equals_itself(shared: Path) -> None:
    for report in (from_torch(), from_onnx(True), from_tflite(shared)):
        found = sizeup.compare(report, report)
        assert set(found.counts) == {"same"}
        assert all(row.a == row.b for row in found.rows)
        assert found.headline.startswith("B does not differ from A")


def test_smaller_input_changes_sizes_alone() -> None:
    smaller = sizeup.analyze(module(), inputs=((1, 3, 192, 192),))
    found = sizeup.compare(from_torch(), smaller)
    assert found.unexplained_macs == 0
    assert set(found.counts) == {"same", "changed"}
    assert all(row.a == row.b for row in found.rows)
    # All but the last layer see a picture of (192 / 224)^2 = 36 / 49 of the places.
    assert smaller.totals.macs - 1_280_000 == (MACS - 1_280_000) * 36 // 49
    assert found.differences.explained_macs["changed"] == smaller.totals.macs - MACS


def test_attention_taken_apart_is_one_row_a_layer() -> None:
    import torch

    from formats.onnx.exporting import by_export

    with torch.no_grad():
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        network = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    inputs = (torch.zeros(1, 10, 32),)
    found = sizeup.compare(
        sizeup.analyze(network, inputs=inputs), sizeup.analyze(by_export(network, inputs, optimize=False))
    )
    assert found.a.totals.macs == found.b.totals.macs > 0
    assert found.unexplained_macs == 0
    assert all(row.macs == 0 for row in found.rows)
    apart = [row for row in found.rows if "softmax" in row.kinds_b]
    assert len(apart) == 3
    assert {row.status for row in apart} == {"split"}
