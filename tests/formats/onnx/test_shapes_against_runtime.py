"""Every inferred shape against the shape of what ONNX Runtime really makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import quantization
from torch import Tensor, nn

from formats.onnx.exporting import by_tracing, quiet
from formats.onnx.making import Array, count, roles
from formats.onnx.test_operators import ROWS, Row
from sizeup.formats.onnx import load

# Packed operands and batch-first states are not implemented on the CPU.
NOT_ON_CPU = ("[(2, 6, 4, 3, 8)]", "[(2, 6, 32), (2, 9, 4, 2, 8)]", "layout=1")


def plain_session(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def made_by_runtime(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    """The shape of every value of the main graph, all of them made outputs."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    listed = {each.name for each in watched.graph.output}
    for node in watched.graph.node:
        names = [name for name in node.output if name and name not in listed]
        watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = plain_session(watched.SerializeToString())
    outputs = [each.name for each in session.get_outputs()]
    results = session.run(outputs, feeds)
    return {name: np.shape(each) for name, each in zip(outputs, results, strict=True)}


def compare(model: onnx.ModelProto, feeds: dict[str, Array], **options: Any) -> int:
    """How many shapes agree; all that the runtime made must."""
    graph = load(model, **options)
    inferred = {each.name: each.shape for each in graph.tensors}
    real = made_by_runtime(model, feeds)
    aliases = {name for name in real if name not in inferred}  # Identity of a constant
    assert {name: inferred[name] for name in real if name not in aliases} == {
        name: shape for name, shape in real.items() if name not in aliases
    }
    return len(real) - len(aliases)


NUMPY = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}


@pytest.mark.parametrize("row", [r for r in ROWS if not any(text in str(r) for text in NOT_ON_CPU)], ids=str)
def test_operator_makes_what_was_inferred(row: Row) -> None:
    model = row.model()
    feeds = {
        each.name: np.zeros(row.given[each.name], NUMPY[each.type.tensor_type.elem_type])
        for each in model.graph.input
    }
    if "n" in feeds:  # grouped queries: the lengths that the sequences have in all
        length = feeds["q"].shape[1] + (feeds["pk"].shape[2] if "pk" in feeds else 0)
        feeds |= {"n": np.full_like(feeds["n"], length - 1), "t": np.array(length, np.int32)}
    compare(model, feeds)


