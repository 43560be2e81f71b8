"""Mutants that sizeup and a real runtime both accept: what sizeup states must be what the runtime does.

The arena of TFLite files is compared with TFLite Micro's own interpreter, shapes of ONNX files with those
of ONNX Runtime. Both run in subprocesses and may refuse or crash; that is no finding.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import sizeup
from fuzzing import ort_shapes
from fuzzing.supervisor import Cause, Summary
from fuzzing.targets import TARGETS, mutant
from micro_interpreter import measure
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.memory import tflm_arena
from sizeup.memory.tflm.layout import PYTHON_PACKAGE

_BATCH = 250
_MOST_BYTES = 8 << 20  # of an arena: the interpreter is given 16 MiB


def compare(
    name: str,
    *,
    seed: int = 1,
    inputs: int = 1000,
    first: int = 0,
    seconds: float | None = None,
    keep: Path | None = None,
) -> Summary:
    """Compare so many mutants; `results` counts the arenas or shapes that were compared."""
    target, deadline = TARGETS[name], None if seconds is None else time.time() + seconds
    summary = Summary(name, "differential", seed)
    begin = time.process_time()
    with tempfile.TemporaryDirectory(prefix="sizeup-fuzz-") as top:
        for start in range(first, first + inputs, _BATCH):
            if deadline is not None and time.time() > deadline:
                break
            paths = []
            for index in range(start, min(start + _BATCH, first + inputs)):
                path = Path(top, f"{index}{target.suffix}")
                path.write_bytes(mutant(target, Path(top, "seeds"), seed, index))
                paths.append(path)
            summary.inputs += len(paths)
            for path, message in _COMPARE[name](paths, summary):
                _add(summary, path, message, keep)
            for path in paths:
                path.unlink()
    summary.cpu_seconds = time.process_time() - begin
    return summary


def _loaded(paths: Sequence[Path]) -> Iterator[tuple[Path, Graph]]:
    for path in paths:
        with contextlib.suppress(SizeupError):
            yield path, sizeup.load(path)


def _arenas(paths: Sequence[Path], summary: Summary) -> Iterator[tuple[Path, str]]:
    """Head and tail of every file whose arena we state, against the interpreter's report."""
    stated = {}
    for path, graph in _loaded(paths):
        found = tflm_arena(graph, PYTHON_PACKAGE)
        tail = None if found is None or found.unsupported_reason else found.tail_bytes_64
        if found is not None and tail is not None and found.head_bytes + tail < _MOST_BYTES:
            stated[path] = (found.head_bytes, tail)
    for path, real in zip(stated, measure(list(stated)), strict=True):
        if real.failure:
            continue
        summary.results += 1
        if (real.head, real.tail) != stated[path]:
            yield path, f"arena: stated {stated[path]}, TFLite Micro allocates {(real.head, real.tail)}"


def _shapes(paths: Sequence[Path], summary: Summary) -> Iterator[tuple[Path, str]]:
    """Every shape that we state, against what ONNX Runtime makes."""
    stated = {path: {each.name: each.shape for each in graph.tensors} for path, graph in _loaded(paths)}
    for path, real in zip(stated, ort_shapes.shapes(list(stated)), strict=True):
        for name, shape in real.items():
            known = stated[path].get(name)
            summary.results += known is not None
            if known is not None and tuple(shape) != known:
                yield path, f"shape of {name}: stated {known}, ONNX Runtime makes {tuple(shape)}"
                break


_COMPARE = {"tflite": _arenas, "onnx": _shapes}


def _add(summary: Summary, path: Path, message: str, keep: Path | None) -> None:
    index = int(path.stem)
    cause = summary.causes[path.stem] = Cause(message, message, 1, index, path.stat().st_size)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        cause.kept = str(keep / f"{summary.target}-differential-{summary.seed}-{path.name}")
        shutil.copy(path, cause.kept)
