"""Lowering of TFLite operators: input order, and the attributes that cost rules use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sizeup.formats.tflite import control, stablehlo  # noqa: F401 - importing registers their lowerings
from sizeup.formats.tflite.node import LOWERINGS, Node
from sizeup.formats.tflite.schema import numbers
from sizeup.graph import ABSENT, Constant, Shape, Tensor

_ACTIVATIONS = {1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "sign_bit"}


def _fuse(node: Node, options: Any | None) -> None:
    """Record the fused activation."""
    if options is not None:
        code = options.FusedActivationFunction()
        if code:
            node.attrs["activation"] = _ACTIVATIONS.get(code, f"activation_{code}")


def _fused(table: str) -> Callable[[Node], None]:
    """Lowering of operators that only need their fused activation."""
    return lambda node: _fuse(node, node.options(table))


def _filter(node: Node, rank: int) -> Shape:
    """The filter shape; all ones if it depends on data (the cost rule detects that case)."""
    return node.shape(1, rank) or (1,) * rank


@LOWERINGS("CONV_2D")
def _conv_2d(node: Node) -> None:
    """Filter (out, h, w, in per group)."""
    options = node.options("Conv2DOptions")
    _fuse(node, options)
    data, filters = node.shape(0), _filter(node, 4)
    groups = data[3] // filters[3] if data is not None and len(data) == 4 else 1
    node.attrs.update(out_channels=filters[0], groups=groups, kernel=filters[1:3], **_window(node, options))


@LOWERINGS("DEPTHWISE_CONV_2D")
def _depthwise_conv_2d(node: Node) -> None:
    """Filter (1, h, w, out); one group per input channel."""
    options = node.options("DepthwiseConv2DOptions")
    _fuse(node, options)
    data, filters = node.shape(0), _filter(node, 4)
    groups = data[3] if data is not None and len(data) == 4 else filters[3]
    node.attrs.update(out_channels=filters[3], groups=groups, kernel=filters[1:3], **_window(node, options))


_PADDINGS = ("same", "valid")


def _window(node: Node, options: Any | None) -> dict[str, Any]:
    if options is None:
        return {}
    return {
        "stride": _stride(node, options),
        "dilation": node.sizes("dilations", (options.DilationHFactor(), options.DilationWFactor())),
        "padding": _padding(node, options),
    }


def _stride(node: Node, options: Any) -> tuple[int, ...]:
    return node.sizes("strides", (options.StrideH(), options.StrideW()))


def _padding(node: Node, options: Any) -> str:
    code = options.Padding()
    if not 0 <= code < len(_PADDINGS):
        node.fail(f"padding is {code}; the format defines 0 (same) and 1 (valid)")
    return _PADDINGS[code]


@LOWERINGS("CONV_3D")
def _conv_3d(node: Node) -> None:
    """Filter (d, h, w, in per group, out)."""
    _fuse(node, node.options("Conv3DOptions"))
    filters = _filter(node, 5)
    node.attrs.update(out_channels=filters[4], kernel=filters[:3])


def _transposed(node: Node) -> None:
    """Reorder inputs from (output shape, filter, data, bias) to (data, filter, bias, output shape)."""
    shape, filters, data, *bias = (*node.inputs, *[ABSENT] * (3 - len(node.inputs)))
    node.inputs = [data, filters, *(bias or [ABSENT]), shape]


@LOWERINGS("TRANSPOSE_CONV")
def _transpose_conv(node: Node) -> None:
    """Filter (out, h, w, in)."""
    _transposed(node)
    options = node.options("TransposeConvOptions")
    _fuse(node, options)
    filters = _filter(node, 4)
    node.attrs.update(in_channels=filters[3], kernel=filters[1:3])
    if options is not None:
        node.attrs["stride"] = _stride(node, options)


@LOWERINGS("CONV_3D_TRANSPOSE")
def _conv_3d_transpose(node: Node) -> None:
    """Filter (d, h, w, out, in)."""
    _transposed(node)
    _fuse(node, node.options("Conv3DOptions"))
    filters = _filter(node, 5)
    node.attrs.update(in_channels=filters[4], kernel=filters[:3])


@LOWERINGS("Convolution2DTransposeBias")
def _transpose_conv_with_bias(node: Node) -> None:
    """MediaPipe custom operator: data, filter (out, h, w, in), bias."""
    filters = _filter(node, 4)
    node.attrs.update(in_channels=filters[3], kernel=filters[1:3])


@LOWERINGS("FULLY_CONNECTED")
def _fully_connected(node: Node) -> None:
    """Weights (units, in); contracts the trailing axes of the data whose sizes multiply to `in`."""
    _fuse(node, node.options("FullyConnectedOptions"))
    data, weights = node.shape(0), node.shape(1, 2)
    if data is None or weights is None:
        node.attrs["contracted"] = (-1,)
        return
    axis, product = len(data), 1
    while axis and product < weights[1]:
        axis -= 1
        product *= data[axis]
    if product == weights[1]:
        node.attrs["contracted"] = tuple(range(axis, len(data)))
    elif math.prod(data) % weights[1]:
        node.fail(f"data of shape {data} does not match weights of shape {weights}")
    else:
        # The runtime reshapes the flat data into rows across axes, so contract the axis of the weights.
        node.inputs[0], node.inputs[1] = node.inputs[1], node.inputs[0]
        node.attrs.update(contracted=(1,), cut=True)


@LOWERINGS("BATCH_MATMUL")
def _batch_matmul(node: Node) -> None:
    """Left operand (..., rows, inner), or (..., inner, rows) if adjoint."""
    options = node.options("BatchMatMulOptions")
    adjoint = options is not None and options.AdjX()
    node.attrs["adjoint"] = (bool(adjoint), bool(options is not None and options.AdjY()))
    left = node.shape(0)
    if left is not None and len(left) < 2:
        node.fail(f"the left operand has shape {left}; at least 2 dimensions are required")
    node.attrs["contracted"] = (-2,) if adjoint else (-1,)


@LOWERINGS("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(node: Node) -> None:
    options = node.required_options("Pool2DOptions")
    _fuse(node, options)
    kernel = node.sizes("window sizes", (options.FilterHeight(), options.FilterWidth()))
    node.attrs.update(
        taps=math.prod(kernel),
        kernel=kernel,
        stride=_stride(node, options),
        padding=_padding(node, options),
    )


@LOWERINGS("SVDF")
def _svdf(node: Node) -> None:
    """Data (batch, in), feature weights (filters, in), time weights (filters, steps)."""
    options = node.options("SVDFOptions")
    _fuse(node, options)
    node.attrs["rank"] = 0 if options is None else options.Rank()
    for position in range(3):
        node.shape(position, 2)


@LOWERINGS("SOFTMAX")
def _softmax(node: Node) -> None:
    options = node.options("SoftmaxOptions")
    node.attrs["beta"] = 0.0 if options is None else float(options.Beta())


def _numbers(table: str, **fields: str) -> Callable[[Node], None]:
    """Lowering of operators with numbers in their options: attributes and their fields; 0 without options."""

    def lower(node: Node) -> None:
        options = node.options(table)
        for name, field in fields.items():
            node.attrs[name] = 0 if options is None else getattr(options, field)()

    return lower


@LOWERINGS("PACK")
def _pack(node: Node) -> None:
    options = node.options("PackOptions")
    if options is not None and options.ValuesCount() > len(node.inputs):
        node.fail(f"it has {len(node.inputs)} inputs; its options require {options.ValuesCount()}")


def _attributes(**attrs: object) -> Callable[[Node], None]:
    """Lowering of operators that always have the same attributes."""
    return lambda node: node.attrs.update(attrs)


_random = _attributes(random=True)  # outputs differ in every inference, even if all inputs are constants


@LOWERINGS("LOCAL_RESPONSE_NORMALIZATION")
def _local_response(node: Node) -> None:
    """The window extends `radius` channels to each side."""
    options = node.required_options("LocalResponseNormalizationOptions")
    if options.Radius() < 0:
        node.fail(f"radius is {options.Radius()}; it must not be negative")
    node.attrs["size"] = 2 * options.Radius() + 1


@LOWERINGS("REDUCE_WINDOW")
def _reduce_window(node: Node) -> None:
    """Inputs: data, initial value, window, strides, dilations."""
    window = node.integers(2)
    if window is None:
        node.kind = node.source  # the window size is not in the file
        return
    node.attrs["taps"] = math.prod(node.window(window))


@LOWERINGS("SQUEEZE")
def _squeeze(node: Node) -> None:
    """The axes to remove; none means all axes of size 1."""
    options = node.options("SqueezeOptions")
    node.attrs["axes"] = () if options is None else tuple(numbers(options.SqueezeDimsAsNumpy()))


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@LOWERINGS("STRIDED_SLICE")
def _strided_slice(node: Node) -> None:
    """The masks, one bit per dimension; only those with a bit set."""
    options = node.options("StridedSliceOptions")
    if options is not None:
        masks = (
            options.BeginMask(),
            options.EndMask(),
            options.EllipsisMask(),
            options.NewAxisMask(),
            options.ShrinkAxisMask(),
        )
        node.attrs.update({name: mask for name, mask in zip(_MASKS, masks, strict=True) if mask})


@LOWERINGS("ASSIGN_VARIABLE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _two_inputs(node: Node) -> None:
    """Check that the second input (value or scores) exists: the cost rule counts it."""
    node.tensor(1)


@LOWERINGS("VAR_HANDLE")
def _var_handle(node: Node) -> None:
    node.attrs["variable"] = node.variable()


@LOWERINGS("TFLM_DECODE")
def _decode(node: Node) -> None:
    """Inputs are (codes, table) pairs, one pair per output; the codes count as the decoded weights."""
    pairs = [(2 * position, 2 * position + 1) for position in range(len(node.outputs))]
    if len(node.inputs) != 2 * len(pairs) or not all(
        _is_stored(node, position) for pair in pairs for position in pair
    ):
        node.kind = node.source  # another custom operator of the same name
        return
    codes = []
    for output, (position, table) in zip(node.outputs, pairs, strict=True):
        stored, weight = node.tensor(position), node.tensors[output]
        size = _bytes(stored)
        content = Constant("parameter", None, size + _bytes(node.tensor(table)))
        node.tensors[node.inputs[position]] = replace(
            stored, shape=weight.shape, dtype=weight.dtype, quant=weight.quant, data=content
        )
        codes.append(-(-size * 8 // max(weight.dtype.bits, 1)))
    node.attrs["codes"] = tuple(codes)


def _is_stored(node: Node, position: int) -> bool:
    data = node.tensor(position).data if node.has(position) else None
    return data is not None and data.role in ("parameter", "constant")


def _bytes(tensor: Tensor) -> int:
    return ((tensor.elements or 0) * tensor.dtype.bits + 7) // 8


@LOWERINGS("WHERE", "UNIQUE")
def _data_dependent_shape(node: Node) -> None:
    node.has_dynamic_output = True


# Input order of LiteRT's kernels. One direction of an LSTM: four input matrices, four recurrent matrices,
# three peepholes, four biases, a projection and its bias. Matrices of coupled or unused gates are absent.
_LSTM_MATRICES = (*range(1, 9), 16)
_BACKWARD = 17  # offset of the inputs of the backward direction
_AUXILIARY = range(40, 48)
_OUTPUT_GATE = 4


def _layer(node: Node, matrices: Iterable[int], unit_matrices: Iterable[int]) -> None:
    """Set the attributes of a recurrent layer. All axes except the last are batch or time."""
    sequence, units = node.shape(0), 0
    if sequence is not None and len(sequence) < 2:
        node.fail(f"the sequence has shape {sequence}; at least 2 dimensions are required")
    for position in unit_matrices:
        shape = node.shape(position)
        units += shape[0] if shape else 0
    node.attrs.update(
        rows=tuple(range(len(sequence or ()) - 1)),
        matrices=tuple(position for position in matrices if node.has(position)),
        units=units,
    )


@LOWERINGS("LSTM")
def _lstm(node: Node) -> None:
    """One step on (batch, in). The basic kernel has one matrix of shape (4 x units, in + units)."""
    options = node.options("LSTMOptions")
    if len(node.inputs) == 5 and (options is None or options.KernelType() == 1):
        _layer(node, (2,), (2,))
        node.attrs["units"] //= 4
    else:
        _layer(node, _LSTM_MATRICES, (_OUTPUT_GATE,))


@LOWERINGS("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _sequence_lstm(node: Node) -> None:
    _layer(node, _LSTM_MATRICES, (_OUTPUT_GATE,))
    options = node.options("UnidirectionalSequenceLSTMOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


@LOWERINGS("BIDIRECTIONAL_SEQUENCE_LSTM")
def _bidirectional_lstm(node: Node) -> None:
    backward = tuple(position + _BACKWARD for position in _LSTM_MATRICES)
    matrices = (*_LSTM_MATRICES, *backward, *_AUXILIARY)
    _layer(node, matrices, (_OUTPUT_GATE, _OUTPUT_GATE + _BACKWARD))
    options = node.options("BidirectionalSequenceLSTMOptions")
    # The schema's default is true, for files older than the field.
    node.attrs["time_major"] = options is None or bool(options.TimeMajor())


@LOWERINGS("RNN")
def _rnn(node: Node) -> None:
    """One step on (batch, in): input matrix, recurrent matrix, bias, state."""
    _layer(node, (1, 2), (1,))


@LOWERINGS("UNIDIRECTIONAL_SEQUENCE_RNN")
def _sequence_rnn(node: Node) -> None:
    _layer(node, (1, 2), (1,))
    options = node.options("SequenceRNNOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


@LOWERINGS("BIDIRECTIONAL_SEQUENCE_RNN")
def _bidirectional_rnn(node: Node) -> None:
    """Matrices: inputs 1, 2 (forward), 5, 6 (backward), 10, 11 (auxiliary input)."""
    _layer(node, (1, 2, 5, 6, 10, 11), (1, 5))
    options = node.options("BidirectionalSequenceRNNOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


LOWERINGS("RESIZE_BILINEAR")(_attributes(taps=4))
LOWERINGS("RESIZE_NEAREST_NEIGHBOR")(_attributes(taps=1))
LOWERINGS("GATHER")(_numbers("GatherOptions", axis="Axis", batch_dims="BatchDims"))
LOWERINGS("ADD")(_fused("AddOptions"))
LOWERINGS("SUB")(_fused("SubOptions"))
LOWERINGS("MUL")(_fused("MulOptions"))
LOWERINGS("DIV")(_fused("DivOptions"))
LOWERINGS("CONCATENATION")(_fused("ConcatenationOptions"))
LOWERINGS("L2_NORMALIZATION")(_fused("L2NormOptions"))
LOWERINGS("DEPTH_TO_SPACE")(_numbers("DepthToSpaceOptions", block_size="BlockSize"))
LOWERINGS("SPACE_TO_DEPTH")(_numbers("SpaceToDepthOptions", block_size="BlockSize"))
LOWERINGS("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")(_random)
LOWERINGS("MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR")(_random)
