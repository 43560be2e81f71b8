"""Checks whether language models fit a cluster at a concurrency, as `check` does for other models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.check_each import Progress, check_each
from sizeup.errors import SizeupError
from sizeup.files import is_file
from sizeup.serving.memory.engines import alias_note
from sizeup.targets import quantities
from sizeup.targets.clusters import cluster
from sizeup.targets.quantities import parse_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sizeup.results.check import Check
    from sizeup.serving.checks.check import ServingCheck


def serving_check(
    model: str,
    target: str,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    ram: float | str | None = None,
    **fields: Any,
) -> ServingCheck:
    """A check of a language model; times are seconds, or texts such as "30ms"."""
    from sizeup.serving.checks.check import ServingCheck
    from sizeup.serving.memory.local import parse_ram

    first = parse_limit(ttft, quantities.TIME, "--ttft")
    each = parse_limit(tpot, quantities.TIME, "--tpot")
    return ServingCheck(model, target, ttft=first, tpot=each, ram=parse_ram(ram), **fields)


def check_served(
    source: Any,
    target: Any,
    served: Mapping[str, Any],
    others: Sequence[Any],
    *,
    expected: bool,
    remedies: bool,
) -> Check:
    """Check one language model; `served` are fields of ServingCheck."""
    if not isinstance(source, str | os.PathLike):
        raise SizeupError("a language model is checked from its config.json, its folder or a .gguf file")
    if not isinstance(target, str):
        raise SizeupError('a language model needs a cluster as its target, e.g. "8xh100/vllm"')
    if any(value is not None for value in others):
        raise SizeupError("inputs, bind, precision and limits do not apply to language models")
    arguments = {name: value for name, value in served.items() if value is not None}
    check = serving_check(os.fspath(source), target, expected=expected, **arguments)
    return check_language_model(check, remedies)


def check_language_models(
    models: Sequence[str], check: ServingCheck, remedies: bool, progress: Progress | None = None
) -> tuple[Check, ...]:
    """Check several language models alike: one that cannot be checked becomes a check with an `error`."""

    def check_one(model: str) -> Iterator[Check]:
        yield check_language_model(check.of(model), remedies)

    return tuple(check_each(models, check_one, None, progress))


def check_language_model(check: ServingCheck, remedies: bool = True) -> Check:
    """Check whether a language model and all sequences fit the fullest GPU, and times are within limits."""
    from sizeup.results.check import Check
    from sizeup.serving.checks.remedies import serving_remedies

    deployment = check.deployment
    # What a laptop or phone holds is never certain, so that no change is a remedy.
    is_searched = remedies and check.fits is not True and not deployment.engine.is_local
    return Check(
        check.model,
        deployment.architecture.name,
        "language model",
        f"{deployment.cluster.name}/{deployment.engine.name}",
        check.limits,
        serving_remedies(check) if is_searched else (),
        is_file=is_file(Path(check.model.removeprefix("hf:"))),
        has_searched_remedies=is_searched,
        caveats=(*_caveats(check), *deployment.architecture.caveats),
    )


def _caveats(check: ServingCheck) -> Iterator[str]:
    """The layout, or on a laptop or phone which unit the name of the runtime means."""
    engine = check.deployment.engine
    if engine.is_local:
        yield from alias_note(cluster(check.target)[1], engine)
    else:
        yield f"layout {check.deployment.layout}"
