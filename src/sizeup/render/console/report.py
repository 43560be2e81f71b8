"""A report for people: what every readable output says, and how a terminal shows it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console import latency
from sizeup.render.console.columns import table_text
from sizeup.render.console.layout import LABELS, print_labelled, print_sparkline
from sizeup.render.vocabulary import named
from sizeup.results.rows import NO_TARGET, Port
from sizeup.results.table import By, View, view

if TYPE_CHECKING:
    from sizeup.results.explanation import Explanation
    from sizeup.results.parts import Counted, MicroArena, Usage
    from sizeup.results.plan import Plan
    from sizeup.results.report import Report

_MOST_PORTS = 4
_MOST_UNKNOWN = 10


def title(report: Report) -> str:
    """The name and the format of the model that a report is on."""
    return named(report.name, report.format)


def amount(value: int) -> str:
    """A count both ways: short, and exact where the short form rounds."""
    short = units.count(value)
    return short if value < 1000 else f"{short} ({value:,})"


def _total(report: Report, value: int, words: str) -> str:
    if not report.unknown:
        return f"{amount(value)} {words}"
    return f"{amount(value)} {words}, incomplete" if value else "unknown"


def headline(report: Report) -> list[tuple[str, str]]:
    """Labels and texts: what goes in and out, and the totals."""
    totals = report.totals
    weights, read, written = map(units.size, (totals.weight_bytes, totals.read_bytes, totals.written_bytes))
    lines = [("input", text) for text in _ports(report.inputs)]
    lines += [("output", text) for text in _ports(report.outputs)]
    if report.precision is not None:
        lines.append(("bytes at", f"{precision_name(report.precision)} (indices and masks keep their type)"))
    lines += [
        ("MACs", _total(report, totals.macs, "multiply-accumulates")),
        ("FLOPs", _total(report, totals.flops, "at 2 for each MAC")),
        *(_convention_lines(report.convention) if report.convention is not None else ()),
        ("elementwise", _total(report, totals.elementwise_ops, "operations without a MAC")),
        ("parameters", f"{amount(totals.params)} in {weights}"),
        ("traffic", f"{read} read, {written} written in one pass{', incomplete' if report.unknown else ''}"),
    ]
    lines += _memory(report)
    if report.latency_details is not None:
        lines += latency.lines(report.latency_details)
        lines += [("too large", text) for text in _too_large(report)]
    elif report.no_latency != NO_TARGET:
        lines.append(("latency", f"unknown: {report.no_latency}"))
    return lines


def _too_large(report: Report) -> Iterator[str]:
    """What a microcontroller has too little of: memories of other devices are seldom the limit."""
    if report.room is None or report.target is None or report.target.device.kind != "microcontroller":
        return
    for space in report.room.spaces:
        if space.fits is False and space.limit_bytes is not None:
            needed, there = units.size(space.least_bytes), units.size(space.limit_bytes)
            yield f"it needs {needed} of {space.words}; {space.where} has {there}"


_MOST_HELD = 3


def _memory(report: Report) -> list[tuple[str, str]]:
    """The peak, what is held then, how low another order goes, and TFLite Micro's arena."""
    found = report.memory
    usage, arena = found.usage, found.arena
    if usage.missing:
        return [("memory", f"unknown: {usage.missing}")]
    if usage.peak_op is None:
        return []
    peak, kind = peak_size(usage), report.graph.ops[usage.peak_op].kind
    run = report.graph.run
    here = f", as torch runs it{' on this CPU' if run.device == 'cpu' else ''}" if run is not None else ""
    where = f"in operator {usage.peak_op} ({kind}){here}"
    lines = [("memory", f"{peak} at the peak beside the weights, {where}")]
    if usage.unmodelled:
        lines.append(("beyond that", _beyond(usage.unmodelled)))
    held = [f"{units.brief(each.name)} {units.size(each.bytes)}" for each in usage.held[:_MOST_HELD]]
    rest = len(usage.held) - _MOST_HELD
    lines.append(("held then", f"{', '.join(held)}{f' and {rest:,} more' if rest > 0 else ''}"))
    if found.best_peak_bytes is not None and found.best_peak_bytes < usage.peak_bytes:
        proof = "proven least" if found.status == "optimal" else "best found"
        lines.append(("best order", f"{units.size(found.best_peak_bytes)} at the peak ({proof})"))
    if arena is not None:
        lines += [("arena", micro_arena(arena, found.word_bits)), *micro_warnings(arena)]
    elif found.refused:
        lines.append(("refused", f"TFLite Micro does not run this file: {found.refused}"))
    return lines


