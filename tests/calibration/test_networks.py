"""The calibration networks: what they span, and that every format has the same one."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup import formats
from sizeup.calibration.networks import BODIES, networks
from sizeup.calibration.sketch import Draft, Sketch
from sizeup.cost import count
from sizeup.latency import executed
from sizeup.runtimes import random_samples, run

pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("torch")

from sizeup.calibration.write_onnx import model_of
from sizeup.calibration.write_tflite import file_of, has
from sizeup.calibration.write_torch import input_shape, module_of

pytestmark = pytest.mark.extras


def every_layer(precision: str) -> Sketch:
    """One network with every kind of layer that the precision has in all formats."""
    draft = Draft("all", "all", (32, 32, 3), precision)
    draft.conv(16, 3, 2)
    left = draft.depthwise(5)
    draft.add(left, draft.conv(16, 1, act=""), "relu")
    draft.conv(32, 3, act="relu6")
    start = draft.last
    draft.mul(start, draft.conv(32, 1, act="sigmoid", x=draft.mean()))
    draft.pool(2, 2)
    draft.resize(2)
    draft.concat(draft.last, start)
    draft.part(8, 32)
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
    return draft.done()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_all_formats_count_the_same_macs_and_run(precision: str) -> None:
    sketch = every_layer(precision)
    model, file = model_of(sketch).SerializeToString(), file_of(sketch)
    counted = {count(formats.load(each)).total_macs for each in (model, file)}
    if precision == "fp32":
        counted.add(count(formats.load(module_of(sketch), inputs=(input_shape(sketch),))).total_macs)
    assert len(counted) == 1
    for runtime, content in (("ort", model), ("litert", file)):
        outputs = run(runtime, content, random_samples(formats.load(content), 1)).outputs
        assert outputs[0][0].size == 10
        assert np.isfinite(outputs[0][0].astype(np.float64)).all()


def test_a_seed_gives_the_same_file_and_another_one_another() -> None:
    sketch = every_layer("int8")
    assert file_of(sketch) == file_of(sketch) != file_of(sketch, seed=1)
    assert model_of(sketch).SerializeToString() == model_of(sketch).SerializeToString()


def test_names_are_distinct_and_files_small() -> None:
    sketches = networks()
    assert len({each.name for each in sketches}) == len(sketches)
    assert {each.family for each in sketches} > set(BODIES)
    assert max(len(model_of(each).SerializeToString()) for each in sketches) < 12_000_000


def test_they_span_three_orders_of_macs_and_the_classes_of_kernels() -> None:
    sketches = [each for each in networks() if all(has(layer, each.precision) for layer in each.layers)]
    costs = [count(formats.load(file_of(each))) for each in sketches]
    for precision in ("fp32", "int8"):
        macs = [
            cost.total_macs
            for each, cost in zip(sketches, costs, strict=True)
            if each.precision == precision and cost.total_macs
        ]
        assert max(macs) > 1000 * min(macs)
    seen = {name for cost in costs for name in executed(cost, None, ("activation",)).work.names}
    wanted = (
        "conv_stem conv conv_1x1 depthwise_3 depthwise_5 conv_grouped linear matmul softmax pool reduce"
        " activation elementwise concat copy resize recurrent"
        " conv.int8 conv_1x1.int8 depthwise_3.int8 linear.int8"
    )
    assert set(wanted.split()) <= seen
