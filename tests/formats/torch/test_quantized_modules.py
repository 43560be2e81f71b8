"""Modules quantized by torch itself: their weights are inside packed objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as quantized_modules
import torch.ao.quantization
from torch import Tensor, nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import sizeup

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates them

quantization: Any = torch.ao.quantization  # most of its functions have no types
FLOAT = 4
# torch keeps scales per channel as float64 and zero points as int64.
CHANNEL = 8 + 8


def dynamic(module: nn.Module, dtype: torch.dtype = torch.qint8) -> Any:
    """The module with dynamically quantized layers."""
    return quantization.quantize_dynamic(
        module.eval(), {type(each) for each in module.modules()}, dtype=dtype
    )


def static(module: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """The module converted to int8, with scales per channel."""
    module = quantization.QuantWrapper(module).eval()
    module.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(module, inplace=True)
    module(torch.zeros(shape))
    quantization.convert(module, inplace=True)
    return module


def test_dynamic_linear_layers() -> None:
    module = dynamic(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128)))
    report = sizeup.analyze(module, inputs=((4, 256),))
    weights, biases = 256 * 512 + 512 * 128, 512 + 128
    assert report.totals.params == weights + biases
    assert report.totals.weight_bytes == weights + FLOAT * biases
    assert report.totals.macs == 4 * weights
    assert report.totals.elementwise_ops == 4 * (512 + 512 + 128)  # two biases, one activation
    assert all(op.known for op in report.ops)
    first = report.ops[0]
    assert (first.op_kind, first.source) == ("matmul", "quantized.linear_dynamic")
    assert first.read_bytes == FLOAT * 4 * 256 + 256 * 512 + FLOAT * 512
    assert report.graph.notes == ("2 weights are stored as int8, 1 scale and zero point (packed by torch)",)
    names = {tensor.name for tensor in report.graph.tensors if tensor.is_parameter}
    assert names == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_dynamic_half_precision() -> None:
    report = sizeup.analyze(dynamic(nn.Sequential(nn.Linear(16, 8)), torch.float16), inputs=((2, 16),))
    assert (report.totals.params, report.totals.weight_bytes) == (16 * 8 + 8, 2 * 16 * 8 + FLOAT * 8)
    assert report.totals.macs == 2 * 16 * 8


class First(nn.Module):
    """Only the first result of a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)[0]


@pytest.mark.parametrize(
    ("make", "shape", "gates", "steps"),
    [
        (lambda: nn.LSTM(16, 32), (5, 2, 16), 4, 10),
        (lambda: nn.GRU(16, 32), (5, 2, 16), 3, 10),
        (lambda: nn.LSTMCell(16, 32), (2, 16), 4, 2),
        (lambda: nn.GRUCell(16, 32), (2, 16), 3, 2),
        (lambda: nn.RNNCell(16, 32), (2, 16), 1, 2),
    ],
)
@pytest.mark.parametrize(("dtype", "width"), [(torch.qint8, 1), (torch.float16, 2)])
def test_dynamic_recurrent_layers(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    gates: int,
    steps: int,
    dtype: torch.dtype,
    width: int,
) -> None:
    totals = sizeup.analyze(dynamic(First(make()), dtype), inputs=(shape,)).totals
    weights, biases = gates * 32 * (16 + 32), 2 * gates * 32
    assert totals.params == weights + biases
    assert totals.weight_bytes == width * weights + FLOAT * biases
    assert totals.macs == steps * weights


