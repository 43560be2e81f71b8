"""Models of one operator each whose shapes or parameters do not match: one size or number is another."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import numpy as np

from formats.tflite.factory import options
from micro_kernels import CASES, WIDTHS, Case, Value, convolution

_STEPS = (-10, -1, 1, 10)
_WITHOUT = ("TFLM_DECODE",)  # its tables are a format of their own


def edges(names: Collection[str]) -> list[Case]:
    """All cases of these operators, with different labels."""
    chosen = [case for case in CASES if case.name in names and case.name not in _WITHOUT]
    cases = [edge for case in chosen for edge in _edges(case)]
    return [case._replace(note=f"{case.note}-{number}") for number, case in enumerate(cases)]


def _edges(case: Case) -> Iterator[Case]:
    yield case
    for position, value in enumerate(case.inputs):
        for note, changed in _variants(value):
            inputs = [*case.inputs[:position], changed, *case.inputs[position + 1 :]]
            yield case._replace(inputs=inputs, note=f"{case.note} input {position} {note}")
    for note, changed in _variants(case.outputs[0]):
        yield case._replace(outputs=[changed, *case.outputs[1:]], note=f"{case.note} output {note}")


def _variants(value: Value | None) -> Iterator[tuple[str, Value]]:
    if value is None:
        return
    for shape in _shapes(value.shape):
        yield f"of {shape}", _resized(value, shape)
    if value.kind == "INT32" and isinstance(value.content, np.ndarray):
        for position, step in np.ndindex(value.content.size, len(_STEPS)):
            numbers = value.content.copy()
            numbers.flat[position] += _STEPS[step]
            yield f"with {numbers.ravel()}", value._replace(content=numbers)


def _shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for axis, size in enumerate(shape):
        for other in (size - 1, size + 1):
            if other:
                yield (*shape[:axis], other, *shape[axis + 1 :])
    yield (1, *shape)
    if shape:
        yield shape[1:]


def _resized(value: Value, shape: tuple[int, ...]) -> Value:
    """The value with another shape; constants are repeated or cut."""
    content, scales = value.content, value.scales
    if isinstance(content, bytes):
        content = bytes(int(np.prod(shape)) * WIDTHS.get(value.kind, 1))
    elif content is not None:
        content = np.resize(content, shape)
    if scales > 1:
        scales = shape[value.axis]
    return value._replace(shape=shape, content=content, scales=scales)


def limits() -> list[Case]:
    """Pairs of models on either side of what a kernel takes, with different labels."""
    cases = [*_scale_limits(), *_operand_limits(), *_shape_limits()]
    return [case._replace(note=f"{case.note}-{number}") for number, case in enumerate(cases)]


def _scale_limits() -> Iterator[Case]:
    """Scales and zero points: of activations, comparisons, sums, tables and states."""
    row, relu6 = Value((2, 9), "INT8"), options("MulOptions", fusedActivationFunction=3)
    for scale in (1e-9, 2.0**-11):
        yield Case("MUL", [row, row], [row._replace(scale=scale)], relu6, f"output scale {scale:g}")
    for scale in (2.0**-11, 2.0**-10):
        yield Case("HARD_SWISH", [row._replace(scale=2.0**-4)], [row._replace(scale=scale)])
    for name, scale in itertools.product(("LESS", "EQUAL", "GREATER"), (0.5, 1.0, 1.5)):
        wide = row._replace(scale=scale)
        yield Case(name, [row, wide], [Value((2, 9), "BOOL")], None, f"scale {scale:g}")
    for scale in (2.0**-11, 2.0**-10):
        yield Case("ADD_N", [row, row._replace(scale=scale)], [row], None, f"scale {scale:g}")
    bare = Value((2, 9), "INT16", scales=0)
    yield Case("MUL", [bare, bare], [Value((2, 9), "INT16")], options("MulOptions"), "without scales")
    table = Value((5, 9), "INT8", np.zeros((5, 9), np.int8))
    index = Value((2,), "INT32", np.array([1, 3], np.int32))
    for kind, zero in itertools.product(("FLOAT32", "INT8"), (0, 3)):
        shifted, result = table._replace(zero=zero), Value((2, 9), kind, zero=zero)
        yield Case("EMBEDDING_LOOKUP", [index, shifted], [result], None, f"{kind} {zero}")
    svdf = next(case for case in CASES if case.label == "SVDF-INT8-INT16")
    for scale in (0.25, 0.125):
        data, features, times, bias, state = (value for value in svdf.inputs if value is not None)
        scaled = [times._replace(scale=0.5), bias._replace(scale=scale, is_scaled=True)]
        inputs = [data, features, *scaled, state._replace(scale=0.5)]
        yield svdf._replace(inputs=inputs, note=f"bias scale {scale:g}")
    lstm = next(case for case in CASES if case.label == "UNIDIRECTIONAL_SEQUENCE_LSTM-INT8")
    for negative in ((0,), (0, 1, 2, 3, 4), (18,), (18, 5, 6, 7, 8)):  # data or state, also with weights
        changed = [
            value._replace(scale=-value.scale) if value is not None and position in negative else value
            for position, value in enumerate(lstm.inputs)
        ]
        yield lstm._replace(inputs=changed, note=f"negative scales of {negative}")


def _operand_limits() -> Iterator[Case]:
    """Operands that a kernel does not take, and dtypes of parameters."""
    lstm = next(case for case in CASES if case.label == "UNIDIRECTIONAL_SEQUENCE_LSTM-FLOAT32")
    for position in (9, 11, 16, 17, 20, 23):
        inputs = [*lstm.inputs]
        inputs[position] = Value((5,), "FLOAT32", np.zeros(5, np.float32))
        yield lstm._replace(inputs=inputs, note=f"with operand {position}")
    for kind in ("INT16", "INT32", "INT64"):
        conv = convolution("CONV_2D", (6, 6, 3, 3, 3, 7, 1, 1, "same"), "INT16")
        bias = Value((7,), kind, bytes(7 * WIDTHS[kind]))
        yield conv._replace(inputs=[*conv.inputs[:2], bias], note=f"bias {kind}")
    axes = Value((2,), "INT32", np.array([1, 0], np.int32))
    for given in (axes, axes._replace(content=None, variable=True)):
        yield Case(
            "TRANSPOSE", [Value((2, 9)), given], [Value((9, 2))], None, "axes of a constant or a state"
        )
    numbers = {
        kind: Value((2,), kind.upper(), np.array([0, 1], kind)) for kind in ("int16", "int32", "int64")
    }
    for begin, size in (("int32", "int32"), ("int64", "int64"), ("int16", "int32"), ("int16", "int16")):
        yield Case("SLICE", [Value((2, 9)), numbers[begin], numbers[size]], [Value((1, 1))], None, begin)


def _shape_limits() -> Iterator[Case]:
    """Axes from the end, axes that are not adjacent, scalars, and images that are not square."""
    for axes in ((0, 1), (1, 2), (0, 2), (1, 0)):
        cube, numbers = Value((2, 3, 4)), Value((2,), "INT32", np.array(axes, np.int32))
        yield Case("REVERSE_V2", [cube, numbers], [cube], None, f"axes {axes}")
    for axis in (-1, 0, 1):
        settings = options("SqueezeOptions", squeezeDims=[axis])
        yield Case("SQUEEZE", [Value((9, 1))], [Value((9,))], settings, f"axis {axis}")
    for axis, index in ((1, 3), (1, 40), (-1, 3), (-1, 40), (0, 1), (2, 1), (-3, 1)):
        columns, square = Value((2,), "INT32", np.array([0, index], np.int32)), axis == 0
        data, result = (Value((4, 4)), Value((2, 4))) if square else (Value((3, 4)), Value((3, 2)))
        settings = options("GatherOptions", axis=axis)
        yield Case("GATHER", [data, columns], [result], settings, f"axis {axis} index {index}")
    for height, batch, axis in ((2, 1, 1), (2, -1, 1), (3, 1, 1), (2, 1, 0), (2, 2, 1)):
        table, rows = Value((height, 5)), Value((2, 3), "INT32", np.zeros((2, 3), np.int32))
        settings = options("GatherOptions", axis=axis, batchDims=batch)
        yield Case("GATHER", [table, rows], [Value((2, 3))], settings, f"{height} rows, {batch}, {axis}")
    shape = Value((2,), "INT32", np.array([2, 3], np.int32))
    yield Case("BROADCAST_TO", [Value(())], [Value((2, 3))], None, "without a shape")
    yield Case("BROADCAST_TO", [Value(()), shape], [Value((2, 3))], None, "scalar")
    for deep in ((1, 2, 3, 8), (1, 3, 2, 8)):
        wide = (1, 2 * deep[1], 2 * deep[2], 2)
        blocks = options("SpaceToDepthOptions", blockSize=2)
        yield Case("SPACE_TO_DEPTH", [Value(wide)], [Value(deep)], blocks, f"{deep}")
        blocks = options("DepthToSpaceOptions", blockSize=2)
        yield Case("DEPTH_TO_SPACE", [Value(deep)], [Value(wide)], blocks, f"{deep}")
