"""Files that need less: another order, a plan, overlaps, code-books, each written and read again."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sizeup.checks.case import MEMORY, STORED, Case, Remedy
from sizeup.checks.subject import Subject
from sizeup.errors import SizeupError
from sizeup.rewrite import Optimization, OptimizeOptions, optimize
from sizeup.runtimes import RUNTIMES
from sizeup.runtimes.process import Library

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
