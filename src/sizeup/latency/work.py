"""Kernels as columns, the input of all latency estimators, from a graph or from measured tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import attention, conv, cost_rule_of
from sizeup.ops.cost_rule import UnknownShape, call_of
from sizeup.symbolic import divide

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# The shape of a matrix product: length of its sums, columns of its result, rows of its result.
Product: TypeAlias = tuple[float, float, float]
_NO_PRODUCT: Product = (0.0, 0.0, 0.0)

_BY_FAMILY = {
    "elementwise": "elementwise",
    "reduction": "reduce",
    "layout": "copy",
    "lookup": "index",
    "resample": "resize",
    "recurrent": "recurrent",
    "control": "control",
}
CLASSES = (
    "conv_stem", "conv", "conv_1x1", "conv_grouped", "depthwise_3", "depthwise_5", "depthwise_7",
    "conv_transpose", "deform_conv", "linear", "matmul", "attention", "attention_masked",
    "attention_apart", "recurrent", "batch_norm", "layer_norm", "layer_norm_strided", "group_norm", "softmax",
    "activation", "elementwise", "scaling", "pool", "reduce", "copy", "copy_strided", "concat", "index",
    "resize", "quantize", "control", "weights", "weight_norm", "other",
)  # fmt: skip
"""The classes that `work_of` distinguishes; measured tables may have others."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One row per kernel; `kind` indexes `names`, and `network` is the network of the kernel.

    `length`, `columns` and `rows` are the shape of a matrix product, 0 for other kernels. A kernel that runs
    `count` times is one row.
    """

    names: tuple[str, ...]
    networks: int
    network: Codes
    class_index: Codes
    macs: Floats
    read: Floats  # bytes of activations
    written: Floats
    weights: Floats  # bytes of weights
    length: Floats
    columns: Floats
    rows: Floats
    count: Floats

    def __len__(self) -> int:
        return len(self.class_index)

    @property
    def traffic(self) -> Floats:
        """Bytes that a kernel moves: activations and weights."""
        return self.read + self.written + self.weights

    def totals(self, column: Floats) -> Floats:
        """Sums over all kernels, one per network."""
        return np.asarray(np.bincount(self.network, column * self.count, self.networks), np.float64)

    def by_class(self, column: Floats) -> Floats:
        """Sums over the kernels of a class, one row per network and one column per class."""
        cell = self.network * len(self.names) + self.class_index
        flat = np.bincount(cell, column * self.count, self.networks * len(self.names))
        return np.asarray(flat, np.float64).reshape(self.networks, len(self.names))

    def select(self, networks: Sequence[int] | Codes) -> Work:
        """The work of some networks, renumbered in that order."""
        chosen = np.asarray(networks, np.int64)
        order = np.argsort(self.network, kind="stable")
        first = np.searchsorted(self.network[order], np.arange(self.networks + 1))
        lengths = first[chosen + 1] - first[chosen]
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self._select(
            order[np.repeat(first[chosen], lengths) + inside],
            np.repeat(np.arange(len(chosen)), lengths),
            len(chosen),
        )

    def _select(self, rows: Codes, network: Codes, networks: int) -> Work:
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS if name != "network"}
        return Work(self.names, networks, network.astype(np.int64), **columns)

    def at_batch(self, batch: float | Floats) -> Work:
        """The same kernels at a batch size (one for all networks, or one per network).

        Weights do not grow, nor do kernels that access only weights: they prepare them once for all samples.
        """
        times = np.broadcast_to(np.asarray(batch, np.float64), (self.networks,))[self.network]
        times = np.where((self.read + self.written > 0) | (self.weights == 0), times, 1.0)
        return replace(
            self,
            macs=self.macs * times,
            read=self.read * times,
            written=self.written * times,
            rows=self.rows * times,
        )


_COLUMNS = tuple(field.name for field in fields(Work) if field.name not in ("names", "networks"))


def from_columns(
    names: Iterable[str], networks: int, network: Sequence[int] | Codes, **columns: Sequence[float] | Floats
) -> Work:
    """Work from plain columns; missing columns are 0, except `count`, which is 1."""
    labels = list(names)
    vocabulary = tuple(dict.fromkeys(labels))
    code = {name: index for index, name in enumerate(vocabulary)}
    zeros = np.zeros(len(labels))
    by_name: Mapping[str, Any] = {"count": zeros + 1, **columns}
    return Work(
        vocabulary,
        networks,
        np.asarray(network, np.int64),
        np.array([code[label] for label in labels], np.int64),
        *(_column(by_name.get(name, zeros)) for name in _COLUMNS[2:]),
    )


def _column(column: Any) -> Floats:
    """The column as floats; expressions of symbolic dimensions are unchanged."""
    values = np.asarray(column)
    return values if values.dtype == object else values.astype(np.float64, copy=False)


def stack(works: Sequence[Work]) -> Work:
    """The work of several networks in one object, in that order, over the classes of all of them."""
    vocabulary = tuple(dict.fromkeys(name for work in works for name in work.names))
    code = {name: index for index, name in enumerate(vocabulary)}
    offsets = np.cumsum([0, *(work.networks for work in works)])
    return Work(
        vocabulary,
        int(offsets[-1]),
        _concatenate([work.network + offset for work, offset in zip(works, offsets, strict=False)]),
        _concatenate(
            [np.array([code[name] for name in work.names], np.int64)[work.class_index] for work in works]
        ),
        *(np.concatenate([getattr(work, name) for work in works]) for name in _COLUMNS[2:]),
    )


def _concatenate(parts: list[Codes]) -> Codes:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def work_of(cost: Cost, precision: DType | None = None) -> Work:
    """The kernels of a counted graph, one row per op; ops without MACs, elements and bytes run 0 times."""
    graph = cost.graph
    moved = cost.bytes_at(precision)
    weights = cost.reads.by_op(np.where(cost.reads.is_weight, cost.reads.bytes_at(precision), 0))
    shapes = np.array([product_of(graph, op) for op in graph.ops], np.float64).reshape(-1, 3)
    idle = (cost.macs == 0) & (cost.elementwise == 0) & (moved.read == 0) & (moved.written == 0) & cost.known
    return from_columns(
        [class_of(graph, op) for op in graph.ops],
        1,
        np.zeros(len(graph.ops), np.int64),
        macs=cost.macs.astype(np.float64),
        read=(moved.read - weights).astype(np.float64),
        written=moved.written.astype(np.float64),
        weights=weights.astype(np.float64),
        length=shapes[:, 0],
        columns=shapes[:, 1],
        rows=shapes[:, 2],
        count=(~idle).astype(np.float64),
    )


def class_of(graph: Graph, op: Op) -> str:
    """The class of an op's kernel, one of `CLASSES`."""
    rule = cost_rule_of(op.kind)
    if op.kind == "conv":
        return _class_of_conv(graph, op)
    if rule is None:
        return "other"
    if rule.family == "matmul":
        return "linear" if len(op.inputs) > 1 and _is_constant(graph, op.inputs[1]) else "matmul"
    if rule.family == "attention":
        return _class_of_attention(graph, op)
    if op.kind == "layer_norm":
        return "group_norm" if "group" in op.source.lower() else _class_of_norm(graph, op)
    if rule.latency == "activation":
        return rule.latency
    if op.kind == "copy":
        # PyTorch copies in these calls only if the input is strided.
        return "copy_strided" if op.source.endswith(_CONTIGUOUS_CALLS) else "copy"
    if rule.family == "elementwise" and any(_is_scale(graph, identity) for identity in op.inputs):
        return "scaling"
    return rule.latency or _BY_FAMILY.get(rule.family, "other")


