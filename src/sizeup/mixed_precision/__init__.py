"""Mixed precision: which dtypes fit per layer, precision maps, assignments under budgets, and sensitivity."""

from typing import TYPE_CHECKING

from sizeup.lazy import lazy_names
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import Layer, layers, match_layers
from sizeup.mixed_precision.precision_map import PrecisionSpec, apply_precision, is_precision_map
from sizeup.mixed_precision.sizes import LayerSizes, Measure, sizes

if TYPE_CHECKING:
    from sizeup.mixed_precision.losses import Losses
    from sizeup.mixed_precision.measurement import (
        Bench,
        MeasurementOptions,
        bench,
        measure_assignment,
        sensitivity,
    )
    from sizeup.mixed_precision.simulation import Simulation
    from sizeup.mixed_precision.table import Baseline, Sensitivity, SensitivityTable, table_from

__all__ = [
    "Baseline",
    "Bench",
    "Layer",
    "LayerSizes",
    "Losses",
    "Measure",
    "MeasurementOptions",
    "PrecisionSpec",
    "Sensitivity",
    "SensitivityTable",
    "Simulation",
    "apply_precision",
    "assign",
    "bench",
    "is_precision_map",
    "layers",
    "match_layers",
    "measure_assignment",
    "sensitivity",
    "sizes",
    "table_from",
]

# Imported on first use: only measurements need them, and every analysis imports this package.
__getattr__ = lazy_names(
    __name__,
    {
        "losses": ("Losses",),
        "measurement": ("Bench", "MeasurementOptions", "bench", "measure_assignment", "sensitivity"),
        "simulation": ("Simulation",),
        "table": ("Baseline", "Sensitivity", "SensitivityTable", "table_from"),
    },
)
