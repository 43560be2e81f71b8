"""Whether TFLite Micro's interpreter runs a model, and what it computes differently, by its kernels.

What all kernels need of a file is here: operands, options, and shapes that the file records. A kernel that
reads a missing operand ends the process instead of reporting an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sizeup.backends.tflm.kernel import Call, Rules
from sizeup.backends.tflm.kernel_rules import is_constant, uses_cmsis_nn
from sizeup.backends.tflm.kernels import ETHOS_U, KERNELS, RESOLVED
from sizeup.backends.tflm.layout import FIRMWARE, Build
from sizeup.errors import Incomplete
from sizeup.graph import Graph, Op, name_of
from sizeup.units import shape

RULES: Mapping[str, Rules] = {name: kernel.rules for name, kernel in KERNELS.items() if kernel.rules}
"""What the kernels accept, by operator, in addition to the rules of every operator."""
_ASSUMED = {name: kernel.assumed_rules for name, kernel in KERNELS.items()}

_MAX_NAME = 60


def _operand_count(call: Call) -> str | None:
    """The number of inputs, all of them present, and an output; optional inputs are in other rules."""
    kernel, count = KERNELS[call.op.source], len(call.op.inputs)
    if kernel.inputs != "own":
        least = kernel.fewest_inputs
        if count < least and kernel.inputs.endswith("+"):
            return f"takes at least {_inputs(least)}, not {count}"
        if count != least and not kernel.inputs.endswith("+"):
            return f"takes {_inputs(least)}, not {count}"
        required = [position for position in range(count) if position != kernel.optional_input]
        if absent := [position for position in required if not call.has(position)]:
            return f"needs input {absent[0]}, which the file marks as absent"
    return None if len(call.op.outputs) >= kernel.outputs else "needs an output"


def _inputs(count: int) -> str:
    return f"{count} input{'' if count == 1 else 's'}"


def _options(call: Call) -> str | None:
    """Options that no kernel of the interpreter takes."""
    if "custom_options" in call.op.attrs:
        return "takes no options of a custom operator"
    return "takes no intermediate tensors with a size" if "intermediates" in call.op.attrs else None


COMMON = (_operand_count, _options)
"""Rules of every operator."""


def unsupported_reason(
    graphs: Sequence[Graph], build: Build = FIRMWARE, *, is_file: bool = True
) -> str | None:
    """The first reason why a build of the interpreter rejects the model; None if none is known.

    Without `is_file`, the graphs have dtypes of an assumed precision, but no scales: only the dtypes of
    products are compared with what their kernels take.
    """
    missing = {op.source or op.kind for graph in graphs for op in graph.ops} - RESOLVED
    missing -= {ETHOS_U} if build.has_ethos_u else set()
    if missing:
        return f"it has no kernel for {', '.join(sorted(missing))}"
    if is_file and (reason := _recorded_shape(graphs)):
        return reason
    common, table = (COMMON, RULES) if is_file else ((), _ASSUMED)
    reasons = (
        _reason(graph, op, build, (*common, *table.get(op.source, ())))
        for graph in graphs
        for op in graph.ops
    )
    return next(filter(None, reasons), None)


def _recorded_shape(graphs: Sequence[Graph]) -> str | None:
    """The interpreter uses the shapes of the file; a placeholder of another size ends in an error."""
    for graph in graphs:
        for identity, recorded in graph.recorded_shapes.items():
            tensor = graph.tensors[identity]
            return (
                f"it does not infer shapes: {tensor.name!r} is {shape(tensor.shape)}, and the file has"
                f" {shape(recorded)} because its batch is not fixed"
            )
    return None


def _reason(graph: Graph, op: Op, build: Build, rules: Rules) -> str | None:
    call = Call(op, graph.tensors, build)
    try:
        requirement = next((text for rule in rules if (text := rule(call))), None)
    except Incomplete as error:
        return f"{error}, which its kernel needs"
    if requirement is None:
        return None
    name = name_of(graph, op)
    shown = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."
    return f"its {op.source} kernel {requirement} (operator {shown!r})"


def _caveats_of(call: Call) -> Rules:
    """Those of a build's kernel; other rules are about operators without outputs or a first input."""
    kernel = KERNELS.get(call.op.source)
    if kernel is None or not call.op.outputs or not call.has(0):
        return ()
    if uses_cmsis_nn(call):
        return (*kernel.caveats, *kernel.cmsis_nn_caveats)
    return () if call.build.kernels == "esp-nn" and kernel.esp_nn else kernel.caveats


def caveats(graphs: Sequence[Graph], build: Build = FIRMWARE) -> list[str]:
    """Reservations about a model that a build of the interpreter runs, each with its first operator."""
    first: dict[str, str] = {}
    for graph in graphs:
        for op in graph.ops:
            call = Call(op, graph.tensors, build)
            for text in filter(None, (rule(call) for rule in _caveats_of(call))):
                first.setdefault(f"its {op.source} kernel {text}", name_of(graph, op))
    return [f"{text} (operator {name!r})" for text, name in first.items()]


def may_fail_by_value(graphs: Sequence[Graph], operator: str) -> bool:
    """Whether inference can fail in such an operator for some inputs of the model and run for others."""
    position = KERNELS[operator].fails_by if operator in KERNELS else None
    if position is None:
        return False
    calls = (
        Call(op, graph.tensors, FIRMWARE) for graph in graphs for op in graph.ops if op.source == operator
    )
    return any(call.has(position) and not is_constant(call.input(position)) for call in calls)
