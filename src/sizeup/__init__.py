"""Size up a neural network before you deploy it.

import sizeup

report = sizeup.analyze("model.tflite")
report.totals.macs, report.coverage
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.api import analyze, count, explain, load, load_rules, optimize, plan
    from sizeup.cost import Cost
    from sizeup.errors import Incomplete, LoadError, SizeupError
    from sizeup.graph import Dim, Graph, GraphBuilder
    from sizeup.ops import Call, OpRule, op_rule
    from sizeup.report import Report
    from sizeup.report.explain import Explanation
    from sizeup.report.plan import Plan
    from sizeup.rewrite import Optimized

    __version__: str

# Where each public name lives. They are fetched on first use: the command line answers --help and
# completes words without importing numpy.
_HOMES = {
    "Call": "ops",
    "Cost": "cost",
    "Dim": "graph",
    "Explanation": "report.explain",
    "Graph": "graph",
    "GraphBuilder": "graph",
    "Incomplete": "errors",
    "LoadError": "errors",
    "OpRule": "ops",
    "Optimized": "rewrite",
    "Plan": "report.plan",
    "Report": "report",
    "SizeupError": "errors",
    "analyze": "api",
    "count": "api",
    "explain": "api",
    "load": "api",
    "load_rules": "api",
    "op_rule": "ops",
    "optimize": "api",
    "plan": "api",
}

__all__ = [
    "Call",
    "Cost",
    "Dim",
    "Explanation",
    "Graph",
    "GraphBuilder",
    "Incomplete",
    "LoadError",
    "OpRule",
    "Optimized",
    "Plan",
    "Report",
    "SizeupError",
    "__version__",
    "analyze",
    "count",
    "explain",
    "load",
    "load_rules",
    "op_rule",
    "optimize",
    "plan",
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
