"""Which number type each layer should have: what fits, what a choice does, and what it costs in accuracy."""

from sizeup.precision.assign import assign
from sizeup.precision.layers import Layer, layers, matched
from sizeup.precision.losses import Losses
from sizeup.precision.measuring import Bench, Options, bench, measure_assignment, sensitivity
from sizeup.precision.mixing import Wish, as_wished, is_mapping
from sizeup.precision.simulating import Simulation
from sizeup.precision.sizes import Measure, Sizes, sizes
from sizeup.precision.table import Baseline, Sensitivity, SensitivityTable, table_from

__all__ = [
    "Baseline",
    "Bench",
    "Layer",
    "Losses",
    "Measure",
    "Options",
    "Sensitivity",
    "SensitivityTable",
    "Simulation",
    "Sizes",
    "Wish",
    "as_wished",
    "assign",
    "bench",
    "is_mapping",
    "layers",
    "matched",
    "measure_assignment",
    "sensitivity",
    "sizes",
    "table_from",
]
