"""Many models at many points: planned, evaluated model by model, kept as Parquet."""

from sizeup.sweeps.compact import Pruned, compact
from sizeup.sweeps.points import Point, PointSet, questions
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
    "questions",
    "read_spec",
    "sweep",
]
