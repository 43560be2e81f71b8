"""What is known of operators: one rule a kind, grouped in families."""

from sizeup.ops import (  # noqa: F401 - importing a family registers its rules
    attention,
    control,
    conv,
    elementwise,
    layout,
    lookup,
    matmul,
    recurrent,
    reduction,
    resample,
)
from sizeup.ops.rule import (
    Call,
    Format,
    OpRule,
    UnknownShape,
    Value,
    call_of,
    generation,
    kind_of,
    op_rule,
    register,
    rule_of,
    rules,
    temporary_rules,
)

__all__ = [
    "Call",
    "Format",
    "OpRule",
    "UnknownShape",
    "Value",
    "call_of",
    "generation",
    "kind_of",
    "op_rule",
    "register",
    "rule_of",
    "rules",
    "temporary_rules",
]
