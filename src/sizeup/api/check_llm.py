"""Checks whether language models fit a cluster at a concurrency, as `check` does for other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.api.check import Progress, check_each
from sizeup.api.llm import llm
from sizeup.language_models.deployment import INPUT, OUTPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sizeup.results.check import Check


@dataclass(frozen=True, slots=True)
class LlmCheckOptions:
    """What a language model must fit: a cluster, and concurrent sequences of a prompt and an answer."""

    target: str
    input: int = INPUT
    output: int = OUTPUT
    concurrency: int = 1
    weights: str | None = None
    kv: str | None = None
    layout: str | None = None


def check_language_models(
    models: Sequence[str], options: LlmCheckOptions, progress: Progress | None = None
) -> tuple[Check, ...]:
    """Check several language models: one that cannot be checked becomes a check with an `error`."""

    def check_one(model: str) -> Iterator[Check]:
        yield check_language_model(model, options)

    return tuple(check_each(models, check_one, None, progress))


def check_language_model(model: str, options: LlmCheckOptions) -> Check:
    """Check whether a language model, its buffers and all sequences fit the fullest GPU."""
    from sizeup.checks.language_models import serving_limit
    from sizeup.results.check import Check

    serving = llm(
        model, target=options.target, input=options.input, output=options.output,
        concurrency=options.concurrency, weights=options.weights, kv=options.kv, layout=options.layout,
    )  # fmt: skip
    return Check(
        model,
        serving.name,
        "language model",
        f"{serving.cluster.name}/{serving.engine.name}",
        (serving_limit(serving.deployment, options.concurrency),),
        is_file=Path(model.removeprefix("hf:")).is_file(),
        caveats=(f"layout {serving.layout}", *serving.architecture.caveats),
    )
