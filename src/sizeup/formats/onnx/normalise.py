"""ONNX's operators in the form that rules expect: inputs in one order, attributes by one name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.graph import Shape
from sizeup.ops import kind_of
from sizeup.ops.matmul import letters


class Site(NamedTuple):
    """An operator with the shapes around it; None where a shape is unknown or an input not given."""

    node: Node
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]

    def shape(self, index: int) -> Shape | None:
        """The shape of an input, if it is given and known."""
        return self.inputs[index] if index < len(self.inputs) else None

    def given(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])


@dataclass(frozen=True, slots=True)
class Form:
    """The places of inputs in the order that the rule expects (others follow), attributes, and the kind."""

    order: tuple[int, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    kind: str = ""

    def places(self, count: int) -> list[int]:
        """Where each input of the normalised operator comes from; -1 where there is none."""
        first = [index if index < count else -1 for index in self.order]
        rest = [index for index in range(count) if index not in self.order]
        while not rest and first and first[-1] == -1:
            first.pop()
        return first + rest


class Contradiction(Exception):
    """Sizes of an operator contradict each other, which other sizes of its inputs might not do."""


_Normaliser: TypeAlias = Callable[[Site], Form]
_NORMALISERS: dict[str, _Normaliser] = {}
PLAIN = Form()
# An input that no operator has: it keeps the place of an absent bias when others follow.
_NO_BIAS = 99
# Its weights may end with their channels.
_NHWC_CONV = "com.microsoft::NhwcFusedConv"


def kind(node: Node) -> str:
    """The kind that the operator's name stands for; the name itself where no rule knows it."""
    return kind_of("onnx", node.op) or node.op


def needs_form(node: Node) -> bool:
    """Whether the operator differs from what rules expect; most do not."""
    return node.op in _NORMALISERS


def normalised(site: Site) -> Form:
    """The form of an operator that needs one."""
    return _NORMALISERS[site.node.op](site)


def normaliser(*names: str) -> Callable[[_Normaliser], _Normaliser]:
    """Register the decorated function for operators of these names; '.' stands for ONNX Runtime's domain."""

    def register(function: _Normaliser) -> _Normaliser:
        for name in names:
            _NORMALISERS[name.replace(".", "com.microsoft::")] = function
        return function

    return register


def _activation(node: Node) -> dict[str, Any]:
    text = node.text("activation")
    return {"activation": text.lower()} if text else {}


def _check_places(node: Node) -> None:
    """Refuse what runtimes refuse of the places of a window, for shapes may be inferred from it."""
    node.sizes("strides")
    node.sizes("dilations")
    if min(node.integers("pads"), default=0) < 0:
        node.refuse(f"attribute pads is {node.integers('pads')}; none may be negative")


def _window(node: Node, filter_shape: Shape | None) -> dict[str, Any]:
    kernel = node.sizes("kernel_shape") or (filter_shape or ())[2:]
    _check_places(node)
    if filter_shape and kernel != filter_shape[2:] and node.op != _NHWC_CONV:
        node.refuse(f"kernel_shape is {kernel}, the shape of its weights {filter_shape}")
    return {
        "groups": node.size("group", 1),
        "kernel": kernel,
        "stride": node.sizes("strides") or (1,) * len(kernel),
        "dilation": node.sizes("dilations") or (1,) * len(kernel),
    }


def _conv(site: Site, order: tuple[int, ...]) -> Form:
    filter_shape = site.shape(order[1])
    attrs = _window(site.node, filter_shape) | _activation(site.node)
    if filter_shape:
        attrs["out_channels"] = filter_shape[0]
    return Form(order, attrs)


@normaliser("Conv", ".FusedConv", ".NhwcFusedConv")
def _plain_conv(site: Site) -> Form:
    return _conv(site, (0, 1, 2))


@normaliser("ConvInteger")
def _conv_of_integers(site: Site) -> Form:
    return _conv(site, (0, 1, _NO_BIAS))


@normaliser("QLinearConv", ".QLinearConv")
def _quantised_conv(site: Site) -> Form:
    return _conv(site, (0, 3, 8))


@normaliser("DeformConv")
def _deform_conv(site: Site) -> Form:
    return _conv(site, (0, 1, 3, 2, 4))


@normaliser("ConvTranspose")
def _conv_transpose(site: Site) -> Form:
    filter_shape = site.shape(1)
    attrs = _window(site.node, filter_shape)
    if filter_shape:
        attrs["in_channels"] = filter_shape[0]
    return Form((0, 1, 2), attrs)


def _product(order: tuple[int, ...], axis: int = -1, **attrs: Any) -> Form:
    return Form(order, {"contracted": (axis,), **attrs})


@normaliser("MatMul")
def _matmul(site: Site) -> Form:
    return _product((0, 1))


@normaliser("MatMulInteger")
def _matmul_of_integers(site: Site) -> Form:
    return _product((0, 1, _NO_BIAS))


@normaliser("QLinearMatMul")
def _quantised_matmul(site: Site) -> Form:
    return _product((0, 3, _NO_BIAS))


