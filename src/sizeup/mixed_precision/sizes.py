"""Dtypes that fit a threshold, per layer."""

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
from sizeup.targets import Target

# tensors: the larger of a layer's inputs and its outputs; sum: both; working set: live bytes while it runs;
# peak: the peak activation memory with only this layer at that dtype.
Measure = Literal["tensors", "sum", "working set", "peak"]
MEASURES: tuple[Measure, ...] = ("tensors", "sum", "working set", "peak")
# Each layer at each dtype needs an analysis of the whole network.
MAX_PEAK_LAYERS = 200
DEFAULT_DTYPES = tuple(PRECISIONS[name] for name in ("fp32", "fp16", "int8", "int4", "int2"))


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes of one layer: bytes per dtype by the requested measure, and the dtypes that fit.

    If a size depends on data, only known tensors are counted, and `fitting_dtypes` is empty.
    """

    layer: Layer
    read_bytes: tuple[int, ...]
    written_bytes: tuple[int, ...]
    bytes: tuple[int, ...]
    fitting_dtypes: tuple[DType, ...]
    input_shapes: tuple[Shape | None, ...]  # of its input activations
    output_shapes: tuple[Shape | None, ...]
    is_known: bool

    @property
    def fitting_precisions(self) -> tuple[str, ...]:
        """The precisions that fit."""
        return tuple(map(precision_name, self.fitting_dtypes))


def sizes(
    graph: Graph,
    threshold: int,
    *,
    precisions: Sequence[DType] = DEFAULT_DTYPES,
    measure: str = "tensors",
) -> tuple[LayerSizes, ...]:
    """Returns every layer's bytes per dtype, and the dtypes within a threshold in bytes."""
    if measure not in MEASURES:
        raise SizeupError(f"unknown measure {measure!r}; known: {', '.join(MEASURES)}")
    if measure == "peak" and len(layers(graph)) > MAX_PEAK_LAYERS:
        raise SizeupError(f"the measure peak is limited to models with {MAX_PEAK_LAYERS} layers")
    all_sizes = []
    # For the working set, all tensors of the network have the dtype.
    live = (
        [usage(graph, precision=dtype).live_bytes for dtype in precisions] if measure == "working set" else []
    )
    has_all_sizes = measure in ("tensors", "sum") or not usage(graph).unknown_sizes
    for layer in layers(graph):
        inputs, outputs = _activations(graph, graph.ops[layer.op])
        read, written = (
            tuple(sum(tensor_bytes(tensor, dtype) for tensor in side) for dtype in precisions)
            for side in (inputs, outputs)
        )
        if measure == "tensors":
            measured = tuple(map(max, zip(read, written, strict=True)))
        elif measure == "sum":
            measured = tuple(map(sum, zip(read, written, strict=True)))
        elif measure == "working set":
            measured = tuple(int(column[layer.op]) for column in live)
        else:
            measured = tuple(_peak(graph, layer.op, dtype) for dtype in precisions)
        is_known = has_all_sizes and all(map(size_is_known, (*inputs, *outputs)))
        fitting = tuple(
            dtype for dtype, size in zip(precisions, measured, strict=True) if is_known and size <= threshold
        )
        input_shapes, output_shapes = (tuple(tensor.shape for tensor in side) for side in (inputs, outputs))
        all_sizes.append(
            LayerSizes(layer, read, written, measured, fitting, input_shapes, output_shapes, is_known)
        )
    return tuple(all_sizes)


def _activations(graph: Graph, op: Op) -> tuple[list[Tensor], list[Tensor]]:
    """Returns an op's inputs, each once and without weights, and its outputs."""
    inputs = [graph.tensors[i] for i in dict.fromkeys(op.inputs) if i != ABSENT]
    return [tensor for tensor in inputs if tensor.data is None], [graph.tensors[i] for i in op.outputs]


def _peak(graph: Graph, op: int, precision: DType) -> int:
    return int(np.max(usage(assign(graph, {op: precision})).live_bytes, initial=0))


def offered_dtypes(precisions: Sequence[DType], target: Target | None) -> list[DType]:
    """Returns the dtypes that a target's runtime has kernels for. Raises SizeupError if it has none."""
    offered = [d for d in precisions if target is None or precision_name(d) in target.runtime.dtypes]
    if not offered:
        raise SizeupError(f"{target} has no kernels for any of {', '.join(map(precision_name, precisions))}")
    return offered
