"""What a latency leaves out: operators without a cost or a rate, and the steps of recurrent operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from sizeup import units
from sizeup.cost import Cost
from sizeup.dtypes import DTYPES
from sizeup.graph import ABSENT, Graph, Op
from sizeup.latency.backend import latency_backend
from sizeup.latency.model import Kernels
from sizeup.latency.roofline import dtype_of
from sizeup.latency.work import Flags, Floats, Work
from sizeup.targets import Target

NOTICEABLE = 0.02
"""Twice the largest `uncounted_seconds` of a measured network, as a share of its latency."""

# Classes of kernels that compute each result; copies are left out, and batch norms, which converters fold.
_COMPUTED = ("elementwise", "scaling", "softmax", "reduce", "pool", "layer_norm", "group_norm", "quantize")
_PRODUCTS = ("conv", "depthwise", "linear", "matmul")

_RECURRENT = ("lstm", "gru", "rnn")
_STATE = {"torch": 1, "onnx": 5}  # the input with the state, of shape (directions, batch, units)


def is_counted(cost: Cost) -> Flags:
    """Whether each op has a cost; false for those without a cost rule, whose traffic alone is known."""
    return np.asarray(cost.known | (cost.macs > 0) | (cost.elementwise > 0), np.bool_)


def gaps(cost: Cost) -> Iterator[str]:
    """Yields what makes a latency incomplete: ops without a cost, then ops of which a part is counted."""
    counted = is_counted(cost)
    uncounted = sum(not counted[op] for op in cost.reasons)
    if uncounted:
        yield f"incomplete: the time of {units.plural(uncounted, 'unknown operator')} is missing"
    partly = Counter((cost.graph.ops[op].kind, text) for op, text in cost.reasons.items() if counted[op])
    yield from (f"incomplete: {count:,} x {op_kind}: {reason}" for (op_kind, reason), count in partly.items())


def uncounted_seconds(kernels: Kernels, work: Work, target: Target) -> Floats:
    """The least seconds of kernels that a calibration of a microcontroller counts as 0 s.

    Activations are left out as far as products of matrices may have them fused.
    """
    clock = target.units[0].clock_hz
    if target.device.device_class != "microcontroller" or not clock:
        return np.zeros(work.networks)
    results = work.written / np.array([_bytes_of(name) for name in work.names])[work.class_index]
    free = np.where(kernels.seconds == 0, results, 0.0)
    computed, activations = (
        work.totals(free * _is_in(work, names)) for names in (_COMPUTED, ("activation",))
    )
    fused = work.totals(results * _is_in(work, _PRODUCTS))
    cycles = latency_backend(target).least_cycles_per_result
    return np.asarray((computed + np.maximum(0.0, activations - fused)) * (cycles / clock))


def _bytes_of(name: str) -> float:
    known = DTYPES.get(dtype_of(name))
    return 4.0 if known is None else known.bits / 8


def _is_in(work: Work, classes: tuple[str, ...]) -> Flags:
    is_in = [name.startswith(classes) for name in work.names]
    return np.array(is_in, np.bool_)[work.class_index]


def dependent_steps(graph: Graph, target: Target) -> tuple[str, ...]:
    """The op kinds whose steps wait for each other on a GPU or NPU.

    They count as one kernel, whose time does not depend on the number of launches and of steps.
    """
    if target.is_cpu:
        return ()
    kinds = [op.kind for op in graph.ops if op.kind in _RECURRENT and not _is_one_step(graph, op)]
    return tuple(dict.fromkeys(kinds))


def steps_gap(kinds: tuple[str, ...], target: Target) -> str:
    """That a latency is incomplete because of these op kinds."""
    unit = target.units[0].unit_class.upper()
    return f"incomplete: the time of the dependent steps of {', '.join(kinds)} on a {unit} is not modeled"


def _is_one_step(graph: Graph, op: Op) -> bool:
    """Whether a recurrent op is known to compute one step: sizes may be symbolic dimensions."""
    shape, rows = graph.tensors[op.inputs[0]].shape, op.attrs["rows"]
    if shape is None:
        return False
    if len(rows) == 1:  # a batch, or sequences of different lengths in PyTorch
        return graph.format == "tflite" or "_cell" in op.source
    count: Any = 1  # an int or an expression
    batch: Any = 1
    position = _STATE.get(graph.format, len(op.inputs))
    for axis in rows:
        count = count * shape[axis]
    if position < len(op.inputs) and op.inputs[position] != ABSENT:
        batch = (graph.tensors[op.inputs[position]].shape or (0, 1, 0))[-2]
    return isinstance(count, int) and isinstance(batch, int) and count == batch
