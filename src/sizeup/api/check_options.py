"""The settings of a check as command-line options, for the commands of remedies."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup import dtypes, units
from sizeup.api.models import Source
from sizeup.dtypes import precision_name
from sizeup.formats import Inputs
from sizeup.results.report import Report

if TYPE_CHECKING:
    from sizeup.checks import Limit, Origin, Remedy, Subject
    from sizeup.mixed_precision.precision_map import PrecisionSpec


def precision_option(source: Source, precision: PrecisionSpec) -> str:
    """The value of --precision for a precision, or for that of a report; empty if there is none."""
    if precision is None and isinstance(source, Report):
        precision = source.precision if source.original_cost is None else {}
    if precision is None or isinstance(precision, str | os.PathLike):
        return os.fspath(precision or "")
    return "mixed.json" if isinstance(precision, Mapping) else precision_name(dtypes.precision(precision))


def option_value(name: str, value: Any) -> str:
    """A limit as the option takes it; numbers of seconds, joules and few bytes get their unit."""
    from sizeup.checks.measures import MEASURES
    from sizeup.targets.quantities import SIZE

    unit = {"seconds": "s", "joules": "J"}.get(MEASURES[name].unit, "")
    if unit and not isinstance(value, str):
        return f"{value:.12f}".rstrip("0").rstrip(".") + unit
    if MEASURES[name].unit == "bytes" and isinstance(value, int) and value < SIZE.needs_unit_below:
        return f"{value}B"
    return shlex.quote(str(value).replace(" ", ""))


def input_options(inputs: Inputs, kwargs: Mapping[str, Any] | None) -> Iterator[str]:
    """The values of --input for these inputs."""
    if isinstance(inputs, Mapping):
        by_name = {**inputs, **(kwargs or {})}
    else:
        yield from map(_shape, (inputs,) if is_shape(inputs) else inputs or ())
        by_name = dict(kwargs or {})
    yield from (f"{name}:{_shape(value)}" for name, value in by_name.items())


def _shape(value: Any) -> str:
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], tuple | list):
        return f"{_shape(value[0])}:{dtypes.dtype_name(value[1])}"
    return units.shape(tuple(getattr(value, "shape", value)))


def is_shape(value: Any) -> bool:
    """Whether inputs are the shape of one input."""
    return isinstance(value, tuple | list) and bool(value) and all(type(size) is int for size in value)


def command_options(limits: Mapping[str, str], expected: bool) -> str:
    """Limits as command-line options."""
    texts = [f"--{name} {value}" for name, value in limits.items()]
    return " ".join([*texts, *(["--expected"] if expected else [])])


def boards_command(
    subject: Subject,
    limits: Sequence[Limit],
    remedies: Sequence[Remedy],
    origin: Origin | None,
    precision: str,
) -> str:
    """The command that lists boards for a file too large for a microcontroller; empty if a remedy fits."""
    from sizeup.checks.remedy_case import as_options

    is_over = any(limit.fits is False and limit.name in ("ram", "flash", "arena") for limit in limits)
    if not is_over or any(remedy.fits for remedy in remedies) or origin is None or origin.file is None:
        return ""
    is_map = precision.endswith(".json")  # of one model, which may exist in Python only
    if is_map or subject.target is None or subject.target.device.device_class != "microcontroller":
        return ""
    options = (f"--precision {shlex.quote(precision)}" if precision else "", origin.bind_options)
    parts = ("sizeup devices --for", origin.argument, *options, *as_options(origin.input_options))
    return " ".join(filter(None, parts))
