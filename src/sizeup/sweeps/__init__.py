"""Sweeps: evaluate many models at many points and store the rows as Parquet."""

from sizeup.sweeps.compact import Pruned, compact
from sizeup.sweeps.points import Point, PointSet, point_set_of
from sizeup.sweeps.run import ENGINES, Engine, Progress, Sweep, SweepOptions, sweep
from sizeup.sweeps.spec import Spec, read_spec
from sizeup.sweeps.store import Store
from sizeup.sweeps.worker import Limits

__all__ = [
    "ENGINES",
    "Engine",
    "Limits",
    "Point",
    "PointSet",
    "Progress",
    "Pruned",
    "Spec",
    "Store",
    "Sweep",
    "SweepOptions",
    "compact",
    "point_set_of",
    "read_spec",
    "sweep",
]
