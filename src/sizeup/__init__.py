"""Report MACs, memory, latency and fit of a neural network before you deploy it.

import sizeup

report = sizeup.analyze("model.tflite")
report.totals.macs, report.coverage
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup import precision
    from sizeup.api.analyze import analyze, estimate, explain
    from sizeup.api.budgets import check_budgets
    from sizeup.api.check import check
    from sizeup.api.compare import compare
    from sizeup.api.measure import calibrate, measure, utilization
    from sizeup.api.models import count, load, load_rules
    from sizeup.api.plan import optimize, plan
    from sizeup.api.query import query
    from sizeup.api.rank import rank_targets
    from sizeup.api.sweep import sweep
    from sizeup.calibration import Calibration
    from sizeup.closed_forms.cost import SymbolicCost
    from sizeup.cost import Cost
    from sizeup.errors import (
        BudgetError,
        CorruptModel,
        CorruptStore,
        DoesNotFit,
        Incomplete,
        InvalidGraph,
        InvalidPlan,
        LfsPointer,
        LimitReached,
        LoadError,
        MissingLibrary,
        NoAssignment,
        NoLatency,
        NotTrusted,
        RevisionError,
        RuleError,
        RunFailed,
        SizeupError,
        StateChanged,
        SymbolicDimension,
        TargetError,
        TargetWarning,
        UnboundDimension,
        UnknownFormat,
        WeightsMissing,
        WorkerFailed,
        WriteError,
    )
    from sizeup.graph import Dim, Graph, GraphBuilder
    from sizeup.latency import Estimate, Utilization
    from sizeup.ops import Call, OpRule, op_rule
    from sizeup.results.check import Check
    from sizeup.results.comparison import Comparison
    from sizeup.results.explanation import Explanation
    from sizeup.results.measurement import Measurement
    from sizeup.results.plan import Plan
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront, Tradeoff
    from sizeup.results.query import QueryResult
    from sizeup.results.ranking import Ranking
    from sizeup.results.report import Report
    from sizeup.rewrite import Optimization
    from sizeup.serving.api.calibrate import calibrate_serving
    from sizeup.serving.api.grid import llm_grid
    from sizeup.serving.api.llm import llm
    from sizeup.serving.memory.layouts import Layout
    from sizeup.serving.results.diffusion import Diffusion
    from sizeup.serving.results.llm import Serving
    from sizeup.sweeps import Sweep
    from sizeup.symbolic import SymbolicGraph
    from sizeup.targets import Board, Device, Runtime, Target, boards, devices, target

    __version__: str

# The module of each public name. They are imported on first use, so that --help and shell completion do
# without numpy.
_MODULES = {
    "Board": "targets",
    "BudgetError": "errors",
    "Calibration": "calibration",
    "Call": "ops",
    "Check": "results.check",
    "Comparison": "results.comparison",
    "CorruptModel": "errors",
    "CorruptStore": "errors",
    "Cost": "cost",
    "Device": "targets",
    "Diffusion": "serving.results.diffusion",
    "Dim": "graph",
    "DoesNotFit": "errors",
    "Estimate": "latency",
    "Explanation": "results.explanation",
    "SymbolicCost": "closed_forms.cost",
    "SymbolicGraph": "symbolic",
    "Graph": "graph",
    "GraphBuilder": "graph",
    "Incomplete": "errors",
    "InvalidGraph": "errors",
    "InvalidPlan": "errors",
    "Layout": "serving.memory.layouts",
    "LfsPointer": "errors",
    "LimitReached": "errors",
    "LoadError": "errors",
    "Measurement": "results.measurement",
    "MissingLibrary": "errors",
    "NoAssignment": "errors",
    "NoLatency": "errors",
    "NotTrusted": "errors",
    "WeightsMissing": "errors",
    "OpRule": "ops",
    "Optimization": "rewrite",
    "Plan": "results.plan",
    "PrecisionAssignment": "results.precision",
    "PrecisionFits": "results.precision",
    "PrecisionFront": "results.precision",
    "QueryResult": "results.query",
    "Ranking": "results.ranking",
    "Report": "results.report",
    "RevisionError": "errors",
    "RuleError": "errors",
    "RunFailed": "errors",
    "Runtime": "targets",
    "Serving": "serving.results.llm",
    "SizeupError": "errors",
    "StateChanged": "errors",
    "Sweep": "sweeps",
    "SymbolicDimension": "errors",
    "Target": "targets",
    "TargetError": "errors",
    "TargetWarning": "errors",
    "Tradeoff": "results.precision",
    "UnboundDimension": "errors",
    "UnknownFormat": "errors",
    "Utilization": "latency",
    "WorkerFailed": "errors",
    "WriteError": "errors",
    "analyze": "api.analyze",
    "boards": "targets",
    "calibrate": "api.measure",
    "calibrate_serving": "serving.api.calibrate",
    "check": "api.check",
    "check_budgets": "api.budgets",
    "compare": "api.compare",
    "count": "api.models",
    "devices": "targets",
    "estimate": "api.analyze",
    "explain": "api.analyze",
    "llm": "serving.api.llm",
    "llm_grid": "serving.api.grid",
    "load": "api.models",
    "load_rules": "api.models",
    "measure": "api.measure",
    "op_rule": "ops",
    "optimize": "api.plan",
    "plan": "api.plan",
    "query": "api.query",
    "rank_targets": "api.rank",
    "sweep": "api.sweep",
    "target": "targets",
    "utilization": "api.measure",
}

__all__ = [
    "Board",
    "BudgetError",
    "Calibration",
    "Call",
    "Check",
    "Comparison",
    "CorruptModel",
    "CorruptStore",
    "Cost",
    "Device",
    "Diffusion",
    "Dim",
    "DoesNotFit",
    "Estimate",
    "Explanation",
    "Graph",
    "GraphBuilder",
    "Incomplete",
    "InvalidGraph",
    "InvalidPlan",
    "Layout",
    "LfsPointer",
    "LimitReached",
    "LoadError",
    "Measurement",
    "MissingLibrary",
    "NoAssignment",
    "NoLatency",
    "NotTrusted",
    "OpRule",
    "Optimization",
    "Plan",
    "PrecisionAssignment",
    "PrecisionFits",
    "PrecisionFront",
    "QueryResult",
    "Ranking",
    "Report",
    "RevisionError",
    "RuleError",
    "RunFailed",
    "Runtime",
    "Serving",
    "SizeupError",
    "StateChanged",
    "Sweep",
    "SymbolicCost",
    "SymbolicDimension",
    "SymbolicGraph",
    "Target",
    "TargetError",
    "TargetWarning",
    "Tradeoff",
    "UnboundDimension",
    "UnknownFormat",
    "Utilization",
    "WeightsMissing",
    "WorkerFailed",
    "WriteError",
    "__version__",
    "analyze",
    "boards",
    "calibrate",
    "calibrate_serving",
    "check",
    "check_budgets",
    "compare",
    "count",
    "devices",
    "estimate",
    "explain",
    "llm",
    "llm_grid",
    "load",
    "load_rules",
    "measure",
    "op_rule",
    "optimize",
    "plan",
    "precision",
    "query",
    "rank_targets",
    "sweep",
    "target",
    "utilization",
]

# Names of version 0.1 and what replaced them. They work until the version below, with a DeprecationWarning.
_DEPRECATED = {
    "Answer": "QueryResult",
    "Calibrated": "Calibration",
    "Chosen": "PrecisionAssignment",
    "Fitting": "PrecisionFits",
    "FreeCost": "SymbolicCost",
    "FreeGraph": "SymbolicGraph",
    "Front": "PrecisionFront",
    "Measured": "Measurement",
    "NoChoice": "NoAssignment",
    "NumbersMissing": "WeightsMissing",
    "Optimized": "Optimization",
    "Swept": "Sweep",
    "choose": "precision.choose",
    "fits": "precision.fits",
    "front": "precision.front",
    "sensitivity": "precision.sensitivity",
    "tradeoff": "precision.tradeoff",
}
_REMOVAL = "0.11"


if not TYPE_CHECKING:  # else type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value = version("sizeup")
        elif name == "precision":
            value = import_module("sizeup.precision")
        elif name in _MODULES:
            value = getattr(import_module(f"sizeup.{_MODULES[name]}"), name)
        elif name in _DEPRECATED:
            return _renamed(name)  # not stored: every use warns
        else:
            raise AttributeError(f"module 'sizeup' has no attribute {name!r}")
        globals()[name] = value
        return value

    def _renamed(name: str) -> Any:
        import warnings
        from operator import attrgetter

        new = _DEPRECATED[name]
        message = f"sizeup.{name} is deprecated and will be removed in {_REMOVAL}; use sizeup.{new}"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return attrgetter(new)(sys.modules[__name__])


def __dir__() -> list[str]:
    return __all__
