"""The instructions basis: latency of TFLite Micro as instructions times cycles per instruction of a core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType, dtype, precision_name
from sizeup.graph import Graph
from sizeup.latency.execution import Execution
from sizeup.latency.instructions import Instructions, formula_file, instructions_of
from sizeup.latency.model import Kernels
from sizeup.memory.tflm.layout import firmwares
from sizeup.targets import Target

_MOST_FLOATS = 0.01  # share of the instructions in operators on real numbers, whose cycles were not measured

# Dtypes of activations and weights at a precision.
_DTYPES = {
    "fp32": ("float32", "float32"),
    "int16": ("int16", "int8"),
    "int8": ("int8", "int8"),
    "int4": ("int8", "int4"),
}


@dataclass(frozen=True, slots=True)
class CyclesPerInstruction:
    """Measured cycles per instruction of a core with a kernel library.

    `low` and `high` are the 90 % interval of the true value divided by `cycles`.
    """

    core: str
    kernels: str
    cycles: float
    low: float
    high: float
    measurements: int
    boards: int


@cache
def cores() -> Mapping[tuple[str, str], CyclesPerInstruction]:
    """The cores with measured cycles per instruction, by core and kernel library."""
    rows = [
        CyclesPerInstruction(**{key: value for key, value in row.items() if key != "source"})
        for row in formula_file()["core"]
    ]
    return {(row.core, row.kernels): row for row in rows}


@dataclass(frozen=True, slots=True)
class InstructionsPrediction:
    """Latency of one inference by its instructions."""

    instructions: Instructions
    rate: CyclesPerInstruction
    kernels: Kernels
    seconds: float
    low: float
    high: float | None  # None if the cycles of a part were not measured: operators on real numbers
    overhead_seconds: float  # of operators that are no kernels elsewhere, such as reshapes
    unknown: tuple[str, ...]  # operators without a formula


INSTRUCTION_PRECISIONS = tuple(_DTYPES)
"""The precisions at which TFLite Micro runs networks."""


def cycles_per_instruction(target: Target) -> CyclesPerInstruction | None:
    """Cycles per instruction of a target's core with its kernel library; None if they were not measured."""
    unit, library = target.units[0], target.runtime.micro
    if not library or len(target.units) != 1 or unit.core is None or unit.clock_hz is None:
        return None
    if len(firmwares(target.architectures, library)) != 1:
        return None
    return cores().get((unit.core.name, library))


def predict_instructions(
    cost: Cost, target: Target, precision: DType | None, executed: Execution
) -> InstructionsPrediction | None:
    """The latency of a file in TFLite Micro; None if it is not known how its target executes it.

    That is: the file is not run as it is, or the target's core has no measured cycles per instruction.
    """
    rate, clock = cycles_per_instruction(target), target.units[0].clock_hz
    if cost.graph.format != "tflite" or rate is None or clock is None:
        return None
    graph = cost.graph if precision is None else _at_precision(cost.graph, precision)
    if graph is None:
        return None
    counted = instructions_of(graph, firmwares(target.architectures, target.runtime.micro)[0])
    by_op = np.nan_to_num(np.array(counted.by_op, np.float64))
    total = float(by_op.sum())
    if not total:
        return None
    is_measured = float(by_op[_is_real(graph)].sum()) <= _MOST_FLOATS * total
    by_op *= rate.cycles / clock
    kernels = np.zeros(len(executed.main_op))
    _, first = np.unique(executed.main_op, return_index=True)
    kernels[first] = by_op[executed.main_op[first]]
    seconds = float(by_op.sum())
    spread = _formula_error(counted, total)
    low, high = -math.hypot(math.log(rate.low), spread), math.hypot(math.log(rate.high), spread)
    if not is_measured:
        low = -math.log(rate.cycles) - spread  # one cycle per instruction, as these cores issue one
    zeros = np.zeros(len(kernels))
    return InstructionsPrediction(
        counted,
        rate,
        Kernels(kernels, zeros, zeros, kernels),
        seconds,
        seconds * math.exp(low),
        seconds * math.exp(high) if is_measured else None,
        seconds - float(kernels.sum()),
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


def _formula_error(counted: Instructions, total: float) -> float:
    """The error of the formulas, weighted by their share of the instructions."""
    return math.fsum(
        count / total * formula.error
        for count, formula in zip(counted.by_op, counted.formulas, strict=True)
        if formula is not None
    )
