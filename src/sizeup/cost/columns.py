"""The cost of every op as columns. Elements are counted once, bytes follow for any precision."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import BIAS, DType
from sizeup.errors import RuleError
from sizeup.graph import Dim, Graph, Tensor

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# Larger counts do not fit the int64 columns.
LARGEST = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Tensors read or written, one entry per access; those of op i are first[i]:first[i + 1]."""

    first: Column
    elements: Column
    times: Column  # accesses per inference: more than one in a loop body
    full_eights: Column  # full groups of eight elements moved per inference
    partial_entries: Column  # indices of entries whose element count is not a multiple of eight
    bits: Column
    scale_bytes: Column  # scales and zero points that are read with the elements, per inference
    follows_precision: Flags  # follows a change of precision (indices, masks and shapes do not)
    is_weight: Flags  # is a parameter, a buffer or a constant
    is_bias: Flags  # a small parameter that stays at 32 bits if weights are quantized
    tensors: tuple[Tensor, ...]

    def bytes_at(self, precision: DType | None = None) -> Column:
        """Bytes of every access, at the graph's own dtypes or at one precision."""
        if precision is None:
            bits = self.bits
        else:
            bits = np.where(self.follows_precision, np.int64(precision.bits), self.bits)
            if precision.is_quantized:
                np.putmask(bits, self.is_bias, BIAS.bits)
        # Eight elements take exactly `bits` bytes. Counting in eights avoids an overflow of counts in bits.
        # Few temporary columns: on large graphs allocating one costs more than the arithmetic.
        moved = self.full_eights * bits
        if len(self.partial_entries):
            odd = self.partial_entries
            moved[odd] += (((self.elements[odd] & 7) * bits[odd] + 7) >> 3) * self.times[odd]
        if self.scale_bytes.any():  # a conversion to another precision drops them
            moved += self.scale_bytes if precision is None else self.scale_bytes * ~self.follows_precision
        return moved

    def by_op(self, quantities: Column) -> Column:
        """Sums a column of these accesses per op."""
        running = np.zeros(len(quantities) + 1, np.int64)
        np.cumsum(quantities, out=running[1:])
        return np.diff(running[self.first])


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Bytes at one precision: read and written per op, and the size of all weights."""

    read: Column
    written: Column
    weights: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cost:
    """Columns with one row per op of the graph; a row with `known` False is a lower bound."""

    graph: Graph
    macs: Column
    elementwise: Column
    params: Column  # parameters first used by this op: shared ones count once
    known: Flags
    reasons: Mapping[int, str]  # why a row is unknown
    reads: Accesses
    writes: Accesses
    parameters: Accesses  # every parameter of the model once, in one group
    stored_bytes: int  # of all parameters in the model file: sparse or packed ones take less

    def __post_init__(self) -> None:
        """Raises RuleError if a count is negative: it would cancel the cost of another op."""
        columns = {"MACs": self.macs, "elementwise operations": self.elementwise, "parameters": self.params}
        for side in ("reads", "writes", "parameters"):
            accesses: Accesses = getattr(self, side)
            columns[f"elements in `{side}`"] = accesses.elements
            columns[f"repetitions in `{side}`"] = accesses.times
        for label, column in columns.items():
            if len(column) and (least := int(column.min())) < 0:
                raise RuleError(
                    f"{self.graph.name or 'graph'}: the number of {label} is negative ({least:,})"
                )
        if self.stored_bytes < 0:
            raise RuleError(f"{self.graph.name or 'graph'}: the weights take {self.stored_bytes:,} bytes")

    def __repr__(self) -> str:
        known = int(self.known.sum())
        return f"<Cost of {self.graph!r}: {self.total_macs:,} MACs, {known:,} of {len(self.known):,} known>"

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates per inference."""
        return total(self.macs)

    @property
    def total_elementwise(self) -> int:
        """Elementwise operations per inference."""
        return total(self.elementwise)

    @property
    def total_params(self) -> int:
        """Parameters of the model: shared ones counted once, unused ones included."""
        return total(self.parameters.elements)

    def bytes_at(self, precision: DType | None = None) -> Bytes:
        """Bytes moved and stored, at the graph's own dtypes or at one precision."""
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


Access: TypeAlias = tuple[int, int, Tensor]  # elements moved, repetitions, tensor


class AccessColumns:
    """Collects accesses op by op."""

    def __init__(self) -> None:
        self.first = array("q", [0])
        self.elements = array("q")
        self.times = array("q")
        self.tensors: list[Tensor] = []

    def add(self, accesses: list[Access]) -> None:
        """Append the accesses of one op and close its group."""
        for elements, times, tensor in accesses:
            self.elements.append(elements)
            self.times.append(times)
            self.tensors.append(tensor)
        self.first.append(len(self.tensors))

    def freeze(self) -> Accesses:
        """The collected accesses as columns."""
        first, elements, times = (
            np.array(values, np.int64) for values in (self.first, self.elements, self.times)
        )
        return access_columns(first, elements, times, self.tensors)


def _scale_bytes(elements: Column, times: Column, tensors: list[Tensor]) -> Column:
    column = np.zeros(len(tensors), np.int64)
    for index, tensor in enumerate(tensors):
        if tensor.data is not None and tensor.data.scale_bytes:
            column[index] = int(times[index]) * scale_bytes_read(tensor, int(elements[index]))
    return column


def scale_bytes_read(tensor: Tensor, elements: Dim) -> Dim:
    """The scales and zero points read with some elements of a tensor: the same share of them."""
    total = 0 if tensor.data is None else tensor.data.scale_bytes
    return elements * total // (tensor.elements or 1) if total else 0


def access_columns(first: Column, elements: Column, times: Column, tensors: list[Tensor]) -> Accesses:
    """Accesses to these tensors, with the columns derived from the tensors."""
    priced = np.array([tensor.follows_precision for tensor in tensors], np.bool_)
    small = np.array([tensor.is_parameter and len(tensor.shape or ()) <= 1 for tensor in tensors], np.bool_)
    return Accesses(
        first,
        elements,
        times,
        (elements >> 3) * times,
        np.flatnonzero(elements & 7),
        np.array([tensor.dtype.bits for tensor in tensors], np.int64),
        _scale_bytes(elements, times, tensors),
        priced,
        np.array([tensor.data is not None for tensor in tensors], np.bool_),
        priced & small,
        tuple(tensors),
    )
