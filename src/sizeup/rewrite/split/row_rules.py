"""Which rows of its inputs an operator needs to compute some rows of its output.

Rows are positions along one axis of a 4-D tensor (batch, height, width, channels): its height or its width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from sizeup.backends.tflm.kernel import Strips
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor, name_of
from sizeup.ops import cost_rule_of


class Rows(NamedTuple):
    """A range of rows, without its end."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.stop - self.start


class Padding(NamedTuple):
    """Rows or columns that are added before and after."""

    before: int
    after: int


NO_PADDING = Padding(0, 0)


class Needs(NamedTuple):
    """The rows of the sliced inputs for some rows of the output, and the padding around the first input.

    `pads` is the padding per axis that the operator applies; None if it applies none.
    """

    rows: Rows
    pads: tuple[Padding, ...] | None = None


NeedsOf: TypeAlias = Callable[[Rows], Needs | None]


@dataclass(frozen=True, slots=True)
class StripRule:
    """How one operator is executed in strips.

    `sliced` are the positions of the inputs of which only some rows are needed; all others are read whole.
    `needs` returns None for rows that it cannot compute alone.
    """

    sliced: tuple[int, ...]
    needs: NeedsOf
    is_pad: bool = False  # the operator is itself a padding


# Of computed tensors: what the kernels of SLICE and CONCATENATION move.
_TYPES = frozenset(("int8", "int16", "int32", "float32", "bool"))
_RANK = 4


def is_computed(tensor: Tensor) -> bool:
    """Whether a tensor is computed during the inference."""
    return tensor.data is None


def strip_rule(graph: Graph, op: Op, axis: int) -> StripRule | str:
    """How an operator is executed in strips along an axis, or the reason why it cannot be."""
    label, strips = _label(graph, op), _strips_of(op)
    if not strips:
        return f"{label} cannot be executed in strips"
    if len(op.outputs) != 1 or not op.inputs or op.inputs[0] == ABSENT:
        return f"{label} has no single output"
    if strips != "windows" and ABSENT in op.inputs:
        return f"{label} lacks an input"
    output = graph.tensors[op.outputs[0]]
    tensors = [graph.tensors[identity] for identity in op.inputs if identity != ABSENT]
    if not is_computed(output) or any(not _is_plain(tensor) for tensor in (*tensors, output)):
        return f"{label} has a shape or a dtype that is not supported"
    if len(output.shape or ()) != _RANK:
        return f"{label} has {len(output.shape or ())} dimensions; 4 are required"
    rule = {"padding": _pad_rule, "windows": _window_rule, "rows": _rowwise_rule}[strips](graph, op, axis)
    if isinstance(rule, StripRule):
        sliced = (output, *(graph.tensors[op.inputs[position]] for position in rule.sliced))
        if any(tensor.quant is not None and len(tensor.quant.scale) > 1 for tensor in sliced):
            return f"{label} has computed values with several scales"
    return rule


def _strips_of(op: Op) -> Strips:
    """Which rows of its inputs TFLite Micro's kernel needs; elementwise ones need the same as they write."""
    kernel, rule = KERNELS.get(op.source), cost_rule_of(op.kind)
    if kernel is None or not kernel.is_portable:
        return ""
    return "rows" if rule is not None and rule.family == "elementwise" else kernel.strips


def _label(graph: Graph, op: Op) -> str:
    return f"{op.source or op.kind} {name_of(graph, op)!r}"


def _is_plain(tensor: Tensor) -> bool:
    if tensor.shape is None or 0 in tensor.shape:
        return False
    return tensor.data is not None or tensor.dtype.name in _TYPES


