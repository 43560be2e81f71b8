"""Lowering of ONNX operators to the form that cost rules expect: order of inputs, names of attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.graph import Shape
from sizeup.ops import op_kind_of
from sizeup.ops.matmul import letters


class LoweringContext(NamedTuple):
    """A node with the shapes of its inputs and outputs; None for unknown shapes and omitted inputs."""

    node: Node
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]

    def shape(self, index: int) -> Shape | None:
        """The shape of an input; None if omitted or unknown."""
        return self.inputs[index] if index < len(self.inputs) else None

    def has_input(self, index: int) -> bool:
        """Whether an optional input is present."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])


@dataclass(frozen=True, slots=True)
class Lowering:
    """The order of inputs for the cost rule (others follow), attributes, and the op kind if it differs."""

    order: tuple[int, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    kind: str = ""

    def input_order(self, count: int) -> list[int]:
        """The index of every lowered input in the node's inputs; -1 for an omitted one."""
        first = [index if index < count else -1 for index in self.order]
        rest = [index for index in range(count) if index not in self.order]
        while not rest and first and first[-1] == -1:
            first.pop()
        return first + rest


class InconsistentSizes(Exception):
    """The sizes of a node are inconsistent; other input sizes may be valid."""


_LoweringFunction: TypeAlias = Callable[[LoweringContext], Lowering]
_LOWERINGS: dict[str, _LoweringFunction] = {}
PLAIN = Lowering()
# An index that no node has: marks an absent bias when other inputs follow.
_NO_BIAS = 99
# The last axis of its weights may be the channels.
_NHWC_CONV = "com.microsoft::NhwcFusedConv"


def op_kind(node: Node) -> str:
    """The op kind of a node; the operator name itself if no cost rule has it."""
    return op_kind_of("onnx", node.op) or node.op


def needs_lowering(node: Node) -> bool:
    """Whether the node needs lowering; most do not."""
    return node.op in _LOWERINGS


def lower(context: LoweringContext) -> Lowering:
    """The lowered form of a node that needs one."""
    return _LOWERINGS[context.node.op](context)


def lowering(*names: str) -> Callable[[_LoweringFunction], _LoweringFunction]:
    """Register the lowering of operators; a '.' prefix means the domain of ONNX Runtime."""

    def register(function: _LoweringFunction) -> _LoweringFunction:
        for name in names:
            _LOWERINGS[name.replace(".", "com.microsoft::")] = function
        return function

    return register


def _activation(node: Node) -> dict[str, Any]:
    text = node.text("activation")
    return {"activation": text.lower()} if text else {}


def _checked_window(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations; rejects invalid ones, and invalid padding, as runtimes do."""
    window = node.sizes("strides"), node.sizes("dilations")
    pads = node.integers("pads")
    if pads and min(pads) < 0:
        node.refuse(f"attribute pads is {pads}; padding must not be negative")
    return window


def _window(node: Node, filter_shape: Shape | None) -> dict[str, Any]:
    kernel = node.sizes("kernel_shape") or (filter_shape or ())[2:]
    strides, dilations = _checked_window(node)
    if filter_shape and kernel != filter_shape[2:] and node.op != _NHWC_CONV:
        node.refuse(f"kernel_shape is {kernel}, but its weights have the shape {filter_shape}")
    return {
        "groups": node.size("group", 1),
        "kernel": kernel,
        "stride": strides or (1,) * len(kernel),
        "dilation": dilations or (1,) * len(kernel),
    }


def _conv(context: LoweringContext, order: tuple[int, ...]) -> Lowering:
    filter_shape = context.shape(order[1])
    attrs = _window(context.node, filter_shape) | _activation(context.node)
    if filter_shape:
        attrs["out_channels"] = filter_shape[0]
    return Lowering(order, attrs)


@lowering("Conv", ".FusedConv", ".NhwcFusedConv")
def _plain_conv(context: LoweringContext) -> Lowering:
    return _conv(context, (0, 1, 2))


@lowering("ConvInteger")
def _conv_of_integers(context: LoweringContext) -> Lowering:
    return _conv(context, (0, 1, _NO_BIAS))


@lowering("QLinearConv", ".QLinearConv")
def _quantized_conv(context: LoweringContext) -> Lowering:
    return _conv(context, (0, 3, 8))


@lowering("DeformConv")
def _deform_conv(context: LoweringContext) -> Lowering:
    return _conv(context, (0, 1, 3, 2, 4))


@lowering("ConvTranspose")
def _conv_transpose(context: LoweringContext) -> Lowering:
    filter_shape = context.shape(1)
    attrs = _window(context.node, filter_shape)
    if filter_shape:
        attrs["in_channels"] = filter_shape[0]
    return Lowering((0, 1, 2), attrs)


def _product(order: tuple[int, ...], axis: int = -1, **attrs: Any) -> Lowering:
    return Lowering(order, {"contracted": (axis,), **attrs})


@lowering("MatMul")
def _matmul(context: LoweringContext) -> Lowering:
    return _product((0, 1))


@lowering("MatMulInteger")
def _matmul_of_integers(context: LoweringContext) -> Lowering:
    return _product((0, 1, _NO_BIAS))


@lowering("QLinearMatMul")
def _quantized_matmul(context: LoweringContext) -> Lowering:
    return _product((0, 3, _NO_BIAS))


@lowering(".DynamicQuantizeMatMul")
def _dynamic_matmul(context: LoweringContext) -> Lowering:
    return _product((0, 1, 4))


@lowering(".MatMulIntegerToFloat")
def _matmul_to_float(context: LoweringContext) -> Lowering:
    return _product((0, 1, 6))


@lowering(".MatMulNBits")
def _packed_matmul(context: LoweringContext) -> Lowering:
    return _product((0, 1, 5))


@lowering(".MatMulBnb4")
def _table_matmul(context: LoweringContext) -> Lowering:
    return _product((0, 1, _NO_BIAS))


@lowering("Gemm", ".FusedGemm")
def _gemm(context: LoweringContext) -> Lowering:
    return _product((0, 1, 2), 0 if context.node.integer("transA") else 1, **_activation(context.node))


@lowering(".QGemm")
def _quantized_gemm(context: LoweringContext) -> Lowering:
    return _product((0, 3, 6), 0 if context.node.integer("transA") else 1)


@lowering(".FusedMatMul", ".TransposeMatMul")
def _fused_matmul(context: LoweringContext) -> Lowering:
    """Contracts the last axis; with transA the second to last, or the first if transBatchA is also set."""
    node = context.node
    if not node.integer("transA"):
        return _product((0, 1))
    return _product((0, 1), 0 if node.integer("transBatchA") else -2)


@lowering("Einsum")
def _einsum(context: LoweringContext) -> Lowering:
    equation = context.node.text("equation")
    terms = equation.partition("->")[0].replace(" ", "").split(",")
    # An unknown rank does not matter, as the cost of the op is unknown too.
    ranks = [
        len(term.replace("...", "")) if shape is None else len(shape)
        for term, shape in zip(terms, context.inputs, strict=True)
    ]
    expanded, result = letters(equation, ranks)
    return Lowering((), {"terms": expanded, "result": result})


@lowering("LSTM", "GRU", "RNN", ".DynamicQuantizeLSTM")
def _recurrent(context: LoweringContext) -> Lowering:
    """X is (steps, batch, features), or batch first; W and R are (directions, gates x units, inner)."""
    recurrent = context.shape(2)
    attrs: dict[str, Any] = {"rows": (0, 1), "matrices": (1, 2)}
    if recurrent:
        units = recurrent[1] if "::" in context.node.op else recurrent[-1]
        if context.node.size("hidden_size", units) != units:
            context.node.refuse(f"hidden_size is not {units}, the size of its recurrent weights {recurrent}")
        attrs["units"] = recurrent[0] * units
    return Lowering((), attrs)


@lowering("AveragePool", "MaxPool", "LpPool", ".QLinearAveragePool", ".NhwcMaxPool")
def _pool(context: LoweringContext) -> Lowering:
    strides, _ = _checked_window(context.node)
    kernel, data = context.node.sizes("kernel_shape"), context.shape(0)
    if not kernel or (data is not None and len(kernel) != len(data) - 2):
        context.node.refuse(f"kernel_shape {kernel} does not match data of shape {data}")
    stride = strides or (1,) * len(kernel)
    return Lowering((), {"taps": math.prod(kernel), "kernel": kernel, "stride": stride})


def _samples(mode: str, axes: int) -> int:
    """Input elements per output element: 1, 2 or 4 along each axis."""
    per_axis = 1 if "nearest" in mode else 4 if "cubic" in mode else 2
    return math.prod([per_axis] * axes)


@lowering("Resize", "Upsample")
def _resize(context: LoweringContext) -> Lowering:
    before, after = context.shape(0), context.outputs[0] if context.outputs else None
    if before is None or after is None:
        return PLAIN
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    return Lowering((), {"taps": _samples(context.node.text("mode", "nearest"), changed)})


@lowering("GridSample", ".GridSample")
def _grid_sample(context: LoweringContext) -> Lowering:
    data = context.shape(0)
    return (
        PLAIN
        if data is None
        else Lowering((), {"taps": _samples(context.node.text("mode", "linear"), len(data) - 2)})
    )


@lowering("RoiAlign")
def _roi_align(context: LoweringContext) -> Lowering:
    """Four elements per sample of a bin; the number of samples of an adaptive ratio depends on data."""
    for name in ("output_height", "output_width"):
        context.node.size(name, 1)
    ratio = context.node.integer("sampling_ratio")
    if ratio < 0:
        context.node.refuse(f"attribute sampling_ratio is {ratio}; it must not be negative")
    samples = max(ratio, 1) ** 2
    return Lowering((), {"taps": 4 * samples})


@lowering("LRN")
def _local_response(context: LoweringContext) -> Lowering:
    return Lowering((), {"size": context.node.size("size", 1)})


@lowering("ScatterElements", "ScatterND", "Scatter")
def _scatter(context: LoweringContext) -> Lowering:
    return Lowering(kind="scatter_add") if context.node.text("reduction", "none") != "none" else PLAIN


@lowering(".QLinearAdd", ".QLinearMul")
def _quantized_pair(context: LoweringContext) -> Lowering:
    return Lowering((0, 3))


@lowering(".QLinearWhere")
def _quantized_where(context: LoweringContext) -> Lowering:
    return Lowering((0, 1, 4))


@lowering(".QLinearConcat")
def _quantized_concat(context: LoweringContext) -> Lowering:
    return Lowering(tuple(range(2, len(context.node.inputs), 3)))


@lowering(".GroupNorm")
def _group_norm(context: LoweringContext) -> Lowering:
    return Lowering((), {"activation": "silu"} if context.node.integer("activation") else {})
