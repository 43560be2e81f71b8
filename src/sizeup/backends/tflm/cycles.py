"""The instructions basis: latency of TFLite Micro as instructions times cycles per instruction of a core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from sizeup.backends.tflm.instructions import Instructions, formula_file, instructions_of
from sizeup.backends.tflm.layout import Build, firmwares
from sizeup.cost import Cost
from sizeup.dtypes import DType, dtype, precision_name
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.latency.counted import CyclesPerInstruction, InstructionsPrediction, LeastInstructions
from sizeup.latency.execution import Execution
from sizeup.latency.model import Kernels
from sizeup.latency.work import Floats
from sizeup.targets import Target

_MOST_FLOATS = 0.01  # share of the instructions in operators on real numbers, whose cycles were not measured
_LIBRARIES = ("reference", "cmsis-nn")  # with formulas

# Dtypes of activations and weights at a precision.
_DTYPES = {
    "fp32": ("float32", "float32"),
    "int16": ("int16", "int8"),
    "int8": ("int8", "int8"),
    "int4": ("int8", "int4"),
}

_PRODUCTS = {"conv": "CONV_2D", "matmul": "FULLY_CONNECTED"}  # TFLite operators of op kinds


@cache
def cores() -> Mapping[tuple[str, str], CyclesPerInstruction]:
    """The cores with measured cycles per instruction, by core and kernel library."""
    rows = [
        CyclesPerInstruction(**{key: value for key, value in row.items() if key != "source"})
        for row in formula_file()["core"]
    ]
    return {(row.core, row.kernels): row for row in rows}


@cache
def fastest() -> Mapping[tuple[str, str], float]:
    """The fewest measured cycles per counted instruction, by core and kernel library.

    Fewer than the core allows: the measured build executes fewer instructions than the counted one.
    """
    return {(row["core"], row["kernels"]): row["cycles"] for row in formula_file()["fastest"]}


INSTRUCTION_PRECISIONS = tuple(_DTYPES)
"""The precisions at which TFLite Micro runs networks."""


def cycles_per_instruction(target: Target) -> CyclesPerInstruction | None:
    """Cycles per instruction of a target's core with its kernel library; None if they were not measured."""
    core = target.units[0].core
    if core is None or _build(target) is None:
        return None
    return cores().get((core.name, target.runtime.micro))


def least_cycles(target: Target) -> float | None:
    """The fewest cycles per instruction of a target's core; None if unknown."""
    core = target.units[0].core
    if core is None or core.instructions_per_cycle is None or _build(target) is None:
        return None
    return min(1 / core.instructions_per_cycle, fastest().get((core.name, target.runtime.micro), math.inf))


def _build(target: Target) -> Build | None:
    """The build of TFLite Micro on a target's only core; None if its kernels have no formulas."""
    unit, library = target.units[0], target.runtime.micro
    if library not in _LIBRARIES or len(target.units) != 1 or unit.clock_hz is None:
        return None
    builds = firmwares(target.architectures, library)
    return builds[0] if len(builds) == 1 else None


def least_instructions(
    cost: Cost, target: Target, precision: DType | None, executed: Execution
) -> LeastInstructions | None:
    """The least time of a network in TFLite Micro by its instructions; None if they are unknown.

    Operators on real numbers are left out: whether a build uses the floating-point unit is unknown. Of other
    formats, only products of matrices are counted, because a conversion changes other operators.
    """
    cycles, clock = least_cycles(target), target.units[0].clock_hz
    graph = _counted_graph(cost, precision) if cost.graph.format == "tflite" else _products(cost, precision)
    if cycles is None or clock is None or graph is None:
        return None
    counted, by_op = _count(graph, target)
    by_op[_is_real(graph)] = 0
    if not by_op.any():
        return None
    by_op *= math.exp(-_formula_error(by_op, counted))
    instructions = float(by_op.sum())
    by_op *= cycles / clock
    kernels = _kernels(by_op, executed)
    seconds = float(by_op.sum())
    overhead = seconds - float(kernels.seconds.sum())
    return LeastInstructions(instructions, cycles, kernels, seconds, overhead)


def _counted_graph(cost: Cost, precision: DType | None) -> Graph | None:
    """The graph whose instructions are counted; None if TFLite Micro does not run it as it is."""
    if cost.graph.format != "tflite":
        return None
    return cost.graph if precision is None else _at_precision(cost.graph, precision)


def _products(cost: Cost, precision: DType | None) -> Graph | None:
    """The graph with dense convolutions and layers as the products of matrices that TFLite Micro computes.

    Other operators have no formula. None if TFLite Micro does not have the precision.
    """
    graph = cost.graph if precision is None else _at_precision(cost.graph, precision)
    if graph is None:
        return None
    tensors = list(graph.tensors)
    ops = tuple(_product(op, macs, tensors) for op, macs in zip(graph.ops, cost.macs.tolist(), strict=True))
    return replace(graph, ops=ops, tensors=tuple(tensors))


