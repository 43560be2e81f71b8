"""Whether models fit a target or keep to limits, and what would make them."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sizeup import cost, units
from sizeup.api.analyze import check_precision, target_of
from sizeup.api.models import Source, load
from sizeup.errors import LfsPointer, SizeupError
from sizeup.formats import Inputs

if TYPE_CHECKING:
    from sizeup.checks import LimitSpec, Needs, Origin, Reference, Subject
    from sizeup.checks.revision import Revision
    from sizeup.graph import Graph, Shape
    from sizeup.mixed_precision.mixing import Wish
    from sizeup.results.check import Check
    from sizeup.targets import Target

SECONDS = 5.0
"""For each search of a remedy."""
Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of models done, their total, and the next model."""


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
    time_limit: float = SECONDS,
) -> Check:
    """Whether a model fits: RAM and flash of the target, and whatever else is limited.

    Limits are texts ("64 KiB", "20 ms", "3 mJ", "20 M"), or bytes, seconds, joules and counts; `ram` and
    `flash` are what the target really leaves for the model. Times are judged by the range that nine of ten
    measurements fall into, or with `expected` by the time that is expected. `strict` leaves the answer open
    where an operator is not counted. Where it does not fit, or hardly does, `remedies` are carried out, each
    search for at most `time_limit` seconds.
    """
    limits = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    limits |= {"macs": macs, "params": params}
    given = {name: value for name, value in limits.items() if value is not None}
    flags = (expected, strict, remedies, time_limit)
    options = CheckOptions(target, inputs, kwargs, bind, precision, given, *flags)
    return _Checker(options).check(source)


@dataclass(frozen=True)
class CheckOptions:
    """What models are checked against and how they are read: the arguments of `check`."""

    target: str | Target | None = None
    inputs: Inputs = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    precision: Wish = None
    limits: Mapping[str, Any] = field(default_factory=dict)  # by name; texts or numbers
    expected: bool = False
    strict: bool = False
    remedies: bool = True
    time_limit: float = SECONDS


def check_models(
    models: Sequence[str],
    options: CheckOptions,
    *,
    against: str | None = None,
    progress: Progress | None = None,
) -> tuple[Check, ...]:
    """Check several models: one that cannot be judged becomes a check with an `error`.

    Raises SizeupError for options that no model could be checked with. With `against`, every model file is
    compared with the one of that git revision.
    """
    from sizeup.checks.revision import open_revision

    checker = _Checker(options)
    revision = None if against is None else open_revision(against, Path.cwd())

    def judge(model: str) -> Iterator[Check]:
        yield checker.check(model, revision)

    return tuple(each_judged(models, judge, revision, progress))


def each_judged(
    models: Sequence[str],
    judge: Callable[[str], Iterable[Check]],
    revision: Revision | None,
    progress: Progress | None,
) -> Iterator[Check]:
    """The checks of all models, whatever happens to one of them."""
    for number, model in enumerate(models):
        if progress is not None:
            progress(number, len(models), model)
        try:
            if revision is not None and not Path(model).exists() and revision.has(model):
                yield removed(model, revision)
            else:
                yield from judge(model)
        except (SizeupError, OSError) as error:
            yield failed(model, error)


def failed(model: str, error: Exception) -> Check:
    """A model, or a pattern of models, that could not be judged."""
    from sizeup.results.check import Check

    is_file = os.path.isfile(model)  # noqa: PTH113 - Path.is_file raises for a name that is too long
    return Check(model, Path(model).name, is_file=is_file, error=str(error))


def removed(model: str, revision: Revision) -> Check:
    """A model that is there at a revision and not in the work tree."""
    from sizeup.results.check import Check

    return Check(model, Path(model).name, is_file=True, against=revision.name, is_removed=True)


class _Checker:
    """The check of any model by options that make sense; raises SizeupError for others."""

    def __init__(self, options: CheckOptions) -> None:
        from sizeup.checks import MEASURES

        self._options = options
        self._limits = _limits(options.limits)
        self._target = target_of(options.target)
        if self._target is None and not self._limits:
            raise SizeupError("a check needs a target (-d), a limit such as --arena 64KiB, or --budget FILE")
        for name in self._limits:
            if MEASURES[name].needs_target and self._target is None:
                raise SizeupError(f"a limit of the {name} needs a target (-d)")
        check_precision(options.precision)

    def check(self, source: Source, revision: Revision | None = None) -> Check:
        from sizeup.checks import LimitSpec, Subject

        options, limits = self._options, self._limits
        model = Model(source, options.inputs, options.kwargs, options.bind, options.precision)
        subject = Subject(model.needs(), self._target, whole(limits, "ram"), whole(limits, "flash"))
        wanted = LimitSpec(limits, expected=options.expected)
        typed = {name: _typed(value) for name, value in options.limits.items()}
        origin = model.origin(command_options(typed, options.expected)) if options.remedies else None
        reference = None if revision is None else at_revision(model, subject, revision)
        return checked(model, subject, [wanted], origin, reference, options.time_limit, strict=options.strict)


