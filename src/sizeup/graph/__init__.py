"""The graph: types, builder and invariants."""

from sizeup.graph.builder import GraphBuilder, check, without_gc
from sizeup.graph.ir import (
    ABSENT,
    Body,
    Constant,
    Dim,
    Graph,
    Op,
    Quant,
    RecordedRun,
    Role,
    Shape,
    SymbolicSize,
    Tensor,
    differ_only_in_dtypes,
    is_precomputed,
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
    "RecordedRun",
    "Role",
    "Shape",
    "SymbolicSize",
    "Tensor",
    "check",
    "differ_only_in_dtypes",
    "is_precomputed",
    "name_of",
    "without_gc",
]
