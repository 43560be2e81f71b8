"""The types that results consist of, defined by their analyses.

Renderers use them in annotations, and import nothing else from an analysis.
"""

from sizeup.calibration import Calibration
from sizeup.checks import Change, Contribution, Limit, MemoryFit, MemoryNeed, MemoryPart, Remedy
from sizeup.checks.baselines import Update
from sizeup.checks.host_run import HostRun
from sizeup.checks.limits import Growth
from sizeup.checks.npu import NpuFit
from sizeup.checks.ranking import BoardFit
from sizeup.closed_forms.text import KernelFormula, LatencyForms
from sizeup.comparison import Row as ComparedRow
from sizeup.conventions import ConventionCounts
from sizeup.language_models.clusters import Cluster, Link
from sizeup.language_models.engines import Range as ByteRange
from sizeup.language_models.serving import GpuMemory
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
from sizeup.memory.tflm import MicroArena
from sizeup.mixed_precision.choose import Assignment
from sizeup.mixed_precision.figures import Figures
from sizeup.mixed_precision.refine import MeasuredAssignment
from sizeup.mixed_precision.sizes import LayerSizes
from sizeup.mixed_precision.tradeoff import Point, Row
from sizeup.rewrite import Footprint, KernelArena, Optimization, StripExecution, StripSegment, Verification
from sizeup.runtimes import Compilation
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime
from sizeup.serving.estimate import Duration, ServingEstimate, ServingPoint
from sizeup.serving.goals import GoalRow, Goals
from sizeup.serving.traffic import Percentiles, Traffic
from sizeup.sweeps import Sweep
from sizeup.sweeps.leaderboard import Leaderboard
from sizeup.sweeps.query import Preview
from sizeup.sweeps.query import QuerySpec as QuerySpec

__all__ = [
    "Assignment",
    "AttributedKernel",
    "BoardFit",
    "Bound",
    "ByteRange",
    "Calibration",
    "Change",
    "Cluster",
    "Column",
    "ComparedRow",
    "Compilation",
    "Contribution",
    "ConventionCounts",
    "DeviceMemory",
    "Duration",
    "EnergyEstimate",
    "Estimate",
    "Figures",
    "Footprint",
    "GoalRow",
    "Goals",
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
    "Link",
    "LiveBreakdown",
    "MeasuredAssignment",
    "MemoryFit",
    "MemoryNeed",
    "MemoryPart",
    "MicroArena",
    "ModuleTime",
    "NpuFit",
    "Optimization",
    "Percentiles",
    "PipelinedThroughput",
    "Point",
    "Preview",
    "QuerySpec",
    "Remedy",
    "Row",
    "ServingEstimate",
    "ServingPoint",
    "StripExecution",
    "StripSegment",
    "Sweep",
    "Throughput",
    "Traffic",
    "Update",
    "Usage",
    "Utilization",
    "Verification",
]
