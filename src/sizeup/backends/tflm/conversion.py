"""Which ops a converter can express with the operators of TFLite Micro, or with those that a runtime lists.

An op kind has an operator if one of the names of its cost rule is listed. Converters fold or drop some of the
other op kinds and compose others of several operators (`lowerings`); for the rest, no way is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from sizeup.backends.tflm.kernels import KERNELS, RESOLVED
from sizeup.backends.tflm.lowerings import COMPOSED, FOLDED, lowering_of
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, is_precomputed
from sizeup.memory.liveness import tensor_bytes
from sizeup.ops import UnknownShape, call_of, cost_rule_of, op_kind_of
from sizeup.ops.cost_rule import Format

_MOST_TAPS = 4  # of RESIZE_BILINEAR
_MOST_DIMENSIONS, _TAPS = 4, 3  # of runtimes that exclude more
_SHAPE_OF, _DEPTHWISE = "shape_of", "DEPTHWISE_CONV_2D"
PORTABLE = frozenset(name for name, kernel in KERNELS.items() if kernel.is_portable)
"""Operators of TFLite Micro that other runtimes for microcontrollers are assumed to run."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Op kinds of a graph for which TFLite Micro has no kernel; `composed` are replaced by several.

    Between the operators that replace one op are tensors of at most `between_bytes`.
    """

    missing: tuple[str, ...] = ()
    composed: tuple[str, ...] = ()
    between_bytes: int = 0


def conversion_of(graph: Graph, precision: DType | None = None) -> Conversion:
    """What a conversion to .tflite does with the op kinds that have no kernel, including control flow."""
    missing, composed, sizes = dict[str, None](), dict[str, None](), [0]
    for part, op in _computed(graph):
        operators = COMPOSED.get(op.kind, ())
        if name := _missing(part, op, "tflite", RESOLVED):
            missing[name] = None
        elif len(operators) > 1:
            composed[op.kind] = None
            try:
                sizes.append(_between_bytes(part, op, precision))
            except (LookupError, ArithmeticError, ValueError):  # operands are missing, or lack dimensions
                missing[op.kind] = None
    return Conversion(tuple(missing), tuple(composed), max(sizes))


def unlisted_operators(
    graph: Graph,
    format: Format = "tflite",
    listed: Collection[str] = PORTABLE,
    excluded: Collection[str] = (),
) -> tuple[str, ...]:
    """The op kinds of a graph that cannot be expressed with the listed operators of a format.

    By default, they are those of TFLite Micro that other runtimes have too. A file of the same format has to
    consist of them. `excluded` are uses of listed operators.
    """
    missing = (
        _missing(part, op, format, listed) or _excluded(part, op, excluded) for part, op in _computed(graph)
    )
    return tuple(dict.fromkeys(filter(None, missing)))


def _excluded(graph: Graph, op: Op, excluded: Collection[str]) -> str:
    """The use of an op that is excluded, as text; empty if it is not."""
    if "above 4-D" in excluded and (rank := _rank(graph, op)) > _MOST_DIMENSIONS:
        return f"{rank}-D {op.kind}"
    if op.kind != "conv":
        return ""
    kernel, dilation = (tuple(op.attrs.get(name, ())) for name in ("kernel", "dilation"))
    if "dilated conv" in excluded and max(dilation, default=1) > 1:
        return "dilated conv"
    if _inputs_per_group(graph, op) == 1 or op.source == _DEPTHWISE:
        return ""
    if "conv above 3 x 3" in excluded and max(kernel, default=1) > _TAPS:
        return f"{' x '.join(map(str, kernel))} conv"
    return "grouped conv" if "grouped conv" in excluded and op.attrs.get("groups", 1) > 1 else ""


def _rank(graph: Graph, op: Op) -> int:
    shapes = (graph.tensors[each].shape for each in (*op.inputs, *op.outputs) if each != ABSENT)
    return max((len(shape) for shape in shapes if shape is not None), default=0)


def _inputs_per_group(graph: Graph, op: Op) -> int:
    """The input channels of one group of a convolution; 0 if they are not known."""
    identity = op.inputs[1] if len(op.inputs) > 1 else ABSENT
    shape = None if identity == ABSENT else graph.tensors[identity].shape
    return 0 if shape is None or len(shape) < 2 else int(shape[-1 if graph.format == "tflite" else 1])


def _between_bytes(graph: Graph, op: Op, precision: DType | None) -> int:
    """One tensor per operator but the last, as large as the largest of the op; and those of scores."""
    tensors = [graph.tensors[identity] for identity in (*op.inputs, *op.outputs) if identity != ABSENT]
    sizes = [tensor_bytes(tensor, precision) for tensor in tensors if tensor.data is None]
    size = (len(COMPOSED[op.kind]) - 1) * max(sizes, default=0)
    rule = cost_rule_of(op.kind)
    if rule is None or rule.family != "attention" or rule.elementwise is None:
        return size
    # Every score has at least one elementwise operation. A tensor without a shape has no size at all.
    with suppress(UnknownShape):
        bits = (precision or tensors[0].dtype).bits
        size += int(rule.elementwise(call_of(graph, op))) * bits // 8
    return size


def is_listed(op_kind: str, format: Format, listed: Collection[str]) -> bool:
    """Whether an operator of the op kind is listed."""
    rule = cost_rule_of(op_kind)
    return rule is not None and any(name in listed for name in getattr(rule, format))


def _computed(graph: Graph) -> Iterator[tuple[Graph, Op]]:
    """The ops with their graphs, without those of constants and fixed shapes, which a converter computes."""
    known = {ABSENT}
    for op in graph.ops:
        if is_precomputed(graph, op) or _is_of_shapes(graph, op, known):
            known.update(op.outputs)
            continue
        yield graph, op
        for body in op.bodies:
            yield from _computed(body.graph)


def converted_ops(graph: Graph) -> list[Op]:
    """The ops of the graph itself that a converter writes operators for."""
    return [op for part, op in _computed(graph) if part is graph]


def _is_of_shapes(graph: Graph, op: Op, known: set[int]) -> bool:
    """Whether an op computes from shapes that the file fixes; `known` are the outputs of such ops."""
    read = [identity for identity in op.inputs if identity != ABSENT]
    if op.kind == _SHAPE_OF:
        return all(graph.tensors[identity].shape is not None for identity in read)
    is_fixed = all(identity in known or graph.tensors[identity].data is not None for identity in read)
    return is_fixed and any(identity in known for identity in read) and not op.bodies


def _missing(graph: Graph, op: Op, format: Format, listed: Collection[str]) -> str:
    """The op kind as text if no listed operators can compute the op; empty if some can."""
    name, lowering = op.source.lower(), lowering_of(op.kind)
    if any(part in name for part in lowering.unlike):
        return op.source
    if lowering.most_dimensions and (spatial := _spatial(graph, op)) > lowering.most_dimensions:
        return f"{spatial}-D {op.kind}"
    if op.kind == "resize" and op.attrs.get("taps", 0) > _MOST_TAPS:
        return f"{op.kind} with {op.attrs['taps']} taps"
    if op.kind == "pow" and sum(_is_computed(graph, identity) for identity in op.inputs) > 1:
        return op.kind
    if op.kind in FOLDED or (graph.format == format and op.source in listed):
        return ""
    if graph.format != format and _is_expressible(op.kind, format, listed):
        return ""
    return op.source if op.kind == "pointwise" or graph.format == format else op.kind


def _is_expressible(op_kind: str, format: Format, listed: Collection[str]) -> bool:
    """Whether a converter from another format has operators for an op kind."""
    lowering = lowering_of(op_kind)
    if lowering.fate == "fused" or is_listed(op_kind, format, listed):
        return True
    parts = [op_kind_of("tflite", name) or "" for name in lowering.composed_of]
    return bool(parts) and all(is_listed(kind, format, listed) for kind in parts)


def _is_computed(graph: Graph, identity: int) -> bool:
    return identity != ABSENT and graph.tensors[identity].data is None


def _spatial(graph: Graph, op: Op) -> int:
    """The number of dimensions of a window; 0 if it is not known."""
    if kernel := op.attrs.get("kernel"):
        return len(kernel)
    position = 1 if op.kind in ("conv", "conv_transpose") else 0
    identity = op.inputs[position] if position < len(op.inputs) else ABSENT
    shape = None if identity == ABSENT else graph.tensors[identity].shape
    return 0 if shape is None else len(shape) - 2
