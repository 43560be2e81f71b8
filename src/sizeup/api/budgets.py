"""Checks of all models that a budget file (budgets.toml) names, against their limits and growth limits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sizeup.api.analyze import check_precision, target_of
from sizeup.api.check import (
    LLM_COMMAND,
    SECONDS,
    Model,
    build_check,
    int_limit,
    refuse_language_model,
    settings_files,
)
from sizeup.api.check_each import Progress, check_each, doubted, error_check
from sizeup.api.check_options import command_options
from sizeup.api.limits import NO_LIMITS, WorkLimits
from sizeup.backends import backend_of
from sizeup.errors import BudgetError, UnboundDimension
from sizeup.files import exists
from sizeup.units import toml_key

if TYPE_CHECKING:
    from sizeup.api.policy import Policy
    from sizeup.checks import Baselines, Budget, Budgets, Needs, Reference, Subject
    from sizeup.checks.baselines import Key, Line, Update
    from sizeup.checks.revision import Revision
    from sizeup.results.check import Check
    from sizeup.targets import Target


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
    from sizeup.api.policy import Policy
    from sizeup.checks.policy import open_policy
    from sizeup.checks.revision import open_revision

    if update_baselines and against is not None:
        raise BudgetError("update_baselines cannot be combined with against")
    file = path if isinstance(path, str) else Path(path)
    with TemporaryDirectory(prefix="sizeup-") as copies:
        budgets, source = open_policy(file, Path(copies))
        if update_baselines and source is not None:
            raise BudgetError(f"{path}: baselines are updated in the work tree; name a budget file of it")
        for budget in budgets.budgets:
            target = _target(budgets, budget)
            if run and target is not None:
                backend_of(target).require_interpreter()
            check_precision(_precision(budgets, budget))
        revision = None if against is None else open_revision(against)
        policy = Policy(budgets, source, revision, Path(copies) / "against")
        policy.prepare()
        budgets = budgets.with_flags(expected=expected, strict=strict)
        gate = _Gate(budgets, revision, update_baselines, remedies, run, policy)
        if models:
            paths, errors = [str(model) for model in models], budgets.unmatched(models)
        else:
            paths, errors = budgets.models()
        readable = [*settings_files(revision), Path(copies), *map(budgets.setting, budgets.settings())]
        judged = check_each(paths, gate.checks_of, revision, progress, work_limits, readable)
        checks = [*doubted(judged, source, revision)]
        checks += [replace(error_check(pattern, error), name=pattern) for pattern, error in errors.items()]
        checks += policy.checks(None if models else tuple(checks))
        return tuple(checks), gate.write_baselines()


def has_growth_limits(path: str | os.PathLike[str]) -> bool:
    """Whether a budget of the file limits growth, so that it needs baselines."""
    from sizeup.checks import read_budgets

    return any(budget.growth for budget in read_budgets(Path(path)).budgets)


def affected_models(
    path: str | os.PathLike[str], changed: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """The models to check after these files changed (None: all), and the files without a budget."""
    from sizeup.checks.policy import open_policy
    from sizeup.checks.revision import affected

    with TemporaryDirectory(prefix="sizeup-") as copies:
        return affected(open_policy(path if isinstance(path, str) else Path(path), Path(copies))[0], changed)


def _target(budgets: Budgets, budget: Budget) -> Target | None:
    """The target of a budget; a device file is in the folder of the budget file."""
    refuse_language_model(None, budget.target, LLM_COMMAND, shlex.quote)
    file, rest = budget.device_file
    return target_of(f"{budgets.setting(file)}{rest}" if file else budget.target)


def _precision(budgets: Budgets, budget: Budget) -> str | None:
    """The precision of a budget; a precision map is in the folder of the budget file."""
    return str(budgets.setting(budget.precision)) if budget.precision in budget.files else budget.precision


@dataclass(frozen=True)
class _Gate:
    """Checks models against budgets and collects the amounts of new baselines."""

    budgets: Budgets
    revision: Revision | None
    updates: bool
    remedies: bool
    run: bool
    policy: Policy
    _files: dict[Path, Baselines | BudgetError] = field(default_factory=dict)
    _measured: dict[Path, dict[Key, Line]] = field(default_factory=dict)
    _renames: dict[Path, tuple[set[str], dict[str, str]]] = field(default_factory=dict)
    _alike: dict[tuple[Path, frozenset[str]], dict[tuple[Any, ...], Key]] = field(default_factory=dict)

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
        source = Model(model, None, None, first.bind or None, _precision(self.budgets, first))
        limits = first.limits
        target = _target(self.budgets, first)
        subject = Subject(_needs(source), target, int_limit(limits, "ram"), int_limit(limits, "flash"))
        before = None if self.revision is None else self.policy.before(source, subject)
        specs = [
            LimitSpec(
                budget.limits,
                budget.growth,
                budget.layers,
                (before or self._baseline(source, budget, subject)) if budget.growth else None,
                budget.name,
                budget.expected,
                budget.new,
            )
            for budget in budgets
        ]
        names = tuple(budget.name for budget in budgets)
        strict = any(budget.strict for budget in budgets)
        origin = source.origin(_budget_options(budgets)) if self.remedies else None
        check = build_check(
            source, subject, specs, origin, before, SECONDS, strict=strict, run=self.run, budgets=names
        )
        commit = "" if self.revision is None else self.revision.commit
        return replace(check, update_command=self.command, base_commit=commit)

    def _baseline(self, model: Model, budget: Budget, subject: Subject) -> Reference:
        """The baseline of a model in a budget: the stored one, or the current amounts if it is updated."""
        from sizeup.api.policy import settings_digest
        from sizeup.checks import Reference
        from sizeup.checks.baselines import Key, Line
        from sizeup.checks.evaluate import can_be_known, measured

        path = self.budgets.setting(budget.baseline)
        target = "" if subject.target is None else subject.target.name
        bind = tuple(sorted(budget.bind.items()))
        key = Key(self.budgets.key_of(model.argument), target, budget.precision or "", bind)
        baselines = self._read(path)
        if self.updates:
            amounts = measured(subject, budget.growth)
            new = self._measured.setdefault(path, {}).get(key, Line({}))
            # Amounts without one definite value are not stored: the digest shows that they have not changed.
            missing = can_be_known(subject, budget.growth) - amounts.keys()
            digest = new.digest or (settings_digest(model, subject) if missing else "")
            self._measured[path][key] = Line({**new.amounts, **amounts}, digest)
            return Reference(budget.baseline, amounts, is_unchanged=True)
        line, old = baselines.lines.get(key), ""
        if line is None:
            line, old = self._renamed_line(baselines, key, measured(subject, budget.growth))
        if line is None:
            reason = f"not in {budget.baseline}; to add it: {self.command}"
            return Reference(budget.baseline, None, reason)
        is_unchanged = bool(line.digest) and line.digest == settings_digest(model, subject)
        return Reference(budget.baseline, line.amounts, is_unchanged=is_unchanged, renamed_from=old)

    def _renamed_line(
        self, baselines: Baselines, key: Key, amounts: Mapping[str, float]
    ) -> tuple[Line | None, str]:
        """The line of the model that one was renamed from, by its name or by equal amounts."""
        gone, renames = self._gone_lines(baselines)
        if key.model in renames:
            old = renames[key.model]
            return baselines.lines.get(key._replace(model=old)), old
        place = baselines.path, frozenset(amounts)
        if place not in self._alike:
            lines = ((other, line.amounts) for other, line in baselines.lines.items() if other.model in gone)
            self._alike[place] = {
                (other[1:], tuple(known.get(name) for name in sorted(amounts))): other
                for other, known in lines
            }
        other = self._alike[place].get((key[1:], tuple(amounts[name] for name in sorted(amounts))))
        return (None, "") if other is None or not amounts else (baselines.lines[other], other.model)

    def _gone_lines(self, baselines: Baselines) -> tuple[set[str], dict[str, str]]:
        """The models of lines without a file that no new model has a name like, and predecessors by name."""
        from sizeup.checks.renames import pairs

        if baselines.path not in self._renames:
            known = {key.model for key in baselines.lines}
            gone = {model for model in known if not self._exists(model)}
            new = (
                {self.budgets.key_of(model) for model in self.budgets.models()[0]} - known if gone else set()
            )
            renames = pairs(dict.fromkeys(gone, ()), dict.fromkeys(new, ()))
            self._renames[baselines.path] = gone - set(renames.values()), renames
        return self._renames[baselines.path]

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
        from sizeup.checks.baselines import check_text, file_text, updated
        from sizeup.files import write_text

        updates = []
        for path, measured in self._measured.items():
            after, update = updated(self._read(path), measured, self._exists)
            write_text(
                path,
                [file_text(after)],
                make_folder=True,
                inside=self.budgets.folder,
                check=partial(check_text, after),
            )
            updates.append(update)
        return tuple(updates)

    def _exists(self, model: str) -> bool:
        from sizeup.formats.names import looks_like_code

        return looks_like_code(model) or exists(self.budgets.folder / model)


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