def at_revision(model: Model, subject: Subject, revision: Revision) -> Reference:
    """The amounts of a model's file at a git revision, on the same target and at the same precision."""
    from sizeup.checks import Reference
    from sizeup.checks.judging import measured

    new = functools.partial(Reference, revision.name, is_revision=True)
    if model.file is None:
        return new(new_because="only files are compared with a git revision")
    with revision.checked_out(model.typed) as copy:
        if copy is None:
            return new(new_because=f"not in {revision.name}")
        try:
            before = replace(subject, needs=replace(model, source=copy).needs())
            return new(measured(before))
        except LfsPointer:
            raise
        except SizeupError as error:
            return new(new_because=f"not readable at {revision.name} ({error})")


def checked(
    model: Model,
    subject: Subject,
    wanted: Sequence[LimitSpec],
    origin: Origin | None,
    reference: Reference | None,
    time_limit: float,
    *,
    strict: bool,
    budgets: tuple[str, ...] = (),
) -> Check:
    """The check of a model that was read; `reference` is what it is compared with as a whole."""
    from sizeup.checks import Case, Limit, judge
    from sizeup.checks import remedies as helping
    from sizeup.checks.judging import changes
    from sizeup.results.check import Check

    def judged(changed: Subject) -> tuple[Limit, ...]:
        first, *others = (judge(changed, each) for each in wanted)
        # The room of the target is the same for all budgets.
        rooms = 0 if changed.room is None else len(changed.room.spaces)
        return (*first, *(limit for limits in others for limit in limits[rooms:]))

    limits = judged(subject)
    helps = () if origin is None else helping(Case(subject, limits, origin, judged), time_limit)
    references = [each.reference for each in wanted if each.reference] + ([reference] if reference else [])
    is_compared = reference is not None and reference.amounts is not None
    return Check(
        model.typed,
        subject.graph.name or Path(model.typed).name,
        subject.graph.format,
        None if subject.target is None else subject.target.name,
        limits,
        helps,
        budgets,
        is_file=model.file is not None,
        strict=strict,
        sought=origin is not None,
        refused=None if subject.room is None else subject.room.refused,
        unknown_ops=len(subject.cost.reasons),
        other_entries=subject.graph.entries,
        peak_tensors=subject.held,
        new="; ".join(dict.fromkeys(each.new_because for each in references if each.new_because)),
        against="" if reference is None else reference.source,
        changes=tuple(changes(subject, reference)) if reference is not None and is_compared else (),
    )


@dataclass(frozen=True)
class Model:
    """A model as it was given, and every way to read it again."""

    source: Source
    inputs: Inputs
    kwargs: Mapping[str, Any] | None
    bind: Mapping[str, int] | None
    precision: Wish

    @property
    def typed(self) -> str:
        """How it was named."""
        return os.fspath(self.source) if isinstance(self.source, str | os.PathLike) else "MODEL"

    @property
    def file(self) -> Path | None:
        """The file that it is in, if it is one."""
        is_path = isinstance(self.source, str | os.PathLike) and Path(self.source).is_file()
        return Path(self.source) if is_path else None

    def load(self, source: Source = None, inputs: Inputs = None) -> Graph:
        """Read it, another file that was made of it, or it at other inputs."""
        return load(
            self.source if source is None else source,
            inputs=inputs or self.inputs,
            kwargs=self.kwargs,
            bind=self.bind,
        )

    def needs(self) -> Needs:
        """What it needs at the precision that was asked for."""
        from sizeup.checks import Needs
        from sizeup.mixed_precision.mixing import as_wished, is_mapping

        check_precision(self.precision)
        given = self.load()
        graph, asked = as_wished(given, self.precision)
        size = None if self.file is None else self.file.stat().st_size
        before = cost.count(given) if is_mapping(self.precision) else None
        return Needs(graph, cost.count(graph), asked, size, before)

    def origin(self, limits: str) -> Origin:
        """Where it is from, for remedies that change it."""
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
    from sizeup.checks.limits import QUANTITIES
    from sizeup.checks.measures import MEASURES
    from sizeup.targets import quantities

    found = {name: quantities.asked(value, QUANTITIES[MEASURES[name].unit]) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def whole(limits: Mapping[str, float], name: str) -> int | None:
    """A limit of so many bytes, if there is one."""
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


def command_options(limits: Mapping[str, str], expected: bool) -> str:
    """Limits as the command line takes them."""
    texts = [f"--{name} {value}" for name, value in limits.items()]
    return " ".join([*texts, *(["--expected"] if expected else [])])
