"""One inference of a .tflite file in TFLite Micro's interpreter, in a worker with limits of time and memory.

The worker loads this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sizeup.errors import WorkerFailed
from sizeup.units import printable, size
from sizeup.workers import CRASHED, RAISED, Supervisor

SECONDS = 20.0
"""Time limit, including the start of the worker."""
MEMORY_BYTES = 1 << 30
"""Memory limit of the worker."""
ARENA_BYTES = 1 << 28
"""The arena offered to the interpreter, which touches only what it needs."""
# More threads would need more memory.
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_NODE = re.compile(r"^Node (\S+) \(number ", re.MULTILINE)
_NO_ARENA = re.compile(r"Failed to (?:allocate|resize)\b.*Requested", re.IGNORECASE)
_MAX_LINES, _MAX_REASON = 2, 300
_MAX_CACHED = 256


@dataclass(frozen=True, slots=True)
class Inference:
    """What became of one inference; `reason` is why it did not run, in the interpreter's own words.

    It "differs" if it ran, and the same file without its memory plan computes other outputs.
    If it ran with inputs of 1 but not with inputs of 0, `reason` is why it did not run with the latter.
    """

    outcome: Literal["ran", "differs", "refused", "undetermined"]
    reason: str = ""
    operator: str = ""  # the operator that failed, if the interpreter named it
    is_allocated: bool = False  # whether AllocateTensors succeeded

    @property
    def has_run(self) -> bool:
        """Whether the interpreter ran it to the end."""
        return self.outcome in ("ran", "differs")


_cache: dict[str, Inference] = {}


def infer_once(
    path: str | os.PathLike[str], seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES
) -> Inference:
    """Run one inference with inputs of 0, or of 1 if the values 0 make it fail; a division may fail so.

    A determined outcome is stored for files with the same content.
    """
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if digest in _cache:
        return _cache[digest]
    deadline = time.monotonic() + seconds
    with Supervisor(memory_bytes, _ENVIRONMENT) as supervisor:
        inference = _infer(supervisor, path, 0, seconds)
        if not inference.has_run and inference.is_allocated and time.monotonic() < deadline:
            other = _infer(supervisor, path, 1, deadline - time.monotonic())
            inference = replace(other, reason=inference.reason) if other.has_run else inference
    if inference.outcome != "undetermined":
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        _cache[digest] = inference
    return inference


def _infer(supervisor: Supervisor, path: str | os.PathLike[str], value: int, seconds: float) -> Inference:
    stages: list[str] = []
    try:
        error = supervisor.call(
            _call, str(Path(path).absolute()), value, seconds=seconds, progress=stages.append
        )
    except WorkerFailed as failed:
        return Inference(
            "undetermined", _failure(failed), is_allocated=bool(stages) and failed.kind == CRASHED
        )
    if not error:
        return Inference("differs" if "differs" in stages else "ran", is_allocated=True)
    output = supervisor.stderr()
    if _NO_ARENA.search(output):
        return Inference("undetermined", f"needs an arena above {size(ARENA_BYTES)}")
    lines = [text for line in output.splitlines() if (text := line.strip().removesuffix("."))]
    reason = bounded("; ".join(lines[-_MAX_LINES:]) or str(error))
    node = _NODE.search(output)
    return Inference("refused", reason, "" if node is None else bounded(node[1]), is_allocated=bool(stages))


def _call(model: str, value: int, channel: object) -> str:
    """Runs in a worker."""
    module = importlib.import_module("sizeup.runtimes.tflm_inference")
    error: str = module.infer(model, value, ARENA_BYTES, channel)
    return error


def _failure(failed: WorkerFailed) -> str:
    return bounded(f"cannot read the file in Python ({failed})" if failed.kind == RAISED else str(failed))


def bounded(text: str) -> str:
    """A text of a file or a library on one line: without control characters, and not too long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 3]}..."
