"""Models of one operator each that a writer may have left incomplete: most of them end the interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from micro_kernels import CASES, Case, Value
from micro_sweep import in_dtype

_SCALES = (0.0, -0.5)
_AXES = (-1, 1, 4, 7, 256)


def mutations() -> list[Case]:
    """All cases, with different labels."""
    cases = [mutation for case in _bases() for mutation in _mutations(case)]
    return [case._replace(note=f"{case.note}-{number}") for number, case in enumerate(cases)]


def _bases() -> Iterator[Case]:
    """The cases of the table of kernels, and those with data of integers instead of real numbers."""
    for case in CASES:
        yield case
        for kind in ("INT8", "INT16"):
            if "FLOAT32" in (value.kind for value in (*case.inputs, *case.outputs) if value is not None):
                yield in_dtype(case, "FLOAT32", kind)


def _mutations(case: Case) -> Iterator[Case]:
    if case.settings is not None:
        yield case._replace(settings=None, note=f"{case.note} without options")
    for count in range(len(case.inputs)):
        yield case._replace(inputs=case.inputs[:count], note=f"{case.note} of {count} inputs")
    yield case._replace(outputs=(), note=f"{case.note} without outputs")
    for position, value in enumerate(case.inputs):
        for note, changed in _values(value):
            inputs = [*case.inputs[:position], changed, *case.inputs[position + 1 :]]
            yield case._replace(inputs=inputs, note=f"{case.note} input {position} {note}")
    for note, changed in _values(case.outputs[0]):
        if changed is not None:
            yield case._replace(outputs=[changed, *case.outputs[1:]], note=f"{case.note} output {note}")


def _values(value: Value | None) -> Iterator[tuple[str, Value | None]]:
    if value is None:
        return
    yield "absent", None
    if value.kind in ("INT8", "INT16", "INT4"):
        yield "without scales", value._replace(scales=0)
        for scale in _SCALES:
            yield f"of scale {scale}", value._replace(scale=scale)
        if value.scales > 1:
            yield "of 2 scales", value._replace(scales=2)
            for axis in _AXES:
                yield f"of axis {axis}", value._replace(axis=axis)
