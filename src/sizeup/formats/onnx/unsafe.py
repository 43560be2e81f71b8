"""Operators that ONNX's own shape inference (1.23) does not survive: it crashes, or never returns.

They are refused before it sees them. Each entry was found by fuzzing and has a test; a file with one of them
breaks ONNX's specification anyway.
"""

from __future__ import annotations

from onnx import GraphProto, NodeProto

from sizeup.errors import CorruptModel
from sizeup.formats.onnx.read import graphs_of, has_graphs
from sizeup.ops.einsum import is_equation

_MOST_OUTPUTS = 1 << 20
_MOST_AXES = 1 << 31  # an axis is cut to 32 bits without a check


def refuse_unsafe(graph: GraphProto) -> None:
    """Raise CorruptModel for the first such operator of a graph or of the graphs within it."""
    for node in graph.node:
        reason = _reason(node)
        if reason:
            raise CorruptModel(f"operator {node.name or node.op_type}: {reason}")
        if has_graphs(node):
            for _, inner in graphs_of(node):
                refuse_unsafe(inner)


def _reason(node: NodeProto) -> str:
    """Why an operator is refused; empty if it is not."""
    for attribute in node.attribute:
        if attribute.name == "equation" and node.op_type == "Einsum":
            equation = attribute.s.decode("latin-1")
            if not is_equation(equation):
                return f"{equation!r} is no einsum equation"
        elif attribute.name == "batch_dims" and attribute.i < 0:
            return f"batch_dims is {attribute.i}, below 0"
        elif attribute.name == "num_outputs" and not len(node.output) <= attribute.i <= _MOST_OUTPUTS:
            return f"num_outputs is {attribute.i}, and it has {len(node.output)} outputs"
        elif attribute.name == "axis" and not -_MOST_AXES < attribute.i < _MOST_AXES:
            return f"axis is {attribute.i}, and no tensor has that many dimensions"
    return ""
