"""Overlays against the graphs that Model Explorer's own adapters make of the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sizeup
from explorer import explored, onnx_files
from networks import three_convolutions
from sizeup.errors import SizeupError
from sizeup.results.rows import OpRow

pytestmark = pytest.mark.extras

QUANTITIES = ("macs", "bytes", "live", "ms")


def overlay(report: sizeup.Report, quantity: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """The graph that an overlay is for, and its values by node."""
    path = folder / f"{report.name}.{quantity}.overlay.json"
    report.save(path)
    ((graph, data),) = json.loads(path.read_text("utf-8")).items()
    return graph, {key: each["value"] for key, each in data["results"].items()}


def quantities_of(report: sizeup.Report, folder: Path) -> tuple[str, ...]:
    """The quantities that the report has. Without a latency an overlay of times is refused."""
    if report.latency is not None:
        return QUANTITIES
    with pytest.raises(SizeupError, match="an overlay of times needs a latency estimate"):
        overlay(report, "ms", folder)
    return tuple(quantity for quantity in QUANTITIES if quantity != "ms")


def expected(row: OpRow, quantity: str) -> Any:
    """What an overlay is to show of a file that has one node for each operator."""
    if quantity == "live":
        return row.live_bytes
    if row.reason is not None:
        return "unknown"
    if quantity == "ms":
        return pytest.approx(row.ms, rel=1e-5)
    return row.macs if quantity == "macs" else (row.read_bytes or 0) + (row.written_bytes or 0)


def test_every_operator_of_a_tflite_file_has_its_figures_at_the_node_that_makes_its_output(
    shared: Path, tmp_path: Path
) -> None:
    models = sorted((shared / "models").glob("*.tflite"))
    graphs = explored(*models)
    assert len(models) > 30
    timed = 0
    for model in models:
        report = sizeup.analyze(model, target="rpi4/litert")
        tensors = sizeup.load(model).tensors
        quantities = quantities_of(report, tmp_path)
        timed += "ms" in quantities
        for quantity in quantities:
            graph, values = overlay(report, quantity, tmp_path)
            nodes = graphs[str(model)][graph]
            assert list(values) == [str(row.index) for row in report.ops]
            for row in report.ops:
                node, op = nodes[str(row.index)], report.graph.ops[row.index]
                if row.source.isupper():
                    assert node["label"].replace("_", "").upper() == row.source.replace("_", ""), model
                assert [int(each["tensor_index"]) for each in node["outputs"]] == list(op.outputs), model
                assert values[str(row.index)] == expected(row, quantity), (model, row.index, quantity)
        assert len(tensors) == len(report.graph.tensors)
    assert (
        timed >= len(models) - 2
    )  # a file that was compiled for an NPU has one operator without a cost rule


def test_model_explorers_own_types_hold_all_of_an_overlay(shared: Path, tmp_path: Path) -> None:
    for name in ("mlperf_kws_int8", "tflm_audio_preproc_int8"):
        report = sizeup.analyze(shared / "models" / f"{name}.tflite", target="rpi4/litert")
        paths = [tmp_path / f"{name}.{quantity}.overlay.json" for quantity in QUANTITIES]
        for path in paths:
            report.save(path)
        for name_of_file, read in explored(*paths).items():
            ((graph, written),) = json.loads(Path(name_of_file).read_text("utf-8")).items()
            results = read[graph]["results"]
            assert results.keys() == written["results"].keys()
            for key, each in written["results"].items():
                assert results[key]["value"] == (-1 if each["value"] == "unknown" else each["value"])
            assert read[graph]["gradient"] == written["gradient"]
            assert read[graph].get("hideAggregatedStats") == written.get("hideAggregatedStats")


def test_every_operator_of_an_onnx_file_has_its_figures_at_its_node(tmp_path: Path) -> None:
    files = onnx_files(tmp_path)
    graphs = explored(*files)
    timed = 0
    for file in files:
        report = sizeup.analyze(file, target="rpi4/ort")
        quantities = quantities_of(report, tmp_path)
        timed += "ms" in quantities
        tensors = {
            report.graph.tensors[op.outputs[0]].name: row
            for op, row in zip(report.graph.ops, report.ops, strict=True)
        }
        for quantity in quantities:
            graph, values = overlay(report, quantity, tmp_path)
            nodes = graphs[str(file)][graph]
            assert values.keys() <= nodes.keys()
            called = 0
            for key, shown in values.items():
                row = tensors[nodes[key]["outputs"][0]["__tensor_tag"]]
                if nodes[key]["label"] == "own::Twice":
                    called += 1
                    continue
                assert nodes[key]["label"] == row.source, file
                assert shown == expected(row, quantity), (file, key, quantity)
            if quantity != "live":
                whole = sum(
                    expected(row, quantity) if quantity != "ms" else row.ms or 0.0 for row in report.ops
                )
                assert sum(values.values()) == pytest.approx(whole, rel=1e-5)
            # A call has an addition and a ReLU in it.
            assert len(values) + called == len(report.ops), file
    assert timed > 0


def test_conversions_count_at_the_node_that_needs_them(shared: Path, tmp_path: Path) -> None:
    model = shared / "models" / "mlperf_resnet8_fp32.tflite"
    plain = sizeup.analyze(model)
    mixed = sizeup.analyze(model, precision={"*conv2d_1*": "int8"})
    assert len(mixed.ops) > len(plain.ops)
    _, values = overlay(mixed, "bytes", tmp_path)
    assert list(values) == [str(row.index) for row in plain.ops]
    assert sum(values.values()) == mixed.totals.read_bytes + mixed.totals.written_bytes


def test_an_overlay_needs_the_file_that_was_read(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.overlay.json"
    by_hand = sizeup.analyze(three_convolutions())
    with pytest.raises(SizeupError, match=r"needs a model loaded from a \.tflite or \.onnx file"):
        by_hand.save(path)
    model = tmp_path / "model.tflite"
    model.write_bytes((shared / "models" / "mlperf_kws_int8.tflite").read_bytes())
    report = sizeup.analyze(model)
    with pytest.raises(SizeupError, match="no target device was given"):
        report.save(tmp_path / "x.ms.overlay.json")
    model.write_bytes((shared / "models" / "mlperf_ad01_int8.tflite").read_bytes())
    with pytest.raises(SizeupError, match="the file has changed since it was analyzed"):
        report.save(path)
    assert not path.exists()


def test_by_default_times_are_shown_if_estimated(shared: Path, tmp_path: Path) -> None:
    model = shared / "models" / "mlperf_kws_int8.tflite"
    for target, name in ((None, "MACs (sizeup)"), ("rpi4/litert", "ms on rpi4/litert (sizeup)")):
        path = tmp_path / "kws.overlay.json"
        sizeup.analyze(model, target=target).save(path)
        ((_, data),) = json.loads(path.read_text("utf-8")).items()
        assert data["name"] == name
