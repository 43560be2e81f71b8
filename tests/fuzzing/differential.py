"""Mutants that sizeup and a real runtime both accept: what sizeup states must be what the runtime does.

The arena of TFLite files is compared with TFLite Micro's own interpreter; shapes and dtypes with those of
LiteRT, ONNX Runtime and torch. All run in subprocesses and may refuse or crash; that is no finding.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import sizeup
from fuzzing import runtime_values
from fuzzing.supervisor import Cause, Summary
from fuzzing.targets import TARGETS, mutant
from micro_interpreter import measure
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.errors import SizeupError
from sizeup.graph import Graph, Tensor

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
            for check in _COMPARE[name]:
                for path, message in check(paths, summary):
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


def _values(
    runtime: str, named: Callable[[Graph], dict[str, Tensor]], paths: Sequence[Path], summary: Summary
) -> Iterator[tuple[Path, str]]:
    """Every shape and dtype that we state, against what a runtime makes."""
    stated = {path: named(graph) for path, graph in _loaded(paths)}
    for path, real in zip(stated, runtime_values.values(runtime, list(stated)), strict=True):
        for name, (shape, dtype) in real.items():
            known = stated[path].get(name)
            if known is None or known.shape is None:
                continue
            summary.results += 1
            if (*known.shape,) != (*shape,) or known.dtype.name not in (dtype, "unknown"):
                yield path, f"{name}: stated {known.dtype} {known.shape}, {runtime} makes {dtype} {shape}"
                break


def _by_name(graph: Graph) -> dict[str, Tensor]:
    return {each.name: each for each in graph.tensors}


def _by_index(graph: Graph) -> dict[str, Tensor]:
    """Tensors that do not follow from one whose shape is unknown, for which the recorded shape is left.

    None of a file that records other outputs than LiteRT makes, which is stated.
    """
    if graph.recomputed_outputs:
        return {}
    unknown = {index for index, each in enumerate(graph.tensors) if each.shape is None}
    for op in graph.ops:
        if unknown.intersection(op.inputs):
            unknown.update(op.outputs)
    return {str(index): each for index, each in enumerate(graph.tensors) if index not in unknown}


def _by_call(graph: Graph) -> dict[str, Tensor]:
    """Results by operator, which of its calls, and which of its results."""
    count: Counter[str] = Counter()
    found = {}
    for op in graph.ops:
        for number, identity in enumerate(op.outputs):
            found[f"{op.source} {count[op.source]} {number}"] = graph.tensors[identity]
        count[op.source] += 1
    return found


_COMPARE = {
    "tflite": (_arenas, partial(_values, "litert", _by_index)),
    "onnx": (partial(_values, "ort", _by_name),),
    "pt2": (partial(_values, "torch", _by_call),),
}


def _add(summary: Summary, path: Path, message: str, keep: Path | None) -> None:
    index = int(path.stem)
    cause = summary.causes[path.stem] = Cause(message, message, 1, index, path.stat().st_size)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        cause.kept = str(keep / f"{summary.target}-differential-{summary.seed}-{path.name}")
        shutil.copy(path, cause.kept)
