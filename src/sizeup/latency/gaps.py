"""What a latency leaves out: operators without a cost, and the steps of recurrent operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from sizeup import units
from sizeup.cost import Cost
from sizeup.graph import ABSENT, Graph, Op
from sizeup.latency.work import Flags
from sizeup.targets import Target

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
    count, position = 1, _STATE.get(graph.format, len(op.inputs))
    for axis in rows:
        count = count * shape[axis]
    batch = 1
    if position < len(op.inputs) and op.inputs[position] != ABSENT:
        batch = (graph.tensors[op.inputs[position]].shape or (0, 1, 0))[-2]
    return isinstance(count, int) and isinstance(batch, int) and count == batch