_CONTIGUOUS_CALLS = (".reshape", ".contiguous", ".flatten")


def _is_scale(graph: Graph, identity: int) -> bool:
    """Whether a tensor is a trained non-scalar: in mixed precision its dtype becomes that of the result."""
    return identity != ABSENT and graph.tensors[identity].is_parameter and bool(graph.tensors[identity].shape)


def _class_of_attention(graph: Graph, op: Op) -> str:
    if len(graph.tensors[op.inputs[0]].shape or ()) > 4:
        return "attention_apart"  # fused kernels take at most 4 dimensions
    return "attention_masked" if len(op.inputs) > 3 and op.inputs[3] != ABSENT else "attention"


def _class_of_norm(graph: Graph, op: Op) -> str:
    is_strided = graph.recorded_run is not None and op.inputs[0] in graph.recorded_run.layouts
    return "layer_norm_strided" if is_strided else "layer_norm"


def _is_constant(graph: Graph, identity: int) -> bool:
    return identity != ABSENT and graph.tensors[identity].data is not None


def _class_of_conv(graph: Graph, op: Op) -> str:
    taps = math.prod(op.attrs.get("kernel", ()) or (1,))
    groups: int = op.attrs.get("groups", 1)
    if is_depthwise(graph, op):
        return "depthwise_3" if taps <= 9 else "depthwise_5" if taps <= 25 else "depthwise_7"
    if groups > 1:
        return "conv_grouped"
    length = product_of(graph, op)[0]
    # Images have up to four channels; 1-D and 3-D kernels are not over images.
    if taps > 1 and length <= 4 * taps and len(op.attrs["kernel"]) == 2:
        return "conv_stem"
    return "conv" if taps > 1 else "conv_1x1"


