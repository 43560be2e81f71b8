"""Rollups: the rows of ops added up by module, by op kind, by precision or by module and op kind."""

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
"""The row of parameters that no op reads, so that rows add up."""
TOP_LEVEL = "(top level)"
"""The row of ops that are in no module."""

_Key = TypeVar("_Key", bound=Hashable)
Sums = list[Any]
"""The sums of a group: ops, unknown ops, macs, elementwise, params, read, written, seconds."""
_WIDTH = 8


@lru_cache(maxsize=65536)
def module_path(scope: str) -> tuple[str, ...]:
    """Returns the names from the outermost module to the innermost: `a/b.c` has two, `a.b.c` has three."""
    return tuple(part for part in scope.split("/" if "/" in scope else ".") if part)


@lru_cache(maxsize=65536)
def module_at(scope: str, depth: int | None) -> str:
    """Returns the module of a scope at most `depth` names deep; empty for the model itself."""
    separator = "/" if "/" in scope else "."
    return separator.join(module_path(scope)[:depth])


def precision_of(graph: Graph, op: Op, precision: DType | None) -> str | None:
    """Returns the precision of the first output, which is the requested one if the output follows it."""
    tensors = (*op.outputs, *(i for i in op.inputs if i != ABSENT))
    if not tensors:
        return None
    tensor = graph.tensors[tensors[0]]
    return precision_name(precision if precision is not None and tensor.follows_precision else tensor.dtype)


def by_op_kind(cost: Cost, moved: Bytes, op_seconds: Floats | None = None) -> tuple[Group, ...]:
    """Returns one row per op kind, the costliest first."""
    return _costliest(cost, moved, op_seconds, [op.kind for op in cost.graph.ops])


def _costliest(cost: Cost, moved: Bytes, op_seconds: Floats | None, keys: list[str]) -> tuple[Group, ...]:
    rows = [_group(None, key, numbers) for key, numbers in sums_by_key(cost, moved, op_seconds, keys).items()]
    rows.sort(key=lambda row: (-row.macs, -row.elementwise_ops, -row.read_bytes - row.written_bytes))
    return (*rows, *unused_rows(cost))


def by_precision(
    cost: Cost, moved: Bytes, precision: DType | None = None, op_seconds: Floats | None = None
) -> tuple[Group, ...]:
    """Returns one row per precision, the costliest first."""
    return _costliest(
        cost, moved, op_seconds, [precision_of(cost.graph, op, precision) or "" for op in cost.graph.ops]
    )


def by_module(
    cost: Cost, moved: Bytes, depth: int | None, op_seconds: Floats | None = None
) -> tuple[Group, ...]:
    """Returns one row per module cut at a depth, in the order of first use; every op is in one row."""
    sums = sums_by_key(cost, moved, op_seconds, [module_at(op.scope, depth) for op in cost.graph.ops])
    return (*(_group(module, None, numbers) for module, numbers in sums.items()), *unused_rows(cost))


def by_module_and_op_kind(
    cost: Cost, moved: Bytes, depth: int | None, op_seconds: Floats | None = None
) -> tuple[Group, ...]:
    """Returns one row per op kind within each module cut at a depth."""
    keys = [(module_at(op.scope, depth), op.kind) for op in cost.graph.ops]
    sums = sums_by_key(cost, moved, op_seconds, keys)
    return (
        *(_group(module, op_kind, numbers) for (module, op_kind), numbers in sums.items()),
        *unused_rows(cost),
    )


def module_tree(cost: Cost, moved: Bytes, op_seconds: Floats | None = None) -> tuple[Group, ...]:
    """Returns one row per module with everything inside it; the first row, the model itself, is the total."""
    leaves = sums_by_key(cost, moved, op_seconds, [op.scope for op in cost.graph.ops])
    empty = [*[0] * (_WIDTH - 1), None if op_seconds is None else 0.0]
    sums: dict[str, Sums] = {"": [*empty]}
    for scope, numbers in leaves.items():
        for depth in range(len(module_path(scope)) + 1):
            _add(sums.setdefault(module_at(scope, depth), [*empty]), numbers)
    unused = unused_rows(cost)
    sums[""][4] += sum(row.params for row in unused)
    return (*(_group(module, None, numbers) for module, numbers in sums.items()), *unused)


def sums_by_key(
    cost: Cost, moved: Bytes, op_seconds: Floats | None, keys: Sequence[_Key]
) -> dict[_Key, Sums]:
    """Returns columns added up by key as Python ints, which cannot overflow; seconds if known."""
    columns: Iterable[tuple[Any, ...]] = zip(
        (~cost.known).astype(int).tolist(),
        cost.macs.tolist(),
        cost.elementwise.tolist(),
        cost.params.tolist(),
        moved.read.tolist(),
        moved.written.tolist(),
        repeat(None, len(cost.known)) if op_seconds is None else op_seconds.tolist(),
        strict=True,
    )
    sums: dict[_Key, Sums] = {}
    for key, numbers in zip(keys, columns, strict=True):
        group = sums.get(key)
        if group is None:
            sums[key] = [1, *numbers]
        else:
            _add(group, (1, *numbers))
    return sums


def _add(sums: Sums, numbers: Sequence[Any]) -> None:
    for index, number in enumerate(numbers):
        if number is not None:
            sums[index] += number


def _group(module: str | None, op_kind: str | None, numbers: Sums) -> Group:
    return Group(module, op_kind, *numbers)


def add_sums(rows: Sequence[Sequence[Any]]) -> Sums:
    """Returns sums of groups added up; the latency is known if one of theirs is."""
    *counts, seconds = zip(*rows, strict=True) if rows else ((0,),) * _WIDTH
    known = [value for value in seconds if value is not None]
    return [*map(sum, counts), math.fsum(known) if known else None]


def unused_rows(cost: Cost) -> tuple[Group, ...]:
    """Returns the row of parameters that no op reads, if there are any."""
    count = cost.total_params - sum(cost.params.tolist())
    if not count:
        return ()
    return (Group(UNUSED_PARAMETERS, UNUSED_PARAMETERS, 0, 0, 0, 0, count, 0, 0),)
