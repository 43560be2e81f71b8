"""Whether a model fits a target or keeps to budgets, and what would make it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost, units
from sizeup.api.models import Source, load
from sizeup.api.reports import check_precision, target_of
from sizeup.errors import SizeupError
from sizeup.formats import Inputs

if TYPE_CHECKING:
    from sizeup.checks import Budget, Budgets, Origin, Subject, Wanted
    from sizeup.graph import Graph, Shape
    from sizeup.precision.mixing import Wish
    from sizeup.report.checked import Check
    from sizeup.targets import Target

_SECONDS = 5.0


def check(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    ram: int | str | None = None,
    flash: int | str | None = None,
    arena: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    macs: int | str | None = None,
    params: int | str | None = None,
    expected: bool = False,
    strict: bool = False,
    remedies: bool = True,
    time_limit: float = _SECONDS,
) -> Check:
    """Whether a model fits: RAM and flash of the target, and whatever else is limited.

    Limits are texts ("64 KiB", "20 ms", "3 mJ", "20 M"), or bytes, seconds, joules and counts; `ram` and
    `flash` are what the target really leaves for the model. Times are judged by the range that nine of ten
    measurements fall into, or with `expected` by the time that is expected. `strict` leaves the answer open
    where an operator is not counted. Where it does not fit, or hardly does, `remedies` are carried out, each
    search for at most `time_limit` seconds.
    """
    from sizeup.checks import Subject, Wanted

    asked = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    asked |= {"macs": macs, "params": params}
    given = {name: value for name, value in asked.items() if value is not None}
    limits = _limits(given)
    named = target_of(target)
    if named is None and not limits:
        raise SizeupError("a check needs a target (-d), a limit such as --arena 64KiB, or --budget FILE")
    model = _Model(source, inputs, kwargs, bind, precision)
    subject = Subject(model.needs(), named, _whole(limits, "ram"), _whole(limits, "flash"))
    wanted = Wanted(limits, expected=expected)
    origin = model.origin(_options({name: _typed(value) for name, value in given.items()}, expected))
    return _checked(model, subject, [wanted], origin if remedies else None, time_limit, strict=strict)


def check_budgets(
    path: str | os.PathLike[str], models: Sequence[str] = (), *, remedies: bool = False
) -> tuple[Check, ...]:
    """Every model that a file of budgets names, or only these, each against all budgets that name it.

    Raises BudgetError where the file says something that nobody understands, or names no file.
    """
    from sizeup.checks import read_budgets

    budgets = read_budgets(Path(path))
    budgets.check_patterns(models)
    asked = [str(each) for each in models] or budgets.models()
    return tuple(found for model in asked for found in _by_budgets(model, budgets, remedies))


def affected_models(path: str | os.PathLike[str], changed: Sequence[str]) -> tuple[list[str], list[str]]:
    """The models to check after these files changed, and those of the files that no budget names."""
    from sizeup.checks import read_budgets
    from sizeup.checks.changed import affected

    return affected(read_budgets(Path(path)), changed)


def _by_budgets(model: str, budgets: Budgets, remedies: bool) -> Iterator[Check]:
    """One check for each target and precision that budgets ask for; budgets of the same join."""
    by_case: dict[tuple[object, ...], list[Budget]] = {}
    for budget in budgets.of(model):
        limits = budget.limits
        case = (budget.target, budget.precision, tuple(sorted(budget.bind.items())))
        by_case.setdefault((*case, limits.get("ram"), limits.get("flash")), []).append(budget)
    for found in by_case.values():
        yield _by_budget(model, found, budgets, remedies)


def _by_budget(model: str, found: Sequence[Budget], budgets: Budgets, remedies: bool) -> Check:
    from sizeup.checks import Subject, Wanted, read_baseline

    first = found[0]
    read = _Model(model, None, None, first.bind or None, first.precision)
    limits = first.limits
    target = target_of(first.target)
    subject = Subject(read.needs(), target, _whole(limits, "ram"), _whole(limits, "flash"))
    wanted = []
    for budget in found:
        kept: Mapping[str, Any] = {}
        if budget.baseline:
            name = budget.baseline.replace("{stem}", Path(model).stem)
            kept = read_baseline(budgets.folder / name, model)
        wanted.append(Wanted(budget.limits, budget.growth, budget.layers, kept, budget.name, budget.expected))
    names = tuple(budget.name for budget in found)
    strict = any(budget.strict for budget in found)
    origin = read.origin(_budget_options(found)) if remedies else None
    return _checked(read, subject, wanted, origin, _SECONDS, strict=strict, budgets=names)


def _checked(
    model: _Model,
    subject: Subject,
    wanted: Sequence[Wanted],
    origin: Origin | None,
    time_limit: float,
    *,
    strict: bool,
    budgets: tuple[str, ...] = (),
) -> Check:
    from sizeup.checks import Case, Limit, judge
    from sizeup.checks import remedies as helping
    from sizeup.report.checked import Check

    def judged(changed: Subject) -> tuple[Limit, ...]:
        first, *others = (judge(changed, each) for each in wanted)
        # The room of the target is the same for all budgets.
        rooms = 0 if changed.room is None else len(changed.room.spaces)
        return (*first, *(limit for limits in others for limit in limits[rooms:]))

    limits = judged(subject)
    helps = () if origin is None else helping(Case(subject, limits, origin, judged), time_limit)
    is_file, sought = model.file is not None, origin is not None
    return Check(model.typed, subject, limits, helps, budgets, is_file, strict, sought)


@dataclass(frozen=True)
class _Model:
    """A model as it was given, and every way to read it again."""

    source: Source
    inputs: Inputs
    kwargs: Mapping[str, Any] | None
    bind: Mapping[str, int] | None
    precision: Wish

    @property
    def typed(self) -> str:
        return os.fspath(self.source) if isinstance(self.source, str | os.PathLike) else "MODEL"

    @property
    def file(self) -> Path | None:
        is_path = isinstance(self.source, str | os.PathLike) and Path(self.source).is_file()
        return Path(self.source) if is_path else None

    def load(self, source: Source = None, inputs: Inputs = None) -> Graph:
        return load(
            self.source if source is None else source,
            inputs=inputs or self.inputs,
            kwargs=self.kwargs,
            bind=self.bind,
        )

    def needs(self) -> Any:
        """What it needs at the precision that was asked for."""
        from sizeup.checks import Needs
        from sizeup.precision.mixing import as_wished, is_mapping

        check_precision(self.precision)
        given = self.load()
        graph, asked = as_wished(given, self.precision)
        size = None if self.file is None else self.file.stat().st_size
        before = cost.count(given) if is_mapping(self.precision) else None
        return Needs(graph, cost.count(graph), asked, size, before)

    def origin(self, limits: str) -> Origin:
        from sizeup.checks import Origin

        binding = " ".join(f"--bind {shlex.quote(f'{k}={v}')}" for k, v in (self.bind or {}).items())
        wish = self.precision if isinstance(self.precision, str | os.PathLike) else "mixed.json"
        if self.precision is not None:
            limits = f"{limits} --precision {shlex.quote(os.fspath(wish))}".strip()
        shapes = tuple(_shapes(self.inputs, self.kwargs))
        typed, at = shlex.quote(self.typed), self._at()
        return Origin(typed, self.file, self.load, at, self.bind, binding, limits, shapes)

    def _at(self) -> Any:
        """How to read it at another shape of its first input; None where that cannot be asked for."""
        if self.file is not None and self.file.suffix.lower() == ".tflite":
            return None

        def load_at(shape: Shape) -> Graph:
            usual, named = self.load(), isinstance(self.inputs, Mapping)
            if usual.format != "onnx" and not named:
                others = () if _is_shape(self.inputs) else list(self.inputs or ())[1:]
                return self.load(inputs=(shape, *others))
            first = usual.tensors[usual.inputs[0]].name
            return self.load(inputs={**(dict(self.inputs or ()) if named else {}), first: shape})

        return load_at


def _limits(given: Mapping[str, Any]) -> dict[str, float]:
    from sizeup.checks.amounts import QUANTITIES
    from sizeup.checks.measures import MEASURES
    from sizeup.targets import quantities

    found = {name: quantities.asked(value, QUANTITIES[MEASURES[name].unit]) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def _whole(limits: Mapping[str, float], name: str) -> int | None:
    return int(limits[name]) if name in limits else None


def _typed(value: Any) -> str:
    return shlex.quote(str(value).replace(" ", ""))


def _shapes(inputs: Inputs, kwargs: Mapping[str, Any] | None) -> Iterator[str]:
    """Inputs as the command line takes them; values that are more than a shape have no such text."""
    if isinstance(inputs, Mapping):
        named = {**inputs, **(kwargs or {})}
    else:
        yield from map(_shape, (inputs,) if _is_shape(inputs) else inputs or ())
        named = dict(kwargs or {})
    yield from (f"{name}:{_shape(value)}" for name, value in named.items())


def _shape(value: Any) -> str:
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], str):
        return f"{_shape(value[0])}:{value[1]}"
    return units.shape(tuple(getattr(value, "shape", value)))


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(type(size) is int for size in value)


def _options(limits: Mapping[str, str], expected: bool) -> str:
    texts = [f"--{name} {value}" for name, value in limits.items()]
    return " ".join([*texts, *(["--expected"] if expected else [])])


def _budget_options(budgets: Sequence[Budget]) -> str:
    """The strictest of their limits, those that the command line has an option for."""
    from sizeup.checks.measures import MEASURES

    texts = {}
    for name in ("ram", "flash", "arena", "latency", "energy", "macs", "params"):
        amounts = [budget.limits[name] for budget in budgets if name in budget.limits]
        if amounts:
            unit = {"seconds": "s", "joules": "J"}.get(MEASURES[name].unit, "")
            texts[name] = f"{min(amounts):.12f}".rstrip("0") + f"0{unit}" if unit else str(int(min(amounts)))
    return _options(texts, any(budget.expected for budget in budgets))
