"""Upper bounds of the scratch that vendor-optimized kernels request per operator.

CMSIS-NN 7, `*_get_buffer_size` of convolutions, fully connected layers and pools
(https://github.com/ARM-software/CMSIS-NN): two columns of 16-bit inputs, or four of 8 bits with Helium, whose
depthwise kernels use blocks of 124 channels, and weight sums per output channel. ESP-NN,
`esp_nn_get_conv_scratch_size` for the ESP32-S3 (https://github.com/espressif/esp-nn): padded copies of input
and filter, each up to twice, and of the output. Other ESP32 devices need none.
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


def max_scratch_bytes(graph: Graph, kernels: str) -> int | None:
    """An upper bound of the scratch of one operator; None if the kernels or a shape are not known.

    `kernels` is `reference`, `cmsis-nn`, `cmsis-nn with helium` or `esp-nn`.
    """
    scratch_of = _SCRATCH.get(kernels)
    if scratch_of is None or graph.other_graphs is None:
        return 0 if scratch_of is _no_scratch else None
    sizes = [
        # Float operators use the reference kernels.
        0 if _is_float(part, op) else scratch_of(part, op)
        for part in _with_bodies((graph, *graph.other_graphs))
        for op in part.ops
    ]
    known = [size for size in sizes if size is not None]
    return round_up(max(known, default=0), _LANES) if len(known) == len(sizes) else None


def _with_bodies(graphs: Iterable[Graph]) -> Iterator[Graph]:
    for graph in graphs:
        yield graph
        yield from _with_bodies(body.graph for op in graph.ops for body in op.bodies)


def _no_scratch(_graph: Graph, _op: Op) -> int | None:
    return 0


def _cmsis_nn(graph: Graph, op: Op, *, helium: bool = False) -> int | None:
    if op.kind in ("conv", "conv_transpose", "matmul"):
        filter, output = _shape(graph, op.inputs, 1), _shape(graph, op.outputs, 0)
        if filter is None or output is None:
            return None
        sums = 4 * max(output, default=1)
        if op.kind == "matmul":
            return sums
        window = prod(filter) // max(_filters(op, filter), 1)
        columns = 4 * round_up(window, _LANES)
        if op.kind == "conv_transpose":
            return sums + columns + prod(filter) + 4 * prod(output)
        if not _is_depthwise(op):
            return sums + columns
        # One weight per tap and channel: all are widened to 16 bits, or one block is copied four times.
        return columns + (4 * _CHANNEL_BLOCK * window + prod(filter) if helium else 2 * prod(filter))
    if op.kind == "pool":
        output = _shape(graph, op.outputs, 0)
        return None if output is None else 4 * max(output, default=1)
    return 0


def _esp_nn(graph: Graph, op: Op) -> int | None:
    output = _shape(graph, op.outputs, 0)
    if op.kind == "softmax":
        return None if output is None else 4 * max(output, default=1)
    if op.kind != "conv":
        return 0
    data, filter = _shape(graph, op.inputs, 0), _shape(graph, op.inputs, 1)
    if any(shape is None or len(shape) != 4 for shape in (data, filter, output)):
        return None
    assert data is not None
    assert filter is not None
    assert output is not None
    height, width, channels = _extents(graph, data)
    output_height, output_width, _ = _extents(graph, output)
    filter_height, filter_width, _ = _extents(graph, filter)
    channels = round_up(channels, _LANES)
    # Padding on both sides, plus the last stride.
    padded_height = height + 2 * filter_height + math.ceil(height / max(output_height, 1))
    padded_width = width + 2 * filter_width + math.ceil(width / max(output_width, 1))
    taps = filter_height * filter_width * channels
    scratch = 2 * padded_height * padded_width * channels + 4 * max(filter) + _LANES * (channels + _LANES)
    if _is_depthwise(op):
        return scratch + 2 * max(prod(filter), taps) + output_height * output_width * channels
    return scratch + 2 * taps * _filters(op, filter)


_SCRATCH: dict[str, Callable[[Graph, Op], int | None]] = {
    "reference": _no_scratch,
    "cmsis-nn": _cmsis_nn,
    "cmsis-nn with helium": partial(_cmsis_nn, helium=True),
    "esp-nn": _esp_nn,
}


def _shape(graph: Graph, identities: tuple[int, ...], position: int) -> Shape | None:
    identity = identities[position] if position < len(identities) else ABSENT
    return None if identity == ABSENT else graph.tensors[identity].shape


def _filters(op: Op, filter: Shape) -> int:
    return int(op.attrs.get("out_channels") or op.attrs.get("in_channels") or max(filter, default=1))


def _is_float(graph: Graph, op: Op) -> bool:
    return bool(op.outputs) and graph.tensors[op.outputs[0]].dtype.family == "float"


def _is_depthwise(op: Op) -> bool:
    return op.source == "DEPTHWISE_CONV_2D" or int(op.attrs.get("groups", 1)) > 1


def _extents(graph: Graph, shape: Shape) -> tuple[int, int, int]:
    """Height, width and channels: NHWC in TFLite, otherwise NCHW."""
    return (shape[1], shape[2], shape[3]) if graph.format == "tflite" else (shape[2], shape[3], shape[1])
