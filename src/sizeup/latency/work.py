"""Kernels as columns: what every estimator of time takes, from a graph or from a table of measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op
from sizeup.ops import conv, rule_of
from sizeup.ops.rule import names
from sizeup.symbolic import divide

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# The shape of a product: length of its sums, columns of its result, rows of its result.
Product: TypeAlias = tuple[float, float, float]
_NO_PRODUCT: Product = (0.0, 0.0, 0.0)

_ACTIVATIONS = frozenset(
    names(
        "relu relu6 leaky_relu prelu elu threshold sigmoid hardsigmoid hardswish silu gelu mish softplus"
        " softsign glu tanh"
    )
)
_BY_KIND = {
    "batch_norm": "batch_norm",
    "rms_norm": "layer_norm",
    "skip_layer_norm": "layer_norm",
    "skip_rms_norm": "layer_norm",
    "embed_layer_norm": "layer_norm",
    "pool": "pool",
    "global_pool": "reduce",
    "softmax": "softmax",
    "log_softmax": "softmax",
    "concat": "concat",
    "conv_transpose": "conv_transpose",
    "deform_conv": "deform_conv",
    "quantize": "quantize",
    "dequantize": "quantize",
    "dynamic_quantize": "quantize",
    "cast": "quantize",
}
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
"""What `work_of` tells apart; a table of measurements may bring classes of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One row a kernel; `kind` indexes `names`, `network` says whose kernel it is.

    Bytes are those at the precision that the work was priced at. `length`, `columns` and `rows` give the
    shape of a product, and are 0 where there is none. A kernel that runs `count` times is one row.
    """

    names: tuple[str, ...]
    networks: int
    network: Codes
    kind: Codes
    macs: Floats
    read: Floats  # bytes of activations
    written: Floats
    weights: Floats  # bytes of weights
    length: Floats
    columns: Floats
    rows: Floats
    count: Floats

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def traffic(self) -> Floats:
        """Bytes that a kernel moves: activations and weights."""
        return self.read + self.written + self.weights

    def totals(self, column: Floats) -> Floats:
        """Sums over all kernels, one number a network."""
        return np.asarray(np.bincount(self.network, column * self.count, self.networks), np.float64)

    def by_class(self, column: Floats) -> Floats:
        """Sums over the kernels of a class, one row a network and one column a class."""
        cell = self.network * len(self.names) + self.kind
        flat = np.bincount(cell, column * self.count, self.networks * len(self.names))
        return np.asarray(flat, np.float64).reshape(self.networks, len(self.names))

    def of(self, networks: Sequence[int] | Codes) -> Work:
        """The work of some networks, numbered anew in that order."""
        wanted = np.asarray(networks, np.int64)
        order = np.argsort(self.network, kind="stable")
        first = np.searchsorted(self.network[order], np.arange(self.networks + 1))
        lengths = first[wanted + 1] - first[wanted]
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self._picked(
            order[np.repeat(first[wanted], lengths) + inside],
            np.repeat(np.arange(len(wanted)), lengths),
            len(wanted),
        )

    def _picked(self, rows: Codes, network: Codes, networks: int) -> Work:
        kept = {each: getattr(self, each)[rows] for each in _COLUMNS if each != "network"}
        return Work(self.names, networks, network.astype(np.int64), **kept)

    def at_batch(self, batch: float | Floats) -> Work:
        """The same kernels on so many samples at once (one number, or one a network).

        Weights stay, and so does a kernel that touches nothing else: it prepares weights for all samples.
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


_COLUMNS = tuple(each.name for each in fields(Work) if each.name not in ("names", "networks"))


def from_columns(
    names: Iterable[str], networks: int, network: Sequence[int] | Codes, **columns: Sequence[float] | Floats
) -> Work:
    """Work from plain columns; one that is not given is 0, and `count` is 1."""
    labels = list(names)
    vocabulary = tuple(dict.fromkeys(labels))
    code = {name: index for index, name in enumerate(vocabulary)}
    empty = np.zeros(len(labels))
    given: Mapping[str, Any] = {"count": empty + 1, **columns}
    return Work(
        vocabulary,
        networks,
        np.asarray(network, np.int64),
        np.array([code[each] for each in labels], np.int64),
        *(_column(given.get(each, empty)) for each in _COLUMNS[2:]),
    )


def _column(given: Any) -> Floats:
    """Floats; expressions of symbolic dimensions stay as they are."""
    values = np.asarray(given)
    return values if values.dtype == object else values.astype(np.float64, copy=False)


def stack(works: Sequence[Work]) -> Work:
    """Several networks side by side, in that order, over the classes of all of them."""
    vocabulary = tuple(dict.fromkeys(name for work in works for name in work.names))
    code = {name: index for index, name in enumerate(vocabulary)}
    offsets = np.cumsum([0, *(work.networks for work in works)])
    return Work(
        vocabulary,
        int(offsets[-1]),
        _joined([work.network + offset for work, offset in zip(works, offsets, strict=False)]),
        _joined([np.array([code[each] for each in work.names], np.int64)[work.kind] for work in works]),
        *(np.concatenate([getattr(work, each) for work in works]) for each in _COLUMNS[2:]),
    )