def is_depthwise(graph: Graph, op: Op) -> bool:
    """Whether each channel has one separate filter: groups = input channels = output channels."""
    return conv.is_depthwise(graph, op) and bool(1 < op.attrs["groups"] == op.attrs["out_channels"])


def product_of(graph: Graph, op: Op) -> Product:
    """Length, columns and rows of an op's matrix product; zeros if it is none."""
    find = _product_formula(op.kind)
    if find is None:
        return _NO_PRODUCT
    tensors = (*op.inputs[:2], op.outputs[0])
    is_known = all(i != ABSENT and graph.tensors[i].shape is not None for i in tensors)
    return find(graph, op) if is_known else _NO_PRODUCT


def _product_formula(op_kind: str) -> Callable[[Graph, Op], Product] | None:
    rule = cost_rule_of(op_kind)
    if rule is not None and rule.family == "conv":
        return _transposed if op_kind == "conv_transpose" else _convolution
    return {"matmul": _matrices, "attention": _attention}.get(op_kind)


def _elements(graph: Graph, identity: int) -> int:
    return graph.tensors[identity].elements or 0


def _convolution(graph: Graph, op: Op) -> Product:
    channels: int = op.attrs["out_channels"]
    length = divide(_elements(graph, op.inputs[1]), max(channels, 1))
    rows = divide(_elements(graph, op.outputs[0]), max(channels, 1))
    return length, divide(channels, op.attrs.get("groups", 1)), rows


def _transposed(graph: Graph, op: Op) -> Product:
    channels: int = op.attrs["in_channels"]
    columns = divide(_elements(graph, op.inputs[1]), max(channels, 1))
    rows = divide(_elements(graph, op.inputs[0]), max(channels, 1))
    return divide(channels, op.attrs.get("groups", 1)), columns, rows


def _matrices(graph: Graph, op: Op) -> Product:
    left, result = graph.tensors[op.inputs[0]].shape or (), graph.tensors[op.outputs[0]].shape or ()
    length = math.prod(left[axis] for axis in op.attrs["contracted"])
    columns = result[-1] if result else 1
    return length, columns, divide(math.prod(result), max(columns, 1))


def _attention(graph: Graph, op: Op) -> Product:
    """Rows are the queries of all heads; columns are the keys of each, with cached ones."""
    try:
        rows, _, keys, size, _ = attention.sizes_of(call_of(graph, op))
        elements = _elements(graph, op.inputs[0])
        return size, divide(rows * keys * size, elements), divide(elements, size)
    except (UnknownShape, LookupError, ArithmeticError, ValueError):
        return _NO_PRODUCT
