"""Bounds of the arena of the .tflite files that converters may write of a graph of another format."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from operator import add
from typing import NamedTuple

from sizeup.backends.tflm.any_order import head_bounds, most_files, orders
from sizeup.backends.tflm.conversion import conversion_of, converted_ops
from sizeup.backends.tflm.head import liveness_of, place_greedily
from sizeup.backends.tflm.kernel import KernelRequests
from sizeup.backends.tflm.layout import ALIGNMENT, FIRMWARE, Build, round_up
from sizeup.backends.tflm.lowered import LEAST, lowered, lowered_most
from sizeup.backends.tflm.lowerings import lowering_of
from sizeup.backends.tflm.subgraphs import planned_bytes
from sizeup.backends.tflm.tail import all_requests, largest_scratch_bytes, needed_bytes, plain_bytes
from sizeup.backends.tflm.tail import tensor_bytes as description_bytes
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.memory.liveness import tensor_bytes

# Bytes of a file besides its content. Names, shapes and options took up to 190 B per tensor in files of
# onnx2tf 1.29 and litert-torch 0.10; scales have zero points and ranges; a file has a signature and metadata.
_BY_TENSOR, _BY_SCALE, _BY_FILE = 256, 24, 4096
_PRODUCTS, _OPERANDS = ("FULLY_CONNECTED", "BATCH_MATMUL"), 3
_GATES = 4  # of a recurrent cell


@dataclass(frozen=True, slots=True)
class ConvertedArena:
    """Lower and upper bounds of the head, and of the smallest arena."""

    head: tuple[int, int]
    arena: tuple[int, int]
    composed_bytes: int = 0  # assumed upper bound for operators that replace one of the graph

    def __or__(self, other: ConvertedArena) -> ConvertedArena:
        """The bounds of either."""
        return ConvertedArena(
            _around(self.head, other.head),
            _around(self.arena, other.arena),
            max(self.composed_bytes, other.composed_bytes),
        )


class LargestArena(NamedTuple):
    """The largest head and arena of the files, and the largest scratch buffer of ESP-NN's kernels."""

    head: int
    arena: int
    scratch: int


@dataclass(frozen=True)
class Conversions:
    """A conversion at a precision that starts from `least` at the least, and from one of `most` at the most.

    All raise Incomplete if a size depends on data.
    """

    least: Graph
    most: tuple[Graph, ...]
    precision: DType | None

    def arena(self, build: Build) -> ConvertedArena:
        """The bounds in a build; `least` has the lower end."""
        low = self._smallest(build)
        requests = all_requests((low,), build)
        low_head = head_bounds(low, requests[0]).least
        low_arena = needed_bytes((low,), build, low_head, 0, requests=requests)
        most = self.largest(build, low_head)
        composed = max(_composed_bytes(graph, self.precision, build) for graph in self.most)
        return ConvertedArena((low_head, most.head), (low_arena, most.arena), composed)

    def largest(self, build: Build, low_head: int) -> LargestArena:
        """The upper ends in a build, of a head that has at least `low_head`."""
        written = self.written(build)
        requests = [all_requests((graph,), build) for graph in written]
        # A converter may combine the styles: the largest head with the tail of another.
        heads = [_most_head(graph, each[0]) for graph, each in zip(written, requests, strict=True)]
        head = max(low_head, *(most for most, _ in heads))
        sizes = [
            needed_bytes((graph,), build, head, buffers, requests=each)
            for graph, each, (_, buffers) in zip(written, requests, heads, strict=True)
        ]
        scratch = largest_scratch_bytes(written, build.chip) if build.kernels == "esp-nn" else 0
        return LargestArena(head, max(sizes), scratch)

    def file_bytes(self) -> tuple[int, int]:
        """Bounds of the size of the .tflite files."""
        low = sum(tensor_bytes(each) for each in self._smallest(FIRMWARE).tensors if each.is_parameter)
        added = max(
            sum(sum(_added(graph, op).values()) for op in converted_ops(graph)) for graph in self.most
        )
        high = 0
        for graph in self.written(FIRMWARE):
            content = sum(tensor_bytes(tensor) for tensor in graph.tensors if tensor.data is not None)
            scales = sum(tensor.quant.scale.size for tensor in graph.tensors if tensor.quant is not None)
            described = len(graph.tensors) + _OPERANDS * added
            high = max(high, content + _BY_SCALE * scales + _BY_TENSOR * described + _BY_FILE)
        return min(low, high), high

    def written(self, build: Build) -> tuple[Graph, ...]:
        """The graphs of the files with the most memory."""
        if build not in self._written:
            graphs = [each for graph in self.most for each in lowered_most(graph, self.precision, build)]
            self._written[build] = tuple(graphs)
        return self._written[build]

    def _smallest(self, build: Build) -> Graph:
        if build not in self._least:
            self._least[build] = lowered(self.least, self.precision, LEAST, build)
        return self._least[build]

    @cached_property
    def _written(self) -> dict[Build, tuple[Graph, ...]]:
        return {}

    @cached_property
    def _least(self) -> dict[Build, Graph]:
        return {}


