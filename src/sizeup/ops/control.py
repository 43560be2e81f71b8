"""Control flow: ops that run subgraphs. Their cost is that of their bodies."""

from __future__ import annotations

from sizeup.ops.cost_rule import OpRule, names, register
from sizeup.ops.formulas import reads_nothing, writes_nothing


def _control(op_kind: str, summary: str, torch: str = "-", onnx: str = "-", tflite: str = "-") -> None:
    register(
        OpRule(
            op_kind,
            "control",
            summary,
            reads=reads_nothing,
            writes=writes_nothing,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
        )
    )


_control(
    "if",
    "One branch runs: known if all branches cost the same, otherwise the costliest one, marked unknown.",
    "higher_order.cond",
    "If",
    "IF STABLEHLO_CASE",
)
_control(
    "loop",
    "Its body runs trip-count times; unknown if the trip count depends on data.",
    "higher_order.while_loop",
    "Loop",
    "WHILE STABLEHLO_WHILE",
)
_control(
    "scan",
    "Its body runs once per slice of the scanned axis.",
    "higher_order.scan higher_order.map_impl",
    "Scan SequenceMap",
    "-",
)
_control(
    "call",
    "Its body runs once.",
    "higher_order.wrap higher_order.invoke_subgraph higher_order.wrap_with_set_grad_enabled",
    "-",
    "CALL STABLEHLO_COMPOSITE",
)
_control(
    "call_once",
    "Its body runs before the first inference only: no cost per inference.",
    "-",
    "-",
    "CALL_ONCE",
)
