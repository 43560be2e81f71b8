"""Roll-ups: the rows of operators added up by module, by kind, or by both."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from sizeup.cost import Bytes, Cost
from sizeup.dtypes import DType, precision_name
from sizeup.graph import ABSENT, Graph, Op
from sizeup.results.rows import Group

if TYPE_CHECKING:
    from sizeup.latency.work import Floats

UNUSED_PARAMETERS = "(unused parameters)"
"""The row of parameters that no operator reads; without it the rows would not add up."""
TOP_LEVEL = "(top level)"
"""The row of operators that stand in no module."""

_Key = TypeVar("_Key", bound=Hashable)
Sums = list[Any]
"""Of a group, in its order: ops, unknown operators, macs, elementwise, params, read, written, seconds."""
_WIDTH = 8


@lru_cache(maxsize=65536)
def module_path(scope: str) -> tuple[str, ...]:
    """The names from the outermost module to the innermost: `a/b.c` has two, `a.b.c` has three."""
    return tuple(part for part in scope.split("/" if "/" in scope else ".") if part)


@lru_cache(maxsize=65536)
def module_at(scope: str, depth: int | None) -> str:
    """The module that holds a scope at most `depth` names deep; empty for the model itself."""
    separator = "/" if "/" in scope else "."
    return separator.join(module_path(scope)[:depth])


def precision_of(graph: Graph, op: Op, asked: DType | None) -> str | None:
    """The number type of the first output, which is the asked one where the output follows it."""
    places = (*op.outputs, *(i for i in op.inputs if i != ABSENT))
    if not places:
        return None
    tensor = graph.tensors[places[0]]
    return precision_name(asked if asked is not None and tensor.follows_precision else tensor.dtype)


def by_kind(cost: Cost, moved: Bytes, taken: Floats | None = None) -> tuple[Group, ...]:
    """One row a kind, the costliest first."""
    return _costliest(cost, moved, taken, [op.kind for op in cost.graph.ops])


def _costliest(cost: Cost, moved: Bytes, taken: Floats | None, keys: list[str]) -> tuple[Group, ...]:
    rows = [_group(None, key, numbers) for key, numbers in summed(cost, moved, taken, keys).items()]
    rows.sort(key=lambda row: (-row.macs, -row.elementwise_ops, -row.read_bytes - row.written_bytes))
    return (*rows, *unused(cost))


def by_precision(
    cost: Cost, moved: Bytes, asked: DType | None = None, taken: Floats | None = None
) -> tuple[Group, ...]:
    """One row a number type, the costliest first."""
    return _costliest(
        cost, moved, taken, [precision_of(cost.graph, op, asked) or "" for op in cost.graph.ops]
    )


def by_module(cost: Cost, moved: Bytes, depth: int | None, taken: Floats | None = None) -> tuple[Group, ...]:
    """One row a module cut at a depth, in the order of first use; every operator is in one row."""
    sums = summed(cost, moved, taken, [module_at(op.scope, depth) for op in cost.graph.ops])
    return (*(_group(module, None, numbers) for module, numbers in sums.items()), *unused(cost))


def by_module_and_kind(
    cost: Cost, moved: Bytes, depth: int | None, taken: Floats | None = None
) -> tuple[Group, ...]:
    """One row a kind within each module cut at a depth."""
    keys = [(module_at(op.scope, depth), op.kind) for op in cost.graph.ops]
    sums = summed(cost, moved, taken, keys)
    return (*(_group(module, kind, numbers) for (module, kind), numbers in sums.items()), *unused(cost))


def module_tree(cost: Cost, moved: Bytes, taken: Floats | None = None) -> tuple[Group, ...]:
    """One row a module with all that is inside it; the first row, the model itself, is the total."""
    leaves = summed(cost, moved, taken, [op.scope for op in cost.graph.ops])
    empty = [*[0] * (_WIDTH - 1), None if taken is None else 0.0]
    sums: dict[str, Sums] = {"": [*empty]}
    for scope, numbers in leaves.items():
        for depth in range(len(module_path(scope)) + 1):
            _add(sums.setdefault(module_at(scope, depth), [*empty]), numbers)
    spare = unused(cost)
    sums[""][4] += sum(row.params for row in spare)
    return (*(_group(module, None, numbers) for module, numbers in sums.items()), *spare)


def summed(cost: Cost, moved: Bytes, taken: Floats | None, keys: Sequence[_Key]) -> dict[_Key, Sums]:
    """Columns added up by key as Python ints, so that no sum can overflow; seconds where known."""
    columns: Iterable[tuple[Any, ...]] = zip(
        (~cost.known).astype(int).tolist(),
        cost.macs.tolist(),
        cost.elementwise.tolist(),
        cost.params.tolist(),
        moved.read.tolist(),
        moved.written.tolist(),
        repeat(None, len(cost.known)) if taken is None else taken.tolist(),
        strict=True,
    )
    sums: dict[_Key, Sums] = {}
    for key, numbers in zip(keys, columns, strict=True):
        found = sums.get(key)
        if found is None:
            sums[key] = [1, *numbers]
        else:
            _add(found, (1, *numbers))
    return sums


def _add(sums: Sums, numbers: Sequence[Any]) -> None:
    for index, number in enumerate(numbers):
        if number is not None:
            sums[index] += number


def _group(module: str | None, kind: str | None, numbers: Sums) -> Group:
    return Group(module, kind, *numbers)


def added(rows: Sequence[Sequence[Any]]) -> Sums:
    """Numbers of groups added up; a time is known where one of theirs is."""
    *counts, seconds = zip(*rows, strict=True) if rows else ((0,),) * _WIDTH
    known = [each for each in seconds if each is not None]
    return [*map(sum, counts), math.fsum(known) if known else None]


def unused(cost: Cost) -> tuple[Group, ...]:
    """The row of parameters that no operator reads, where there are such."""
    unused = cost.total_params - sum(cost.params.tolist())
    if not unused:
        return ()
    return (Group(UNUSED_PARAMETERS, UNUSED_PARAMETERS, 0, 0, 0, 0, unused, 0, 0),)