def peak_size(usage: Usage) -> str:
    """The peak, which is a lower bound where kernels take what is not known."""
    return f"{'at least ' if usage.unmodelled else ''}{units.size(usage.peak_bytes)}"


def _beyond(names: tuple[str, ...]) -> str:
    shown = [name.removeprefix("aten.") for name in names[:_MOST_HELD]]
    if len(names) > _MOST_HELD:
        shown.append(f"{len(names) - _MOST_HELD:,} more")
    listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
    return f"what {listed} take{'s' * (len(shown) == 1)} inside is not known"


def micro_arena(arena: MicroArena, word_bits: int = 32) -> str:
    """The smallest arena that TFLite Micro accepts for a file as it is, and its parts."""
    head, tail, needed = arena.head_bytes, arena.tail_bytes(word_bits), arena.arena_bytes(word_bits)
    if tail is None or needed is None:
        return f"unknown; {head:,} B head, and a tail that is not known: {arena.unknown}"
    setup = f" + {needed - head - tail:,} B during setup" if needed > head + tail else ""
    return f"{needed:,} B on a {word_bits}-bit processor: {head:,} B head + {tail:,} B tail{setup}"


def micro_warnings(arena: MicroArena) -> list[tuple[str, str]]:
    """Labels and texts: what holds for some kernels only, and why the file is not run at all."""
    lines = []
    if arena.overlapping:
        lie = "1 tensor lies" if arena.overlapping == 1 else f"{arena.overlapping:,} tensors lie"
        kernels = f": {arena.kernels}" if arena.kernels else ""
        lines.append(("overlap", f"{lie} over others in use, in the plan that the file has{kernels}"))
    if arena.refused:
        lines.append(("refused", f"TFLite Micro does not run this file: {arena.refused}"))
    return lines


def verdict(plan: Plan) -> str:
    """What a plan brings, and whether that is proven, in one sentence that begins with the plan's bytes."""
    size, given = plan.plan_bytes, plan.given_peak_bytes
    if plan.peak_step is None:
        return f"{size:,} B for what goes in; the model has no operators"
    if is_beaten_by_overlap(plan):
        return f"{size:,} B without overlap; the plan in the file overlaps and needs less; {_proof(plan)}"
    if size < given:
        less = f"-{100 * (given - size) / given:.1f} %"
        return f"{size:,} B instead of at least {given:,} B as given ({less}); {_proof(plan)}"
    if plan.status != "optimal" or plan.moved_ops:
        return f"{size:,} B; {_proof(plan)}"
    shipped = plan.shipped
    if shipped is not None and shipped.head_bytes > max(shipped.live_bytes, size):
        return f"{size:,} B in the order as given, less than TFLite Micro finds by itself; {_proof(plan)}"
    return f"{size:,} B; nothing to gain over the order as given, {_proof(plan)}"


def is_beaten_by_overlap(plan: Plan) -> bool:
    """Whether the file has a plan that needs less, because tensors in use at once share bytes in it."""
    shipped = plan.shipped
    return shipped is not None and bool(shipped.overlapping) and shipped.head_bytes < plan.plan_bytes


def _proof(plan: Plan) -> str:
    apart = " without overlap" if is_beaten_by_overlap(plan) else ""
    if plan.status == "optimal":
        return f"proven: no plan{'' if plan.placement.ordering else ' of this order'}{apart} needs less"
    bound = plan.lower_bound_bytes
    gap = units.share(plan.plan_bytes - bound, bound)
    return f"at most {gap} above the least, for {bound:,} B are proven to be needed{apart}"


def _ports(ports: tuple[Port, ...]) -> list[str]:
    lines = [
        f"{units.brief(each.name)} {units.shape(each.shape)} {each.dtype}".strip()
        for each in ports[:_MOST_PORTS]
    ]
    return [*lines, f"and {len(ports) - _MOST_PORTS} more"] if len(ports) > _MOST_PORTS else lines


