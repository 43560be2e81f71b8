"""Other weights for a network that answers everything alike, so that a test of order and plan says something.

Neither order nor plan depends on weights. So where all samples give one output, original and result are also
run with random weights, the same in both, that keep numbers alive from layer to layer; biases are zero.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.ops import rule_of

Array: TypeAlias = np.ndarray[Any, Any]

# How much stronger than it enters a signal leaves a layer: what activations cut off must be made up for.
GAINS = (1.0, 1.5, 2.5, 4.0)
_TYPES = frozenset(("uint8", "int8", "int16", "float16", "float32"))


def random_weights(graph: Graph, gain: float, seed: int = 0) -> dict[int, bytes]:
    """Contents for the weights and biases of operators that multiply, by tensor."""
    generator = np.random.default_rng(seed)
    found: dict[int, bytes] = {}
    for op in graph.ops:
        rule = rule_of(op.kind)
        if rule is None or rule.macs is None or not op.outputs:
            continue
        for identity in op.inputs:
            tensor = None if identity == ABSENT else graph.tensors[identity]
            if tensor is None or not tensor.is_parameter or identity in found or tensor.shape is None:
                continue
            if len(tensor.shape) < 2:
                found[identity] = bytes(math.prod(tensor.shape) * tensor.dtype.bits // 8)
            elif tensor.dtype.name in _TYPES:
                found[identity] = _weight(graph, op, tensor, gain, generator).tobytes()
    return found


def _weight(graph: Graph, op: Op, tensor: Tensor, gain: float, generator: np.random.Generator) -> Array:
    shape = tensor.shape or ()
    summed = max(1, math.prod(shape) // max(1, op.attrs.get("out_channels") or shape[0]))
    numbers = generator.normal(size=shape) * gain / math.sqrt(summed)
    kind = np.dtype(tensor.dtype.name)
    if kind.kind == "f":
        return np.asarray(numbers, kind)
    limits = np.iinfo(kind)
    middle = (limits.max + limits.min + 1) // 2
    reach = limits.max - middle
    return np.asarray(middle + np.clip(np.rint(numbers * _steps(graph, op, tensor)), -reach, reach), kind)


def _steps(graph: Graph, op: Op, tensor: Tensor) -> Array | float:
    """How many steps of the weight's own scale make one step of the input one step of the output."""
    data, made = graph.tensors[op.inputs[0]].quant, graph.tensors[op.outputs[0]].quant
    if tensor.quant is None or data is None or made is None:
        return 1.0
    scale = tensor.quant.scale.astype(np.float64)
    if tensor.quant.axis is not None:
        scale = scale.reshape(
            [-1 if axis == tensor.quant.axis else 1 for axis in range(len(tensor.shape or ()))]
        )
    return np.asarray(float(made.scale[0]) / float(data.scale[0]) / scale)
