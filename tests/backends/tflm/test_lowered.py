"""Graphs of other formats as .tflite graphs, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import FIRMWARE, Build
from sizeup.backends.tflm.lowered import LEAST, Style, lowered, lowered_most
from sizeup.dtypes import dtype
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder

FLOAT, INT8 = dtype("float32"), dtype("int8")
ESP_NN = Build(4, 4, kernels="esp-nn", chip="esp32-s3")
CHOICES: dict[str, tuple[Any, ...]] = {
    "kind": ("conv", "conv", "average"),
    "channels": (1, 1, 3, 16),  # of one channel, a convolution may be one per channel
    "filters": (1, 3, 16, 17),
    "taps": (1, 3, 5),
    "stride": (1, 2, 3),
    "dilation": (1, 2),
    "side": (9, 12, 40),
    "pad": (0, 1, 3),
    "bias": (True, False),
}


def layer(builder: GraphBuilder, form: dict[str, Any]) -> None:
    """An input, and a layer that reads it."""
    number, channels, side = len(builder.tensors), form["channels"], form["side"]
    extent = (form["taps"] - 1) * form["dilation"] + 1
    out = (side + form["pad"] - extent) // form["stride"] + 1
    x = builder.input(f"x{number}", (1, channels, side, side), FLOAT)
    attrs = {
        "kernel": (form["taps"],) * 2,
        "stride": (form["stride"],) * 2,
        "dilation": (form["dilation"],) * 2,
    }
    if form["kind"] == "average":
        y = builder.tensor(f"y{number}", (1, channels, out, out), FLOAT)
        builder.op("pool", [x], [y], attrs, source="AveragePool")
    else:
        groups = channels if form["filters"] % channels == 0 else 1
        shape = (form["filters"], channels // groups, form["taps"], form["taps"])
        w = builder.tensor(f"w{number}", shape, FLOAT, Constant("parameter", None))
        b = builder.tensor(f"b{number}", shape[:1], FLOAT, Constant("parameter", None))
        y = builder.tensor(f"y{number}", (1, form["filters"], out, out), FLOAT)
        inputs = [x, w, b if form["bias"] else ABSENT]
        builder.op("conv", inputs, [y], {**attrs, "groups": groups}, source="Conv")
    builder.outputs.append(y)


def network(*forms: dict[str, Any]) -> Graph:
    builder = GraphBuilder("layers", "onnx")
    for form in forms:
        layer(builder, form)
    return builder.freeze()


def written(graph: Graph) -> Iterator[tuple[Any, ...]]:
    """The operators, with all that kernels see of their tensors."""
    for op in graph.ops:
        tensors = [graph.tensors[identity] for identity in (*op.inputs, *op.outputs)]
        seen = [
            (each.shape, each.dtype, each.data is None, each.quant and each.quant.scale.size)
            for each in tensors
        ]
        yield op.source, tuple(op.attrs.items()), seen


@pytest.mark.parametrize("build", [FIRMWARE, ESP_NN], ids=["reference", "esp-nn"])
@pytest.mark.parametrize("style", [LEAST, Style(), Style(pads=True)], ids=["least", "plain", "pads"])
@pytest.mark.parametrize("precision", [None, INT8], ids=["fp32", "int8"])
def test_a_layer_is_written_as_it_is_alone(precision: Any, style: Style, build: Build) -> None:
    """Whatever layers come before it, alike in some properties or in all."""
    random = Random(0)
    forms = [{name: random.choice(values) for name, values in CHOICES.items()} for _ in range(300)]
    alone = [row for form in forms for row in written(lowered(network(form), precision, style, build))]
    assert len({row[0] for row in alone}) > 2
    assert list(written(lowered(network(*forms), precision, style, build))) == alone


@pytest.mark.parametrize(
    "kind", ["compare", "div", "remainder", "maximum", "update_slice", "transpose", "mean"]
)
def test_operators_are_written_with_the_inputs_that_their_kernels_take(kind: str) -> None:
    """Also if the op has a number or axes as an attribute, as in PyTorch."""
    builder = GraphBuilder("one", "torch")
    x, y = builder.input("x", (1, 8), FLOAT), builder.tensor("y", (1, 8), FLOAT)
    builder.op(kind, [x], [y])
    builder.outputs.append(y)
    for graph in lowered_most(builder.freeze(), None, FIRMWARE):
        assert graph.ops
        for op in graph.ops:
            assert len(op.inputs) >= KERNELS[op.source].fewest_inputs, op.source
