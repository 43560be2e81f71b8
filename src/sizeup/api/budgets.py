"""Checks of all models that a budget file (budgets.toml) names, against their limits and growth limits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.api.analyze import check_precision, target_of
from sizeup.api.check import SECONDS, Model, at_revision, build_check, int_limit, settings_files
from sizeup.api.check_each import Progress, check_each, error_check, removed_check
from sizeup.api.check_options import command_options
from sizeup.api.limits import NO_LIMITS, WorkLimits
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
    run: bool = False,
) -> tuple[Check, ...]:
    """Check all models that a budget file names, or only `models`, each against all budgets that match it.

    A model that cannot be checked, or a pattern without any file, becomes a check with an `error`. Growth is
    relative to baselines, which `update_baselines` writes first, or with `against` to the model files of a
    git revision. `expected` and `strict` apply to every budget. With `run`, one inference of every .tflite
    file for a target of TFLite Micro runs on the host. Raises BudgetError if the budget file is invalid.
    """
    checks, _ = run_budgets(
        path,
        models,
        remedies=remedies,
        against=against,
        update_baselines=update_baselines,
        expected=expected,
        strict=strict,
        run=run,
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
    run: bool = False,
    progress: Progress | None = None,
    work_limits: WorkLimits = NO_LIMITS,
) -> tuple[tuple[Check, ...], tuple[Update, ...]]:
    """The checks of `check_budgets`, and the baselines files that were written."""
    from sizeup.checks import read_budgets
    from sizeup.checks.host_run import require_interpreter
    from sizeup.checks.revision import open_revision

    if update_baselines and against is not None:
        raise BudgetError("update_baselines cannot be combined with against")
    budgets = read_budgets(Path(path)).with_flags(expected=expected, strict=strict)
    for budget in budgets.budgets:
        target = target_of(budget.target)
        if run:
            require_interpreter(target)
        check_precision(budget.precision)
    revision = None if against is None else open_revision(against, budgets.folder)
    gate = _Gate(budgets, revision, update_baselines, remedies, run)
    if models:
        paths, errors = [str(model) for model in models], budgets.unmatched(models)
    else:
        paths, errors = budgets.models()
    readable = settings_files(revision, *(budget.precision for budget in budgets.budgets))
    readable += [budgets.folder / budget.baseline for budget in budgets.budgets if budget.baseline]
    checks = [*check_each(paths, gate.checks_of, revision, progress, work_limits, readable)]
    checks += [replace(error_check(pattern, error), name=pattern) for pattern, error in errors.items()]
    if revision is not None and not models:
        checks += [removed_check(path, revision) for path in _removed_models(budgets, revision)]
    return tuple(checks), gate.write_baselines()


def has_growth_limits(path: str | os.PathLike[str]) -> bool:
    """Whether a budget of the file limits growth, so that it needs baselines."""
    from sizeup.checks import read_budgets

    return any(budget.growth for budget in read_budgets(Path(path)).budgets)


def affected_models(
    path: str | os.PathLike[str], changed: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """The models to check after these files changed (None: all), and the files without a budget."""
    from sizeup.checks import read_budgets
    from sizeup.checks.revision import affected

    return affected(read_budgets(Path(path)), changed)


def _removed_models(budgets: Budgets, revision: Revision) -> list[str]:
    """The models of a revision that budgets name and that no longer exist."""
    removed = (str(path) for path in revision.files() if not path.exists())
    return sorted(str(budgets.folder / budgets.key_of(path)) for path in removed if budgets.has_budget(path))


@dataclass(frozen=True)
class _Gate:
    """Checks models against budgets and collects the amounts of new baselines."""

    budgets: Budgets
    revision: Revision | None
    updates: bool
    remedies: bool
    run: bool
    _files: dict[Path, Baselines | BudgetError] = field(default_factory=dict)
    _measured: dict[Path, dict[Key, dict[str, float]]] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that writes the baselines."""
        return f"sizeup check --budget {shlex.quote(str(self.budgets.path))} --update-baselines"

    def checks_of(self, model: str) -> Iterator[Check]:
        """One check per target, precision, sizes and memory limits; budgets that share them are combined."""
        by_case: dict[tuple[object, ...], list[Budget]] = {}
        for budget in self.budgets.budgets_for(model):
            limits = budget.limits
            case = (budget.target, budget.precision, tuple(sorted(budget.bind.items())))
            by_case.setdefault((*case, limits.get("ram"), limits.get("flash")), []).append(budget)
        for budgets in by_case.values():
            yield self._check(model, budgets)

    def _check(self, model: str, budgets: Sequence[Budget]) -> Check:
        from sizeup.checks import LimitSpec, Subject

        first = budgets[0]
        source = Model(model, None, None, first.bind or None, first.precision)
        limits = first.limits
        target = target_of(first.target)
        subject = Subject(_needs(source), target, int_limit(limits, "ram"), int_limit(limits, "flash"))
        before = None if self.revision is None else at_revision(source, subject, self.revision)
        specs = [
            LimitSpec(
                budget.limits,
                budget.growth,
                budget.layers,
                (before or self._baseline(source, budget, subject)) if budget.growth else None,
                budget.name,
                budget.expected,
            )
            for budget in budgets
        ]
        names = tuple(budget.name for budget in budgets)
        strict = any(budget.strict for budget in budgets)
        origin = source.origin(_budget_options(budgets)) if self.remedies else None
        check = build_check(
            source, subject, specs, origin, before, SECONDS, strict=strict, run=self.run, budgets=names
        )
        return replace(check, update_command=self.command)

    def _baseline(self, model: Model, budget: Budget, subject: Subject) -> Reference:
        """The baseline of a model in a budget: the stored one, or the current amounts if it is updated."""
        from sizeup.checks import Reference
        from sizeup.checks.baselines import Key
        from sizeup.checks.evaluate import measured

        path = self.budgets.folder / budget.baseline
        target = "" if subject.target is None else subject.target.name
        bind = tuple(sorted(budget.bind.items()))
        key = Key(self.budgets.key_of(model.argument), target, budget.precision or "", bind)
        baselines = self._read(path)
        if self.updates:
            amounts = measured(subject, budget.growth)
            self._measured.setdefault(path, {}).setdefault(key, {}).update(amounts)
            return Reference(budget.baseline, amounts)
        accepted = baselines.amounts.get(key)
        reason = "" if accepted is not None else f"not in {budget.baseline}; to add it: {self.command}"
        return Reference(budget.baseline, accepted, reason)

    def _read(self, path: Path) -> Baselines:
        """A baselines file, read once; its error is raised for every model that needs it."""
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
        """Write all baselines files that have new amounts."""
        from sizeup.checks.baselines import file_text, updated
        from sizeup.files import write_text

        updates = []
        for path, measured in self._measured.items():
            after, update = updated(self._read(path), measured, self._exists)
            write_text(path, [file_text(after)], make_folder=True, inside=self.budgets.folder)
            updates.append(update)
        return tuple(updates)

    def _exists(self, model: str) -> bool:
        from sizeup.formats.names import looks_like_code

        return looks_like_code(model) or (self.budgets.folder / model).exists()


def _needs(model: Model) -> Needs:
    """The needs of a model; raises UnboundDimension with the budget setting that binds its dimensions."""
    try:
        return model.needs()
    except UnboundDimension as error:
        if not error.names:
            raise
        sizes = ", ".join(f"{toml_key(name)} = 1" for name in error.names)
        raise UnboundDimension(
            f"{model.argument}: dimensions without a size: {error.axes_text};"
            f" add bind = {{ {sizes} }} to the [[budget]], with the sizes you need",
            error.dimensions,
        ) from error


def _budget_options(budgets: Sequence[Budget]) -> str:
    """The strictest limits of the budgets, as command-line options."""
    from sizeup.checks.measures import MEASURES

    texts = {}
    for name in ("ram", "flash", "arena", "latency", "energy", "macs", "params"):
        amounts = [budget.limits[name] for budget in budgets if name in budget.limits]
        if amounts:
            unit = {"seconds": "s", "joules": "J"}.get(MEASURES[name].unit, "")
            texts[name] = f"{min(amounts):.12f}".rstrip("0") + f"0{unit}" if unit else str(int(min(amounts)))
    return command_options(texts, any(budget.expected for budget in budgets))
