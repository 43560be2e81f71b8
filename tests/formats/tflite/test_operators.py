"""Each operator with distinct shapes, against manual counts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from formats.tflite.factory import File, options, single
from sizeup.cost import count
from sizeup.errors import CorruptModel
from sizeup.graph import ABSENT, Graph

Shape = tuple[int, ...] | None


class Case(NamedTuple):
    name: str
    inputs: list[Shape]
    outputs: list[tuple[int, ...]]
    kind: str
    macs: int
    elementwise: int = 0
    settings: Any = None
    weights: tuple[int, ...] = (1, 2)


def _lstm(units: int, inputs: int, outputs: int | None = None, *, coupled: bool = False) -> list[Shape]:
    """The 24 inputs of a full LSTM after the data: matrices, peepholes, biases, projection, states, norms."""
    projected = outputs or units
    gate: list[Shape] = [*[(units, inputs)] * 4, *[(units, projected)] * 4]
    if coupled:
        gate[0] = gate[4] = None
    biases: list[Shape] = [None if coupled else (units,), (units,), (units,), (units,)]
    projection: list[Shape] = [(outputs, units) if outputs else None, None]
    states: list[Shape] = [(1, projected), (1, units)]
    return [*gate, None, None, None, *biases, *projection, *states, None, None, None, None]


_PAIR = _lstm(4, 3)[:17]  # one direction of a bidirectional layer: without states and norms

CASES = [
    # 6x6 positions x 8 filters of 3x3x3; a bias for each of the 288 numbers
    Case("CONV_2D", [(1, 8, 8, 3), (8, 3, 3, 3), (8,)], [(1, 6, 6, 8)], "conv", 7776, 288),
    # two groups: each filter sees 2 of 4 channels: 288 x (9 x 2); a bias and a fused ReLU each
    Case(
        "CONV_2D", [(1, 8, 8, 4), (8, 3, 3, 2), (8,)], [(1, 6, 6, 8)], "conv", 5184, 576,
        options("Conv2DOptions", fusedActivationFunction=1, strideW=1, strideH=1, padding=1),
    ),
    # depth multiplier 2: 6x6x8 numbers x 9 taps; no bias, no options
    Case("DEPTHWISE_CONV_2D", [(1, 8, 8, 4), (1, 3, 3, 8)], [(1, 6, 6, 8)], "conv", 2592),
    # (d, h, w, in, out): 2x2x2 positions x 5 filters of 3x3x3x2
    Case("CONV_3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 5), (5,)], [(1, 2, 2, 2, 5)], "conv", 2160, 40),
    # output shape, filter (out, h, w, in), data: 4x4x6 numbers, each spread over 3x3x5; 9x9x5 biases
    Case(
        "TRANSPOSE_CONV", [(4,), (5, 3, 3, 6), (1, 4, 4, 6), (5,)], [(1, 9, 9, 5)],
        "conv_transpose", 4320, 405, weights=(0, 1, 3),
    ),
    Case(
        "TRANSPOSE_CONV", [(4,), (5, 3, 3, 6), (1, 4, 4, 6)], [(1, 9, 9, 5)], "conv_transpose", 4320,
        weights=(0, 1),
    ),
    # filter (d, h, w, out, in): 2x2x2x3 numbers, each spread over 2x2x2x4
    Case(
        "CONV_3D_TRANSPOSE", [(5,), (2, 2, 2, 4, 3), (1, 2, 2, 2, 3)], [(1, 4, 4, 4, 4)],
        "conv_transpose", 768, weights=(0, 1),
    ),
    # MediaPipe's: data 8x8x4, each number spread over 2x2 taps of 2 filters; 16x16x2 biases
    Case(
        "Convolution2DTransposeBias", [(1, 8, 8, 4), (2, 2, 2, 4), (2,)], [(1, 16, 16, 2)], "conv_transpose",
        2048, 512,
    ),
    # 10 units x 20 inputs, 10 biases, ReLU6 on 10
    Case(
        "FULLY_CONNECTED", [(1, 20), (10, 20), (10,)], [(1, 10)], "matmul", 200, 20,
        options("FullyConnectedOptions", fusedActivationFunction=3),
    ),
    # data flattened to 2 rows of 4x5
    Case("FULLY_CONNECTED", [(2, 4, 5), (10, 20)], [(2, 10)], "matmul", 400),
    # keep_num_dims: 2x4 rows of 5
    Case(
        "FULLY_CONNECTED", [(2, 4, 5), (10, 5)], [(2, 4, 10)], "matmul", 400, 0,
        options("FullyConnectedOptions", keepNumDims=True),
    ),
    # rows of 8 cut across the axes of 2x3x4: 3 rows x 10 units x 8
    Case("FULLY_CONNECTED", [(2, 3, 4), (10, 8)], [(3, 10)], "matmul", 240),
    # ones that hold nothing: the last axis alone is the input
    Case("FULLY_CONNECTED", [(1, 1, 257), (128, 257)], [(1, 1, 128)], "matmul", 32896),
    # 2 x (3x4 . 4x5)
    Case("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], "matmul", 120, weights=()),
    Case(
        "BATCH_MATMUL", [(2, 4, 3), (2, 4, 5)], [(2, 3, 5)], "matmul", 120, 0,
        options("BatchMatMulOptions", adjX=True), (),
    ),
    Case(
        "BATCH_MATMUL", [(2, 3, 4), (2, 5, 4)], [(2, 3, 5)], "matmul", 120, 0,
        options("BatchMatMulOptions", adjY=True), (),
    ),
    # 4 batch rows, 8 matrices of 4x3 or 4x4: 4 x (4x12 + 4x16); 17 operations x 4 rows x 4 units
    Case("LSTM", [(4, 3), *_lstm(4, 3)], [(4, 4)], "lstm", 448, 272, weights=tuple(range(1, 19))),
    # coupled gates: 3 matrices of 4x3 and 3 of 4x2, a projection of 2x4: 36 + 24 + 8
    Case(
        "LSTM", [(1, 3), *_lstm(4, 3, 2, coupled=True)], [(1, 2)], "lstm", 68, 68, weights=tuple(range(1, 19))
    ),
    # the basic kernel: one matrix of 4x4 rows over 3 + 4 columns, 2 batch rows
    Case(
        "LSTM", [(2, 3), (2, 4), (16, 7), (16,), (2, 4)], [(2, 4), (2, 4), (2, 7), (2, 16)], "lstm", 224, 136,
        options("LSTMOptions", kernelType=1), (2, 3),
    ),
    # 5 steps x 2 batch rows x 112
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [(5, 2, 3), *_lstm(4, 3)], [(5, 2, 4)], "lstm", 1120, 680,
        options("UnidirectionalSequenceLSTMOptions", timeMajor=True), tuple(range(1, 19)),
    ),
    # diagonal recurrent matrices are vectors: 4x12 + 4x4 for each of 5 steps
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [(1, 5, 3), *[(4, 3)] * 4, *[(4,)] * 4, *_lstm(4, 3)[8:]], [(1, 5, 4)],
        "lstm", 320, 340, options("UnidirectionalSequenceLSTMOptions", diagonalRecurrentTensors=True),
        tuple(range(1, 19)),
    ),
    # both directions, with auxiliary matrices of 4x3 on either side: 5 x (112 + 112 + 8 x 12)
    Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        [(1, 5, 3), *_PAIR, *_PAIR, *[(1, 4)] * 4, (1, 5, 3), *[(4, 3)] * 8], [(1, 5, 8)],
        "lstm", 1600, 680, weights=(*range(1, 35), *range(40, 48)),
    ),
    Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM", [(1, 5, 3), *_PAIR, *_PAIR, *[(1, 4)] * 4, *[None] * 9], [(1, 5, 8)],
        "lstm", 1120, 680, weights=tuple(range(1, 35)),
    ),
    # 2 rows x (4x3 + 4x4); 3 operations x 2 x 4
    Case("RNN", [(2, 3), (4, 3), (4, 4), (4,), (2, 4)], [(2, 4)], "rnn", 56, 24, weights=(1, 2, 3)),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_RNN", [(2, 5, 3), (4, 3), (4, 4), (4,), (2, 4)], [(2, 5, 4)],
        "rnn", 280, 120, weights=(1, 2, 3),
    ),
    Case(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        [(2, 5, 3), *[(4, 3), (4, 4), (4,), (2, 4)] * 2, None, None, None], [(2, 5, 4), (2, 5, 4)],
        "rnn", 560, 240, weights=(1, 2, 3, 5, 6, 7),
    ),
    # rank 2, 4 units: 8 filters over 3 features and 10 steps; 4 sums of two ranks, 4 biases, 4 ReLU
    Case(
        "SVDF", [(1, 3), (8, 3), (8, 10), (4,), (1, 80)], [(1, 4)], "svdf", 104, 12,
        options("SVDFOptions", rank=2, fusedActivationFunction=1), (1, 2, 3),
    ),
    # 2x3 windows over 4x4x2 outputs
    Case(
        "AVERAGE_POOL_2D", [(1, 8, 12, 2)], [(1, 4, 4, 2)], "pool", 0, 192,
        options("Pool2DOptions", filterHeight=2, filterWidth=3, strideH=2, strideW=3),
    ),
    Case(
        "MAX_POOL_2D", [(1, 8, 12, 2)], [(1, 4, 4, 2)], "pool", 0, 224,
        options(
            "Pool2DOptions", filterHeight=2, filterWidth=3, strideH=2, strideW=3, fusedActivationFunction=1
        ),
    ),
    # 4 products and 3 sums for each of 8x8x2
    Case("RESIZE_BILINEAR", [(1, 4, 4, 2), (2,)], [(1, 8, 8, 2)], "resize", 0, 896, weights=(1,)),
    Case("RESIZE_NEAREST_NEIGHBOR", [(1, 4, 4, 2), (2,)], [(1, 8, 8, 2)], "resize", 0, 0, weights=(1,)),
    # 32 additions, 32 fused activations
    Case(
        "ADD", [(1, 32), (1, 32)], [(1, 32)], "add", 0, 64,
        options("AddOptions", fusedActivationFunction=1), (),
    ),
    Case(
        "CONCATENATION", [(1, 3), (1, 3)], [(1, 6)], "concat", 0, 0,
        options("ConcatenationOptions", axis=1), (),
    ),
    # TFLite Micro's window is a product for each number
    Case("SignalWindow", [(1, 480), (480,)], [(1, 480)], "mul", 0, 480, weights=(1,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.macs}-{case.elementwise}")
def test_operator_counts_what_the_hand_counts(case: Case) -> None:
    graph = single(case.name, case.inputs, case.outputs, case.settings, case.weights)
    cost = count(graph)
    assert cost.known.all(), cost.reasons
    assert [op.source for op in graph.ops] == [case.name]
    assert (graph.ops[0].kind, cost.total_macs, cost.total_elementwise) == (
        case.kind,
        case.macs,
        case.elementwise,
    )


def _names(graph: Graph) -> list[str | None]:
    return [None if i == ABSENT else graph.tensors[i].name for i in graph.ops[0].inputs]


def test_transposed_convolution_takes_its_data_first() -> None:
    shapes: list[Shape] = [(4,), (5, 3, 3, 6), (1, 4, 4, 6)]
    with_bias = single("TRANSPOSE_CONV", [*shapes, (5,)], [(1, 9, 9, 5)], weights=(0, 1, 3))
    without = single("TRANSPOSE_CONV", shapes, [(1, 9, 9, 5)], weights=(0, 1))
    assert _names(with_bias) == ["in2", "in1", "in3", "in0"]
    assert _names(without) == ["in2", "in1", None, "in0"]


@pytest.mark.parametrize(
    ("data", "weights", "contracted", "order"),
    [
        ((2, 4, 5), (10, 20), (1, 2), ["in0", "in1"]),
        ((1, 20), (10, 20), (1,), ["in0", "in1"]),
        # Rows cut across axes: the data has no axes to sum over, the weights have.
        ((2, 3, 4), (10, 8), (1,), ["in1", "in0"]),
    ],
)
def test_dense_layer_sums_over_as_many_axes_as_its_weights_are_wide(
    data: tuple[int, ...], weights: tuple[int, ...], contracted: tuple[int, ...], order: list[str]
) -> None:
    graph = single("FULLY_CONNECTED", [data, weights], [(math.prod(data) // weights[1], 10)], weights=(1,))
    assert (graph.ops[0].attrs["contracted"], _names(graph)) == (contracted, order)


def test_dense_layer_whose_data_does_not_fill_its_rows_is_corrupt() -> None:
    with pytest.raises(CorruptModel, match="data of shape"):
        single("FULLY_CONNECTED", [(1, 21), (10, 20)], [(1, 10)], weights=(1,))


def test_convolution_tells_its_geometry() -> None:
    settings = options("Conv2DOptions", strideH=2, strideW=1, dilationHFactor=1, dilationWFactor=3)
    graph = single("CONV_2D", [(1, 9, 9, 4), (8, 3, 5, 2)], [(1, 4, 9, 8)], settings, (1,))
    window = {"kernel": (3, 5), "stride": (2, 1), "dilation": (1, 3), "padding": "same"}
    expected = {"out_channels": 8, "groups": 2, **window}
    assert graph.ops[0].attrs == expected


def test_fused_activation_is_named() -> None:
    graph = single("MUL", [(4,), (4,)], [(4,)], options("MulOptions", fusedActivationFunction=3))
    assert graph.ops[0].attrs["activation"] == "relu6"


def test_local_response_reaches_to_both_sides() -> None:
    settings = options("LocalResponseNormalizationOptions", radius=2)
    graph = single("LOCAL_RESPONSE_NORMALIZATION", [(1, 2, 2, 8)], [(1, 2, 2, 8)], settings)
    assert graph.ops[0].attrs["size"] == 5


def test_unknown_custom_operator_keeps_its_own_name() -> None:
    graph = single("SignalFftAutoScale", [(1, 512)], [(1, 512), ()])
    cost = count(graph)
    assert (graph.ops[0].kind, graph.ops[0].source) == ("SignalFftAutoScale", "SignalFftAutoScale")
    assert cost.known.tolist() == [False]


@pytest.mark.parametrize("code", ["conv", "softmax", "lstm"])
def test_custom_operator_does_not_borrow_the_rule_of_a_kind_by_its_name(code: str) -> None:
    graph = single(code, [(1, 8), (8, 8)], [(1, 8)])
    assert not count(graph).known.any()
    assert graph.ops[0].source == code


def test_custom_operator_named_like_a_builtin_one_is_not_that() -> None:
    file = File()
    data, out = file.main.tensor("x", (4,)), file.main.tensor("y", (4,))
    file.main.op("SomeOperator", [data], [out])
    file.main.ends([data], [out])
    file.model.operatorCodes[0].customCode = "RELU"
    graph = file.load()
    assert not count(graph).known.any()
    assert graph.ops[0].source == "RELU"


@pytest.mark.parametrize(
    ("deprecated", "builtin"), [(3, 0), (3, 3), (0, 3)], ids=["deprecated field", "both", "new field"]
)
def test_operator_code_may_stand_in_either_field(deprecated: int, builtin: int) -> None:
    file = File()
    data, out = file.main.tensor("x", (1, 8, 8, 3)), file.main.tensor("y", (1, 6, 6, 8))
    weights = file.main.tensor("w", (8, 3, 3, 3), data=bytes(8 * 27 * 4))
    file.main.op("CONV_2D", [data, weights], [out])
    file.main.ends([data], [out])
    file.model.operatorCodes[0].deprecatedBuiltinCode = deprecated
    file.model.operatorCodes[0].builtinCode = builtin
    assert file.load().ops[0].source == "CONV_2D"


def test_codes_above_127_are_read_from_the_new_field() -> None:
    graph = single("GELU", [(4,)], [(4,)])
    assert (graph.ops[0].source, graph.ops[0].kind) == ("GELU", "gelu")


def test_builtin_code_of_the_future_is_unknown_and_not_an_error() -> None:
    file = File()
    data, out = file.main.tensor("x", (4,)), file.main.tensor("y", (4,))
    file.main.op("ADD", [data, data], [out])
    file.main.ends([data], [out])
    file.model.operatorCodes[0].builtinCode = 9999
    graph = file.load()
    assert graph.ops[0].source == "BUILTIN_9999"
    assert not count(graph).known.any()
