"""What every operator costs, as columns: counts once, then bytes at any precision by multiplication."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import BIAS, DType
from sizeup.errors import RuleError
from sizeup.graph import Graph, Tensor

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# A number beyond this does not fit a column of 64 bits: Python's integers have no limit, numpy's do.
LARGEST = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Tensors read or written, one entry each; those of operator i are first[i]:first[i + 1]."""

    first: Column
    elements: Column
    times: Column  # how often in a pass: more than once in the body of a loop
    eights: Column  # whole groups of eight elements moved in a pass
    odd: Column  # the entries with elements beside whole groups
    bits: Column
    priced: Flags  # follows a change of precision (indices, masks and shapes do not)
    weight: Flags  # is a parameter, a buffer or a constant
    bias: Flags  # a small parameter that stays at 32 bits beside quantised weights
    tensors: tuple[Tensor, ...]

    def bytes_at(self, precision: DType | None = None) -> Column:
        """Bytes of every access, at the graph's own number types or at one precision."""
        if precision is None:
            bits = self.bits
        else:
            bits = np.where(self.priced, np.int64(precision.bits), self.bits)
            if precision.is_quantised:
                np.putmask(bits, self.bias, BIAS.bits)
        # Eight numbers take exactly `bits` bytes: whole eights first, so that no number is counted in bits.
        # Few columns, because a fresh one of a large graph costs more than the arithmetic on it.
        moved = self.eights * bits
        if len(self.odd):
            odd = self.odd
            moved[odd] += (((self.elements[odd] & 7) * bits[odd] + 7) >> 3) * self.times[odd]
        return moved

    def by_op(self, quantities: Column) -> Column:
        """Sums of a column of these accesses, one number an operator."""
        running = np.zeros(len(quantities) + 1, np.int64)
        np.cumsum(quantities, out=running[1:])
        return np.diff(running[self.first])


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Bytes at one precision: per operator what is read and written, and what all weights take."""

    read: Column
    written: Column
    weights: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cost:
    """Columns, one row an operator of the graph; an unknown row holds only what is certain, and says so
    in `known`."""

    graph: Graph
    macs: Column
    elementwise: Column
    params: Column  # parameters first used by this operator: shared ones count once
    known: Flags
    reasons: Mapping[int, str]  # why a row is not known
    reads: Accesses
    writes: Accesses
    parameters: Accesses  # every parameter of the model once, in one group
    stored_bytes: int  # of all parameters as the model keeps them: sparse or packed ones take less

    def __post_init__(self) -> None:
        """Raise RuleError if a number is negative: it would cancel the cost of another operator.

        `count`, `recount` and every other way to make a cost pass through here.
        """
        columns = {"MACs": self.macs, "elementwise operations": self.elementwise, "parameters": self.params}
        for side in ("reads", "writes", "parameters"):
            accesses: Accesses = getattr(self, side)
            columns[f"elements in `{side}`"] = accesses.elements
            columns[f"repetitions in `{side}`"] = accesses.times
        for what, column in columns.items():
            if len(column) and (least := int(column.min())) < 0:
                raise RuleError(f"{self.graph.name or 'graph'}: the number of {what} is negative ({least:,})")
        if self.stored_bytes < 0:
            raise RuleError(f"{self.graph.name or 'graph'}: the weights take {self.stored_bytes:,} bytes")

    def __repr__(self) -> str:
        known = int(self.known.sum())
        return f"<Cost of {self.graph!r}: {self.total_macs:,} MACs, {known:,} of {len(self.known):,} known>"

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of one pass."""
        return total(self.macs)

    @property
    def total_elementwise(self) -> int:
        """Elementwise operations of one pass."""
        return total(self.elementwise)

    @property
    def total_params(self) -> int:
        """Parameters of the model, shared ones once, unused ones too."""
        return total(self.parameters.elements)

    def bytes_at(self, precision: DType | None = None) -> Bytes:
        """The bytes moved and stored at the graph's own number types, or at one precision."""
        return Bytes(
            self.reads.by_op(self.reads.bytes_at(precision)),
            self.writes.by_op(self.writes.bytes_at(precision)),
            self.stored_bytes if precision is None else total(self.parameters.bytes_at(precision)),
        )


def total(column: Column) -> int:
    """The exact sum of a column, as a Python int."""
    if len(column) and max(int(column.max()), -int(column.min())) > LARGEST // len(column):
        return sum(column.tolist())
    return int(column.sum())


Access: TypeAlias = tuple[int, int, Tensor]  # elements moved, how often, and of which tensor


class AccessColumns:
    """Collects accesses operator by operator."""

    def __init__(self) -> None:
        self.first = array("q", [0])
        self.elements = array("q")
        self.times = array("q")
        self.tensors: list[Tensor] = []

    def add(self, accesses: list[Access]) -> None:
        """Append one operator's accesses and close its group."""
        for elements, times, tensor in accesses:
            self.elements.append(elements)
            self.times.append(times)
            self.tensors.append(tensor)
        self.first.append(len(self.tensors))

    def freeze(self) -> Accesses:
        """What was collected, as columns."""
        first, elements, times = (
            np.array(each, np.int64) for each in (self.first, self.elements, self.times)
        )
        return access_columns(first, elements, times, self.tensors)


def access_columns(first: Column, elements: Column, times: Column, tensors: list[Tensor]) -> Accesses:
    """Accesses to these tensors, with all that prices them."""
    priced = np.array([each.follows_precision for each in tensors], np.bool_)
    small = np.array([each.is_parameter and len(each.shape or ()) <= 1 for each in tensors], np.bool_)
    return Accesses(
        first,
        elements,
        times,
        (elements >> 3) * times,
        np.flatnonzero(elements & 7),
        np.array([each.dtype.bits for each in tensors], np.int64),
        priced,
        np.array([each.data is not None for each in tensors], np.bool_),
        priced & small,
        tuple(tensors),
    )
