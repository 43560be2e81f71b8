"""The check of a served language model: its memory at the largest concurrency, times, and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sizeup.checks import verdict
from sizeup.files import is_file
from sizeup.results.check import Check
from sizeup.serving.checks.check import ServingCheck, serving_limit, time_limits
from sizeup.serving.checks.remedies import serving_remedies
from sizeup.serving.memory.engines import alias_note
from sizeup.serving.results.llm import Serving
from sizeup.serving.times.goals import Goals
from sizeup.targets.clusters import cluster


def check_of(serving: Serving, spec: ServingCheck, *, remedies: bool) -> Check:
    """The check of an estimate; `spec` is what was asked for, which remedies change."""
    deployment = serving.deployment
    memory = serving_limit(deployment, spec.concurrency)
    goals = Goals(spec.ttft, spec.tpot)
    limits = (memory, *time_limits(deployment, memory, goals, serving.times, expected=spec.expected))
    # What a laptop or phone holds is never certain, and a spec has no draft and no images.
    is_searched = (
        remedies
        and verdict(limits) is not True
        and not serving.is_local
        and serving.draft is None
        and serving.images is None
    )
    return Check(
        spec.model,
        serving.name,
        "language model",
        f"{serving.cluster.name}/{serving.engine.name}",
        limits,
        serving_remedies(spec) if is_searched else (),
        is_file=is_file(Path(spec.model.removeprefix("hf:"))),
        has_searched_remedies=is_searched,
        caveats=(*_caveats(serving, spec), *serving.architecture.caveats),
    )


def _caveats(serving: Serving, spec: ServingCheck) -> Iterator[str]:
    """What is judged of several, or on a laptop or phone which unit the name of the runtime means."""
    if serving.is_local:
        yield from alias_note(cluster(spec.target)[1], serving.engine)
    else:
        several = len(serving.concurrency) > 1
        yield f"{f'{spec.concurrency:,} concurrent sequences, ' if several else ''}layout {serving.layout}"