def _most_head(graph: Graph, requests: Sequence[KernelRequests]) -> tuple[int, int]:
    """The largest head over some orders of the operators, and the number of its buffers."""
    sizes = {identity: round_up(size, ALIGNMENT) for identity, size in planned_bytes(graph).items()}
    scratch = [[round_up(size, ALIGNMENT) for size in each.scratch] for each in requests]
    most = head_bounds(graph, requests).most
    for order in orders(graph):
        liveness = liveness_of((replace(graph, ops=tuple(graph.ops[index] for index in order)),))
        tensors, operators = liveness.tensors[0], liveness.operators[0]
        rows = [(*tensors.get(identity, (0, 0)), size) for identity, size in sizes.items()]
        rows += [(*operators[step], size) for step, index in enumerate(order) for size in scratch[index]]
        # The numbers of tensors decide between those of equal size.
        numberings = [sorted(rows), *([] if most_files(graph) else [sorted(rows, reverse=True)])]
        for numbered in numberings if rows else ():
            most = max(most, _planned_end(numbered))
    return most, len(sizes) + sum(map(len, scratch))


_KNOWN: dict[bytes, int] = {}
_MOST_KNOWN = 1_000


def _planned_end(rows: Sequence[tuple[int, int, int]]) -> int:
    """The end of a plan for buffers with a first tick, a last tick and a size.

    Ends are kept: without scratch buffers all builds and most styles have the same one, and a plan of 100,000
    buffers takes a second.
    """
    key = hashlib.sha256(repr(rows).encode()).digest()
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        firsts, lasts, sizes = zip(*rows, strict=True)
        _KNOWN[key] = max(map(add, place_greedily(sizes, firsts, lasts), sizes))
    return _KNOWN[key]


def _composed_bytes(graph: Graph, precision: DType | None, build: Build) -> int:
    """The bytes of operators that replace one, without the first, and of the tensors between them."""
    total = conversion_of(graph, precision).between_bytes
    for op in converted_ops(graph):
        largest = max((tensor_bytes(tensor, precision) for tensor in _tensors(graph, op)), default=0)
        if lowering_of(op.kind).step:  # sums of the gates, and their parts, of all steps at once
            total += 2 * _GATES * largest
        names = _added(graph, op).items()
        total += sum(count * _added_bytes(name, largest, build) for name, count in names)
    return total


def _added(graph: Graph, op: Op) -> Counter[str]:
    """The operators that replace an op, without the first; recurrent cells are unrolled."""
    lowering = lowering_of(op.kind)
    if not lowering.step:
        return Counter(lowering.composed_of[1:])
    shapes = [tensor.shape or () for tensor in _tensors(graph, op)]
    steps = max((prod(shape[:2]) for shape in shapes if len(shape) > 2), default=1)
    return Counter({name: steps * count for name, count in Counter(lowering.step).items()})


def _tensors(graph: Graph, op: Op) -> list[Tensor]:
    """The tensors of an operator that are computed."""
    tensors = (graph.tensors[identity] for identity in (*op.inputs, *op.outputs) if identity != ABSENT)
    return [tensor for tensor in tensors if tensor.data is None]


def _added_bytes(name: str, largest: int, build: Build) -> int:
    """The bytes of an operator and its tensors in the tail; products have tables or a copy of an operand."""
    op = Op(name, (), (), {}, name)
    return (
        (plain_bytes(op, build) or 0)
        + _OPERANDS * description_bytes(build)
        + (largest if name in _PRODUCTS else 0)
    )


def _around(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])
