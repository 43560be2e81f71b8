"""Checks of several models, of which one may end in an error or have been removed."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sizeup.api.limits import NO_LIMITS, WorkLimits, check_in_worker
from sizeup.errors import LfsPointer, SizeupError
from sizeup.files import exists, is_file
from sizeup.formats.names import is_code

if TYPE_CHECKING:
    from sizeup.checks import Needs, Reference, Subject
    from sizeup.checks.policy import Edit
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
            if revision is not None and not exists(model) and revision.has(model):
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


def doubted(checks: Iterable[Check], *revisions: Revision | None) -> Iterator[Check]:
    """The checks, undetermined instead of a yes if the change may have chosen a revision they rely on."""
    reasons = tuple(
        dict.fromkeys(filter(None, (each.undetermined_reason for each in revisions if each is not None)))
    )
    for check in checks:
        yield replace(check, undetermined_reasons=reasons) if reasons and check.has_verdict else check


def error_check(model: str, error: Exception) -> Check:
    """The check of a model, or of a pattern of models, that ended in an error."""
    from sizeup.results.check import Check

    is_file = os.path.isfile(model)  # noqa: PTH113 - Path.is_file raises for a name that is too long
    return Check(model, Path(model).name, is_file=is_file, error=str(error))


def removed_check(model: str, revision: Revision) -> Check:
    """The check of a model that exists at a revision but not in the work tree."""
    return _revision_check(model, revision, is_removed=True)


def edit_check(edit: Edit, revision: Revision) -> Check:
    """The check of an edited settings file: undetermined if it may decide the verdict, else a notice."""
    reasons = (edit.reason,) if edit.reason else ()
    path = os.path.relpath(edit.path)
    return _revision_check(path, revision, edits=edit.changes, undetermined_reasons=reasons)


def uncovered_check(model: str, reason: str, revision: Revision, renamed_from: str = "") -> Check:
    """The check of a model that budgets named at a revision, and that no budget names now."""
    return _revision_check(model, revision, undetermined_reasons=(reason,), renamed_from=renamed_from)


def _revision_check(path: str, revision: Revision, **fields: Any) -> Check:
    from sizeup.results.check import Check

    name, commit = revision.name, revision.commit
    return Check(path, Path(path).name, is_file=True, base_revision=name, base_commit=commit, **fields)


def device_edits(revision: Revision) -> list[Check]:
    """Checks of the device files and cost rules in use that differ from those of the revision."""
    from sizeup.api.models import loaded_rules
    from sizeup.checks.policy import edited_files
    from sizeup.targets import BUILT_IN, search_path

    folders = [path for path in search_path() if path != BUILT_IN]
    return [edit_check(edit, revision) for edit in edited_files((*folders, *loaded_rules()), revision)]


def at_revision(
    model: str,
    subject: Subject,
    needs_of: Callable[[Path], Needs],
    revision: Revision,
    renamed_from: str = "",
) -> Reference:
    """The amounts of a model file at a git revision, on the same target and at the same precision.

    `renamed_from` is its path there if it is another one. A file with the same content is not read again;
    others are by `needs_of`.
    """
    from sizeup.checks import Reference
    from sizeup.checks.evaluate import measured

    new = functools.partial(Reference, revision.name, is_revision=True, renamed_from=renamed_from)
    if not is_file(model):
        return new(new_reason="only files are compared with a git revision")
    if revision.is_unchanged(model, renamed_from):
        return new(measured(subject), is_unchanged=True)
    with revision.checked_out(revision.top / renamed_from if renamed_from else model) as copy:
        if copy is None:
            return new(new_reason=f"not in {revision.name}")
        try:
            before = replace(subject, needs=needs_of(copy))
            return new(measured(before))
        except LfsPointer:
            raise
        except SizeupError as error:
            return new(new_reason=f"not readable at {revision.name} ({error})")
