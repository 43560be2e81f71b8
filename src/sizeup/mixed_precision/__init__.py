"""Which number type each layer should have: what fits, what a choice does, and what it costs in accuracy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import Layer, layers, matched
from sizeup.mixed_precision.mixing import Wish, as_wished, is_mapping
from sizeup.mixed_precision.sizes import Measure, Sizes, sizes

if TYPE_CHECKING:
    from sizeup.mixed_precision.losses import Losses
    from sizeup.mixed_precision.measuring import Bench, Options, bench, measure_assignment, sensitivity
    from sizeup.mixed_precision.simulating import Simulation
    from sizeup.mixed_precision.table import Baseline, Sensitivity, SensitivityTable, table_from

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

# Where the names live that only a measurement needs: every analysis imports this package.
_HOMES = {
    "losses": ("Losses",),
    "measuring": ("Bench", "Options", "bench", "measure_assignment", "sensitivity"),
    "simulating": ("Simulation",),
    "table": ("Baseline", "Sensitivity", "SensitivityTable", "table_from"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
