"""The graph: what it is, how it is made, and what always holds of it."""

from sizeup.graph.builder import GraphBuilder, without_collection
from sizeup.graph.check import check
from sizeup.graph.ir import ABSENT, Body, Constant, Dim, Graph, Op, Quant, Role, Run, Shape, Tensor, name_of

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
    "Tensor",
    "check",
    "name_of",
    "without_collection",
]
