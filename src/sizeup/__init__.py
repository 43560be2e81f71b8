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
    from sizeup.closed_forms.cost import FreeCost
    from sizeup.cost import Cost
    from sizeup.errors import Incomplete, LoadError, SizeupError
    from sizeup.graph import Dim, Graph, GraphBuilder
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
    from sizeup.symbolic import FreeGraph
    from sizeup.targets import Device, Runtime, Target, devices, target

    __version__: str

# Where each public name lives. They are fetched on first use: the command line answers --help and
# completes words without importing numpy.
_HOMES = {
    "Answer": "report.asked",
    "Calibrated": "calibration",
    "Call": "ops",
    "Check": "report.checked",
    "Chosen": "report.chosen",
    "Comparison": "report.compared",
    "Cost": "cost",
    "Device": "targets",
    "Dim": "graph",
    "Estimate": "latency",
    "Explanation": "report.explain",
    "Fitting": "report.fitting",
    "FreeCost": "closed_forms.cost",
    "FreeGraph": "symbolic",
    "Front": "report.front",
    "Graph": "graph",
    "GraphBuilder": "graph",
    "Incomplete": "errors",
    "Measured": "report.measured",
    "LoadError": "errors",
    "OpRule": "ops",
    "Optimized": "rewrite",
    "Plan": "report.plan",
    "Report": "report",
    "Runtime": "targets",
    "SizeupError": "errors",
    "Swept": "sweeps",
    "Target": "targets",
    "Tradeoff": "report.tradeoff",
    "Utilization": "latency",
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
    "Calibrated",
    "Call",
    "Check",
    "Chosen",
    "Comparison",
    "Cost",
    "Device",
    "Dim",
    "Estimate",
    "Explanation",
    "Fitting",
    "FreeCost",
    "FreeGraph",
    "Front",
    "Graph",
    "GraphBuilder",
    "Incomplete",
    "LoadError",
    "Measured",
    "OpRule",
    "Optimized",
    "Plan",
    "Report",
    "Runtime",
    "SizeupError",
    "Swept",
    "Target",
    "Tradeoff",
    "Utilization",
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
