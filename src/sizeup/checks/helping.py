"""What would make a model fit: another file, a smaller input, fewer bits, each judged again."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sizeup import units
from sizeup.checks.case import MEMORY, STORED, TIMED, Case, Remedy
from sizeup.checks.limits import verdict
from sizeup.checks.measures import Subject
from sizeup.checks.narrower import narrowed
from sizeup.errors import SizeupError
from sizeup.graph import Shape
from sizeup.mixed_precision.tradeoff import shape_at
from sizeup.rewrite import Optimization, OptimizeOptions, optimize
from sizeup.runtimes import RUNTIMES
from sizeup.runtimes.process import Library

SECONDS = 5.0  # for each search


def remedies(case: Case, time_limit: float = SECONDS) -> tuple[Remedy, ...]:
    """Whatever helps, those that make it fit first; empty where nothing is wanting."""
    if not case.wanting:
        return ()
    found = [*rewritten(case, time_limit), *narrowed(case), *shrunk(case)]
    return tuple(sorted(found, key=lambda each: each.fits is not True))


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


_MOST_MACS = 50_000_000


def rewritten(case: Case, time_limit: float) -> Iterator[Remedy]:
    """What rewriting the file brings; nothing for models that are no file, or priced at other types."""
    file, subject = case.origin.file, case.subject
    if file is None or subject.needs.is_converted or file.suffix.lower() not in (".tflite", ".onnx"):
        return
    is_tflite = file.suffix.lower() == ".tflite"
    # The reference kernels of TFLite Micro take a second or two for so many MACs.
    verify = subject.cost.total_macs <= _MOST_MACS and _runtime(file).is_installed
    usual = OptimizeOptions(time_limit=time_limit, verify=verify)
    if case.wants(MEMORY):
        yield from _in_less_memory(case, usual, file, is_tflite)
    if case.wants(STORED) and is_tflite and (subject.target is None or subject.target.runtime.micro):
        wishes = replace(usual, reorder=False, plan=False, cluster=16, pack=True)
        packed = _optimized(case, file, wishes, "--no-reorder --no-plan --cluster 16 --pack")
        if packed is not None:
            yield packed


def _in_less_memory(case: Case, usual: OptimizeOptions, file: Path, is_tflite: bool) -> Iterator[Remedy]:
    """The best order, with a plan where the format has one; overlaps only where that does not suffice."""
    found = _optimized(case, file, usual if is_tflite else replace(usual, plan=False), "")
    if found is not None:
        yield found
    if not is_tflite or not _has_reference_kernels(case.subject) or (found and found.fits):
        return
    overlapped = _optimized(case, file, replace(usual, overlap=True), "--overlap")
    if overlapped is not None and (found is None or overlapped.changes != found.changes):
        yield overlapped


def _runtime(file: Path) -> Library:
    """The runtime that a rewritten file is run in."""
    return RUNTIMES["tflm" if file.suffix.lower() == ".tflite" else "ort"]


def _has_reference_kernels(subject: Subject) -> bool:
    return subject.target is None or subject.target.runtime.micro == "reference"


def _optimized(case: Case, file: Path, wishes: OptimizeOptions, options: str) -> Remedy | None:
    assert case.origin.reload is not None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, file.name)
        try:
            done = optimize(file, out, wishes, case.origin.bind)
            if not done.changed:
                return None
            changed = case.changed(case.origin.reload(out), out.stat().st_size)
        except SizeupError:
            return None  # what cannot be rewritten has no such remedy
        written = shlex.quote(f"{file.stem}.smaller{file.suffix}")
        command = ["sizeup optimize", case.origin.typed, options, case.origin.binding, f"-o {written}"]
        return case.tried(_words(done), command, changed, _notes(done, _runtime(file)))


def _words(done: Optimization) -> str:
    words = []
    if done.moved_ops:
        words.append(f"run {done.moved_ops:,} of {done.ops:,} operators in another place")
    if done.overlaps:
        words.append("let outputs overlap dying inputs, by a plan in the file")
    elif done.planned:
        words.append("keep a plan for the arena in the file")
    if done.packed_weights:
        words.append(f"keep {done.packed_weights:,} weights as code-books of {done.cluster_values} values")
    elif done.clustered_weights:
        words.append(f"leave {done.cluster_values} values in {done.clustered_weights:,} weights")
    return " and ".join(words) or "rewrite the file"


def _notes(done: Optimization, runtime: Library) -> list[str]:
    notes = [] if done.verification is not None else ["computed, not run here: the command verifies it"]
    if notes and not runtime.is_installed:
        notes = [f"{notes[0]}, which needs {runtime.package}: pip install 'sizeup[{runtime.extra}]'"]
    if done.overlaps:
        notes.append("holds for TFLite Micro's reference kernels only")
    if done.clustered_weights:
        notes.append("changes the outputs a little")
    if done.packed_weights:
        notes.append("TFLite Micro must be built with compression")
    return notes
