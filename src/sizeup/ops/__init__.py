"""Cost rules: one per op kind, grouped in families."""

from sizeup.ops import (  # noqa: F401 - importing a family registers its cost rules
    attention,
    control,
    conv,
    elementwise,
    layout,
    linalg,
    lookup,
    matmul,
    recurrent,
    reduction,
    resample,
)
from sizeup.ops.cost_rule import (
    Call,
    Format,
    OpRule,
    UnknownShape,
    Value,
    call_of,
    cost_rule_of,
    cost_rules,
    has_trait,
    op_kind_of,
    op_rule,
    register,
    table_version,
    temporary_cost_rules,
)

__all__ = [
    "Call",
    "Format",
    "OpRule",
    "UnknownShape",
    "Value",
    "call_of",
    "cost_rule_of",
    "cost_rules",
    "has_trait",
    "op_kind_of",
    "op_rule",
    "register",
    "table_version",
    "temporary_cost_rules",
]