class Small(nn.Module):
    """A convolution, a depthwise convolution, their sum and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        self.deep = nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.sum = quantized_modules.FloatFunctional()
        self.head = nn.Linear(8 * 14 * 14, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wide(x)
        result: Tensor = self.head(torch.flatten(self.sum.add(x, self.deep(x)), 1))
        return result


PIXELS = 14 * 14
WEIGHTS = 3 * 8 * 9 + 8 * 9 + 8 * PIXELS * 10
CHANNELS = 8 + 8 + 10


@pytest.mark.parametrize("fused", [False, True])
def test_static_int8(fused: bool) -> None:
    module = Small().eval()
    if fused:
        quantization.fuse_modules(module, [["wide.0", "wide.1"]], inplace=True)
    report = sizeup.analyze(static(module, (2, 3, 16, 16)), inputs=((2, 3, 16, 16),))
    assert report.totals.params == WEIGHTS + CHANNELS
    assert report.totals.weight_bytes == WEIGHTS + (FLOAT + CHANNEL) * CHANNELS
    assert report.totals.macs == 2 * (8 * PIXELS * 27 + 8 * PIXELS * 9 + 8 * PIXELS * 10)
    # Quantize (2 per element), two biases, an activation, a sum, the bias of the head, dequantize (2).
    assert report.totals.elementwise_ops == 2 * (2 * 3 * 256 + 4 * 8 * PIXELS + 10 + 2 * 10)
    assert all(op.known for op in report.ops)
    convolution = next(op for op in report.ops if op.op_kind == "conv")
    assert convolution.precision == "uint8"
    # int8 data and weights, the bias, and a scale and a zero point per channel.
    assert convolution.read_bytes == 2 * 3 * 256 + 3 * 8 * 9 + 8 * (FLOAT + CHANNEL)
    assert convolution.written_bytes == 2 * 8 * PIXELS
    assert (
        "3 weights are stored as int8, 1 scale and zero point per row (packed by torch)" in report.graph.notes
    )


def test_static_int8_of_a_graph_module() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * PIXELS, 10)
    ).eval()
    sample = torch.zeros(1, 3, 16, 16)
    prepared = prepare_fx(module, quantization.get_default_qconfig_mapping("x86"), (sample,))
    prepared(sample)
    report = sizeup.analyze(convert_fx(prepared), inputs=((1, 3, 16, 16),))
    weights = 3 * 8 * 9 + 8 * PIXELS * 10
    assert report.totals.params == weights + 8 + 10
    assert report.totals.weight_bytes == weights + (FLOAT + CHANNEL) * (8 + 10)
    assert report.totals.macs == 8 * PIXELS * 27 + 8 * PIXELS * 10
    assert all(op.known for op in report.ops)


@pytest.mark.parametrize(
    ("layer", "shape", "macs"),
    [
        (nn.Conv1d(4, 8, 3, groups=2), (2, 4, 10), 2 * 8 * 8 * 3 * 2),
        (nn.Conv3d(4, 8, 3), (1, 4, 6, 6, 6), 8 * 64 * 27 * 4),
        (nn.ConvTranspose2d(4, 8, 3, stride=2), (1, 4, 6, 6), 4 * 36 * 9 * 8),
    ],
)
def test_other_convolutions(layer: Any, shape: tuple[int, ...], macs: int) -> None:
    module: Any = quantization.QuantWrapper(nn.Sequential(layer)).eval()
    module.qconfig = quantization.QConfig(
        activation=quantization.default_observer, weight=quantization.default_weight_observer
    )
    quantization.prepare(module, inplace=True)
    module(torch.zeros(shape))
    quantization.convert(module, inplace=True)
    totals = sizeup.analyze(module, inputs=(shape,)).totals
    weights = layer.weight.numel()
    assert (totals.params, totals.macs) == (weights + 8, macs)
    assert totals.weight_bytes == weights + FLOAT * 8  # one scale for all channels is not a tensor


@pytest.mark.parametrize(("bits", "widths"), [(8, 1.0), (4, 0.5)])
def test_embeddings(bits: int, widths: float) -> None:
    table: Any = nn.EmbeddingBag(10, 16, mode="sum")
    table.qconfig = (
        quantization.float_qparams_weight_only_qconfig
        if bits == 8
        else quantization.float_qparams_weight_only_qconfig_4bit
    )
    module = nn.Sequential(table)
    quantization.prepare(module, inplace=True)
    quantization.convert(module, inplace=True)
    totals = sizeup.analyze(module, inputs=(torch.zeros(2, 3, dtype=torch.int64),)).totals
    # Rows have a float32 scale and a float32 zero point.
    assert (totals.params, totals.weight_bytes) == (160, int(160 * widths) + 10 * (FLOAT + FLOAT))
    assert totals.elementwise_ops == 2 * 3 * 16


def test_a_comparison_shows_narrower_weights() -> None:
    module = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128)).eval()
    comparison = sizeup.compare(module, dynamic(module), inputs=((4, 256),))
    totals: dict[str, Any] = {total.name: (total.a, total.b) for total in comparison.totals}
    weights, biases = 256 * 512 + 512 * 128, 512 + 128
    assert totals["weight_bytes"] == (FLOAT * (weights + biases), weights + FLOAT * biases)
    changed = [row for row in comparison.rows if row.status == "changed"]
    assert [row.name for row in changed] == ["0", "2"]
    for row in changed:
        assert [(change.column, change.before, change.after) for change in row.changes] == [
            ("weight dtype", "fp32", "int8")
        ]


def test_a_packed_weight_used_without_a_module() -> None:
    weight = torch.quantize_per_tensor(torch.zeros(6, 8), 0.1, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)

    class Functional(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.ops.quantized.linear_dynamic(x, packed)

    totals = sizeup.analyze(Functional(), inputs=((2, 8),)).totals
    assert (totals.params, totals.weight_bytes, totals.macs) == (48, 48, 96)
