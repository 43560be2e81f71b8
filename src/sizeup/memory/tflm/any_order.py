"""Bounds of the head of an arena over every order in which a converter may write the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory.liveness import Column
from sizeup.memory.tflm.layout import ALIGNMENT, Build, round_up
from sizeup.memory.tflm.subgraphs import planned_bytes
from sizeup.memory.tflm.tail import kernel_requests

_WITH_SCRATCH = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_DRAWN = 4
_MOST_OPS = 2000  # of graphs whose orders are considered: time and memory grow with the square


class HeadBounds(NamedTuple):
    """The least and the most bytes that are live at once; of long graphs, the most in the given order."""

    least: int
    most: int


def head_bounds(graph: Graph, build: Build) -> HeadBounds:
    """Bounds over all orders of the operators of a graph without others."""
    sizes = {identity: round_up(size, ALIGNMENT) for identity, size in planned_bytes(graph).items()}
    scratch = np.array([_scratch(graph, op, build) for op in graph.ops], np.int64)
    ends = (
        sum(sizes.get(identity, 0) for identity in {*graph.inputs}),
        sum(sizes.get(identity, 0) for identity in {*graph.outputs}),
    )
    if not graph.ops:
        return HeadBounds(max(ends), sum(ends))
    own = scratch + np.array(
        [sum(sizes.get(identity, 0) for identity in {*op.inputs, *op.outputs}) for op in graph.ops], np.int64
    )
    if len(graph.ops) > _MOST_OPS:
        return HeadBounds(max(int((own - scratch).max()), *ends), 0)
    least, most = _around(graph, sizes)
    # Other operators have alternatives without scratch.
    other = scratch * np.array([op.source not in _WITH_SCRATCH for op in graph.ops], np.int64)
    return HeadBounds(max(int((own - other + least).max()), *ends), int((own + most).max()))


def _scratch(graph: Graph, op: Op, build: Build) -> int:
    return sum(round_up(size, ALIGNMENT) for size in kernel_requests(graph, op, build).scratch)


def orders(graph: Graph) -> list[tuple[int, ...]]:
    """Some orders of the operators: the given one, those of searches from the outputs, and drawn ones."""
    makers = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    needed = [[makers[each] for each in op.inputs if each in makers] for op in graph.ops]
    ends = [makers[each] for each in graph.outputs if each in makers]
    distinct = {tuple(range(len(graph.ops))): None}
    for positions, is_last in product((ends, ends[::-1]), (False, True)):
        distinct[_searched(needed, positions, is_last=is_last)] = None
    if len(distinct) > 1:  # not a chain
        distinct |= dict.fromkeys(_searched(needed, ends, Random(seed)) for seed in range(_DRAWN))
    return [*distinct]


def _searched(
    needed: Sequence[Sequence[int]],
    ends: Sequence[int],
    random: Random | None = None,
    *,
    is_last: bool = False,
) -> tuple[int, ...]:
    """Operators after those that make their inputs: the first, the last or a drawn one of them first."""
    waiting = [*range(len(needed) - 1, -1, -1), *ends]
    done: dict[int, None] = {}
    while waiting:
        missing = [index for index in needed[waiting[-1]] if index not in done]
        if missing and waiting[-1] not in done:
            waiting.append(random.choice(missing) if random else missing[-1 if is_last else 0])
        else:
            done[waiting.pop()] = None
    return tuple(done)


def _around(graph: Graph, sizes: dict[int, int]) -> tuple[Column, Column]:
    """Per operator, the bytes of other tensors that are live in every order, and in any."""
    count = len(graph.ops)
    before = _ancestors(graph)  # before[i, j]: j always runs before i
    makers = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    readers: dict[int, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for identity in {*op.inputs} - {ABSENT}:
            readers.setdefault(identity, []).append(index)
    outputs = frozenset(graph.outputs)
    least = np.zeros(count, np.int64)
    chains: dict[int, Column] = {}
    for identity, size in sizes.items():
        maker, used = makers.get(identity), readers.get(identity, [])
        is_made = np.ones(count, np.bool_) if maker is None else before[:, maker]
        may_be_made = np.ones(count, np.bool_) if maker is None else ~before[maker]
        needed, may_be_needed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for reader in used:
            needed |= before[reader]
            may_be_needed |= ~before[:, reader]
        if identity in outputs:
            needed[:] = may_be_needed[:] = True
        other = np.ones(count, np.bool_)
        other[used if maker is None else [*used, maker]] = False
        least += size * (is_made & needed & other)
        possible = size * (may_be_made & may_be_needed & other)
        chain = _chain(graph, identity, makers, readers, outputs)
        chains[chain] = np.maximum(chains.get(chain, possible), possible)
    return least, np.sum([*chains.values()], axis=0, dtype=np.int64)


def _ancestors(graph: Graph) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    before = np.zeros((len(graph.ops),) * 2, np.bool_)
    makers: dict[int, int] = {}
    for index, op in enumerate(graph.ops):
        for identity in op.inputs:
            if identity in makers:
                before[index] |= before[makers[identity]]
                before[index, makers[identity]] = True
        makers.update(dict.fromkeys(op.outputs, index))
    return before


def _chain(
    graph: Graph,
    identity: int,
    makers: dict[int, int],
    readers: Mapping[int, Sequence[int]],
    outputs: frozenset[int],
) -> int:
    """The first tensor of the chain that a tensor is in: of two neighbors, one is live between operators."""
    while identity in makers:
        op = graph.ops[makers[identity]]
        sources = [
            each for each in {*op.inputs} if each in readers and (each in makers or each in graph.inputs)
        ]
        if len(op.outputs) != 1 or len(sources) != 1:
            break
        if len(readers[sources[0]]) != 1 or sources[0] in outputs:
            break
        identity = sources[0]
    return identity
