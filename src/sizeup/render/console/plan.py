"""A memory plan on a terminal: its size, the live tensors at the peak, and the offsets of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import LABELS, print_labeled, print_rows, print_sparkline
from sizeup.render.console.report import micro_arena, micro_warnings, precision_text, unmodeled_text, verdict
from sizeup.results.rows import op_label
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.plan import Plan, PlannedTensor

_MOST_LIVE = 10
_MOST_BUFFERS = 12


def render(plan: Plan, console: Console, *, top: int | None = None) -> None:
    """Print the size of the plan, the live tensors at the peak, then the `top` largest buffers."""
    format = f" ({plan.graph.format})" if plan.graph.format else ""
    console.print(Text(printable(f"{plan.name}{format}"), style="bold"))
    for label, text, style in _findings(plan):
        print_labeled(console, label, text, style)
        if label == "schedule":
            _print_usage(console, plan)
    for note in plan.notes:
        print_labeled(console, "note", note, "dim")
    step, rows = plan.peak_step, _rows(plan)
    if step is not None and rows:
        live = [row for row in rows if row.place.first_step <= step <= row.place.last_step]
        _print_live(console, live, plan.peak_bytes)
        _print_buffers(console, rows, top or _MOST_BUFFERS)


def _print_usage(console: Console, plan: Plan) -> None:
    """Print live memory by step; if the plan has another schedule, both on one scale."""
    file_usage, planned = plan.memory_plan.file_order_usage, plan.memory_plan.usage
    legend = f"over {units.plural(len(plan.schedule), 'operator')}"
    if not plan.moved_ops:
        print_sparkline(console, "live memory", file_usage.live_bytes, legend, LABELS)
        return
    peak = max(file_usage.peak_bytes, planned.peak_bytes)
    print_sparkline(console, "original", file_usage.live_bytes, legend, LABELS, peak)
    print_sparkline(console, "planned", planned.live_bytes, legend, LABELS, peak)


def _findings(plan: Plan) -> Iterator[tuple[str, str, str]]:
    if plan.target is not None:
        yield "target", f"{plan.target.name}; scratch of its kernels is part of the plan", ""
    if plan.precision is not None:
        yield "precision", precision_text(plan.precision), ""
    yield "memory plan", verdict(plan), "green bold" if plan.status == "optimal" else "bold"
    if plan.peak_step is None:
        return
    yield "peak", _peak(plan), ""
    if names := plan.memory_plan.usage.unmodeled:
        yield "excluded", unmodeled_text(names), ""
    yield "schedule", _schedule(plan), ""
    if plan.tflm_arena is not None:
        yield "arena", _arena(plan), ""
        for label, text in micro_warnings(plan.tflm_arena):
            yield label, text, "yellow"
    elif plan.unsupported_reason is not None:
        yield "unsupported", f"TFLite Micro does not run this file: {plan.unsupported_reason}", "yellow"


def _peak(plan: Plan) -> str:
    file_peak, best = plan.file_schedule_peak_bytes, plan.peak_bytes
    op = plan.graph.ops[plan.peak_op or 0]
    step = f"step {plan.peak_step}, " if plan.moved_ops else ""
    location = f"in {step}operator {plan.peak_op} ({op_label(plan.graph, op)})"
    original = f"{file_peak:,} B in the original order, " if best != file_peak else ""
    return f"{original}{best:,} B {location}"


def _schedule(plan: Plan) -> str:
    ordering = plan.memory_plan.best_schedule
    if ordering is None:
        return "original; no other schedule was searched"
    if ordering.status == "optimal":
        proof = "proven optimal: no schedule has a lower peak"
    else:
        proof = f"best found within the time limit; lower bound {ordering.lower_bound_bytes:,} B"
    if not plan.moved_ops:
        return f"original; {proof}"
    return f"{plan.moved_ops:,} of {units.plural(len(plan.schedule), 'operator')} moved; {proof}"


def _arena(plan: Plan) -> str:
    arena = plan.tflm_arena
    assert arena is not None  # checked by the caller
    text = micro_arena(arena, has_target=plan.target is not None)
    is_reducible = arena.head_bytes > arena.live_bytes or bool(plan.moved_ops)
    option = ""
    if plan.target is not None:
        is_reducible, option = plan.plan_bytes < arena.head_bytes, f" -d {plan.target.name}"
    if not arena.unsupported_reason and is_reducible:
        text += f"; sizeup optimize{option} may reduce it"
    return text


@dataclass(frozen=True, slots=True)
class _Row:
    """A buffer: its first tensor, and the number of aliases that share it."""

    place: PlannedTensor
    size: int
    aliases: int

    @property
    def name(self) -> str:
        name = self.place.name or f"tensor {self.place.tensor}"
        return f"{name} and {self.aliases} alias{'es' * (self.aliases != 1)}" if self.aliases else name


def _rows(plan: Plan) -> list[_Row]:
    """Returns one row per buffer, largest first."""
    buffers: dict[int, list[PlannedTensor]] = {}
    for place in plan.planned_tensors():
        buffers.setdefault(place.buffer, []).append(place)
    rows = [
        _Row(tensors[0], max(tensor.bytes for tensor in tensors), len(tensors) - 1)
        for tensors in buffers.values()
    ]
    return sorted(rows, key=lambda row: (-row.size, row.place.first_step))


def _print_live(console: Console, rows: Sequence[_Row], peak: int) -> None:
    cells = [(f"{row.size:,} B", units.share(row.size, peak), row.name) for row in rows[:_MOST_LIVE]]
    console.print()
    print_rows(console, ("live at peak", "share", "tensor"), cells)
    if len(rows) > _MOST_LIVE:
        console.print(Text(f"and {len(rows) - _MOST_LIVE:,} more live at peak", style="dim"))


def _print_buffers(console: Console, rows: Sequence[_Row], most: int) -> None:
    cells = [
        (
            f"{row.place.offset:,}",
            f"{row.size:,} B",
            f"{row.place.first_step}-{row.place.last_step}",
            row.name,
        )
        for row in rows[:most]
    ]
    console.print()
    print_rows(console, ("offset", "size", "steps", "tensor"), cells)
    if len(rows) > most:
        rest = f"and {len(rows) - most:,} smaller one{'s' * (len(rows) - most != 1)}"
        console.print(Text(f"{rest}: --top N shows more, -o FILE.csv writes every tensor", style="dim"))