def receipt(report: Report) -> list[str]:
    """Whether everything was counted: one line, and where not, what is missing and what to do."""
    count = len(report.graph.ops)
    counted = f"{report.known_ops:,} of {count:,} operator{'s' * (count != 1)} counted"
    if not report.unknown:
        return [counted]
    lines = [f"{counted}; the totals are incomplete:"]
    lines += [f"{each.count:,} x {each.kind}: {each.reason}" for each in report.unknown[:_MOST_UNKNOWN]]
    if len(report.unknown) > _MOST_UNKNOWN:
        rest = len(report.unknown) - _MOST_UNKNOWN
        lines.append(f"and {rest:,} more kind{'s' * (rest != 1)}")
    advice = "--strict makes this an error"
    if any(each.reason.startswith("no rule") for each in report.unknown):
        advice = f"--rules FILE adds rules of your own; {advice}"
    return [*lines, advice]


_BOLD = ("MACs", "FLOPs", "parameters", "latency")


def render(
    report: Report,
    console: Console,
    *,
    by: By | None = None,
    depth: int | None = None,
    top: int | None = None,
    columns: Sequence[str] = (),
    wide: bool = False,
) -> None:
    """Print the headline, the receipt, the notes and the table, as wide as the console is.

    `columns` names those of the table; `wide` prints all, or those, whatever the width.
    """
    shown = view(report, by, depth, top)
    console.print(Text(title(report), style="bold"))
    for label, text in headline(report):
        print_labelled(console, label, text, "bold" if label in _BOLD else "")
        if label == "memory" and not report.memory.usage.missing:
            words = f"over {len(report.graph.ops):,} operators"
            print_sparkline(console, "in use", report.memory.usage.live_bytes, words, LABELS)
    _print_receipt(report, console)
    for note in report.notes:
        print_labelled(console, "note", note, "dim")
    if shown.entries:
        console.print()
        print_table(console, shown, columns, wide)
    if shown.rest is not None and shown.rest.ops:
        console.print(Text("--top N shows more rows, -o FILE.csv keeps every operator", style="dim"))
    if shown.remark:
        console.print(Text(shown.remark, style="dim"))


def render_explanation(explanation: Explanation, console: Console) -> None:
    """Print where an operator's numbers come from, or the table of the operators that were found."""
    console.print(Text(units.plain(explanation.title), style="bold"))
    previous = ""
    for label, text in explanation.lines:
        style = "bold" if label in ("MACs", "FLOPs") else "yellow" if label == "not known" else ""
        print_labelled(console, "" if label == previous else label, text, style)
        previous = label
    if explanation.view is not None:
        print_table(console, explanation.view)


def explanation_text(explanation: Explanation) -> str:
    """An explanation as plain text of 80 columns."""
    buffer = io.StringIO()
    render_explanation(explanation, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def _print_receipt(report: Report, console: Console) -> None:
    first, *others = receipt(report)
    print_labelled(console, "coverage", first, "bold yellow" if report.unknown else "green")
    for line in others:
        print_labelled(console, "", line, "yellow")


def print_table(console: Console, shown: View, columns: Sequence[str] = (), wide: bool = False) -> None:
    """Print the rows of a view with as many columns as there is room for."""
    room = None if wide else console.width
    console.print(table_text(shown, room, console.options.ascii_only, columns), soft_wrap=True)


_MOST_KINDS = 5


def _convention_lines(counted: Counted) -> list[tuple[str, str]]:
    """Labels and texts: its total in its own unit, and the kinds of operators that make the difference."""
    convention, total = counted.convention, counted.whole_total
    text = f"{units.count(total)} ({total:,}) {convention.unit} as {convention.title} counts"
    ours = counted.cost.total_macs
    if ours:
        text += f", {100 * total / ours:.1f} % of our MACs"
    found = [("elsewhere", text)]
    parts = counted.differences_by_kind()
    named = [f"{kind} {_signed(value)}" for kind, value in list(parts.items())[:_MOST_KINDS]]
    if len(parts) > _MOST_KINDS:
        named.append(f"{len(parts) - _MOST_KINDS} more kinds")
    found.append(("", f"against our MACs: {', '.join(named)}" if named else "the same for every kind"))
    if counted.untold:
        found.append(
            ("", f"without {counted.untold:,} operators that it counts in a way not reproduced here")
        )
    return found


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{units.count(abs(value))}"
