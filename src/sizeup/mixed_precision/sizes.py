"""Which number types fit a threshold, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.dtypes import PRECISIONS, DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor
from sizeup.memory import tensor_bytes, usage
from sizeup.memory.liveness import size_is_known
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import Layer, layers

# tensors: the larger of what a layer reads and what it makes; sum: both; working set: all that is in memory
# while it runs; peak: the most that is in memory at any time, with this layer alone at that type.
Measure = Literal["tensors", "sum", "working set", "peak"]
MEASURES: tuple[Measure, ...] = ("tensors", "sum", "working set", "peak")
# The whole network is looked at anew for each layer at each type.
MOST_PEAKS = 200
USUAL = tuple(PRECISIONS[name] for name in ("fp32", "fp16", "int8", "int4", "int2"))


@dataclass(frozen=True, slots=True)
class Sizes:
    """One layer: bytes at each number type by the measure that was asked for, and the types that fit.

    If a size depends on data the bytes count the known tensors alone, and no type is said to fit.
    """

    layer: Layer
    read_bytes: tuple[int, ...]
    made_bytes: tuple[int, ...]
    bytes: tuple[int, ...]
    kept: tuple[DType, ...]
    input_shapes: tuple[Shape | None, ...]  # of the activations that it reads
    output_shapes: tuple[Shape | None, ...]
    is_known: bool

    @property
    def kept_names(self) -> tuple[str, ...]:
        """The types that fit, as users know them."""
        return tuple(map(precision_name, self.kept))


def sizes(
    graph: Graph,
    threshold: int,
    *,
    precisions: Sequence[DType] = USUAL,
    measure: str = "tensors",
) -> tuple[Sizes, ...]:
    """Every layer's sizes at each number type, and which of them are within so many bytes."""
    if measure not in MEASURES:
        raise SizeupError(f"no measure is called {measure!r}; there are {', '.join(MEASURES)}")
    if measure == "peak" and len(layers(graph)) > MOST_PEAKS:
        raise SizeupError(f"the peak is measured for each of at most {MOST_PEAKS} layers, one by one")
    found = []
    # In the working set of a network at one type everything has that type.
    live = (
        [usage(graph, precision=each).live_bytes for each in precisions] if measure == "working set" else []
    )
    is_whole = measure in ("tensors", "sum") or not usage(graph).unknown
    for layer in layers(graph):
        inputs, outputs = _activations(graph, graph.ops[layer.op])
        read, made = (
            tuple(sum(tensor_bytes(tensor, each) for tensor in side) for each in precisions)
            for side in (inputs, outputs)
        )
        if measure == "tensors":
            taken = tuple(map(max, zip(read, made, strict=True)))
        elif measure == "sum":
            taken = tuple(map(sum, zip(read, made, strict=True)))
        elif measure == "working set":
            taken = tuple(int(column[layer.op]) for column in live)
        else:
            taken = tuple(_peak(graph, layer.op, each) for each in precisions)
        is_known = is_whole and all(map(size_is_known, (*inputs, *outputs)))
        kept = tuple(
            each for each, size in zip(precisions, taken, strict=True) if is_known and size <= threshold
        )
        input_shapes, output_shapes = (tuple(tensor.shape for tensor in side) for side in (inputs, outputs))
        found.append(Sizes(layer, read, made, taken, kept, input_shapes, output_shapes, is_known))
    return tuple(found)


def _activations(graph: Graph, op: Op) -> tuple[list[Tensor], list[Tensor]]:
    """What an operator reads, each tensor once and without weights, and its outputs."""
    inputs = [graph.tensors[i] for i in dict.fromkeys(op.inputs) if i != ABSENT]
    return [each for each in inputs if each.data is None], [graph.tensors[i] for i in op.outputs]


def _peak(graph: Graph, op: int, precision: DType) -> int:
    return int(np.max(usage(assign(graph, {op: precision})).live_bytes, initial=0))
