"""From a model, however it is given, to one that a runtime of its own can be timed on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup.errors import RunFailed
from sizeup.graph import Graph
from sizeup.runtimes.samples import random_samples
from sizeup.runtimes.timing import TIMED, Effort, Progress, Timing, time_model

_USUAL = {"onnx": "ort", "tflite": "litert-xnnpack", "torch": "torch-eager", "torch.export": "torch-eager"}
_RUNS = {
    "ort": ("onnx",),
    "litert": ("tflite",),
    "litert-xnnpack": ("tflite",),
    "tflm": ("tflite",),
    "torch-eager": ("torch", "torch.export"),
}


@dataclass(frozen=True, slots=True)
class Given:
    """A model and what it is to be run on, as the caller gave them."""

    source: Any
    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    trusted: bool = False  # a .pt2 file may run the code that it holds


def time_source(
    given: Given,
    graph: Graph,
    runtime: str | None = None,
    threads: int = 1,
    effort: Effort | None = None,
    progress: Progress | None = None,
) -> Timing:
    """Time a model in a runtime, or in the usual one of its format; `graph` is what it was read as."""
    chosen = runtime or _USUAL.get(graph.format)
    if chosen is None:
        raise RunFailed(
            f"there is no runtime for a model of the format {graph.format!r}; give a file or a module"
        )
    if chosen not in TIMED:
        raise RunFailed(f"no runtime is called {chosen!r}; there are {', '.join(TIMED)}")
    if graph.format not in _RUNS[chosen]:
        fitting = [name for name, formats in _RUNS.items() if graph.format in formats]
        raise RunFailed(
            f"{TIMED[chosen].library.title} runs no {graph.format} models; {' or '.join(fitting)} does"
        )
    if chosen == "torch-eager":
        return _time_module(given, threads, effort, progress)
    model = given.source
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    samples = random_samples(graph, 1)
    return time_model(chosen, model, samples, threads=threads, effort=effort, progress=progress)


def _time_module(given: Given, threads: int, effort: Effort | None, progress: Progress | None) -> Timing:
    """A name travels as text; a module, and tensors, as a file that we write and read ourselves."""
    with tempfile.TemporaryDirectory(prefix="sizeup-") as name:
        is_named = isinstance(given.source, str | os.PathLike)
        source = os.fspath(given.source) if is_named else None
        if source is not None and Path(source).exists():
            source = str(Path(source).absolute())
        path = Path(name) / "module.pt"
        _write(path, replace(given, source=source or given.source))
        return time_model("torch-eager", path, threads=threads, effort=effort, progress=progress)


def _write(path: Path, given: Given) -> None:
    from sizeup.formats.torch.real import write

    try:
        write(path, (given.source, given.inputs, given.kwargs, given.bind, given.trusted))
    # A module may refuse to be copied in any way it likes.
    except Exception as error:
        raise RunFailed(
            f"the module cannot be handed to a process of its own ({type(error).__name__}: {error});"
            " name its code as package.module:factory"
        ) from error
