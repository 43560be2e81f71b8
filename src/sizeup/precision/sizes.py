"""Which number types fit a threshold, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.dtypes import PRECISIONS, DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory import tensor_bytes, usage
from sizeup.precision.assign import assign
from sizeup.precision.layers import Layer, layers

# tensors: the larger of what a layer reads and what it makes; sum: both; working set: all that is in memory
# while it runs; peak: the most that is in memory at any time, with this layer alone at that type.
Measure = Literal["tensors", "sum", "working set", "peak"]
MEASURES: tuple[Measure, ...] = ("tensors", "sum", "working set", "peak")
# The whole network is looked at anew for each layer at each type.
MOST_PEAKS = 200
USUAL = tuple(PRECISIONS[name] for name in ("fp32", "fp16", "int8", "int4", "int2"))


@dataclass(frozen=True, slots=True)
class Sizes:
    """One layer: bytes at each number type by the measure that was asked for, and the types that fit."""

    layer: Layer
    read_bytes: tuple[int, ...]
    made_bytes: tuple[int, ...]
    bytes: tuple[int, ...]
    kept: tuple[DType, ...]

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
    for layer in layers(graph):
        op = graph.ops[layer.op]
        read = tuple(_activations(graph, op, each) for each in precisions)
        made = tuple(sum(tensor_bytes(graph.tensors[i], each) for i in op.outputs) for each in precisions)
        if measure == "tensors":
            taken = tuple(map(max, zip(read, made, strict=True)))
        elif measure == "sum":
            taken = tuple(map(sum, zip(read, made, strict=True)))
        elif measure == "working set":
            taken = tuple(int(column[layer.op]) for column in live)
        else:
            taken = tuple(_peak(graph, layer.op, each) for each in precisions)
        kept = tuple(each for each, size in zip(precisions, taken, strict=True) if size <= threshold)
        found.append(Sizes(layer, read, made, taken, kept))
    return tuple(found)


def _activations(graph: Graph, op: Op, precision: DType) -> int:
    tensors = [graph.tensors[i] for i in dict.fromkeys(op.inputs) if i != ABSENT]
    return sum(tensor_bytes(each, precision) for each in tensors if each.data is None)


def _peak(graph: Graph, op: int, precision: DType) -> int:
    return int(np.max(usage(assign(graph, {op: precision})).live_bytes, initial=0))
