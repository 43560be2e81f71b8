"""The types that results consist of, defined by their analyses.

Renderers use them in annotations, and import nothing else from an analysis.
"""

from sizeup.calibration import Calibration
from sizeup.checks import Change, Contribution, Limit, MemoryFit, MemoryNeed, MemoryPart, Remedy
from sizeup.checks.baselines import Update
from sizeup.checks.host_run import HostRun
from sizeup.checks.limits import Growth
from sizeup.closed_forms.text import KernelFormula, LatencyForms
from sizeup.comparison import Row as ComparedRow
from sizeup.conventions import ConventionCounts
from sizeup.language_models.engines import Range as ByteRange
from sizeup.language_models.serving import GpuMemory
from sizeup.latency import EnergyEstimate, Estimate, LimiterShare, Throughput, Utilization
from sizeup.latency.roofline import Bound
from sizeup.memory import DeviceMemory, LiveBreakdown, Usage
from sizeup.memory.liveness import Column
from sizeup.memory.tflm import MicroArena
from sizeup.mixed_precision.choose import Assignment
from sizeup.mixed_precision.figures import Figures
from sizeup.mixed_precision.refine import MeasuredAssignment
from sizeup.mixed_precision.sizes import LayerSizes
from sizeup.mixed_precision.tradeoff import Point, Row
from sizeup.rewrite import Footprint, KernelArena, Optimization, Verification
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime
from sizeup.sweeps import Sweep
from sizeup.sweeps.leaderboard import Leaderboard
from sizeup.sweeps.query import Preview
from sizeup.sweeps.query import QuerySpec as QuerySpec

__all__ = [
    "Assignment",
    "AttributedKernel",
    "Bound",
    "ByteRange",
    "Calibration",
    "Change",
    "Column",
    "ComparedRow",
    "Contribution",
    "ConventionCounts",
    "DeviceMemory",
    "EnergyEstimate",
    "Estimate",
    "Figures",
    "Footprint",
    "GpuMemory",
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
    "Optimization",
    "Point",
    "Preview",
    "QuerySpec",
    "Remedy",
    "Row",
    "Sweep",
    "Throughput",
    "Update",
    "Usage",
    "Utilization",
    "Verification",
]
