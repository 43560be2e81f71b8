"""Symbolic dimensions: sizes without a value, guards on them, and graphs whose shapes depend on them."""

from sizeup.symbolic.decisions import assuming, guard_source
from sizeup.symbolic.expression import Expression, Number, largest, quotient, size, smallest, sum_of
from sizeup.symbolic.graph import (
    NoClosedForm,
    Specialization,
    SymbolicGraph,
    SymbolicShape,
    bind,
    broadcast,
    broadcast_size,
    cover,
    first_difference,
    grid_of,
    sizes_text,
)
from sizeup.symbolic.grid import Grid, Sizes, Values
from sizeup.symbolic.guards import Assumptions, Guard, value_at
from sizeup.symbolic.ratio import Ratio, as_ratio, divide
from sizeup.symbolic.text import form_text, least_sizes, substitute

__all__ = [
    "Assumptions",
    "Expression",
    "Grid",
    "Guard",
    "NoClosedForm",
    "Number",
    "Ratio",
    "Sizes",
    "Specialization",
    "SymbolicGraph",
    "SymbolicShape",
    "Values",
    "as_ratio",
    "assuming",
    "bind",
    "broadcast",
    "broadcast_size",
    "cover",
    "divide",
    "first_difference",
    "form_text",
    "grid_of",
    "guard_source",
    "largest",
    "least_sizes",
    "quotient",
    "size",
    "sizes_text",
    "smallest",
    "substitute",
    "sum_of",
    "value_at",
]
