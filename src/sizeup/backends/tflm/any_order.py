"""Bounds of the head of an arena over every order in which a converter may write the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from sizeup.backends.tflm.kernel import KernelRequests
from sizeup.backends.tflm.layout import ALIGNMENT, round_up
from sizeup.backends.tflm.subgraphs import planned_bytes
from sizeup.graph import ABSENT, Graph
from sizeup.memory.liveness import Column

_WITH_SCRATCH = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_DRAWN = 4
_LARGE, _MOST_OPS = 300, 5000  # operators; time and memory of the sets grow with the square


class HeadBounds(NamedTuple):
    """The least and the most bytes that are live at once; of long graphs, the most in its own order."""

    least: int
    most: int


def head_bounds(graph: Graph, requests: Sequence[KernelRequests]) -> HeadBounds:
    """Bounds over all orders of the operators of a graph without others, of which each has its requests."""
    sizes = {identity: round_up(size, ALIGNMENT) for identity, size in planned_bytes(graph).items()}
    scratch = np.array(
        [sum(round_up(size, ALIGNMENT) for size in each.scratch) for each in requests], np.int64
    )
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


def orders(graph: Graph) -> list[tuple[int, ...]]:
    """Some orders of the operators: their own, those of searches from the outputs, and drawn ones."""
    makers = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    needed = [list(dict.fromkeys(makers[each] for each in op.inputs if each in makers)) for op in graph.ops]
    ends = [makers[each] for each in graph.outputs if each in makers]
    reverse = [indices[::-1] for indices in needed]
    own = tuple(range(len(graph.ops)))
    if len(graph.ops) > _MOST_OPS:
        return [own]
    if len(graph.ops) > _LARGE:
        return [*dict.fromkeys((own, _searched(reverse, ends)))]
    searches = product((needed, reverse), (ends, ends[::-1]))
    distinct = dict.fromkeys((own, *(_searched(each, positions) for each, positions in searches)))
    if len(distinct) > 1:  # not a chain
        for seed in range(_DRAWN):
            random = Random(seed)
            distinct[_searched([random.sample(each, len(each)) for each in needed], ends)] = None
    return [*distinct]


def most_files(graph: Graph) -> int | None:
    """How many of the files that converters may write are tried, to limit the time; None for all."""
    return 1 if len(graph.ops) > _MOST_OPS else 2 if len(graph.ops) > _LARGE else None


def _searched(needed: Sequence[Sequence[int]], ends: Sequence[int]) -> tuple[int, ...]:
    """Operators after those that they need, which are taken in turn."""
    done: dict[int, None] = {}
    for end in (*ends, *range(len(needed))):
        waiting = [(end, iter(needed[end]))] if end not in done else []
        while waiting:
            missing = next((each for each in waiting[-1][1] if each not in done), None)
            if missing is None:
                done[waiting.pop()[0]] = None
            else:
                waiting.append((missing, iter(needed[missing])))
    return tuple(done)


def _around(graph: Graph, sizes: dict[int, int]) -> tuple[Column, Column]:
    """Per operator, the bytes of other tensors that are live in every order, and in any.

    Sets of operators are numbers with one bit per operator.
    """
    count = len(graph.ops)
    makers = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    readers: dict[int, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for identity in {*op.inputs} - {ABSENT}:
            readers.setdefault(identity, []).append(index)
    before, after = _precedence(graph, makers, readers)
    every, outputs = (1 << count) - 1, frozenset(graph.outputs)
    least, most = np.zeros(count, np.int64), np.zeros(count, np.int64)
    chains: dict[int, list[tuple[int, int]]] = {}
    for identity, size in sizes.items():
        maker, used = makers.get(identity), readers.get(identity, [])
        exists, may_exist = (every, every) if maker is None else (after[maker], every & ~before[maker])
        needed = may_be_needed = every if identity in outputs else 0
        others = every if maker is None else every & ~(1 << maker)
        for reader in used:
            needed |= before[reader]
            may_be_needed |= every & ~after[reader]
            others &= ~(1 << reader)
        if always := exists & needed & others:
            least += size * _bits(always, count)
        if possible := may_exist & may_be_needed & others:
            chain = _chain(graph, identity, makers, readers, outputs)
            chains.setdefault(chain, []).append((size, possible))
    for chain_sizes in chains.values():
        covered = 0
        for size, possible in sorted(chain_sizes, reverse=True):
            if uncovered := possible & ~covered:
                most += size * _bits(uncovered, count)
                covered |= possible
    return least, most


def _bits(operators: int, count: int) -> Column:
    content = np.frombuffer(operators.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(content, bitorder="little")[:count].astype(np.int64)


def _precedence(
    graph: Graph, makers: dict[int, int], readers: Mapping[int, Sequence[int]]
) -> tuple[list[int], list[int]]:
    """The operators that run before each operator in every order, and those that run after it."""
    before, after = [0] * len(graph.ops), [0] * len(graph.ops)
    for index, op in enumerate(graph.ops):
        for maker in {makers[each] for each in op.inputs if each in makers}:
            before[index] |= before[maker] | 1 << maker
    for index in range(len(graph.ops) - 1, -1, -1):
        for reader in {each for identity in graph.ops[index].outputs for each in readers.get(identity, ())}:
            after[index] |= after[reader] | 1 << reader
    return before, after


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
        sources = [each for each in {*op.inputs} - {ABSENT} if graph.tensors[each].data is None]
        if len(op.outputs) != 1 or len(sources) != 1:
            break
        if len(readers[sources[0]]) != 1 or sources[0] in outputs:
            break
        identity = sources[0]
    return identity
