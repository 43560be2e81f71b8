"""Memory as a framework held it: storages that were seen in a run, and what its kernels took beside them."""

from __future__ import annotations

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Run
from sizeup.memory.kernels import workspaces
from sizeup.memory.liveness import Buffers, tensor_bytes
from sizeup.ops import rule_of


def lifetimes_as_run(graph: Graph, run: Run, precision: DType | None = None) -> Buffers:
    """One buffer a storage, from the operator that made it to the last one that it was there for.

    What a kernel takes for itself is a buffer without tensors, there for one operator.
    """
    tensors = _by_storage(graph, run)
    first, last = _spans(graph, run)
    views = {identity for op in graph.ops if _is_view(op.kind) for identity in op.outputs}
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    of_tensor = [-1] * len(graph.tensors)
    for storage, members in tensors.items():
        # A view may show more numbers than there are (expanded): what it shows has the size.
        whole = [identity for identity in members if identity not in views] or members
        size = max(tensor_bytes(graph.tensors[identity], precision) for identity in whole)
        for identity in members:
            of_tensor[identity] = len(rows)
        rows.append((size, first[storage], last[storage], tuple(members)))
    taken = workspaces(graph, run, precision)
    rows += [(size, step, step, ()) for step, size in enumerate(taken) if size]
    sizes, firsts, lasts = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    return Buffers(sizes, firsts, lasts, tuple(row[3] for row in rows), tuple(of_tensor), len(graph.ops))


def _by_storage(graph: Graph, run: Run) -> dict[int, list[int]]:
    """The tensors of every storage; one that holds a constant is no memory of the run."""
    members: dict[int, list[int]] = {}
    for identity, storage in enumerate(run.storage):
        if storage >= 0:
            members.setdefault(storage, []).append(identity)
    tensors = graph.tensors
    return {
        storage: found
        for storage, found in members.items()
        if all(tensors[identity].data is None for identity in found)
    }


def _spans(graph: Graph, run: Run) -> tuple[dict[int, int], dict[int, int]]:
    """The first and the last operator of every storage; what was given and what is returned stays."""
    end = max(len(graph.ops) - 1, 0)
    first: dict[int, int] = {run.storage[identity]: 0 for identity in graph.inputs}
    last: dict[int, int] = {}
    for step, op in enumerate(graph.ops):
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                first.setdefault(run.storage[identity], step)
                last[run.storage[identity]] = step
    if run.freed:
        last = {storage: max(step, run.freed[storage]) for storage, step in last.items() if storage >= 0}
    # The caller holds what it gave, and will hold what it gets.
    last |= {run.storage[identity]: end for identity in (*graph.inputs, *graph.outputs)}
    return first, last


def _is_view(kind: str) -> bool:
    rule = rule_of(kind)
    return rule is not None and rule.views
