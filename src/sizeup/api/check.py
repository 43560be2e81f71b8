"""Checks whether models fit a target or stay within limits, and remedies if they do not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost
from sizeup.api.analyze import check_precision, target_of
from sizeup.api.check_each import Progress, at_revision, check_each, device_edits, doubted
from sizeup.api.check_options import (
    boards_command,
    command_options,
    input_options,
    is_shape,
    option_value,
    precision_option,
)
from sizeup.api.keywords import with_keyword_hints
from sizeup.api.limits import NO_LIMITS, WorkLimits
from sizeup.api.models import Source, counted, load, load_at_precision
from sizeup.api.npu import unchanged_file
from sizeup.backends import backend_of
from sizeup.errors import SizeupError
from sizeup.files import is_file
from sizeup.formats import Inputs
from sizeup.formats.names import is_language_model
from sizeup.results.report import Report
from sizeup.targets.cluster_names import is_cluster

if TYPE_CHECKING:
    from sizeup.checks import Case, LimitSpec, Needs, Origin, Reference, Remedy, Subject
    from sizeup.checks.revision import Revision
    from sizeup.graph import Graph, Shape
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.results.check import Check
    from sizeup.targets import Target

SECONDS = 5.0
"""Time limit per search for a remedy."""
LLM_COMMAND = "type: sizeup llm {} -d {}"
"""What checks a language model on the command line."""


@with_keyword_hints
def check(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: PrecisionSpec = None,
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
    run: bool | None = None,
) -> Check:
    """Check whether a model fits the RAM and flash of a target and all given limits.

    Limits are texts ("64 KiB", "20 ms", "3 mJ", "20 M"), or bytes, seconds, joules and counts; `ram` and
    `flash` are the memory available to the model. Latency and energy are compared by their 90 % prediction
    interval, with `expected` by the expected value. With `strict` the verdict is undetermined if an operator
    is not counted. If the model does not or only just fits, `remedies` are searched for, each for at most
    `time_limit` seconds.

    If the target's runtime is TFLite Micro, one inference of a .tflite file runs on the host, in a worker
    with limits of time and memory: a file that the interpreter refuses does not fit. By default, it runs if
    tflite-micro is installed, no limit is exceeded and `remedies` is set; `run` always or never runs it.

    `source` may be a report of `analyze`: nothing is loaded again, its precision and target apply unless
    others are given, and remedies that need the model (a smaller input, a rewritten file) are left out.

    Language models are checked by `llm`: `llm(config, target="8xh100/vllm", tpot="30ms").check`.
    """
    refuse_language_model(source, target, "call: sizeup.llm({}, target={}).check", repr)
    if isinstance(source, Report) and target is None:
        target = source.target
    limits = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    limits |= {"macs": macs, "params": params}
    set_limits = {name: value for name, value in limits.items() if value is not None}
    flags = (expected, strict, remedies, time_limit, run)
    options = CheckOptions(target, inputs, kwargs, bind, precision, set_limits, *flags)
    return _Checker(options).check(source)


def refuse_language_model(source: object, target: object, instead: str, quote: Callable[[str], str]) -> None:
    """Raise SizeupError for a language model or a cluster, with what to type `instead` for both."""
    model = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    if model and is_language_model(model):
        what = f"{model}: a language model is checked by llm"
    elif isinstance(target, str) and is_cluster(target):
        what = f"{target}: only language models are served on a cluster"
    else:
        return
    named = target if isinstance(target, str) else "TARGET"
    raise SizeupError(f"{what}; {instead.format(quote(model or 'CONFIG'), quote(named))}")


@dataclass(frozen=True)
class CheckOptions:
    """The arguments of `check`: how models are read and what they are checked against."""

    target: str | Target | None = None
    inputs: Inputs = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    precision: PrecisionSpec = None
    limits: Mapping[str, Any] = field(default_factory=dict)  # by name; texts or numbers
    expected: bool = False
    strict: bool = False
    remedies: bool = True
    time_limit: float = SECONDS
    run: bool | None = None  # one inference on the host; None: if possible


def check_models(
    models: Sequence[str],
    options: CheckOptions,
    *,
    against: str | None = None,
    progress: Progress | None = None,
    work_limits: WorkLimits = NO_LIMITS,
) -> tuple[Check, ...]:
    """Check several models: one that cannot be checked becomes a check with an `error`.

    Raises SizeupError if the options are invalid. With `against`, every model file is compared with that of
    the git revision. With `work_limits`, each model is read in a worker that is ended at the limit.
    """
    checker = _Checker(options)
    revision: Revision | None = None
    if against is not None:
        from sizeup.checks.revision import open_revision

        revision = open_revision(against)

    def check_one(model: str) -> Iterator[Check]:
        yield checker.check(model, revision)

    readable = settings_files(revision, options.precision)
    checks = check_each(models, check_one, revision, progress, work_limits, readable)
    return (*doubted(checks, revision), *(() if revision is None else device_edits(revision)))


def settings_files(revision: Revision | None, *precisions: PrecisionSpec) -> list[Path]:
    """What a check reads besides the model: its git repository, precision maps, and files of devices."""
    from sizeup.targets import search_path

    maps = [Path(precision).absolute() for precision in precisions if isinstance(precision, str)]
    folders = [*search_path(), *filter(Path.is_file, maps)]
    if revision is not None:
        folders += [revision.top, revision.repository.folder, revision.repository.shared_folder]
    return folders


class _Checker:
    """Checks models with the same options; raises SizeupError if the options are invalid."""

    def __init__(self, options: CheckOptions) -> None:
        from sizeup.checks import MEASURES

        self._options = options
        self._limits = _parse_limits(options.limits)
        self._target = target_of(options.target)
        if self._target is None and not self._limits:
            raise SizeupError(
                "nothing to check: give a target (-d TARGET), a limit such as --arena 64KiB, or --budget FILE"
            )
        for name in self._limits:
            if MEASURES[name].needs_target and self._target is None:
                raise SizeupError(f"--{name} needs a target: add -d TARGET")
        check_precision(options.precision)
        if options.run and self._target is not None:
            backend_of(self._target).require_interpreter()

    def check(self, source: Source, revision: Revision | None = None) -> Check:
        from sizeup.checks import LimitSpec, Subject

        options, limits = self._options, self._limits
        model = Model(source, options.inputs, options.kwargs, options.bind, options.precision)
        subject = Subject(model.needs(), self._target, int_limit(limits, "ram"), int_limit(limits, "flash"))
        spec = LimitSpec(limits, expected=options.expected)
        texts = {name: option_value(name, value) for name, value in options.limits.items()}
        origin = model.origin(command_options(texts, options.expected)) if options.remedies else None
        reference = None
        if revision is not None:
            reference = at_revision(model.argument, subject, model.needs_of, revision)
        check = build_check(
            model,
            subject,
            [spec],
            origin,
            reference,
            options.time_limit,
            strict=options.strict,
            # Without remedies and without `run`, files are only read: no native code runs on them.
            run=False if options.run is None and not options.remedies else options.run,
        )
        return check if revision is None else replace(check, base_commit=revision.commit)


def build_check(
    model: Model,
    subject: Subject,
    specs: Sequence[LimitSpec],
    origin: Origin | None,
    reference: Reference | None,
    time_limit: float,
    *,
    strict: bool,
    run: bool | None,
    budgets: tuple[str, ...] = (),
) -> Check:
    """The check of a loaded model against all specs; `reference` is the git revision to compare with."""
    from sizeup.checks import Limit, evaluate_limits, verdict
    from sizeup.checks.evaluate import changes
    from sizeup.checks.measures import latency_caveats
    from sizeup.checks.remedy_case import MAX_OPERATORS, Case
    from sizeup.results.check import Check

    def evaluate_all(changed: Subject) -> tuple[Limit, ...]:
        first, *others = (evaluate_limits(changed, spec) for spec in specs)
        # The limits of the target's memories come first and are the same for all specs.
        memories = 0 if changed.memory_fit is None else len(changed.memory_fit.memories)
        return (*first, *(limit for limits in others for limit in limits[memories:]))

    limits, fit = evaluate_all(subject), subject.memory_fit
    unsupported_reason = None if fit is None else fit.unsupported_reason
    caveats = (*(() if fit is None else fit.caveats), *latency_caveats(subject, limits))
    is_over = verdict(limits, unsupported_reason) is False
    file = None if model.is_changed else model.file
    is_unsupported = unsupported_reason is not None
    host_run = subject.host_run(file, run, is_over=is_over, is_unsupported=is_unsupported)
    if host_run is not None:
        caveats += (host_run.caveat,) if host_run.caveat else ()
        unsupported_reason = unsupported_reason or host_run.unsupported_reason
        # No remedy that is known changes what the interpreter refuses.
        origin = None if host_run.unsupported_reason else origin
    if fit is not None and fit.missing_operators and not is_over:
        origin = None  # nor does one add an operator
    graphs = (subject.graph, *(subject.graph.other_graphs or ()))
    searched = origin if sum(len(graph.ops) for graph in graphs) <= MAX_OPERATORS else None
    case = None if searched is None else Case(subject, limits, searched, evaluate_all)
    remedies = _remedies(case, time_limit) if case is not None and case.tight_limits else ()
    is_memory_over = any(limit.fits is False and limit.unit == "bytes" for limit in limits)
    if searched is not None and is_memory_over and not remedies:
        from sizeup.memory.packing import INSTALL_HINT, is_solver_installed

        caveats += () if is_solver_installed() else (INSTALL_HINT,)
    references = [spec.reference for spec in specs if spec.reference] + ([reference] if reference else [])
    is_compared = reference is not None and reference.amounts is not None
    return Check(
        model.argument,
        subject.graph.name or Path(model.argument).name,
        subject.graph.format,
        None if subject.target is None else subject.target.name,
        limits,
        remedies,
        budgets,
        is_file=model.file is not None,
        strict=strict,
        has_searched_remedies=searched is not None,
        unsupported_reason=unsupported_reason,
        caveats=tuple(dict.fromkeys(caveats)),
        host_run=host_run,
        npu=None if fit is None else fit.npu,
        unknown_ops=len(subject.cost.reasons),
        other_entries=subject.graph.uncounted_signatures,
        peak_tensors=subject.peak_tensors,
        no_baseline_reason="; ".join(
            dict.fromkeys(before.new_reason for before in references if before.new_reason)
        ),
        base_revision="" if reference is None else reference.source,
        renamed_from=next((before.renamed_from for before in references if before.renamed_from), ""),
        changes=tuple(changes(subject, reference)) if reference is not None and is_compared else (),
        boards_command=boards_command(
            subject, limits, remedies, origin, precision_option(model.source, model.precision)
        ),
    )


def _remedies(case: Case, time_limit: float) -> tuple[Remedy, ...]:
    from sizeup.checks.remedy_search import remedies

    return remedies(case, time_limit)


@dataclass(frozen=True)
class Model:
    """A model source, and how to load it."""

    source: Source
    inputs: Inputs
    kwargs: Mapping[str, Any] | None
    bind: Mapping[str, int] | None
    precision: PrecisionSpec

    @property
    def argument(self) -> str:
        """Its name or path as the user typed it."""
        named = self._named
        return os.fspath(named) if isinstance(named, str | os.PathLike) else "MODEL"

    @property
    def file(self) -> Path | None:
        """Its file; None if the source is not a file."""
        named = self._named
        is_path = isinstance(named, str | os.PathLike) and is_file(named)
        return Path(named) if is_path else None

    @property
    def is_changed(self) -> bool:
        """Whether a run of its file would be that of another model: at other inputs, or since a report."""
        return isinstance(self.source, Report) or any(
            setting is not None for setting in (self.inputs, self.kwargs, self.bind)
        )

    @property
    def _named(self) -> Source:
        """The source; for a report the file that it was made from."""
        return self.source.source if isinstance(self.source, Report) else self.source

    def load(self, source: Source = None, inputs: Inputs = None) -> Graph:
        """Load the model, or a rewritten file instead of it, or the model at other inputs."""
        return load(
            self.source if source is None else source,
            inputs=inputs or self.inputs,
            kwargs=self.kwargs,
            bind=self.bind,
        )

    def needs(self) -> Needs:
        """Its needs at the precision."""
        from sizeup.checks import Needs

        check_precision(self.precision)
        settings = (self.inputs, self.kwargs, self.bind, self.precision)
        graph, dtype, loaded = load_at_precision(self.source, *settings)
        size = None if self.file is None else self.file.stat().st_size
        before = None if graph is loaded else cost.count(loaded)
        return Needs(graph, counted(self.source, graph), dtype, size, before, unchanged_file(self.source))

    def needs_of(self, file: Path) -> Needs:
        """The needs of another file with the same settings."""
        return replace(self, source=file).needs()

    def origin(self, limits: str) -> Origin:
        """The origin, from which remedies build changed models and commands; `limits` are options."""
        from sizeup.checks import Origin

        binding = " ".join(f"--bind {shlex.quote(f'{k}={v}')}" for k, v in (self.bind or {}).items())
        precision = precision_option(self.source, self.precision)
        if precision:
            limits = f"{limits} --precision {shlex.quote(precision)}".strip()
        shapes = tuple(input_options(self.inputs, self.kwargs))
        typed, load_at = shlex.quote(self.argument), self._load_at()
        file = None if isinstance(self.source, Report) else self.file
        return Origin(typed, file, self.load, load_at, self.bind, binding, limits, shapes)

    def _load_at(self) -> Any:
        """A function that loads the model at a shape of its first input; None if shapes are fixed."""
        if isinstance(self.source, Report) or (self.file and self.file.suffix.lower() == ".tflite"):
            return None

        def load_at(shape: Shape) -> Graph:
            graph, is_named = self.load(), isinstance(self.inputs, Mapping)
            if graph.format != "onnx" and not is_named:
                others = () if is_shape(self.inputs) else list(self.inputs or ())[1:]
                return self.load(inputs=(shape, *others))
            first = graph.tensors[graph.inputs[0]].name
            return self.load(inputs={**(dict(self.inputs or ()) if is_named else {}), first: shape})

        return load_at


def _parse_limits(limits: Mapping[str, Any]) -> dict[str, float]:
    from sizeup.checks.limits import QUANTITIES, parse_limit
    from sizeup.checks.measures import MEASURES

    amounts = {
        name: parse_limit(value, QUANTITIES[MEASURES[name].unit], f"--{name}")
        for name, value in limits.items()
    }
    return {name: amount for name, amount in amounts.items() if amount is not None}


def int_limit(limits: Mapping[str, float], name: str) -> int | None:
    """A limit in whole bytes; None if it is not set."""
    return int(limits[name]) if name in limits else None