@normaliser(".DynamicQuantizeMatMul")
def _dynamic_matmul(site: Site) -> Form:
    return _product((0, 1, 4))


@normaliser(".MatMulIntegerToFloat")
def _matmul_to_float(site: Site) -> Form:
    return _product((0, 1, 6))


@normaliser(".MatMulNBits")
def _packed_matmul(site: Site) -> Form:
    return _product((0, 1, 5))


@normaliser(".MatMulBnb4")
def _table_matmul(site: Site) -> Form:
    return _product((0, 1, _NO_BIAS))


@normaliser("Gemm", ".FusedGemm")
def _gemm(site: Site) -> Form:
    return _product((0, 1, 2), 0 if site.node.integer("transA") else 1, **_activation(site.node))


@normaliser(".QGemm")
def _quantised_gemm(site: Site) -> Form:
    return _product((0, 3, 6), 0 if site.node.integer("transA") else 1)


@normaliser(".FusedMatMul", ".TransposeMatMul")
def _fused_matmul(site: Site) -> Form:
    """With transBatchA the rows lead and the batch lies between; with transA too, what is summed leads."""
    node = site.node
    if not node.integer("transA"):
        return _product((0, 1))
    return _product((0, 1), 0 if node.integer("transBatchA") else -2)


@normaliser("Einsum")
def _einsum(site: Site) -> Form:
    equation = site.node.text("equation")
    terms = equation.partition("->")[0].replace(" ", "").split(",")
    # A rank that is not known does not matter: neither is the operator's cost then.
    ranks = [
        len(term.replace("...", "")) if shape is None else len(shape)
        for term, shape in zip(terms, site.inputs, strict=True)
    ]
    spelled, result = letters(equation, ranks)
    return Form((), {"terms": spelled, "result": result})


@normaliser("LSTM", "GRU", "RNN", ".DynamicQuantizeLSTM")
def _recurrent(site: Site) -> Form:
    """X is (steps, batch, features), or batch first; W and R are (directions, gates x units, inner)."""
    recurrent = site.shape(2)
    attrs: dict[str, Any] = {"rows": (0, 1), "matrices": (1, 2)}
    if recurrent:
        units = recurrent[1] if "::" in site.node.op else recurrent[-1]
        if site.node.size("hidden_size", units) != units:
            site.node.refuse(f"hidden_size is not the {units} of its recurrent weights, {recurrent}")
        attrs["units"] = recurrent[0] * units
    return Form((), attrs)


@normaliser("AveragePool", "MaxPool", "LpPool", ".QLinearAveragePool", ".NhwcMaxPool")
def _pool(site: Site) -> Form:
    _check_places(site.node)
    kernel, data = site.node.sizes("kernel_shape"), site.shape(0)
    if not kernel or (data is not None and len(kernel) != len(data) - 2):
        site.node.refuse(f"kernel_shape {kernel} for data of the shape {data}")
    return Form((), {"taps": math.prod(kernel)})


def _samples(mode: str, axes: int) -> int:
    """Input numbers that one output number is made of: along each axis 1, 2 or 4."""
    along_one = 1 if "nearest" in mode else 4 if "cubic" in mode else 2
    return math.prod([along_one] * axes)


@normaliser("Resize", "Upsample")
def _resize(site: Site) -> Form:
    before, after = site.shape(0), site.outputs[0] if site.outputs else None
    if before is None or after is None:
        return PLAIN
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    return Form((), {"taps": _samples(site.node.text("mode", "nearest"), changed)})


@normaliser("GridSample", ".GridSample")
def _grid_sample(site: Site) -> Form:
    data = site.shape(0)
    return (
        PLAIN
        if data is None
        else Form((), {"taps": _samples(site.node.text("mode", "linear"), len(data) - 2)})
    )


@normaliser("RoiAlign")
def _roi_align(site: Site) -> Form:
    """Four numbers for each sample of a bin; how many samples an adaptive ratio takes depends on data."""
    for name in ("output_height", "output_width"):
        site.node.size(name, 1)
    ratio = site.node.integer("sampling_ratio")
    if ratio < 0:
        site.node.refuse(f"attribute sampling_ratio is {ratio}; it must not be negative")
    samples = max(ratio, 1) ** 2
    return Form((), {"taps": 4 * samples})


@normaliser("LRN")
def _local_response(site: Site) -> Form:
    return Form((), {"size": site.node.size("size", 1)})


@normaliser("ScatterElements", "ScatterND", "Scatter")
def _scatter(site: Site) -> Form:
    return Form(kind="scatter_add") if site.node.text("reduction", "none") != "none" else PLAIN


@normaliser(".QLinearAdd", ".QLinearMul")
def _quantised_pair(site: Site) -> Form:
    return Form((0, 3))


@normaliser(".QLinearWhere")
def _quantised_where(site: Site) -> Form:
    return Form((0, 1, 4))


@normaliser(".QLinearConcat")
def _quantised_concat(site: Site) -> Form:
    return Form(tuple(range(2, len(site.node.inputs), 3)))


@normaliser(".GroupNorm")
def _group_norm(site: Site) -> Form:
    return Form((), {"activation": "silu"} if site.node.integer("activation") else {})
