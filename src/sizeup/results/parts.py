"""The types that results consist of, defined by their analyses.

Renderers use them in annotations, and import nothing else from an analysis.
"""

from sizeup.backends.backend import HostRun
from sizeup.backends.compiled import NpuFit
from sizeup.backends.tflm import MicroArena
from sizeup.calibration import Calibration
from sizeup.checks import Change, Contribution, Limit, MemoryFit, MemoryNeed, MemoryPart, Remedy
from sizeup.checks.baselines import Update
from sizeup.checks.limits import Growth
from sizeup.checks.ranking import BoardFit
from sizeup.closed_forms.text import KernelFormula, LatencyForms
from sizeup.comparison import Row as ComparedRow
from sizeup.conventions import ConventionCounts
from sizeup.latency import (
    EnergyEstimate,
    Estimate,
    LimiterShare,
    PipelinedThroughput,
    Throughput,
    Utilization,
)
from sizeup.latency.roofline import Bound
from sizeup.memory import DeviceMemory, LiveBreakdown, Usage
from sizeup.memory.liveness import Column
from sizeup.mixed_precision.choose import Assignment
from sizeup.mixed_precision.figures import Figures
from sizeup.mixed_precision.refine import MeasuredAssignment
from sizeup.mixed_precision.sizes import LayerSizes
from sizeup.mixed_precision.tradeoff import Point, Row
from sizeup.rewrite import Footprint, KernelArena, Optimization, StripExecution, StripSegment, Verification
from sizeup.runtimes import Compilation
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime
from sizeup.sweeps import Sweep
from sizeup.sweeps.leaderboard import Leaderboard
from sizeup.sweeps.query import Preview
from sizeup.sweeps.query import QuerySpec as QuerySpec

__all__ = [
    "Assignment",
    "AttributedKernel",
    "BoardFit",
    "Bound",
    "Calibration",
    "Change",
    "Column",
    "ComparedRow",
    "Compilation",
    "Contribution",
    "ConventionCounts",
    "DeviceMemory",
    "EnergyEstimate",
    "Estimate",
    "Figures",
    "Footprint",
    "Growth",
    "HostRun",
    "KernelArena",
    "KernelFormula",
    "LatencyForms",
    "LayerSizes",
    "Leaderboard",
    "Limit",
    "LimiterShare",
    "LiveBreakdown",
    "MeasuredAssignment",
    "MemoryFit",
    "MemoryNeed",
    "MemoryPart",
    "MicroArena",
    "ModuleTime",
    "NpuFit",
    "Optimization",
    "PipelinedThroughput",
    "Point",
    "Preview",
    "QuerySpec",
    "Remedy",
    "Row",
    "StripExecution",
    "StripSegment",
    "Sweep",
    "Throughput",
    "Update",
    "Usage",
    "Utilization",
    "Verification",
]
