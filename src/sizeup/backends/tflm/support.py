"""Whether TFLite Micro's interpreter runs a model, from what its kernels accept."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.backends.tflm.arithmetic_rules import ARITHMETIC, dequantize
from sizeup.backends.tflm.kernel_call import Call, elements_of
from sizeup.backends.tflm.kernel_rules import BOOL, Rules, dtype
from sizeup.backends.tflm.kernels import ETHOS_U, KERNELS, UNSIZED
from sizeup.backends.tflm.layout import FIRMWARE, Build
from sizeup.backends.tflm.layout_rules import LAYOUT
from sizeup.backends.tflm.operand_rules import OPERANDS
from sizeup.backends.tflm.product_rules import PRODUCTS, product_types
from sizeup.errors import Incomplete
from sizeup.graph import Graph, Op, Tensor, name_of
from sizeup.units import shape

RESOLVED = frozenset((*KERNELS, *UNSIZED))
"""Operators that the interpreter has a kernel for."""

_MAX_NAME = 60


def _bytes(tensor: Tensor) -> int:
    return elements_of(tensor) * tensor.dtype.bits // 8


def _copies(sources: Sequence[Tensor], targets: Sequence[Tensor], what: str) -> str | None:
    """Tensors are copied into and out of a subgraph, which has to have as many and as large ones."""
    if len(sources) != len(targets):
        return f"needs {len(sources)} {what}, not {len(targets)}"
    for source, target in zip(sources, targets, strict=True):
        if _bytes(source) != _bytes(target):
            return f"needs {what} of {_bytes(source):,} B for {source.name!r}, not {_bytes(target):,} B"
    return None


def _ends(graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
    inputs, outputs = ([graph.tensors[identity] for identity in ids] for ids in (graph.inputs, graph.outputs))
    return inputs, outputs


def _if(call: Call) -> str | None:
    if dtype(call) != BOOL or elements_of(call.input(0)) != 1:
        return f"takes one bool as its condition, not {dtype(call)}"
    data = [call.input(position) for position in range(1, len(call.op.inputs))]
    results = [call.output(position) for position in range(len(call.op.outputs))]
    for body in call.op.bodies:
        inputs, outputs = _ends(body.graph)
        reason = _copies(data, inputs, f"inputs of the graph {body.name!r}")
        # It runs an "else" without outputs, which leaves the results as they are.
        if reason is None and (outputs or body.name != "else"):
            reason = _copies(results, outputs, f"outputs of the graph {body.name!r}")
        if reason:
            return reason
    return None


def _while(call: Call) -> str | None:
    data = [call.input(position) for position in range(len(call.op.inputs))]
    results = [call.output(position) for position in range(len(call.op.outputs))]
    reason = _copies(data, results, "outputs")
    for body in call.op.bodies:
        inputs, outputs = _ends(body.graph)
        reason = reason or _copies(data, inputs, f"inputs of the graph {body.name!r}")
        if body.name != "cond":
            reason = reason or _copies(results, outputs, f"outputs of the graph {body.name!r}")
    return reason


RULES: dict[str, Rules] = {**ARITHMETIC, **LAYOUT, **PRODUCTS, "IF": (_if,), "WHILE": (_while,)}
"""What the kernels accept, by operator, in addition to the rules of every operator."""

# A converter chooses scales, parameters and the dtypes of other operators.
_ASSUMED: dict[str, Rules] = {
    "DEQUANTIZE": (dequantize,),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"), (product_types,)),
}


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
    common, table = (OPERANDS, RULES) if is_file else ((), _ASSUMED)
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
