"""The public verbs: each takes a model, however it is given, and returns frozen data."""

from sizeup.api.budgets import affected_models, check_budgets, run_budgets
from sizeup.api.checking import CheckOptions, check, check_models
from sizeup.api.comparing import compare
from sizeup.api.memory import optimize, plan
from sizeup.api.models import Source, count, load, load_rules
from sizeup.api.precision import choose, fits, front, sensitivity
from sizeup.api.querying import query
from sizeup.api.reports import analyze, estimate, explain
from sizeup.api.sweeping import compact, sweep
from sizeup.api.timing import calibrate, measure, utilization
from sizeup.api.tradeoffs import tradeoff

__all__ = [
    "CheckOptions",
    "Source",
    "affected_models",
    "analyze",
    "calibrate",
    "check",
    "check_budgets",
    "check_models",
    "choose",
    "compact",
    "compare",
    "count",
    "estimate",
    "explain",
    "fits",
    "front",
    "load",
    "load_rules",
    "measure",
    "optimize",
    "plan",
    "query",
    "run_budgets",
    "sensitivity",
    "sweep",
    "tradeoff",
    "utilization",
]
