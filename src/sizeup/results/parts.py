"""The types that results are made of, as their analyses define them.

Renderers name them in annotations, and import nothing else of an analysis.
"""

from sizeup.calibration import Calibration
from sizeup.checks import Change, Large, Limit, Part, Remedy, Room, Space
from sizeup.checks.baselines import Update
from sizeup.checks.limits import Growth
from sizeup.closed_forms.formulas import KernelFormula, LatencyForms
from sizeup.comparison import Row as ComparedRow
from sizeup.conventions import Counted
from sizeup.latency import Estimate, Hardware, Limited, Spent, Utilization
from sizeup.latency.roofline import Bound
from sizeup.memory import Shares, Usage
from sizeup.memory.liveness import Column
from sizeup.memory.tflm import MicroArena
from sizeup.mixed_precision.choose import Choice
from sizeup.mixed_precision.figures import Figures
from sizeup.mixed_precision.refine import Refined
from sizeup.mixed_precision.sizes import Sizes
from sizeup.mixed_precision.tradeoff import Point, Row
from sizeup.rewrite import Footprint, Optimization, Verification
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime
from sizeup.sweeps import Sweep
from sizeup.sweeps.board import Board
from sizeup.sweeps.query import Glimpse
from sizeup.sweeps.query import QuerySpec as QuerySpec

__all__ = [
    "AttributedKernel",
    "Board",
    "Bound",
    "Calibration",
    "Change",
    "Choice",
    "Column",
    "ComparedRow",
    "Counted",
    "Estimate",
    "Figures",
    "Footprint",
    "Glimpse",
    "Growth",
    "Hardware",
    "KernelFormula",
    "Large",
    "LatencyForms",
    "Limit",
    "Limited",
    "MicroArena",
    "ModuleTime",
    "Optimization",
    "Part",
    "Point",
    "QuerySpec",
    "Refined",
    "Remedy",
    "Room",
    "Row",
    "Shares",
    "Sizes",
    "Space",
    "Spent",
    "Sweep",
    "Update",
    "Usage",
    "Utilization",
    "Verification",
]
