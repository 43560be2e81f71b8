"""One precision for a whole network, as the kernels of a runtime take it."""

from __future__ import annotations

from collections import Counter

from sizeup import dtypes
from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, Graph
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import Layer, layers
from sizeup.targets import Target, WeightOnly


def unsupported(graph: Graph, dtype: DType, target: Target | None) -> str:
    """Why the runtime of a target does not run a network at a precision; empty if it does."""
    if target is None:
        return ""
    runtime, name = target.runtime.name, precision_name(dtype)
    if name not in target.runtime.dtypes:
        return f"{runtime} has no kernels for {name}"
    lacking = Counter(layer.kind for layer in layers(graph) if not has_kernel(graph, layer, dtype, target))
    if not lacking:
        return ""
    counts = ", ".join(f"{number:,} {kind}" for kind, number in lacking.most_common())
    total = lacking.total()
    return f"{runtime} has no {name} kernels for {counts} layer{'s' if total != 1 else ''}"


def has_kernel(graph: Graph, layer: Layer, dtype: DType, target: Target | None) -> bool:
    """Whether the runtime of a target has a kernel for a layer with its weights at a precision."""
    if target is None:
        return True
    if precision_name(dtype) not in target.runtime.dtypes:
        return False
    limits = weight_only(dtype, target)
    return limits is None or layer.kind in limits.op_kinds or not _has_weights(graph, layer)


def weight_only(dtype: DType, target: Target | None) -> WeightOnly | None:
    """How a precision is supported for weights alone on a target; None if activations have it too."""
    return None if target is None else target.runtime.weights_at(precision_name(dtype))


def uniform(graph: Graph, dtype: DType, target: Target | None = None) -> Graph:
    """The network with every layer, or its weights if the runtime takes no more, at a precision."""
    limits = weight_only(dtype, target)
    ops = [layer.op for layer in layers(graph)]
    if limits is None:
        return assign(graph, dict.fromkeys(ops, dtype))
    return assign(graph, dict.fromkeys(ops, dtypes.precision(limits.computes_in)), dict.fromkeys(ops, dtype))


def _has_weights(graph: Graph, layer: Layer) -> bool:
    """Whether a layer multiplies by, or looks up in, trained numbers: products of activations have none."""
    tensors = (graph.tensors[each] for each in graph.ops[layer.op].inputs if each != ABSENT)
    return any(each.is_parameter and len(each.shape or ()) > 1 for each in tensors)
