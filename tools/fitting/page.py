"""Tables of docs/calibrations.md: the calibrations shipped with sizeup, and slowdowns by family of units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from sizeup.targets import Slowdown, TargetCalibration

START, END = "<!-- {} -->\n", "<!-- end -->"


def with_block(text: str, name: str, block: str) -> str:
    """A page with the text between two marks replaced."""
    pattern = re.compile(re.escape(START.format(name)) + ".*?" + re.escape(END), re.DOTALL)
    replaced, count = pattern.subn(lambda _: START.format(name) + block + END, text)
    assert count == 1, f"the page has no block {name!r}"
    return replaced


def block(text: str, name: str) -> str:
    """The text between two marks of a page."""
    first = START.format(name)
    return text.split(first, 1)[1].split(END, 1)[0]


def fits(calibrations: Iterable[TargetCalibration]) -> str:
    """One section per source, with one row per calibration."""
    by_file: dict[str, list[TargetCalibration]] = {}
    for fit in calibrations:
        by_file.setdefault(fit.file, []).append(fit)
    return "".join("".join(_section(name, by_file[name])) for name in sorted(by_file))


def _section(name: str, calibrations: list[TargetCalibration]) -> Iterator[str]:
    yield f"### {name}\n\n"
    yield from (f"{source}.\n\n" for source in dict.fromkeys(fit.source for fit in calibrations))
    yield (
        "| target | measurements | dtypes | held out | MAPE | 90 % interval | within 10 % | Kendall's tau |\n"
    )
    yield "|---|--:|---|---|--:|--:|--:|--:|\n"
    yield from map(_line, sorted(calibrations, key=lambda fit: fit.name))
    yield "\n"
    for note in dict.fromkeys(fit.note for fit in calibrations):
        yield f"- {_about(note, calibrations)}: {note}.\n" if note else ""
    yield "\n"


def _about(note: str, calibrations: list[TargetCalibration]) -> str:
    """The targets of a note: all, all with some runtimes, or some by name."""
    some = [fit for fit in calibrations if fit.note == note]
    if len(some) == len(calibrations):
        return "All"
    runtimes = {fit.name.split("/")[1] for fit in some}
    same = [fit for fit in calibrations if fit.name.split("/")[1] in runtimes]
    if len(some) == len(same):
        return f"With {' or '.join(f'`{fit}`' for fit in sorted(runtimes))}"
    return ", ".join(f"`{fit.name}`" for fit in some)


def _line(fit: TargetCalibration) -> str:
    extra = [f"{fit.threads} thread{'s' * (fit.threads != 1)}"] if fit.threads else []
    extra += [f"version {fit.version}"] if fit.version else []
    low, high = (100 * (math.exp(fit.interval[side]) - 1) for side in ("low", "high"))
    within = "" if fit.within_10_percent is None else f"{100 * fit.within_10_percent:.0f} %"
    tau = "" if fit.kendall_tau is None else f"{fit.kendall_tau:.2f}"
    cells = (
        f"`{fit.name}`" + (f" ({', '.join(extra)})" if extra else ""),
        f"{fit.measurements:,}",
        " ".join(fit.precisions),
        fit.held_out.rstrip(","),
        f"{100 * fit.mape:.1f} %",
        f"{low:+.0f} to {high:+.0f} %",
        within,
        tau,
    )
    return f"| {' | '.join(cells)} |\n"


def slowdowns(tables: Iterable[Slowdown]) -> str:
    """One row per family of units and runtime."""
    lines = [
        "| family/runtime | arithmetic | traffic | per kernel | 90 % interval | networks | devices |\n",
        "|---|--:|--:|--:|--:|--:|--:|\n",
    ]
    for slowdown in sorted(tables, key=lambda slowdown: slowdown.name):
        span = f"x {slowdown.low:.2g} to {slowdown.high:.2g}"
        counts = f"{slowdown.measurements:,} | {slowdown.devices}"
        parts = f"x {slowdown.compute:.2g} | x {slowdown.traffic:.2g}"
        launch = f"{1e6 * slowdown.launch_seconds:.2g} µs"
        lines.append(f"| `{slowdown.name}` | {parts} | {launch} | {span} | {counts} |\n")
    return "".join(lines)


def coverage(results: Mapping[tuple[str, str], tuple[float, int, float]]) -> str:
    """The coverage of the intervals on held-out devices, by table of measurements."""
    lines = [
        "| measurements | slowdown of | devices | within the interval | error factor |\n",
        "|---|---|--:|--:|--:|\n",
    ]
    for (table, name), (inside, devices, error) in results.items():
        lines.append(f"| {table} | {name} | {devices} | {100 * inside:.0f} % | {error:.2f} |\n")
    return "".join(lines)
