"""Compares the outputs of the original and the result in a real runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.graph import Graph
from sizeup.memory.schedule import peak_bytes
from sizeup.rewrite.result import RUN_SECONDS, Deviation, Verification
from sizeup.runtimes import RUNTIMES, Run, check_sample_memory, random_samples, run
from sizeup.runtimes.process import Model, Sample

NOT_VERIFIED = "the result is not verified; use --verify to run it"
NOT_VERIFIABLE = "nothing was changed, because nothing can be verified; use --no-verify to change it anyway"
SAMPLES = 6
# Limit of the tensor memory of a run, so that the system does not kill the process.
_MAX_PEAK_BYTES = 2 << 30


class Verifier:
    """Runs files on the same samples in the first runtime that runs the original."""

    def __init__(self, runtime: str, samples: Sequence[Sample], original: Run, seconds: float) -> None:
        self.runtime = runtime
        self.seconds = seconds
        self.samples = samples
        self.original = original

    @property
    def title(self) -> str:
        """The display name of the runtime."""
        return RUNTIMES[self.runtime].title

    @property
    def honors_plans(self) -> bool:
        """Whether the runtime uses memory plans that are stored in files."""
        return RUNTIMES[self.runtime].honors_plans

    def outputs(self, model: Model) -> Run:
        """Run a file on the samples; raises RunFailed if the runtime does not run it."""
        return run(self.runtime, model, self.samples, timeout=self.seconds)

    def load(self, model: Model) -> Run:
        """Load a file without running it, to get its arena."""
        return run(self.runtime, model, timeout=self.seconds)

    def compare(self, result: Run, with_random_weights: int | None = None) -> Verification:
        """The comparison of a result with the original."""
        difference = deviation(self.original, result)
        return Verification(
            self.title, len(self.samples), result.distinct_outputs, difference, with_random_weights
        )


def find_verifier(
    graph: Graph, model: Model, runtimes: Sequence[str], seconds: float = RUN_SECONDS
) -> tuple[Verifier | None, list[str]]:
    """The verifier of a model, and why the runtimes before it do not run the model within a limit of seconds.

    None if no runtime runs it. Raises MissingLibrary if none of them is installed.
    """
    try:
        _check_memory(graph)
        samples = random_samples(graph, SAMPLES)
    except RunFailed as error:
        return None, [str(error)]
    reasons: list[str] = []
    missing: list[MissingLibrary] = []
    for runtime in runtimes:
        outcome = _try_run(runtime, model, samples, seconds)
        if isinstance(outcome, Run):
            return Verifier(runtime, samples, outcome, seconds), reasons
        reasons.append(str(outcome))
        missing += [outcome] if isinstance(outcome, MissingLibrary) else []
    if len(missing) == len(runtimes):
        raise missing[0]
    return None, reasons


def _check_memory(graph: Graph) -> None:
    """Raise RunFailed if running the model takes too much memory."""
    peak = peak_bytes(graph)
    if peak > _MAX_PEAK_BYTES:
        raise RunFailed(
            f"one inference needs {peak:,} B of memory; verification is limited to {_MAX_PEAK_BYTES:,} B"
        )
    check_sample_memory(graph, graph.outputs, SAMPLES, "outputs")


def _try_run(
    runtime: str, model: Model, samples: Sequence[Sample], seconds: float
) -> Run | MissingLibrary | RunFailed:
    try:
        return run(runtime, model, samples, timeout=seconds)
    except (MissingLibrary, RunFailed) as error:
        return error


def is_equal(left: Run, right: Run) -> bool:
    """Whether two runs have the same outputs, bit for bit."""
    return len(left.outputs) == len(right.outputs) and all(
        len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))
        for a, b in zip(left.outputs, right.outputs, strict=True)
    )


def deviation(original: Run, result: Run) -> Deviation | None:
    """The deviation of the outputs, or None if they are equal."""
    if is_equal(original, result):
        return None
    before, after = (
        np.concatenate([np.ravel(output).astype(np.float64) for sample in run.outputs for output in sample])
        for run in (original, result)
    )
    differences = np.abs(after - before)
    return Deviation(float(differences.max()), float(differences.mean()), float(np.ptp(before)))
