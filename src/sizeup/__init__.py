"""Size up a neural network before you deploy it.

import sizeup

report = sizeup.analyze("model.tflite")
report.totals.macs, report.coverage
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.api import (
        analyze,
        calibrate,
        check,
        check_budgets,
        choose,
        compare,
        count,
        estimate,
        explain,
        fits,
        front,
        load,
        load_rules,
        measure,
        optimize,
        plan,
        query,
        sensitivity,
        sweep,
        tradeoff,
        utilization,
    )
    from sizeup.calibration import Calibrated
    from sizeup.cost import Cost
    from sizeup.cost.closed import FreeCost
    from sizeup.errors import (
        BudgetError,
        CorruptModel,
        CorruptStore,
        DoesNotFit,
        Incomplete,
        InvalidGraph,
        InvalidPlan,
        LfsPointer,
        LoadError,
        MissingLibrary,
        NoChoice,
        NotTrusted,
        NumbersMissing,
        RevisionError,
        RuleError,
        RunFailed,
        SizeupError,
        SymbolicDimension,
        TargetError,
        UnboundDimension,
        UnknownFormat,
        WorkerFailed,
        WriteError,
    )
    from sizeup.graph import Dim, FreeGraph, Graph, GraphBuilder
    from sizeup.latency import Estimate, Utilization
    from sizeup.ops import Call, OpRule, op_rule
    from sizeup.report import Report
    from sizeup.report.asked import Answer
    from sizeup.report.checked import Check
    from sizeup.report.chosen import Chosen
    from sizeup.report.compared import Comparison
    from sizeup.report.explain import Explanation
    from sizeup.report.fitting import Fitting
    from sizeup.report.front import Front
    from sizeup.report.measured import Measured
    from sizeup.report.plan import Plan
    from sizeup.report.tradeoff import Tradeoff
    from sizeup.rewrite import Optimized
    from sizeup.sweeps import Swept
    from sizeup.targets import Device, Runtime, Target, devices, target

    __version__: str

# Where each public name lives. They are fetched on first use: the command line answers --help and
# completes words without importing numpy.
_HOMES = {
    "Answer": "report.asked",
    "BudgetError": "errors",
    "Calibrated": "calibration",
    "Call": "ops",
    "Check": "report.checked",
    "Chosen": "report.chosen",
    "Comparison": "report.compared",
    "CorruptModel": "errors",
    "CorruptStore": "errors",
    "Cost": "cost",
    "Device": "targets",
    "Dim": "graph",
    "DoesNotFit": "errors",
    "Estimate": "latency",
    "Explanation": "report.explain",
    "Fitting": "report.fitting",
    "FreeCost": "cost.closed",
    "FreeGraph": "graph",
    "Front": "report.front",
    "Graph": "graph",
    "GraphBuilder": "graph",
    "Incomplete": "errors",
    "InvalidGraph": "errors",
    "InvalidPlan": "errors",
    "LfsPointer": "errors",
    "LoadError": "errors",
    "Measured": "report.measured",
    "MissingLibrary": "errors",
    "NoChoice": "errors",
    "NotTrusted": "errors",
    "NumbersMissing": "errors",
    "OpRule": "ops",
    "Optimized": "rewrite",
    "Plan": "report.plan",
    "Report": "report",
    "RevisionError": "errors",
    "RuleError": "errors",
    "RunFailed": "errors",
    "Runtime": "targets",
    "SizeupError": "errors",
    "Swept": "sweeps",
    "SymbolicDimension": "errors",
    "Target": "targets",
    "TargetError": "errors",
    "Tradeoff": "report.tradeoff",
    "UnboundDimension": "errors",
    "UnknownFormat": "errors",
    "Utilization": "latency",
    "WorkerFailed": "errors",
    "WriteError": "errors",
    "analyze": "api",
    "calibrate": "api",
    "check": "api",
    "check_budgets": "api",
    "choose": "api",
    "compare": "api",
    "count": "api",
    "devices": "targets",
    "estimate": "api",
    "explain": "api",
    "fits": "api",
    "front": "api",
    "load": "api",
    "load_rules": "api",
    "measure": "api",
    "op_rule": "ops",
    "optimize": "api",
    "plan": "api",
    "query": "api",
    "sensitivity": "api",
    "sweep": "api",
    "target": "targets",
    "tradeoff": "api",
    "utilization": "api",
}

__all__ = [
    "Answer",
    "BudgetError",
    "Calibrated",
    "Call",
    "Check",
    "Chosen",
    "Comparison",
    "CorruptModel",
    "CorruptStore",
    "Cost",
    "Device",
    "Dim",
    "DoesNotFit",
    "Estimate",
    "Explanation",
    "Fitting",
    "FreeCost",
    "FreeGraph",
    "Front",
    "Graph",
    "GraphBuilder",
    "Incomplete",
    "InvalidGraph",
    "InvalidPlan",
    "LfsPointer",
    "LoadError",
    "Measured",
    "MissingLibrary",
    "NoChoice",
    "NotTrusted",
    "NumbersMissing",
    "OpRule",
    "Optimized",
    "Plan",
    "Report",
    "RevisionError",
    "RuleError",
    "RunFailed",
    "Runtime",
    "SizeupError",
    "Swept",
    "SymbolicDimension",
    "Target",
    "TargetError",
    "Tradeoff",
    "UnboundDimension",
    "UnknownFormat",
    "Utilization",
    "WorkerFailed",
    "WriteError",
    "__version__",
    "analyze",
    "calibrate",
    "check",
    "check_budgets",
    "choose",
    "compare",
    "count",
    "devices",
    "estimate",
    "explain",
    "fits",
    "front",
    "load",
    "load_rules",
    "measure",
    "op_rule",
    "optimize",
    "plan",
    "query",
    "sensitivity",
    "sweep",
    "target",
    "tradeoff",
    "utilization",
]


if not TYPE_CHECKING:  # a type checker that saw it would believe in every name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value = version("sizeup")
        elif name in _HOMES:
            value = getattr(import_module(f"sizeup.{_HOMES[name]}"), name)
        else:
            raise AttributeError(f"module 'sizeup' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
