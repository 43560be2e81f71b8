"""Finds the weights of a graph and clusters them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.ops import cost_rule_of
from sizeup.weight_clustering import cluster

Array: TypeAlias = np.ndarray[Any, Any]

# Dtypes that can be clustered.
_TYPES = frozenset(("uint8", "int8", "uint16", "int16", "float16", "float32", "float64"))


@dataclass(frozen=True, slots=True)
class Clustering:
    """New contents of the changed weights by tensor id, and all clustered weights, changed or not."""

    contents: Mapping[int, bytes]
    weights: tuple[int, ...]
    notes: tuple[str, ...]


def weights_of(graph: Graph) -> tuple[int, ...]:
    """The stored weights of ops with MACs: matrices and filters, not biases.

    If a weight is computed from a constant (such as DEQUANTIZE of an fp16 filter), returns that constant.
    """
    producer = {identity: op for op in graph.ops for identity in op.outputs}
    weights: dict[int, None] = {}
    for op in graph.ops:
        for identity in _weight_inputs(op):
            stored = _stored(graph, identity, producer)
            if stored is not None and len(graph.tensors[stored].shape or ()) >= 2:
                weights[stored] = None
    return tuple(weights)


def _weight_inputs(op: Op) -> Sequence[int]:
    """The inputs that may be weights: all inputs, or the matrices of a recurrent layer."""
    rule = cost_rule_of(op.kind)
    if rule is None or rule.macs is None:
        return ()
    matrices = op.attrs.get("matrices")
    if matrices is not None:
        return [op.inputs[position] for position in matrices if op.inputs[position] != ABSENT]
    return [identity for identity in op.inputs if identity != ABSENT]


def _stored(graph: Graph, identity: int, producer: Mapping[int, Op]) -> int | None:
    """The constant in the file that a weight is computed from, or None."""
    while True:
        data = graph.tensors[identity].data
        if data is None:
            return None
        if data.role == "parameter":
            return identity
        if (
            data.role != "derived"
            or identity not in producer
            or producer[identity].inputs[:1] in ((), (ABSENT,))
        ):
            return None
        identity = producer[identity].inputs[0]


def cluster_weights(graph: Graph, stored: Mapping[int, bytes | memoryview], values: int) -> Clustering:
    """Cluster each weight to at most `values` values; `stored` has the bytes of the tensors in the file."""
    contents: dict[int, bytes] = {}
    done: list[int] = []
    skipped: list[str] = []
    for identity in weights_of(graph):
        tensor = graph.tensors[identity]
        if identity not in stored or tensor.dtype.name not in _TYPES:
            skipped.append(f"{tensor.name!r} ({tensor.dtype})")
            continue
        old = np.frombuffer(stored[identity], np.dtype(tensor.dtype.name))
        try:
            new = _clustered(tensor, old, values)
        except ValueError as error:
            skipped.append(f"{tensor.name!r} ({error})")
            continue
        done.append(identity)
        if not np.array_equal(old, new):
            contents[identity] = new.tobytes()
    notes = (
        (f"weights not clustered: {', '.join(skipped[:5])}{' and more' if skipped[5:] else ''}",)
        if skipped
        else ()
    )
    return Clustering(contents, tuple(done), notes)


def _clustered(tensor: Tensor, old: Array, values: int) -> Array:
    if old.size != tensor.elements:
        # Sparse: zero, which is not stored, must stay one of the values.
        return cluster(old, values, keep_zero=True)
    return cluster(old.reshape(tensor.shape or ()), values, _importance(tensor)).ravel()


def _importance(tensor: Tensor) -> Array | None:
    """The squared relative scale of each element, since scales differ per channel."""
    quant = tensor.quant
    if quant is None or quant.axis is None or tensor.shape is None:
        return None
    shape = [1] * len(tensor.shape)
    shape[quant.axis] = -1
    scales = quant.scale.astype(np.float64).reshape(shape)
    return np.broadcast_to((scales / scales.max()) ** 2, tensor.shape)
