"""Networks of NAS-Bench-201 as the kernels that a runtime executes, from the cell's string.

15 cells in three stages between a stem, two residual reductions and a classifier. A cell has four nodes and
an operator on each of its six edges. Runtimes differ: they may run edges that do not reach the output, drop
multiplications by zero, and merge common subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from sizeup.latency.work import Work, from_columns

# each: all edges run, as in eager frameworks, `none` as a multiplication by zero; merged: common
# subexpressions run once; reached: merged, without `none` and edges that do not reach the output.
Policy = Literal["each", "merged", "reached"]
_Value: TypeAlias = tuple[object, ...]
_CONSTANT: _Value = ("constant",)
_CELLS = 5
_CHANNELS = (16, 32, 64)
_WIDTH = 4  # bytes of a float32


class Edge(NamedTuple):
    """One operator of a cell, from an earlier node to a later one."""

    operator: str
    source: int
    node: int


def edges(arch: str) -> list[Edge]:
    """The six edges of `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`."""
    result = []
    for node, part in enumerate(arch.split("+"), start=1):
        for each in part.strip("|").split("|"):
            operator, source = each.split("~")
            result.append(Edge(operator, int(source), node))
    return result


def uses_its_input(arch: str) -> bool:
    """Whether the output depends on the input; if not, a compiler may fold the network away."""
    live = {0}
    for edge in edges(arch):
        if edge.operator != "none" and edge.source in live:
            live.add(edge.node)
    return 3 in live


def _needed(cell: list[Edge]) -> list[Edge]:
    needed = {3}
    used = [edge for edge in cell if edge.operator != "none"]
    for edge in sorted(used, key=lambda each: -each.node):
        if edge.node in needed:
            needed.add(edge.source)
    return [edge for edge in used if edge.node in needed]


@cache
def executed(arch: str, policy: Policy) -> Counter[str]:
    """The number of runs of each kernel in one cell."""
    cell = _needed(edges(arch)) if policy == "reached" else edges(arch)
    run: Counter[str] = Counter()
    known: set[_Value] = set()

    def once(kernel: str, value: _Value) -> _Value:
        if policy == "each" or value not in known:
            known.add(value)
            run[kernel] += 1
        return value

    values: dict[int, _Value] = {0: ("input",)}
    for node in (1, 2, 3):
        terms = [_term(edge, values[edge.source], run, once) for edge in cell if edge.node == node]
        total = terms[0] if terms else _CONSTANT
        for term in terms[1:]:
            total = once("elementwise", ("add", *sorted((repr(total), repr(term)))))
        values[node] = total
    return run


def _term(edge: Edge, value: _Value, run: Counter[str], once: Callable[[str, _Value], _Value]) -> _Value:
    if edge.operator == "skip_connect":
        return value
    if edge.operator == "none":
        return once("zero", ("zero", value))
    if edge.operator == "avg_pool_3x3":
        return value if value == _CONSTANT else once("pool", ("pool", value))
    once("activation", ("activation", value))
    kernel = "conv" if edge.operator == "nor_conv_3x3" else "conv_1x1"
    run[kernel] += 1
    return (kernel, run.total())


class _Kernel(NamedTuple):
    name: str
    macs: float
    read: float
    written: float
    weights: float
    length: float
    columns: float
    rows: float
    runs: float


def _conv(
    channels: int, out_channels: int, taps: int, pixels: int, count: float = 1, from_pixels: int = 0
) -> _Kernel:
    length = channels * taps
    name = "conv" if taps > 1 else "conv_1x1"
    name = "conv_stem" if channels < 16 else name
    return _Kernel(
        name,
        float(length * out_channels * pixels),
        _WIDTH * channels * (from_pixels or pixels),
        _WIDTH * out_channels * pixels,
        _WIDTH * length * out_channels,
        length,
        out_channels,
        pixels,
        count,
    )


def _plain(name: str, elements: int, inputs: int, count: float) -> _Kernel:
    return _Kernel(name, 0, _WIDTH * inputs * elements, _WIDTH * elements, 0, 0, 0, 0, count)


def _network(arch: str, policy: Policy, shape: tuple[int, int, int], classes: int) -> list[_Kernel]:
    run = executed(arch, policy)
    channels, height, width = shape
    kernels = [_conv(channels, 16, 9, height * width)]
    for stage, out_channels in enumerate(_CHANNELS):
        if stage:
            before = height * width
            height, width = -(-height // 2), -(-width // 2)
            kernels += _reduction(out_channels, height * width, before)
        elements = out_channels * height * width
        kernels += [_conv(out_channels, out_channels, 9, height * width, _CELLS * run["conv"])]
        kernels += [_conv(out_channels, out_channels, 1, height * width, _CELLS * run["conv_1x1"])]
        kernels += [_plain("elementwise", elements, 2, _CELLS * run["elementwise"])]
        kernels += [_plain(each, elements, 1, _CELLS * run[each]) for each in ("activation", "pool", "zero")]
    kernels += [_plain("activation", elements, 1, 1), _plain("reduce", elements, 1, 1)]
    return [*kernels, _Kernel("linear", 64 * classes, 256, 4 * classes, 256 * classes, 64, classes, 1, 1)]


def _reduction(out_channels: int, pixels: int, before: int) -> list[_Kernel]:
    half = out_channels // 2
    return [
        _plain("activation", half * before, 1, 1),
        _conv(half, out_channels, 9, pixels, from_pixels=before),
        _plain("activation", out_channels * pixels, 1, 1),
        _conv(out_channels, out_channels, 9, pixels),
        _plain("pool", half * pixels, 4, 1),
        _conv(half, out_channels, 1, pixels),
        _plain("elementwise", out_channels * pixels, 2, 1),
    ]


def work_of_cells(
    archs: Sequence[str], policy: Policy, shapes: Sequence[tuple[int, int, int]], classes: int = 10
) -> Work:
    """One network per arch string and input shape (channels, height, width)."""
    remembered: dict[tuple[str, tuple[int, int, int]], list[_Kernel]] = {}
    rows, network = [], []
    for index, (arch, shape) in enumerate(zip(archs, shapes, strict=True)):
        if (arch, shape) not in remembered:
            remembered[arch, shape] = [k for k in _network(arch, policy, shape, classes) if k.runs]
        rows += remembered[arch, shape]
        network += [index] * len(remembered[arch, shape])
    columns = np.array([each[1:] for each in rows], np.float64).T
    names = ("macs", "read", "written", "weights", "length", "columns", "rows", "count")
    return from_columns(
        [each.name for each in rows], len(archs), network, **dict(zip(names, columns, strict=True))
    )
