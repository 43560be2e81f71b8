"""Mixed precision: assignments, Pareto fronts, sensitivity, precisions that fit, and tradeoff tables."""

from sizeup.api.precision import choose, fits, front, sensitivity
from sizeup.api.tradeoff import tradeoff
from sizeup.mixed_precision.recipes import write_recipe
from sizeup.mixed_precision.sizes import sizes

__all__ = ["choose", "fits", "front", "sensitivity", "sizes", "tradeoff", "write_recipe"]
