"""Which constants of a graph are weights, and the same weights with fewer values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.ops import rule_of
from sizeup.weight_clustering import clustered

Array: TypeAlias = np.ndarray[Any, Any]

# The number types that are clustered as they are stored.
_TYPES = frozenset(("uint8", "int8", "uint16", "int16", "float16", "float32", "float64"))


@dataclass(frozen=True, slots=True)
class Clustered:
    """New contents of weights by tensor, and all weights that now have few values, changed or not."""

    contents: Mapping[int, bytes]
    weights: tuple[int, ...]
    notes: tuple[str, ...]


def weights_of(graph: Graph) -> tuple[int, ...]:
    """The stored weights of operators that multiply: matrices and filters, not biases.

    Where an operator's weight is computed from a constant (an fp16 filter behind DEQUANTIZE), it is that one.
    """
    maker = {identity: op for op in graph.ops for identity in op.outputs}
    found: dict[int, None] = {}
    for op in graph.ops:
        for identity in _weight_inputs(op):
            stored = _stored(graph, identity, maker)
            if stored is not None and len(graph.tensors[stored].shape or ()) >= 2:
                found[stored] = None
    return tuple(found)


def _weight_inputs(op: Op) -> Sequence[int]:
    """The inputs that may be weights: every operand of a product, the matrices of a recurrent layer."""
    rule = rule_of(op.kind)
    if rule is None or rule.macs is None:
        return ()
    matrices = op.attrs.get("matrices")
    if matrices is not None:
        return [op.inputs[place] for place in matrices if op.inputs[place] != ABSENT]
    return [identity for identity in op.inputs if identity != ABSENT]


def _stored(graph: Graph, identity: int, maker: Mapping[int, Op]) -> int | None:
    """The constant in the file that a weight is made of."""
    while True:
        data = graph.tensors[identity].data
        if data is None:
            return None
        if data.role == "parameter":
            return identity
        if data.role != "derived" or identity not in maker or maker[identity].inputs[:1] in ((), (ABSENT,)):
            return None
        identity = maker[identity].inputs[0]


def cluster_weights(graph: Graph, stored: Mapping[int, bytes | memoryview], values: int) -> Clustered:
    """All weights with at most so many values each; `stored` has the bytes of their tensors in the file."""
    contents: dict[int, bytes] = {}
    done: list[int] = []
    left: list[str] = []
    for identity in weights_of(graph):
        tensor = graph.tensors[identity]
        if identity not in stored or tensor.dtype.name not in _TYPES:
            left.append(f"{tensor.name!r} ({tensor.dtype})")
            continue
        old = np.frombuffer(stored[identity], np.dtype(tensor.dtype.name))
        try:
            new = _clustered(tensor, old, values)
        except ValueError as error:
            left.append(f"{tensor.name!r} ({error})")
            continue
        done.append(identity)
        if not np.array_equal(old, new):
            contents[identity] = new.tobytes()
    notes = (
        (f"weights left as they are: {', '.join(left[:5])}{' and more' if left[5:] else ''}",) if left else ()
    )
    return Clustered(contents, tuple(done), notes)


def _clustered(tensor: Tensor, old: Array, values: int) -> Array:
    if old.size != tensor.elements:
        # Sparse: the zeros between the stored numbers are one of the values.
        return clustered(old, values, keep_zero=True)
    return clustered(old.reshape(tensor.shape or ()), values, _importance(tensor)).ravel()


def _importance(tensor: Tensor) -> Array | None:
    """What a change of each stored integer does to the real number, squared: scales differ by channel."""
    quant = tensor.quant
    if quant is None or quant.axis is None or tensor.shape is None:
        return None
    shape = [1] * len(tensor.shape)
    shape[quant.axis] = -1
    scales = quant.scale.astype(np.float64).reshape(shape)
    return np.broadcast_to((scales / scales.max()) ** 2, tensor.shape)
