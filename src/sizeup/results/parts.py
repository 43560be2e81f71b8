"""The types that results consist of, defined by their analyses.

Renderers use them in annotations, and import nothing else from an analysis.
"""

from sizeup.backends.tflm import MicroArena
from sizeup.calibration import Calibration, ServingCalibration
from sizeup.checks import Change, Contribution, Limit, MemoryFit, MemoryNeed, MemoryPart, Remedy
from sizeup.checks.baselines import Update
from sizeup.checks.host_run import HostRun
from sizeup.checks.limits import Growth
from sizeup.checks.npu import NpuFit
from sizeup.checks.ranking import BoardFit
from sizeup.closed_forms.text import KernelFormula, LatencyForms
from sizeup.comparison import Row as ComparedRow
from sizeup.conventions import ConventionCounts
from sizeup.language_models.architecture import Images
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
from sizeup.mixed_precision.choose import Assignment
from sizeup.mixed_precision.figures import Figures
from sizeup.mixed_precision.refine import MeasuredAssignment
from sizeup.mixed_precision.sizes import LayerSizes
from sizeup.mixed_precision.tradeoff import Point, Row
from sizeup.rewrite import Footprint, KernelArena, Optimization, StripExecution, StripSegment, Verification
from sizeup.runtimes import Compilation
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime
from sizeup.serving.cost import Fleet, TokenCost
from sizeup.serving.disaggregation import DisaggregatedPoint, Disaggregation, Side
from sizeup.serving.divisions import DivisionRow
from sizeup.serving.estimate import Duration, ServingEstimate, ServingPoint
from sizeup.serving.goals import GoalRow, Goals
from sizeup.serving.grid import FrontierPoint, GridLayout, ServingGrid
from sizeup.serving.speculation import Draft
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
    "DisaggregatedPoint",
    "Disaggregation",
    "DivisionRow",
    "Draft",
    "Duration",
    "EnergyEstimate",
    "Estimate",
    "Figures",
    "Fleet",
    "Footprint",
    "FrontierPoint",
    "GoalRow",
    "Goals",
    "GpuMemory",
    "GridLayout",
    "Growth",
    "HostRun",
    "Images",
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
    "ServingCalibration",
    "ServingEstimate",
    "ServingGrid",
    "ServingPoint",
    "Side",
    "StripExecution",
    "StripSegment",
    "Sweep",
    "Throughput",
    "TokenCost",
    "Traffic",
    "Update",
    "Usage",
    "Utilization",
    "Verification",
]
