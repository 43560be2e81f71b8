"""Texts that several renderers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.units import printable, quantity, shorten

if TYPE_CHECKING:
    from sizeup.results.check import Check
    from sizeup.results.parts import Contribution, HostRun, Limit, MemoryFit, MemoryPart
    from sizeup.results.report import Report
    from sizeup.targets import Standing, Target

UNKNOWN = "?"
NOTHING = "-"
NOT_APPLICABLE = "not applicable: the target cannot run or hold the model"
MOST_NAMED = 3
"""Layers, tensors or models that a sentence names."""
_MOST_ENTRIES = 4
_TITLES = {"ram": "RAM", "macs": "MACs", "params": "parameters", "ttft": "TTFT", "tpot": "TPOT"}
_FITS = {True: "fits", False: "does not fit", None: "may or may not fit"}
STANDINGS = {
    "calibrated": "calibrated",
    "instructions": "instructions",
    "vela": "vela",
    "slowdown": "slowdown",
    "data sheet only": "data sheet only (lower bound)",
    "unknown": "unknown",
}
_WITHIN = {
    True: "is within its limits",
    False: "is over its limits",
    None: "may or may not be within its limits",
}


def named(name: str, format: str) -> str:
    """Returns a model's name, followed by its format if known."""
    return printable(f"{name} ({format})" if format else name)


def quantity_title(name: str) -> str:
    """Returns the display name of a quantity, of its growth, or of that of a layer."""
    return " ".join(_TITLES.get(word, word) for word in name.split(" "))


def fit_verdict(
    fits: bool | None, target: str | None = None, shortfalls: Iterable[tuple[str, str, str]] = ()
) -> str:
    """Returns the fit verdict: `does not fit on TARGET: needs 2.00 MiB RAM, has 320 KiB`.

    A shortfall is a resource, the amount needed and the amount available. Without a target the verdict is
    about limits.
    """
    verdict = f"{_FITS[fits]} on {target}" if target else _WITHIN[fits]
    needs = "; ".join(f"needs {need} {resource}, has {available}" for resource, need, available in shortfalls)
    return f"{verdict}: {needs}" if needs else verdict


def standing_text(standing: Standing) -> str:
    """Returns the basis at each precision: `calibrated at int8; slowdown at fp32, int16`."""
    groups = standing.precisions
    return "; ".join(f"{STANDINGS[name]} at {', '.join(dtypes)}" for name, dtypes in groups.items())


def verified_text(verified: str) -> str:
    """Returns whether the data of a device were compared with their source."""
    return f"device data verified on {verified}" if verified else "device data not verified"


def cores_text(target: Target) -> str:
    """Returns the CPU cores that an inference uses: `, all 4 cores`; empty if there is one, or if unknown."""
    used, count = target.cores, sum(unit.cores or 1 for unit in target.units)
    if used is None or count == 1:
        return ""
    return f", all {count} cores" if used == count else f", {used} of {count} cores"


def host_run_text(run: HostRun) -> str:
    """Returns the outcome of an inference on the host; empty if it is the reason for the verdict."""
    texts = {
        "ran": f"one inference ran on the host ({run.runtime})",
        "undetermined": f"{run.reason}; --no-run skips it",
        "not run": f"not run: {run.reason}",
    }
    return texts.get(run.outcome, "")


def shortfalls(fit: MemoryFit) -> list[tuple[str, str, str]]:
    """Returns the memories that are too small, each with the amount needed and the amount available."""
    return [
        (space.title, units.size(space.low_bytes), units.size(space.limit_bytes))
        for space in fit.memories
        if space.fits is False and space.limit_bytes is not None
    ]


def shortfall(report: Report) -> str:
    """Returns that a model does not fit the target of its report, with the amounts; empty otherwise."""
    if report.memory_fit is None or report.target is None:
        return ""
    missing = shortfalls(report.memory_fit)
    return fit_verdict(False, report.target.title, missing) if missing else ""


def unfit_reason(report: Report) -> str:
    """Returns that the target of a report cannot run or hold its model, and why; empty if it can."""
    if report.target is None and report.graph.offsets and report.memory.unsupported_reason:
        return f"is not run by TFLite Micro: {report.memory.unsupported_reason}"
    if report.memory_fit is None or report.target is None or not report.memory_fit.unsupported_reason:
        return shortfall(report)
    return f"cannot run on {report.target.name}: {report.memory_fit.unsupported_reason}"


def uncounted_entries(signatures: Sequence[str]) -> str:
    """Returns the note on signatures of a file whose graphs are not counted."""
    more = len(signatures) - _MOST_ENTRIES
    listed = ", ".join(map(repr, signatures[:_MOST_ENTRIES])) + f" and {more} more" * (more > 0)
    return f"other entries of the file are not counted: {listed}"


def contributions_text(largest: Sequence[Contribution], amount_text: Callable[[float], str]) -> str:
    """Returns the first names with their amounts; `?` for an amount that is not known."""
    return ", ".join(
        f"{shorten(item.name)} {UNKNOWN if item.amount is None else amount_text(item.amount)}"
        for item in largest[:MOST_NAMED]
    )


def size_text(size: float | None) -> str:
    """Returns a number of bytes; `?` if it is not known."""
    return UNKNOWN if size is None else units.size(size)


def part_text(part: MemoryPart) -> str:
    """Returns a part of a need: one amount if both ends print alike, `?` if nothing is known."""
    least = quantity("bytes", part.low_bytes)
    if part.is_exact:
        return f"{part.name} {least}"
    if part.high_bytes is None:
        return f"{part.name} at least {least}" if part.low_bytes else f"{part.name} ?"
    most = quantity("bytes", part.high_bytes)
    if least == most:
        return f"{part.name} {most}"
    return f"{part.name} {least} to {most}" if part.low_bytes else f"{part.name} up to {most}"


def arena_text(limit: Limit, check: Check) -> str:
    """Returns the bytes of TFLite Micro's arena, to be typed into firmware; empty if they are not known."""
    names = [part.name for other in check.limits for part in other.parts]
    is_alone = limit.name == "arena" and check.format == "tflite" and "arena" not in names
    is_arena = is_alone or [part.name for part in limit.parts] == ["arena"]
    if not is_arena or limit.need_high is None:
        return ""
    prefix = "" if limit.need_low == limit.need_high else "up to "
    return f"{'' if is_alone else 'arena '}{prefix}{round(limit.need_high):,} B"