class Windows(nn.Module):
    """Shapes computed from shapes: a token is expanded over the batch, an image cut into windows."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.mix = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(batch, -1, -1), tokens], 1)
        tokens = self.mix(tokens) + torch.arange(tokens.shape[1], device=x.device)[None, :, None]
        resized = nn.functional.interpolate(x, size=(height // 2, width // 2), mode="bilinear")
        result: Tensor = tokens.sum((1, 2)) + resized.reshape(batch, 3, -1).amax(2).sum(1)
        return result


def test_shapes_computed_from_shapes_are_found() -> None:
    model = by_tracing(
        Windows(),
        (torch.zeros(2, 3, 32, 48),),
        input_names=["x"],
        dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}},
    )
    sizes = {"batch": 3, "height": 40, "width": 24}
    feeds = {"x": np.zeros((3, 3, 40, 24), np.float32)}
    assert compare(model, feeds, bind=sizes) > 50
    cost = count(model, bind=sizes)
    assert cost.known.all(), cost.reasons
    # 3 images of 60 patches, 16 filters of 48 taps; 61 tokens of 16 x 16.
    assert cost.total_macs == 3 * (60 * 16 * 48 + 61 * 256)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.lstm = nn.LSTM(32, 8, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(self.layer(x))[0]
        return result


def test_transformer_and_lstm_have_the_shapes_that_run() -> None:
    model = by_tracing(Layer(), (torch.zeros(2, 7, 32),), input_names=["x"])
    assert compare(model, {"x": np.zeros((2, 7, 32), np.float32)}) > 20
    # Projections 4 x 32^2, the two products 2 x 7 x 32, 2 x 32 x 64 a token; both directions of the LSTM.
    per_token = 4 * 32**2 + 2 * 7 * 32 + 2 * 32 * 64 + 2 * 4 * 8 * (32 + 8)
    assert count(model).total_macs == 14 * per_token


def small_network() -> onnx.ModelProto:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return by_tracing(network, (torch.zeros(1, 3, 32, 32),), input_names=["x"], opset_version=17)


# 16 x 16 outputs of 8 filters x 27, as many of 9 taps, 8 x 8 of 16 x 8, and 160.
SMALL_MACS = 256 * 8 * 27 + 256 * 8 * 9 + 64 * 16 * 8 + 160
SMALL_PARAMS = 8 * 27 + 8 + 8 * 9 + 8 + 16 * 8 + 16 + 170


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.left = [{"x": generator.normal(size=(1, 3, 32, 32)).astype(np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, Array] | None:
        return self.left.pop() if self.left else None


@pytest.mark.parametrize("style", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_network_keeps_macs_and_parameters(tmp_path: Path, style: str, per_channel: bool) -> None:
    model = small_network()
    onnx.save(model, tmp_path / "float.onnx")
    assert (count(model).total_macs, count(model).total_params) == (SMALL_MACS, SMALL_PARAMS)
    with quiet():  # the quantizer recommends a preprocessing that is not needed here
        quantization.quantize_static(
            str(tmp_path / "float.onnx"),
            str(tmp_path / "int8.onnx"),
            Samples(),
            quant_format=getattr(quantization.QuantFormat, style),
            per_channel=per_channel,
        )
    quantized = onnx.load(tmp_path / "int8.onnx")
    cost = count(quantized)
    assert cost.known.all(), cost.reasons
    assert (cost.total_macs, cost.total_params) == (SMALL_MACS, SMALL_PARAMS)
    # Weights take a byte, biases (8 + 8 + 16 + 10 of them) four.
    assert cost.bytes_at().weights == SMALL_PARAMS - 42 + 42 * 4
    # All integers stand for real numbers, so all of them follow a change of precision.
    integers = [t for t in cost.graph.tensors if t.dtype.name in ("int8", "uint8") and len(t.shape or ()) > 1]
    assert integers
    assert all(each.quant is not None for each in integers)
    if style == "QDQ":
        assert "derived" in roles(cost.graph).values()
    assert compare(quantized, {"x": np.zeros((1, 3, 32, 32), np.float32)}) > 8


def test_dynamically_quantized_network_keeps_macs(tmp_path: Path) -> None:
    layer = by_tracing(Layer(), (torch.zeros(2, 7, 32),), input_names=["x"], opset_version=17)
    onnx.save(layer, tmp_path / "float.onnx")
    with quiet():  # the quantizer recommends a preprocessing that is not needed here
        quantization.quantize_dynamic(str(tmp_path / "float.onnx"), str(tmp_path / "int8.onnx"))
    before, after = count(tmp_path / "float.onnx"), count(tmp_path / "int8.onnx")
    assert after.known.all(), after.reasons
    assert {"MatMulInteger", "DynamicQuantizeLinear"} <= {op.source for op in after.graph.ops}
    assert (after.total_macs, after.total_params) == (before.total_macs, before.total_params)


def test_network_that_the_runtime_fused_keeps_macs(tmp_path: Path) -> None:
    """The optimized model that the runtime saves has fused operators of the runtime's domain."""
    layer = by_tracing(Layer(), (torch.zeros(2, 7, 32),), input_names=["x"])
    for name, model, shape in (("image", small_network(), (1, 3, 32, 32)), ("layer", layer, (2, 7, 32))):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(tmp_path / f"{name}.onnx")
        options.log_severity_level = 4
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        fused = onnx.load(tmp_path / f"{name}.onnx")
        assert any(node.domain == "com.microsoft" for node in fused.graph.node)
        cost = count(fused)
        assert cost.known.all(), cost.reasons
        assert cost.total_macs == count(model).total_macs
        compare(fused, {"x": np.zeros(shape, np.float32)})