def _product(op: Op, macs: int, tensors: list[Tensor]) -> Op:
    """An op as a 1x1 convolution or FULLY_CONNECTED operator with as many MACs; appends its tensors."""
    source = _PRODUCTS.get(op.kind)
    weights = op.inputs[1] if len(op.inputs) > 1 else ABSENT
    if source is None or weights == ABSENT or tensors[weights].data is None or op.attrs.get("groups", 1) != 1:
        return replace(op, source="")
    filters = (
        (tensors[weights].shape or (0,))[0]
        if op.kind == "conv"
        else (tensors[op.outputs[0]].shape or (0,))[-1]
    )
    results = math.prod(tensors[op.outputs[0]].shape or (0,))
    if not filters or not results or results % filters or macs % results:
        return replace(op, source="")
    positions, length = results // filters, macs // results
    if op.kind == "conv":
        positions -= positions % 2  # two at a time: other kernels take less for a last single one
    ones = (1, 1) if op.kind == "conv" else ()
    shapes = ((*ones, positions, length), (filters, *ones, length), (*ones, positions, filters))
    first = len(tensors)
    for identity, shape in zip((op.inputs[0], weights, op.outputs[0]), shapes, strict=True):
        tensors.append(replace(tensors[identity], shape=shape))
    return replace(op, source=source, inputs=(first, first + 1), outputs=(first + 2,), attrs={})


def _count(graph: Graph, target: Target) -> tuple[Instructions, Floats]:
    """The instructions of a graph, and those of each op as numbers: 0 if there is no formula."""
    build = _build(target)
    assert build is not None
    counted = instructions_of(graph, build)
    return counted, np.nan_to_num(np.array(counted.by_op, np.float64))


def _kernels(by_op: Floats, executed: Execution) -> Kernels:
    """Kernels with the seconds of their main op."""
    seconds = np.zeros(len(executed.main_op))
    _, first = np.unique(executed.main_op, return_index=True)
    seconds[first] = by_op[executed.main_op[first]]
    zeros = np.zeros(len(seconds))
    return Kernels(seconds, zeros, zeros, seconds)


def predict_instructions(
    cost: Cost, target: Target, precision: DType | None, executed: Execution
) -> InstructionsPrediction | None:
    """The latency of a file in TFLite Micro; None if it is not known how its target executes it.

    That is: the file is not run as it is, or the target's core has no measured cycles per instruction.
    """
    rate, clock = cycles_per_instruction(target), target.units[0].clock_hz
    graph = _counted_graph(cost, precision)
    if rate is None or clock is None or graph is None:
        return None
    counted, by_op = _count(graph, target)
    total = float(by_op.sum())
    if not total:
        return None
    is_measured = float(by_op[_is_real(graph)].sum()) <= _MOST_FLOATS * total
    by_op *= rate.cycles / clock
    kernels = _kernels(by_op, executed)
    seconds = float(by_op.sum())
    spread = _formula_error(by_op, counted)
    low, high = -math.hypot(math.log(rate.low), spread), math.hypot(math.log(rate.high), spread)
    if not is_measured:
        least = least_cycles(target)
        low = -math.inf if least is None else math.log(least / rate.cycles) - spread
    return InstructionsPrediction(
        counted.total,
        rate,
        kernels,
        seconds,
        seconds * math.exp(low),
        seconds * math.exp(high) if is_measured else None,
        seconds - float(kernels.seconds.sum()),
        tuple(
            op.source for op, formula in zip(cost.graph.ops, counted.formulas, strict=True) if formula is None
        ),
    )


def _at_precision(graph: Graph, precision: DType) -> Graph | None:
    """The graph with activations and weights of a precision; None if TFLite Micro does not have it."""
    names = _DTYPES.get(precision_name(precision))
    if names is None:
        return None
    activations, weights = map(dtype, names)
    tensors = tuple(
        replace(tensor, dtype=activations if tensor.data is None else weights)
        if tensor.follows_precision
        else tensor
        for tensor in graph.tensors
    )
    return replace(graph, tensors=tensors)


def _is_real(graph: Graph) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each op computes real numbers."""
    tensors = graph.tensors
    return np.array(
        [
            any(tensors[identity].dtype.name.startswith("float") for identity in op.outputs)
            for op in graph.ops
        ],
        np.bool_,
    )


def _formula_error(by_op: Floats, counted: Instructions) -> float:
    """The error of the formulas, weighted by their share of the instructions of all ops."""
    errors = [0.0 if formula is None else formula.error for formula in counted.formulas]
    return float((by_op * errors).sum() / by_op.sum())
