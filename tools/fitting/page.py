"""docs/fits.md: every fit that comes along, and what kinds of devices attain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from sizeup.targets import Fit, Reach

START, END = "<!-- {} -->\n", "<!-- end -->"


def with_block(text: str, name: str, block: str) -> str:
    """A page with what stands between two of its marks replaced."""
    pattern = re.compile(re.escape(START.format(name)) + ".*?" + re.escape(END), re.DOTALL)
    replaced, count = pattern.subn(lambda _: START.format(name) + block + END, text)
    assert count == 1, f"the page has no block {name!r}"
    return replaced


def block(text: str, name: str) -> str:
    """What stands between two marks of a page."""
    first = START.format(name)
    return text.split(first, 1)[1].split(END, 1)[0]


def fits(found: Iterable[Fit]) -> str:
    """A section for each source, a line for each fit."""
    by_file: dict[str, list[Fit]] = {}
    for each in found:
        by_file.setdefault(each.file, []).append(each)
    return "".join("".join(_section(name, by_file[name])) for name in sorted(by_file))


def _section(name: str, found: list[Fit]) -> Iterator[str]:
    yield f"### {name}\n\n"
    yield from (f"{source}.\n\n" for source in dict.fromkeys(each.source for each in found))
    yield "| target | measurements | number types | held out | mean error | 90 % range | within 10 % |"
    yield " tau |\n"
    yield "|---|--:|---|---|--:|--:|--:|--:|\n"
    yield from map(_line, sorted(found, key=lambda each: each.name))
    yield "\n"
    for note in dict.fromkeys(each.note for each in found):
        yield f"- {_about(note, found)}: {note}.\n" if note else ""
    yield "\n"


def _about(note: str, found: list[Fit]) -> str:
    """Whom a note is about: all, all with one runtime, or some by name."""
    some = [each for each in found if each.note == note]
    if len(some) == len(found):
        return "All"
    runtimes = {each.name.split("/")[1] for each in some}
    same = [each for each in found if each.name.split("/")[1] in runtimes]
    if len(some) == len(same):
        return f"With {' or '.join(f'`{each}`' for each in sorted(runtimes))}"
    return ", ".join(f"`{each.name}`" for each in some)


def _line(fit: Fit) -> str:
    extra = [f"{fit.threads} thread{'s' * (fit.threads != 1)}"] if fit.threads else []
    extra += [f"version {fit.version}"] if fit.version else []
    low, high = (100 * (math.exp(fit.band[side]) - 1) for side in ("low", "high"))
    within = "" if fit.within is None else f"{100 * fit.within:.0f} %"
    tau = "" if fit.tau is None else f"{fit.tau:.2f}"
    cells = (
        f"`{fit.name}`" + (f" ({', '.join(extra)})" if extra else ""),
        f"{fit.measurements:,}",
        " ".join(fit.precisions),
        fit.held_out.rstrip(","),
        f"{100 * fit.error:.1f} %",
        f"{low:+.0f} to {high:+.0f} %",
        within,
        tau,
    )
    return f"| {' | '.join(cells)} |\n"


def reaches(found: Iterable[Reach]) -> str:
    """One line a kind, and one a runtime on it."""
    lines = [
        "| kind of device | times its data sheet | 90 % range | networks | devices |\n",
        "|---|--:|--:|--:|--:|\n",
    ]
    for each in sorted(found, key=lambda each: each.name):
        kind, _, runtime = each.name.partition("/")
        name = f"{kind}, `{runtime}`" if runtime else f"**{kind}**, any runtime"
        span = f"{_short(each.low)} to {_short(each.high)}"
        lines.append(f"| {name} | {_short(each.times)} | {span} | {each.measurements:,} | {each.devices} |\n")
    return "".join(lines)


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def coverage(found: Mapping[tuple[str, str], tuple[float, int, float]]) -> str:
    """How often the range held with the device itself left out, by table of measurements."""
    lines = [
        "| measurements | judged by | devices | within the range | mean error |\n",
        "|---|---|--:|--:|--:|\n",
    ]
    for (table, name), (inside, devices, error) in found.items():
        lines.append(f"| {table} | {name} | {devices} | {100 * inside:.0f} % | {100 * error:.0f} % |\n")
    return "".join(lines)
