"""Remedies that make a model fit: a rewritten file, a smaller input or a lower precision, each checked."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sizeup import units
from sizeup.backends import backend_of
from sizeup.checks.limits import verdict
from sizeup.checks.measures import Subject
from sizeup.checks.precision_remedies import precision_remedies
from sizeup.checks.remedy_case import MEMORY, STORED, TIMED, Case, Remedy
from sizeup.errors import SizeupError
from sizeup.graph import Shape
from sizeup.mixed_precision.tradeoff import shape_at
from sizeup.rewrite import Optimization, OptimizeOptions, Verification, optimize
from sizeup.runtimes import RUNTIMES
from sizeup.runtimes.process import Library

SECONDS = 5.0  # per search


def remedies(case: Case, time_limit: float = SECONDS) -> tuple[Remedy, ...]:
    """All remedies that help, those that make the model fit first."""
    candidates = [*rewrite_remedies(case, time_limit), *precision_remedies(case), *input_remedies(case)]
    return tuple(sorted(candidates, key=lambda remedy: remedy.fits is not True))


_STEPS = (32, 16, 8, 1)  # networks halve their input several times
_SMALLEST_SHARE = 4  # inputs below a quarter of the size are not tried


def input_remedies(case: Case) -> Iterator[Remedy]:
    """The largest smaller input that fits all limits, or a quarter of the size if none does."""
    if case.origin.load_at is None or not case.needs_remedy((*MEMORY, *TIMED, "macs")):
        return
    try:
        largest = _largest_fitting(case, _smaller_sizes(case))
    except SizeupError:
        return  # the model has fixed shapes, or does not run at another shape
    if largest is None:
        return
    shape, subject = largest
    graph = case.subject.graph
    name = graph.tensors[graph.inputs[0]].name
    shapes = case.origin.input_options
    is_named = graph.format in ("onnx", "tflite") or any(text.startswith(f"{name}:") for text in shapes)
    prefix = f"{name}:" if is_named else ""
    # Replace the first input, by name or, if inputs are positional, by position.
    others = [text for text in shapes if not text.startswith(prefix)] if prefix else shapes[1:]
    before = units.shape(graph.tensors[graph.inputs[0]].shape)
    description = f"reduce the input from {before} to {units.shape(shape)}"
    command = case.check_with([f"{prefix}{units.shape(shape)}", *others])
    remedy = case.remedy(description, command, subject, ("the loss of accuracy is not known",))
    if remedy is not None:
        yield remedy


def _smaller_sizes(case: Case) -> list[int]:
    """Heights or lengths below that of the first input, in steps that can be halved as often as it can."""
    graph = case.subject.graph
    shape = graph.tensors[graph.inputs[0]].shape if graph.inputs else None
    if shape is None or len(shape) not in (2, 4):
        raise SizeupError("the first input is neither an image nor a sequence")
    size = shape[2] if len(shape) == 4 else shape[1]
    step = next((step for step in _STEPS if size % step == 0 and size > step), 1)
    return list(range(step * math.ceil(size / _SMALLEST_SHARE / step), size, step))


def _largest_fitting(case: Case, sizes: list[int]) -> tuple[Shape, Subject] | None:
    """The largest size that fits, by binary search, else the smallest size; None without sizes."""
    low, high = 0, len(sizes) - 1
    best: tuple[Shape, Subject] | None = None
    while low <= high:
        middle = (low + high) // 2
        candidate = _at(case, sizes[middle])
        if _fits(case, candidate[1]):
            best, low = candidate, middle + 1
        else:
            high = middle - 1
    return best or (_at(case, sizes[0]) if sizes else None)


def _at(case: Case, size: int) -> tuple[Shape, Subject]:
    shape = shape_at(case.subject.graph, None, size)
    assert case.origin.load_at is not None
    return shape, case.changed(case.origin.load_at(shape), case.subject.needs.file_bytes)


def _fits(case: Case, subject: Subject) -> bool:
    return (
        verdict(
            case.limits_of(subject),
            None if subject.memory_fit is None else subject.memory_fit.unsupported_reason,
        )
        is True
    )


_RUN_SECONDS = 10.0
_MOST_MACS = 50_000_000  # TFLite Micro's reference kernels run them in one or two seconds


def rewrite_remedies(case: Case, time_limit: float) -> Iterator[Remedy]:
    """Rewritten files, chosen for the kernels of the target.

    None for models that are not files, are checked at another precision, or do not run on the target.
    """
    file, subject = case.origin.file, case.subject
    if file is None or subject.needs.is_converted or file.suffix.lower() not in (".tflite", ".onnx"):
        return
    is_unsupported = subject.memory_fit is not None and bool(subject.memory_fit.unsupported_reason)
    if is_unsupported and not subject.graph.offsets:
        return  # a rewritten file has the same operators; only a stored memory plan is replaced
    is_tflite = file.suffix.lower() == ".tflite"
    verify = subject.cost.total_macs <= _MOST_MACS and _runtime(file).is_installed
    options = OptimizeOptions(
        time_limit=time_limit, verify=verify, run_limit=_RUN_SECONDS, target=subject.target
    )
    if case.needs_remedy(MEMORY):
        yield from _memory_remedies(case, options, file, is_tflite)
    if case.needs_remedy(STORED) and is_tflite and _honors_plans(subject):
        packing = replace(options, reorder=False, plan=False, cluster=16, pack=True)
        packed = _optimize_remedy(case, file, packing, "--no-reorder --no-plan --cluster 16 --pack")
        if packed is not None:
            yield packed


def _memory_remedies(case: Case, options: OptimizeOptions, file: Path, is_tflite: bool) -> Iterator[Remedy]:
    """The best schedule, for .tflite with a memory plan; overlaps, then strips, only if that does not fit."""
    planned = _optimize_remedy(case, file, options if is_tflite else replace(options, plan=False), "")
    if planned is not None:
        yield planned
    if not is_tflite or (planned and planned.fits):
        return
    last, has_overlaps = planned, _allows_overlap(case.subject)
    for flags, changes in (
        ("--overlap", replace(options, overlap=True)),
        ("--split", replace(options, split=True)),
        ("--split --overlap", replace(options, split=True, overlap=True)),
    ):
        if (changes.overlap and not has_overlaps) or (changes.split and not _honors_plans(case.subject)):
            continue
        remedy = _optimize_remedy(case, file, changes, flags)
        if remedy is not None and (last is None or remedy.changes != last.changes):
            yield remedy
            last = remedy
            if remedy.fits:
                return


def _runtime(file: Path) -> Library:
    """The runtime that verifies a rewritten file."""
    return RUNTIMES["tflm" if file.suffix.lower() == ".tflite" else "ort"]


def _allows_overlap(subject: Subject) -> bool:
    return subject.target is None or backend_of(subject.target).allows_overlap


def _honors_plans(subject: Subject) -> bool:
    return subject.target is None or backend_of(subject.target).honors_plans


def _optimize_remedy(case: Case, file: Path, options: OptimizeOptions, flags: str) -> Remedy | None:
    assert case.origin.reload is not None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, file.name)
        try:
            optimization = optimize(file, out, options, case.origin.bind)
            if not optimization.changed:
                return None
            changed = case.changed(case.origin.reload(out), out.stat().st_size)
        except SizeupError:
            return None  # the file cannot be rewritten
        written = shlex.quote(f"{file.stem}.smaller{file.suffix}")
        target = "" if options.target is None else f"-d {options.target.name}"
        command = ["sizeup optimize", case.origin.argument, target, flags, case.origin.bind_options]
        command.append(f"-o {written}")
        return case.remedy(_description(optimization), command, changed, _notes(optimization, _runtime(file)))


def _description(optimization: Optimization) -> str:
    parts = []
    if optimization.moved_ops:
        parts.append(f"reorder {optimization.moved_ops:,} of {units.plural(optimization.ops, 'operator')}")
    if optimization.strips is not None:
        count = sum(segment.last_op - segment.first_op + 1 for segment in optimization.strips.segments)
        parts.append(f"execute {units.plural(count, 'operator')} in strips")
    if optimization.overlaps:
        parts.append("store a memory plan in which outputs overlap inputs that are no longer needed")
    elif optimization.has_new_plan:
        parts.append("store a memory plan in the file")
    values = optimization.cluster_values
    if optimization.packed_weights:
        packed = _tensors(optimization.packed_weights)
        parts.append(f"compress {packed} to lookup tables of {values} values")
    elif optimization.clustered_weights:
        parts.append(f"cluster {_tensors(optimization.clustered_weights)} to {values} values")
    return " and ".join(parts) or "rewrite the file"


def _tensors(count: int) -> str:
    return f"{count:,} weight tensor{'s' * (count != 1)}"


def _notes(optimization: Optimization, runtime: Library) -> list[str]:
    notes = (
        []
        if optimization.verification is not None
        else ["outputs not verified here; the command verifies them"]
    )
    if notes and not runtime.is_installed:
        notes = [f"{notes[0]} and needs {runtime.package}: pip install 'sizeup[{runtime.extra}]'"]
    strips = optimization.strips
    if strips is not None:
        notes.append(f"adds {100 * strips.extra_macs_share:.1f} % MACs")
        if strips.new_operators:
            notes.append(f"firmware must register {', '.join(strips.new_operators)}")
    if optimization.overlaps:
        notes.append("valid only for TFLite Micro's reference kernels")
    if optimization.clustered_weights:
        notes.append(_output_note(optimization.verification))
    if optimization.packed_weights:
        notes.append("TFLite Micro must be built with compression")
    return notes


def _output_note(verification: Verification | None) -> str:
    """How clustered weights change the outputs, as far as that was measured."""
    if verification is None:
        return "changes the outputs"
    inputs = f"{verification.samples:,} random input{'s' * (verification.samples != 1)}"
    deviation = verification.deviation
    if deviation is None:
        return f"outputs equal on {inputs}"
    return f"changes the outputs: by up to {deviation.largest:.4g} of {deviation.span:.4g} on {inputs}"
