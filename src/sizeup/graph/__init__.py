"""The graph: what it is, how it is made, and what always holds of it."""

from sizeup.graph.alike import differ_in_types_alone
from sizeup.graph.builder import GraphBuilder, without_collection
from sizeup.graph.check import check
from sizeup.graph.conditions import Assumptions, Condition, value_at
from sizeup.graph.deciding import asked_by, assuming
from sizeup.graph.expressions import Expression, Number, largest, quotient, size, smallest
from sizeup.graph.free import FreeGraph, Piece, bound, difference, grid_of
from sizeup.graph.grids import Grid, Sizes, Values
from sizeup.graph.ir import ABSENT, Body, Constant, Dim, Graph, Op, Quant, Role, Run, Shape, Tensor, name_of
from sizeup.graph.ratios import Ratio, as_ratio, divided
from sizeup.graph.spreading import NotClosed, Sides, broadcast, spread

__all__ = [
    "ABSENT",
    "Assumptions",
    "Body",
    "Condition",
    "Constant",
    "Dim",
    "Expression",
    "FreeGraph",
    "Graph",
    "GraphBuilder",
    "Grid",
    "NotClosed",
    "Number",
    "Op",
    "Piece",
    "Quant",
    "Ratio",
    "Role",
    "Run",
    "Shape",
    "Sides",
    "Sizes",
    "Tensor",
    "Values",
    "as_ratio",
    "asked_by",
    "assuming",
    "bound",
    "broadcast",
    "check",
    "differ_in_types_alone",
    "difference",
    "divided",
    "grid_of",
    "largest",
    "name_of",
    "quotient",
    "size",
    "smallest",
    "spread",
    "value_at",
    "without_collection",
]
