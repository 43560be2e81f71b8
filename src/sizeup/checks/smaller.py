"""The largest input that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sizeup import units
from sizeup.checks.case import MEMORY, TIMED, Case, Remedy
from sizeup.checks.limits import verdict
from sizeup.checks.subject import Subject
from sizeup.errors import SizeupError
from sizeup.graph import Shape
from sizeup.mixed_precision.tradeoff import shape_at

_STEPS = (32, 16, 8, 1)  # networks halve their input several times
_SMALLEST = 4  # of its size: smaller inputs are another task


def shrunk(case: Case) -> Iterator[Remedy]:
    """The model at the largest smaller input that keeps all limits, or at a quarter of it where none does."""
    if case.origin.load_at is None or not case.wants((*MEMORY, *TIMED, "macs")):
        return
    try:
        sizes = _sizes(case)
        found = _largest(case, sizes)
    except SizeupError:
        return  # a model of fixed shapes, or one that no other shape goes through
    if found is None:
        return
    shape, subject = found
    graph = case.subject.graph
    name = graph.tensors[graph.inputs[0]].name
    asked = case.origin.shapes
    is_named = graph.format in ("onnx", "tflite") or any(each.startswith(f"{name}:") for each in asked)
    named = f"{name}:" if is_named else ""
    wish = f"{named}{units.shape(shape)}"
    # The first input is asked for anew, by its name or, where inputs have none, by its place.
    others = [each for each in asked if not each.startswith(named)] if named else asked[1:]
    before = units.shape(graph.tensors[graph.inputs[0]].shape)
    what = f"give it {units.shape(shape)} instead of {before} as input"
    remedy = case.tried(
        what, case.check_with([wish, *others]), subject, ("what that costs in accuracy is not known",)
    )
    if remedy is not None:
        yield remedy


def _sizes(case: Case) -> list[int]:
    """Heights, or lengths, below that of the first input, in steps that its halvings leave whole."""
    graph = case.subject.graph
    shape = graph.tensors[graph.inputs[0]].shape if graph.inputs else None
    if shape is None or len(shape) not in (2, 4):
        raise SizeupError("the first input has no one size")
    size = shape[2] if len(shape) == 4 else shape[1]
    step = next((each for each in _STEPS if size % each == 0 and size > each), 1)
    return list(range(step * math.ceil(size / _SMALLEST / step), size, step))


def _largest(case: Case, sizes: list[int]) -> tuple[Shape, Subject] | None:
    """By halving: what a larger input needs, a smaller one does not need more of."""
    low, high = 0, len(sizes) - 1
    best: tuple[Shape, Subject] | None = None
    while low <= high:
        middle = (low + high) // 2
        tried = _at(case, sizes[middle])
        if _fits(case, tried[1]):
            best, low = tried, middle + 1
        else:
            high = middle - 1
    return best or (_at(case, sizes[0]) if sizes else None)


def _at(case: Case, size: int) -> tuple[Shape, Subject]:
    shape = shape_at(case.subject.graph, None, size)
    assert case.origin.load_at is not None
    return shape, case.changed(case.origin.load_at(shape), case.subject.needs.file_bytes)


def _fits(case: Case, subject: Subject) -> bool:
    return verdict(case.judge(subject), None if subject.room is None else subject.room.refused) is True
