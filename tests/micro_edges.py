"""Models of one operator each whose shapes or parameters do not match: one size or number is another."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from micro_kernels import CASES, WIDTHS, Case, Value

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
