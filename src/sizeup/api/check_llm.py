"""Checks whether language models fit a cluster at a concurrency, as `check` does for other models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.check_each import Progress, check_each
from sizeup.errors import SizeupError
from sizeup.language_models.clusters import is_cluster
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
    remedies: bool = True


def is_served(target: Any, served: Sequence[Any]) -> bool:
    """Whether a target, or an argument about how a model is served, is of language models."""
    return any(value is not None for value in served) or (isinstance(target, str) and is_cluster(target))


def check_served(
    source: Any, target: Any, served: Sequence[Any], others: Sequence[Any], remedies: bool
) -> Check:
    """Check one language model; `served` are the fields of LlmCheckOptions after the target."""
    if not isinstance(source, str | os.PathLike):
        raise SizeupError("a language model is checked from its config.json, its folder or a .gguf file")
    if not isinstance(target, str):
        raise SizeupError('a language model needs a cluster as its target, e.g. "8xh100/vllm"')
    if any(value is not None for value in others):
        raise SizeupError("inputs, bind, precision and limits do not apply to language models")
    names = ("input", "output", "concurrency", "weights", "kv", "layout")
    arguments = {name: value for name, value in zip(names, served, strict=True) if value is not None}
    return check_language_model(os.fspath(source), LlmCheckOptions(target, **arguments, remedies=remedies))


def is_configuration(model: str) -> bool:
    """Whether a model is a .gguf or .json file, which no other model is without the prefix `hf:`."""
    return Path(model).suffix.lower() in (".json", ".gguf") and not model.startswith("hf:")


def check_language_models(
    models: Sequence[str], options: LlmCheckOptions, progress: Progress | None = None
) -> tuple[Check, ...]:
    """Check several language models: one that cannot be checked becomes a check with an `error`."""

    def check_one(model: str) -> Iterator[Check]:
        yield check_language_model(model, options)

    return tuple(check_each(models, check_one, None, progress))


def check_language_model(model: str, options: LlmCheckOptions) -> Check:
    """Check whether a language model, its buffers and all sequences fit the fullest GPU."""
    from sizeup.checks.language_models import ServingCheck
    from sizeup.checks.serving_remedies import serving_remedies
    from sizeup.results.check import Check

    check = ServingCheck(
        model, options.target, options.input, options.output, options.concurrency,
        options.weights, options.kv, options.layout,
    )  # fmt: skip
    deployment, limit = check.deployment, check.limit
    is_searched = options.remedies and limit.fits is not True
    return Check(
        model,
        deployment.architecture.name,
        "language model",
        f"{deployment.cluster.name}/{deployment.engine.name}",
        (limit,),
        serving_remedies(check) if is_searched else (),
        is_file=Path(model.removeprefix("hf:")).is_file(),
        has_searched_remedies=is_searched,
        caveats=(f"layout {deployment.layout}", *deployment.architecture.caveats),
    )
