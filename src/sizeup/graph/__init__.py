"""The graph: its types, how it is built, and its invariants."""

from sizeup.graph.builder import GraphBuilder, check, without_collection
from sizeup.graph.ir import (
    ABSENT,
    Body,
    Constant,
    Dim,
    Graph,
    Op,
    Quant,
    Role,
    Run,
    Shape,
    SymbolicSize,
    Tensor,
    differ_in_types_alone,
    name_of,
)

__all__ = [
    "ABSENT",
    "Body",
    "Constant",
    "Dim",
    "Graph",
    "GraphBuilder",
    "Op",
    "Quant",
    "Role",
    "Run",
    "Shape",
    "SymbolicSize",
    "Tensor",
    "check",
    "differ_in_types_alone",
    "name_of",
    "without_collection",
]
