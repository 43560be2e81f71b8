"""Scratch of kernels that vendors optimised, from above: no more than this is asked for by any one operator.

CMSIS-NN, `*_get_buffer_size` of its convolutions, fully connected layers and pools, as of version 7
(https://github.com/ARM-software/CMSIS-NN): two columns of 16-bit inputs, or four of 8 bits on processors with
Helium, whose depthwise kernels take blocks of 124 channels; sums of weights for every output channel. ESP-NN,
`esp_nn_get_conv_scratch_size` for the ESP32-S3 (https://github.com/espressif/esp-nn): padded copies of the
input and of the filter, each up to twice, and of the output, where other chips ask for none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod

from sizeup.graph import ABSENT, Graph, Op, Shape
from sizeup.memory.tflm.layout import round_up

_LANES = 16
_CHANNEL_BLOCK = 124


def most_scratch(graph: Graph, kernels: str) -> int | None:
    """The most that one operator asks for; None for kernels that are not known, or where data decides.

    Kernels are `reference`, `cmsis-nn`, the same `with helium`, or `esp-nn`.
    """
    ask = _ASKS.get(kernels)
    if ask is None or graph.others is None:
        return 0 if ask is _nothing else None
    asked = [
        # Real numbers are computed by the reference kernels.
        0 if _is_real(part, op) else ask(part, op)
        for part in _with_bodies((graph, *graph.others))
        for op in part.ops
    ]
    known = [size for size in asked if size is not None]
    return round_up(max(known, default=0), _LANES) if len(known) == len(asked) else None


def _with_bodies(graphs: Iterable[Graph]) -> Iterator[Graph]:
    for graph in graphs:
        yield graph
        yield from _with_bodies(body.graph for op in graph.ops for body in op.bodies)


def _nothing(_graph: Graph, _op: Op) -> int | None:
    return 0


def _cmsis_nn(graph: Graph, op: Op, *, helium: bool = False) -> int | None:
    if op.kind in ("conv", "conv_transpose", "matmul"):
        filter, made = _shape(graph, op.inputs, 1), _shape(graph, op.outputs, 0)
        if filter is None or made is None:
            return None
        sums = 4 * max(made, default=1)
        if op.kind == "matmul":
            return sums
        window = prod(filter) // max(_filters(op, filter), 1)
        columns = 4 * round_up(window, _LANES)
        if op.kind == "conv_transpose":
            return sums + columns + prod(filter) + 4 * prod(made)
        if not _is_depthwise(op):
            return sums + columns
        # One number a tap and channel: all of it is spread to 16 bits, or a block of it is copied four times.
        return columns + (4 * _CHANNEL_BLOCK * window + prod(filter) if helium else 2 * prod(filter))
    if op.kind == "pool":
        made = _shape(graph, op.outputs, 0)
        return None if made is None else 4 * max(made, default=1)
    return 0


def _esp_nn(graph: Graph, op: Op) -> int | None:
    made = _shape(graph, op.outputs, 0)
    if op.kind == "softmax":
        return None if made is None else 4 * max(made, default=1)
    if op.kind != "conv":
        return 0
    data, filter = _shape(graph, op.inputs, 0), _shape(graph, op.inputs, 1)
    if any(shape is None or len(shape) != 4 for shape in (data, filter, made)):
        return None
    assert data is not None
    assert filter is not None
    assert made is not None
    high, wide, channels = _extents(graph, data)
    made_high, made_wide, _ = _extents(graph, made)
    taps_high, taps_wide, _ = _extents(graph, filter)
    channels = round_up(channels, _LANES)
    # Padded on both sides, and by what the last stride needs.
    padded_high = high + 2 * taps_high + math.ceil(high / max(made_high, 1))
    padded_wide = wide + 2 * taps_wide + math.ceil(wide / max(made_wide, 1))
    taps = taps_high * taps_wide * channels
    asked = 2 * padded_high * padded_wide * channels + 4 * max(filter) + _LANES * (channels + _LANES)
    if _is_depthwise(op):
        return asked + 2 * max(prod(filter), taps) + made_high * made_wide * channels
    return asked + 2 * taps * _filters(op, filter)


_ASKS: dict[str, Callable[[Graph, Op], int | None]] = {
    "reference": _nothing,
    "cmsis-nn": _cmsis_nn,
    "cmsis-nn with helium": partial(_cmsis_nn, helium=True),
    "esp-nn": _esp_nn,
}


def _shape(graph: Graph, identities: tuple[int, ...], place: int) -> Shape | None:
    identity = identities[place] if place < len(identities) else ABSENT
    return None if identity == ABSENT else graph.tensors[identity].shape


def _filters(op: Op, filter: Shape) -> int:
    return int(op.attrs.get("out_channels") or op.attrs.get("in_channels") or max(filter, default=1))


def _is_real(graph: Graph, op: Op) -> bool:
    return bool(op.outputs) and graph.tensors[op.outputs[0]].dtype.family == "float"


def _is_depthwise(op: Op) -> bool:
    return op.source == "DEPTHWISE_CONV_2D" or int(op.attrs.get("groups", 1)) > 1


def _extents(graph: Graph, shape: Shape) -> tuple[int, int, int]:
    """Height, width and channels, which formats keep in different places."""
    return (shape[1], shape[2], shape[3]) if graph.format == "tflite" else (shape[2], shape[3], shape[1])