def _joined(parts: list[Codes]) -> Codes:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def work_of(cost: Cost, precision: DType | None = None) -> Work:
    """The kernels of a counted graph, one row an operator; what moves and computes nothing runs 0 times."""
    graph = cost.graph
    moved = cost.bytes_at(precision)
    held = cost.reads.by_op(np.where(cost.reads.weight, cost.reads.bytes_at(precision), 0))
    shapes = np.array([product_of(graph, op) for op in graph.ops], np.float64).reshape(-1, 3)
    idle = (cost.macs == 0) & (cost.elementwise == 0) & (moved.read == 0) & (moved.written == 0) & cost.known
    return from_columns(
        [class_of(graph, op) for op in graph.ops],
        1,
        np.zeros(len(graph.ops), np.int64),
        macs=cost.macs.astype(np.float64),
        read=(moved.read - held).astype(np.float64),
        written=moved.written.astype(np.float64),
        weights=held.astype(np.float64),
        length=shapes[:, 0],
        columns=shapes[:, 1],
        rows=shapes[:, 2],
        count=(~idle).astype(np.float64),
    )


def class_of(graph: Graph, op: Op) -> str:
    """The class of kernels that an operator belongs to, of `CLASSES`."""
    rule = rule_of(op.kind)
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
    if op.kind in _ACTIVATIONS:
        return "activation"
    if op.kind == "copy":
        # Whoever asks for a copy of what lies in order is given the same bytes.
        return "copy_strided" if op.source.endswith(_ORDERING) else "copy"
    if rule.family == "elementwise" and any(_is_scale(graph, identity) for identity in op.inputs):
        return "scaling"
    return _BY_KIND.get(op.kind) or _BY_FAMILY.get(rule.family, "other")


_ORDERING = (".reshape", ".contiguous", ".flatten")


def _is_scale(graph: Graph, identity: int) -> bool:
    """Whether it is trained and no scalar: where types are mixed, it keeps its own, and gives it to all."""
    return identity != ABSENT and graph.tensors[identity].is_parameter and bool(graph.tensors[identity].shape)


def _class_of_attention(graph: Graph, op: Op) -> str:
    if len(graph.tensors[op.inputs[0]].shape or ()) > 4:
        return "attention_apart"  # merged kernels take a batch of heads, no more dimensions
    return "attention_masked" if len(op.inputs) > 3 and op.inputs[3] != ABSENT else "attention"


def _class_of_norm(graph: Graph, op: Op) -> str:
    turned = graph.run is not None and op.inputs[0] in graph.run.layouts
    return "layer_norm_strided" if turned else "layer_norm"


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
    # Pictures have up to four channels; what slides over channels or frames is no picture.
    if taps > 1 and length <= 4 * taps and len(op.attrs["kernel"]) == 2:
        return "conv_stem"
    return "conv" if taps > 1 else "conv_1x1"


def is_depthwise(graph: Graph, op: Op) -> bool:
    """Whether every channel meets one filter of its own: groups = channels in = channels out."""
    groups: int = op.attrs.get("groups", 1)
    return bool(groups > 1 and op.attrs.get("out_channels") == groups and conv.is_depthwise(graph, op))


def product_of(graph: Graph, op: Op) -> Product:
    """Length, columns and rows of the product that an operator is, where it is one."""
    find = _PRODUCTS.get(op.kind)
    shapes = [None if i == ABSENT else graph.tensors[i].shape for i in (*op.inputs[:3], *op.outputs[:1])]
    if find is None or any(shape is None for shape in shapes[:2]) or shapes[-1] is None:
        return _NO_PRODUCT
    return find(graph, op)


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
    left, made = graph.tensors[op.inputs[0]].shape or (), graph.tensors[op.outputs[0]].shape or ()
    length = math.prod(left[axis] for axis in op.attrs["contracted"])
    columns = made[-1] if made else 1
    return length, columns, divide(math.prod(made), max(columns, 1))


def _attention(graph: Graph, op: Op) -> Product:
    query, keys = graph.tensors[op.inputs[0]].shape or (), graph.tensors[op.inputs[1]].shape or ()
    if len(query) < 2 or len(keys) < 2:
        return _NO_PRODUCT
    heads: int = op.attrs.get("heads", 1)
    return divide(query[-1], heads), keys[-2], math.prod(query[:-1]) * heads


_PRODUCTS: dict[str, Callable[[Graph, Op], Product]] = {
    "conv": _convolution,
    "deform_conv": _convolution,
    "conv_transpose": _transposed,
    "matmul": _matrices,
    "attention": _attention,
}
