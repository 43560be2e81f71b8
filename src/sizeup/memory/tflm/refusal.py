"""Why TFLite Micro does not take a model, as far as names and number types tell.

Facts of the interpreter of PyPI's `tflite-micro` (its resolver, python_ops_resolver.cc, and its kernels),
which tests ask about every row. Firmware may have other kernels: fewer, to save flash, or a vendor's own.
Kernels refuse more than is listed here, among it scales and shapes that no converter writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory.tflm.kernels import KERNELS

RESOLVED = frozenset(KERNELS) | {
    # Kernels that are there and of which is not known what they keep.
    *("CIRCULAR_BUFFER", "TFLite_Detection_PostProcess"),
    *("SignalDelay", "SignalFramer", "SignalIrfft", "SignalOverlapAdd", "SignalStacker"),
}
"""Operators for which the interpreter of the package has a kernel."""

_PRODUCTS = frozenset((("float32", "float32"), ("int8", "int8"), ("int8", "int4"), ("int16", "int8")))
PRODUCTS = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), _PRODUCTS),
    "TRANSPOSE_CONV": _PRODUCTS - {("int8", "int4")} | {("int16", "int16")},
}
"""Number types of data and weights that these kernels multiply."""

DEQUANTIZED = frozenset(("int8", "int16", "uint8"))
"""Number types that DEQUANTIZE reads, always to make float32."""


def refusal(graphs: Sequence[Graph]) -> str | None:
    """The first reason for which the interpreter refuses the model; None where none is known."""
    missing = {op.source or op.kind for graph in graphs for op in graph.ops} - RESOLVED
    if missing:
        return f"it has no kernel for {', '.join(sorted(missing))}"
    return next((reason for graph in graphs for reason in _types(graph)), None)


def _types(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        names = [None if each == ABSENT else graph.tensors[each].dtype.name for each in op.inputs]
        if op.source in PRODUCTS:
            yield from _product(graph, op, names)
        elif op.source == "DEQUANTIZE" and op.inputs and op.outputs:
            made = graph.tensors[op.outputs[0]].dtype.name
            if names[0] not in DEQUANTIZED or made != "float32":
                yield f"its kernel of DEQUANTIZE does not make {made} of {names[0]}"


def _product(graph: Graph, op: Op, names: Sequence[str | None]) -> Iterator[str]:
    if len(names) < 2:
        yield f"its kernel of {op.source} needs data and weights"
        return
    data, weights = names[:2]
    first, second = (graph.tensors[each].data if each != ABSENT else None for each in op.inputs[:2])
    if op.source == "FULLY_CONNECTED" and first is not None and second is None:
        data, weights = weights, data  # where rows are cut across axes, our graph has the weights in front
    if (data, weights) not in PRODUCTS[op.source]:
        yield f"its kernel of {op.source} does not multiply {data} by weights of {weights}"
