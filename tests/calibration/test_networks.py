"""The calibration networks: coverage, and equality across formats."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup import formats
from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec
from sizeup.calibration.networks import REFERENCE_FAMILIES, networks
from sizeup.cost import count
from sizeup.latency import execution_of
from sizeup.runtimes import random_samples, run

pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("torch")

from sizeup.calibration.write_onnx import onnx_model
from sizeup.calibration.write_tflite import is_supported, tflite_file
from sizeup.calibration.write_torch import input_shape, torch_module

pytestmark = pytest.mark.extras


def every_layer(precision: str) -> NetworkSpec:
    """A network with every layer kind that all formats support at this precision."""
    draft = NetworkBuilder("all", "all", (32, 32, 3), precision)
    draft.conv(16, 3, 2)
    left = draft.depthwise(5)
    draft.add(left, draft.conv(16, 1, act=""), "relu")
    draft.conv(32, 3, act="relu6")
    start = draft.last
    draft.mul(start, draft.conv(32, 1, act="sigmoid", x=draft.mean()))
    draft.pool(2, 2)
    draft.resize(2)
    draft.concat(draft.last, start)
    draft.slice_channels(8, 32)
    draft.pool(2, 2, "mean")
    draft.tokens()
    if precision == "fp32":
        draft.encoder(4)
        draft.recurrent("lstm", 24)
    else:
        draft.attention(4)
    draft.mean()
    draft.reshape(draft.shape()[-1])
    draft.linear(10)
    return draft.build()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_all_formats_count_the_same_macs_and_run(precision: str) -> None:
    sketch = every_layer(precision)
    model, file = onnx_model(sketch).SerializeToString(), tflite_file(sketch)
    counted = {count(formats.load(each)).total_macs for each in (model, file)}
    if precision == "fp32":
        counted.add(count(formats.load(torch_module(sketch), inputs=(input_shape(sketch),))).total_macs)
    assert len(counted) == 1
    for runtime, content in (("ort", model), ("litert", file)):
        outputs = run(runtime, content, random_samples(formats.load(content), 1)).outputs
        assert outputs[0][0].size == 10
        assert np.isfinite(outputs[0][0].astype(np.float64)).all()


def test_a_seed_gives_the_same_file_and_another_one_another() -> None:
    sketch = every_layer("int8")
    assert tflite_file(sketch) == tflite_file(sketch) != tflite_file(sketch, seed=1)
    assert onnx_model(sketch).SerializeToString() == onnx_model(sketch).SerializeToString()


def test_names_are_distinct_and_files_small() -> None:
    sketches = networks()
    assert len({each.name for each in sketches}) == len(sketches)
    assert {each.family for each in sketches} > set(REFERENCE_FAMILIES)
    files = (onnx_model(each).SerializeToString() for each in sketches if not each.is_for_torch_only)
    assert max(map(len, files)) < 12_000_000


def test_they_span_three_orders_of_macs_and_the_classes_of_kernels() -> None:
    sketches = [
        each
        for each in networks()
        if not each.is_for_torch_only and all(is_supported(layer, each.precision) for layer in each.layers)
    ]
    costs = [count(formats.load(tflite_file(each))) for each in sketches]
    for precision in ("fp32", "int8"):
        macs = [
            cost.total_macs
            for each, cost in zip(sketches, costs, strict=True)
            if each.precision == precision and cost.total_macs
        ]
        assert max(macs) > 1000 * min(macs)
    seen = {name for cost in costs for name in execution_of(cost, None, ("activation",)).work.names}
    expected = (
        "conv_stem conv conv_1x1 depthwise_3 depthwise_5 conv_grouped linear matmul softmax pool reduce"
        " activation@exponential elementwise concat copy resize recurrent"
        " conv.int8 conv_1x1.int8 depthwise_3.int8 linear.int8"
    )
    assert set(expected.split()) <= seen
