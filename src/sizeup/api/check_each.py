"""Checks of several models, of which one may end in an error or have been removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sizeup.api.limits import NO_LIMITS, WorkLimits, check_in_worker
from sizeup.errors import SizeupError
from sizeup.formats.names import is_code

if TYPE_CHECKING:
    from sizeup.checks.revision import Revision
    from sizeup.results.check import Check

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of checked models, their total, and the next model."""


def check_each(
    models: Sequence[str],
    check_one: Callable[[str], Iterable[Check]],
    revision: Revision | None,
    progress: Progress | None,
    limits: WorkLimits = NO_LIMITS,
    readable: Sequence[Path] = (),
) -> Iterator[Check]:
    """The checks of all models; an error of one model does not stop the others.

    With `limits`, each model is read and checked in a worker, which reads its folder and `readable`.
    """
    for number, model in enumerate(models):
        if progress is not None:
            progress(number, len(models), model)
        try:
            if revision is not None and not Path(model).exists() and revision.has(model):
                yield removed_check(model, revision)
            else:
                yield from _checks_of(model, check_one, limits, readable)
        except (SizeupError, OSError) as error:
            yield error_check(model, error)


def _checks_of(
    model: str, check_one: Callable[[str], Iterable[Check]], limits: WorkLimits, readable: Sequence[Path]
) -> Iterable[Check]:
    if not limits:
        return check_one(model)

    def check_all() -> Iterator[Check]:
        try:
            yield from check_one(model)
        except (SizeupError, OSError) as error:
            yield error_check(model, error)

    # Code that a user names runs with all rights of the user, as it does without limits.
    files = None if is_code(model) else [Path(model).parent, Path(os.path.realpath(model)).parent, *readable]
    return check_in_worker(model, check_all, limits, files)


def error_check(model: str, error: Exception) -> Check:
    """The check of a model, or of a pattern of models, that ended in an error."""
    from sizeup.results.check import Check

    is_file = os.path.isfile(model)  # noqa: PTH113 - Path.is_file raises for a name that is too long
    return Check(model, Path(model).name, is_file=is_file, error=str(error))


def removed_check(model: str, revision: Revision) -> Check:
    """The check of a model that exists at a revision but not in the work tree."""
    from sizeup.results.check import Check

    return Check(model, Path(model).name, is_file=True, base_revision=revision.name, is_removed=True)
