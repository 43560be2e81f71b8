"""The words of a report for people: what every readable output says, before it is laid out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console import convention as elsewhere
from sizeup.render.console import latency
from sizeup.render.vocabulary import named
from sizeup.results.rows import NO_TARGET, Port

if TYPE_CHECKING:
    from sizeup.results.parts import MicroArena, Usage
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
        *(elsewhere.lines(report.convention) if report.convention is not None else ()),
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
