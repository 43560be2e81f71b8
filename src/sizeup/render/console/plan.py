"""A plan of memory on a terminal: the verdict, what is held at the peak, and where tensors go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.render.console.layout import LABELS, print_labelled, print_rows, print_sparkline
from sizeup.render.console.report import micro_arena, micro_warnings, verdict
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.plan import Place, Plan

_MOST_HELD = 10
_MOST_PLACES = 12


def render(plan: Plan, console: Console, *, top: int | None = None) -> None:
    """Print the verdict, the tensors at the peak, then the largest places, `top` of them."""
    format = f" ({plan.graph.format})" if plan.graph.format else ""
    console.print(Text(plain(f"{plan.name}{format}"), style="bold"))
    for label, text, style in _findings(plan):
        print_labelled(console, label, text, style)
        if label == "order":
            _print_use(console, plan)
    for note in plan.notes:
        print_labelled(console, "note", note, "dim")
    step, rows = plan.peak_step, _rows(plan)
    if step is not None and rows:
        held = [row for row in rows if row.place.first_step <= step <= row.place.last_step]
        _print_held(console, held, plan.peak_bytes)
        _print_places(console, rows, top or _MOST_PLACES)


def _print_use(console: Console, plan: Plan) -> None:
    """Memory over time, and where another order was found that of both on one scale."""
    given, planned = plan.placement.given, plan.placement.usage
    words = f"over {len(plan.order):,} operators"
    if not plan.moved_ops:
        print_sparkline(console, "in use", given.live_bytes, words, LABELS)
        return
    most = max(given.peak_bytes, planned.peak_bytes)
    print_sparkline(console, "as given", given.live_bytes, words, LABELS, most)
    print_sparkline(console, "planned", planned.live_bytes, words, LABELS, most)


def _findings(plan: Plan) -> Iterator[tuple[str, str, str]]:
    if plan.precision is not None:
        yield "bytes at", f"{precision_name(plan.precision)} (indices and masks keep their type)", ""
    yield "memory plan", verdict(plan), "green bold" if plan.status == "optimal" else "bold"
    if plan.peak_step is None:
        return
    yield "peak", _peak(plan), ""
    yield "order", _order(plan), ""
    if plan.shipped is not None:
        yield "arena", _shipped(plan), ""
        for label, text in micro_warnings(plan.shipped):
            yield label, text, "yellow"


def _peak(plan: Plan) -> str:
    given, best = plan.given_peak_bytes, plan.peak_bytes
    op = plan.graph.ops[plan.peak_op or 0]
    step = f"step {plan.peak_step}, " if plan.moved_ops else ""
    where = f"in {step}operator {plan.peak_op} ({op.kind})"
    return f"{given:,} B as given, {best:,} B {where}" if best != given else f"{best:,} B {where}"


def _order(plan: Plan) -> str:
    ordering = plan.placement.ordering
    if ordering is None:
        return "as given; no other was looked for"
    if ordering.status == "optimal":
        proof = "no order has a lower peak"
    else:
        proof = f"the best found in time; no order goes below {ordering.lower_bound_bytes:,} B"
    if not plan.moved_ops:
        return f"as given; {proof}"
    return f"{plan.moved_ops:,} of {len(plan.order):,} operators moved; {proof}"


def _shipped(plan: Plan) -> str:
    arena = plan.shipped
    assert arena is not None  # its caller looked
    text = micro_arena(arena)
    if not arena.refused and (arena.head_bytes > arena.live_bytes or plan.moved_ops):
        text += "; sizeup optimize tries to make that less"
    return text


@dataclass(frozen=True, slots=True)
class _Row:
    """A buffer: what is called its place, and the views that share it."""

    place: Place
    size: int
    views: int

    @property
    def name(self) -> str:
        called = self.place.name or f"tensor {self.place.tensor}"
        return f"{called} and {self.views} view{'s' * (self.views != 1)} of it" if self.views else called


def _rows(plan: Plan) -> list[_Row]:
    """One row a buffer, the largest first."""
    buffers: dict[int, list[Place]] = {}
    for place in plan.places():
        buffers.setdefault(place.buffer, []).append(place)
    rows = [_Row(each[0], max(view.bytes for view in each), len(each) - 1) for each in buffers.values()]
    return sorted(rows, key=lambda row: (-row.size, row.place.first_step))


def _print_held(console: Console, rows: Sequence[_Row], peak: int) -> None:
    shown = [(f"{row.size:,} B", units.share(row.size, peak), row.name) for row in rows[:_MOST_HELD]]
    console.print()
    print_rows(console, ("at the peak", "share", "tensor"), shown)
    if len(rows) > _MOST_HELD:
        console.print(Text(f"and {len(rows) - _MOST_HELD:,} more at the peak", style="dim"))


def _print_places(console: Console, rows: Sequence[_Row], most: int) -> None:
    shown = [
        (
            f"{row.place.offset:,}",
            f"{row.size:,} B",
            f"{row.place.first_step}-{row.place.last_step}",
            row.name,
        )
        for row in rows[:most]
    ]
    console.print()
    print_rows(console, ("offset", "size", "steps", "tensor"), shown)
    if len(rows) > most:
        rest = f"and {len(rows) - most:,} smaller one{'s' * (len(rows) - most != 1)}"
        console.print(Text(f"{rest}: --top N shows more, -o FILE.csv keeps every tensor", style="dim"))
