"""Comparing what a real runtime makes of the original and of the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.graph import Graph
from sizeup.memory.schedule import peak_bytes
from sizeup.rewrite.result import Deviation, Verification
from sizeup.runtimes import RUNTIMES, Run, check_room, random_samples, run
from sizeup.runtimes.process import Model, Sample

SAMPLES = 6
# What a runtime may take for tensors: beyond that the system may end it, or us.
_MOST_PEAK_BYTES = 2 << 30


class Judge:
    """Runs files on the same samples in the first runtime that runs the original."""

    def __init__(self, runtime: str, samples: Sequence[Sample], original: Run) -> None:
        self.runtime = runtime
        self.samples = samples
        self.original = original

    @property
    def title(self) -> str:
        """The runtime's name for people."""
        return RUNTIMES[self.runtime].title

    def outputs(self, model: Model) -> Run:
        """What the runtime makes of a file; raises RunFailed where it does not run it."""
        return run(self.runtime, model, self.samples)

    def load(self, model: Model) -> Run:
        """Load a file without running it: enough to know its arena."""
        return run(self.runtime, model)

    def verdict(self, result: Run, with_random_weights: int | None = None) -> Verification:
        """The result against the original."""
        moved = deviation(self.original, result)
        return Verification(
            self.title, len(self.samples), result.distinct_outputs, moved, with_random_weights
        )


def judge_of(graph: Graph, model: Model, runtimes: Sequence[str]) -> tuple[Judge | None, list[str]]:
    """The judge of a model, and why the runtimes before it do not run the model.

    None where no runtime does; raises MissingLibrary where not one of them is installed.
    """
    try:
        _check_memory(graph)
        samples = random_samples(graph, SAMPLES)
    except RunFailed as error:
        return None, [str(error)]
    reasons: list[str] = []
    missing: list[MissingLibrary] = []
    for runtime in runtimes:
        found = _tried(runtime, model, samples)
        if isinstance(found, Run):
            return Judge(runtime, samples, found), reasons
        reasons.append(str(found))
        missing += [found] if isinstance(found, MissingLibrary) else []
    if len(missing) == len(runtimes):
        raise missing[0]
    return None, reasons


def _check_memory(graph: Graph) -> None:
    """Raise RunFailed where running the model takes more memory than a test may."""
    peak = peak_bytes(graph)
    if peak > _MOST_PEAK_BYTES:
        raise RunFailed(
            f"one run needs {peak:,} B of memory, and runs of more than {_MOST_PEAK_BYTES:,} B are not tried"
        )
    check_room(graph, graph.outputs, SAMPLES, "outputs")


def _tried(runtime: str, model: Model, samples: Sequence[Sample]) -> Run | MissingLibrary | RunFailed:
    try:
        return run(runtime, model, samples)
    except (MissingLibrary, RunFailed) as error:
        return error


def is_equal(left: Run, right: Run) -> bool:
    """Whether two runs gave the same outputs, bit for bit."""
    return len(left.outputs) == len(right.outputs) and all(
        len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))
        for a, b in zip(left.outputs, right.outputs, strict=True)
    )


def deviation(original: Run, result: Run) -> Deviation | None:
    """How far the outputs moved; None where they are equal."""
    if is_equal(original, result):
        return None
    before, after = (
        np.concatenate([np.ravel(each).astype(np.float64) for sample in run.outputs for each in sample])
        for run in (original, result)
    )
    moved = np.abs(after - before)
    return Deviation(float(moved.max()), float(moved.mean()), float(np.ptp(before)))
