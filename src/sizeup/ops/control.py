"""Control flow: operators that run other graphs. Their cost is that of the bodies that they carry."""

from __future__ import annotations

from sizeup.ops.formulas import reads_nothing, writes_nothing
from sizeup.ops.rule import OpRule, names, register


def _control(kind: str, summary: str, torch: str = "-", onnx: str = "-", tflite: str = "-") -> None:
    register(
        OpRule(
            kind,
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
    "One of its bodies runs: known where all agree, otherwise the costliest is shown as unknown.",
    "higher_order.cond",
    "If",
    "IF STABLEHLO_CASE",
)
_control(
    "loop",
    "Its body runs as often as the trip count says; unknown where data decides that.",
    "higher_order.while_loop",
    "Loop",
    "WHILE STABLEHLO_WHILE",
)
_control(
    "scan",
    "Its body runs once for each slice of the scanned axis.",
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
    "call_once", "Its body runs before the first inference only: no cost in a run.", "-", "-", "CALL_ONCE"
)
