"""The gate of a repository: every model that budgets.toml names, against its limits and its growth."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.api.analyze import check_precision, target_of
from sizeup.api.check import (
    SECONDS,
    Model,
    Progress,
    at_revision,
    checked,
    command_options,
    each_judged,
    failed,
    removed,
    whole,
)
from sizeup.errors import BudgetError, UnboundDimension
from sizeup.units import toml_key

if TYPE_CHECKING:
    from sizeup.checks import Baselines, Budget, Budgets, Needs, Reference, Subject
    from sizeup.checks.baselines import Key, Update
    from sizeup.checks.revision import Revision
    from sizeup.results.check import Check


def check_budgets(
    path: str | os.PathLike[str],
    models: Sequence[str] = (),
    *,
    remedies: bool = False,
    against: str | None = None,
    update_baselines: bool = False,
    expected: bool = False,
    strict: bool = False,
) -> tuple[Check, ...]:
    """Every model that a file of budgets names, or only these, each against all budgets that name it.

    A model that cannot be judged, or a pattern without any file, becomes a check with an `error`. Growth is
    judged against baselines, which `update_baselines` writes first, or with `against` against the model
    files of a git revision. `expected` and `strict` hold for every budget, in addition to those that set them
    in the file. Raises BudgetError if the file of budgets itself cannot be used.
    """
    checks, _ = run_budgets(
        path,
        models,
        remedies=remedies,
        against=against,
        update_baselines=update_baselines,
        expected=expected,
        strict=strict,
    )
    return checks


def run_budgets(
    path: str | os.PathLike[str],
    models: Sequence[str] = (),
    *,
    remedies: bool = False,
    against: str | None = None,
    update_baselines: bool = False,
    expected: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> tuple[tuple[Check, ...], tuple[Update, ...]]:
    """The checks of `check_budgets`, and the files of baselines that were written."""
    from sizeup.checks import read_budgets
    from sizeup.checks.revision import open_revision

    if update_baselines and against is not None:
        raise BudgetError("baselines are updated from the work tree, not from a git revision")
    budgets = read_budgets(Path(path)).with_flags(expected=expected, strict=strict)
    for budget in budgets.budgets:
        target_of(budget.target)
        check_precision(budget.precision)
    revision = None if against is None else open_revision(against, budgets.folder)
    gate = _Gate(budgets, revision, update_baselines, remedies)
    if models:
        named, errors = [str(each) for each in models], budgets.unmatched(models)
    else:
        named, errors = budgets.models()
    checks = [*each_judged(named, gate.judge, revision, progress)]
    checks += [replace(failed(pattern, error), name=pattern) for pattern, error in errors.items()]
    if revision is not None and not models:
        checks += [removed(each, revision) for each in _removed(budgets, revision)]
    return tuple(checks), gate.write_baselines()


def affected_models(
    path: str | os.PathLike[str], changed: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """The models to check after these files changed (None: all), and the files that no budget names."""
    from sizeup.checks import read_budgets
    from sizeup.checks.revision import affected

    return affected(read_budgets(Path(path)), changed)


def _removed(budgets: Budgets, revision: Revision) -> list[str]:
    """The models of a revision that budgets name and that are no longer there."""
    gone = (str(each) for each in revision.files() if not each.exists())
    return sorted(str(budgets.folder / budgets.key_of(each)) for each in gone if budgets.names(each))


@dataclass(frozen=True)
class _Gate:
    """Budgets, and what growth is judged against; collects the amounts of new baselines."""

    budgets: Budgets
    revision: Revision | None
    updates: bool
    remedies: bool
    _files: dict[Path, Baselines | BudgetError] = field(default_factory=dict)
    _measured: dict[Path, dict[Key, dict[str, float]]] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What writes the baselines."""
        return f"sizeup check --budget {shlex.quote(str(self.budgets.path))} --update-baselines"

    def judge(self, model: str) -> Iterator[Check]:
        """One check for each target and precision that budgets ask for; budgets of the same join."""
        by_case: dict[tuple[object, ...], list[Budget]] = {}
        for budget in self.budgets.of(model):
            limits = budget.limits
            case = (budget.target, budget.precision, tuple(sorted(budget.bind.items())))
            by_case.setdefault((*case, limits.get("ram"), limits.get("flash")), []).append(budget)
        for budgets in by_case.values():
            yield self._check(model, budgets)

    def _check(self, model: str, budgets: Sequence[Budget]) -> Check:
        from sizeup.checks import LimitSpec, Subject

        first = budgets[0]
        read = Model(model, None, None, first.bind or None, first.precision)
        limits = first.limits
        target = target_of(first.target)
        subject = Subject(_needs(read), target, whole(limits, "ram"), whole(limits, "flash"))
        before = None if self.revision is None else at_revision(read, subject, self.revision)
        wanted = [
            LimitSpec(
                budget.limits,
                budget.growth,
                budget.layers,
                (before or self._baseline(read, budget, subject)) if budget.growth else None,
                budget.name,
                budget.expected,
            )
            for budget in budgets
        ]
        names = tuple(budget.name for budget in budgets)
        strict = any(budget.strict for budget in budgets)
        origin = read.origin(_budget_options(budgets)) if self.remedies else None
        check = checked(read, subject, wanted, origin, before, SECONDS, strict=strict, budgets=names)
        return replace(check, update_command=self.command)

    def _baseline(self, model: Model, budget: Budget, subject: Subject) -> Reference:
        """What the baselines of a budget say of a model; what they will say if they are updated."""
        from sizeup.checks import Reference
        from sizeup.checks.baselines import Key
        from sizeup.checks.judging import measured

        path = self.budgets.folder / budget.baseline
        target = "" if subject.target is None else subject.target.name
        bind = tuple(sorted(budget.bind.items()))
        key = Key(self.budgets.key_of(model.typed), target, budget.precision or "", bind)
        baselines = self._read(path)
        if self.updates:
            amounts = measured(subject, budget.growth)
            self._measured.setdefault(path, {}).setdefault(key, {}).update(amounts)
            return Reference(budget.baseline, amounts)
        accepted = baselines.amounts.get(key)
        reason = "" if accepted is not None else f"not in {budget.baseline}; to add it: {self.command}"
        return Reference(budget.baseline, accepted, reason)

    def _read(self, path: Path) -> Baselines:
        """A file of baselines, read once; an error of it is one of every model that needs it."""
        from sizeup.checks import read_baselines

        if path not in self._files:
            try:
                self._files[path] = read_baselines(path, self.command, is_replaced=self.updates)
            except BudgetError as error:
                self._files[path] = error
        baselines = self._files[path]
        if isinstance(baselines, BudgetError):
            raise baselines
        return baselines

    def write_baselines(self) -> tuple[Update, ...]:
        """Write every file of baselines that has new amounts, each in one step."""
        from sizeup.checks.baselines import updated, written
        from sizeup.files import write_text

        updates = []
        for path, measured in self._measured.items():
            after, update = updated(self._read(path), measured, self._exists)
            write_text(path, [written(after)], make_folder=True)
            updates.append(update)
        return tuple(updates)

    def _exists(self, model: str) -> bool:
        from sizeup.formats.names import means_code

        return means_code(model) or (self.budgets.folder / model).exists()


def _needs(model: Model) -> Needs:
    """What a model needs; raises UnboundDimension with the setting of a budget that binds the sizes."""
    try:
        return model.needs()
    except UnboundDimension as error:
        if not error.names:
            raise
        sizes = ", ".join(f"{toml_key(name)} = 1" for name in error.names)
        raise UnboundDimension(
            f"{model.typed}: dimensions without a size: {error.places};"
            f" add bind = {{ {sizes} }} to the [[budget]], with the sizes that you need",
            error.dimensions,
        ) from error


def _budget_options(budgets: Sequence[Budget]) -> str:
    """The strictest of their limits, those that the command line has an option for."""
    from sizeup.checks.measures import MEASURES

    texts = {}
    for name in ("ram", "flash", "arena", "latency", "energy", "macs", "params"):
        amounts = [budget.limits[name] for budget in budgets if name in budget.limits]
        if amounts:
            unit = {"seconds": "s", "joules": "J"}.get(MEASURES[name].unit, "")
            texts[name] = f"{min(amounts):.12f}".rstrip("0") + f"0{unit}" if unit else str(int(min(amounts)))
    return command_options(texts, any(budget.expected for budget in budgets))