def _rowwise_rule(graph: Graph, op: Op, axis: int) -> StripRule | str:
    """Elementwise operators and concatenations along another axis: a row needs the same row of its inputs."""
    label = _label(graph, op)
    output = graph.tensors[op.outputs[0]].shape or ()
    sliced = []
    for position, identity in enumerate(op.inputs):
        tensor = graph.tensors[identity]
        size = _size(tensor.shape or (), axis)
        if size == output[axis] and size > 1:
            if not is_computed(tensor) or len(tensor.shape or ()) != _RANK:
                return f"{label} reads a constant with one value per row"
            sliced.append(position)
        elif size != 1 or op.source == "CONCATENATION":
            return f"{label} combines rows"
    return StripRule(tuple(sliced), Needs) if sliced else f"{label} reads no rows"


def _size(shape: Shape, axis: int) -> int:
    """The size along an axis of a shape that is broadcast to four dimensions."""
    position = axis - _RANK + len(shape)
    return 1 if position < 0 else shape[position]


def _pad_rule(graph: Graph, op: Op, axis: int) -> StripRule | str:
    label = _label(graph, op)
    data, paddings = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]]
    output = graph.tensors[op.outputs[0]].shape or ()
    if paddings.data is None or paddings.data.read is None or paddings.elements != 2 * _RANK:
        return f"{label} has no constant paddings"
    pads = [Padding(int(before), int(after)) for before, after in np.reshape(paddings.data.read(), (-1, 2))]
    shape = data.shape or ()
    if len(shape) != _RANK or output != tuple(size + sum(pad) for size, pad in zip(shape, pads, strict=True)):
        return f"{label} has other shapes than its paddings"
    if min(min(pad) for pad in pads) < 0:
        return f"{label} has negative paddings"

    def needs(rows: Rows) -> Needs | None:
        inner, pad = _clipped(rows.start - pads[axis].before, rows.stop - pads[axis].before, shape[axis])
        return None if inner is None else Needs(inner, _at_axis(pads, axis, pad))

    return StripRule((0,), needs, is_pad=True)


def _window_rule(graph: Graph, op: Op, axis: int) -> StripRule | str:
    label = _label(graph, op)
    data, output = (graph.tensors[identity].shape or () for identity in (op.inputs[0], op.outputs[0]))
    attrs: Mapping[str, tuple[int, ...]] = op.attrs
    if len(data) != _RANK or not is_computed(graph.tensors[op.inputs[0]]) or "stride" not in attrs:
        return f"{label} has no windows over computed data"
    is_same = op.attrs.get("padding") == "same"
    spans = [
        (taps - 1) * step + 1
        for taps, step in zip(attrs["kernel"], attrs.get("dilation", (1, 1)), strict=True)
    ]
    pads = [NO_PADDING] * _RANK
    for side in (1, 2):
        size, stride, span = data[side], attrs["stride"][side - 1], spans[side - 1]
        expected = -(-size // stride) if is_same else -(-(size - span + 1) // stride)
        if output[side] != expected or expected < 1:
            return f"{label} has another output shape than its padding"
        total = max(0, (expected - 1) * stride + span - size) if is_same else 0
        pads[side] = Padding(total // 2, total - total // 2)
    if any(map(any, pads)) and op.kind == "pool":
        return f"{label} ignores its padding, which PAD cannot express"
    stride, span, size = attrs["stride"][axis - 1], spans[axis - 1], data[axis]

    def needs(rows: Rows) -> Needs | None:
        start = rows.start * stride - pads[axis].before
        inner, pad = _clipped(start, (rows.stop - 1) * stride - pads[axis].before + span, size)
        return None if inner is None else Needs(inner, _at_axis(pads, axis, pad) if is_same else None)

    return StripRule((0,), needs)


def _clipped(start: int, stop: int, size: int) -> tuple[Rows | None, Padding]:
    """The rows inside a tensor, and how many are outside of it; None if all are outside."""
    inner = Rows(max(start, 0), min(stop, size))
    if inner.size < 1:
        return None, NO_PADDING
    return inner, Padding(max(0, -start), max(0, stop - size))


def _at_axis(pads: list[Padding], axis: int, pad: Padding) -> tuple[Padding, ...]:
    return (*pads[:axis], pad, *pads[axis + 1 :])
