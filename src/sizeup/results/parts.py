"""The types that results are made of, as their analyses define them.

Renderers name them in annotations, and import nothing else of an analysis.
"""

from sizeup.checks import Change, Large, Limit, Part, Remedy
from sizeup.checks.baselines import Update
from sizeup.checks.limits import Growth
from sizeup.comparison import Row as ComparedRow
from sizeup.latency import Estimate, Hardware, Limited, Spent, Utilization
from sizeup.latency.roofline import Bound
from sizeup.precision.choose import Choice
from sizeup.precision.refine import Refined
from sizeup.precision.sizes import Sizes
from sizeup.precision.tradeoff import Point, Row
from sizeup.runtimes.attribution import AttributedKernel, ModuleTime
from sizeup.sweeps.board import Board
from sizeup.sweeps.query import Glimpse
from sizeup.sweeps.query import Question as QuerySpec

__all__ = [
    "AttributedKernel",
    "Board",
    "Bound",
    "Change",
    "Choice",
    "ComparedRow",
    "Estimate",
    "Glimpse",
    "Growth",
    "Hardware",
    "Large",
    "Limit",
    "Limited",
    "ModuleTime",
    "Part",
    "Point",
    "QuerySpec",
    "Refined",
    "Remedy",
    "Row",
    "Sizes",
    "Spent",
    "Update",
    "Utilization",
]
