"""What rewriting a model brought, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sizeup.report.console import print_labelled
from sizeup.report.text import plain

if TYPE_CHECKING:
    from sizeup.rewrite import Footprint, Optimized, Verification


def render(result: Optimized, console: Console) -> None:
    """Print sizes before and after, what was changed, how it was verified, and what else to know."""
    console.print(Text(plain(f"{result.name} ({result.format})"), style="bold"))
    console.print(_sizes(result))
    for label, text, style in _findings(result):
        print_labelled(console, label, text, style)
    for note in result.notes:
        print_labelled(console, "note", note, "dim")
    end = "" if result.changed else ", the original: nothing needs less"
    print_labelled(console, "written", f"{result.path}{end}", "bold")


def _sizes(result: Optimized) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), show_edge=False)
    table.add_column("", style="cyan")
    for title in ("before", "after", "change"):
        table.add_column(title, justify="right")
    before, after = dict(_rows(result.before)), dict(_rows(result.after))
    for label, size in before.items():
        new = after.get(label)
        if size is not None and new is not None:
            style = "green" if new < size else "yellow" if new > size else ""
            table.add_row(label, f"{size:,} B", f"{new:,} B", Text(_change(size, new), style))
    return table


def _rows(footprint: Footprint) -> Iterator[tuple[str, int | None]]:
    arena = footprint.arena
    yield "peak", footprint.peak_bytes
    yield "arena head", None if arena is None else arena.head_bytes
    yield "arena tail", None if arena is None else arena.tail_bytes
    yield "arena total", None if arena is None else arena.total_bytes
    yield "file", footprint.file_bytes
    yield "file, gzip", footprint.gzip_bytes


def _change(before: int, after: int) -> str:
    return "" if before == after or not before else f"{100 * (after - before) / before:+.1f} %"


def _findings(result: Optimized) -> Iterator[tuple[str, str, str]]:
    if result.after.arena is not None:
        basis = "measured in TFLite Micro's own interpreter" if result.arena_is_measured else "predicted"
        yield "arena", f"{basis}; the tail is that of a 64-bit processor", ""
    if result.order_status is not None:
        yield "order", _order(result), ""
    if result.planned:
        firmware = "unchanged firmware with reference kernels" if result.overlaps else "unchanged firmware"
        yield "plan", f"stored in the file, {result.plan_status}; {firmware} follows it", ""
    if result.overlaps:
        yield "overlap", f"{result.overlaps} outputs over dying inputs: {result.kernels}", "yellow"
    if result.clustered_weights:
        yield "cluster", f"{result.clustered_weights} weights have at most {result.cluster_values} values", ""
    if result.packed_weights:
        yield (
            "pack",
            f"{result.packed_weights} weights stored as code-books; only TFLite Micro runs the file",
            "",
        )
    if result.verification is not None:
        found = result.verification
        yield "verified", _verified(found), "yellow" if found.is_weak else "green"


def _order(result: Optimized) -> str:
    is_best = result.order_status == "optimal"
    if not result.moved_ops:
        return "as it was; no order has a lower peak" if is_best else "as it was; nothing better was found"
    proof = "no order has a lower peak" if is_best else "the best found in time"
    return f"{result.moved_ops:,} of {result.ops:,} operators moved; {proof}"


def _verified(found: Verification) -> str:
    runs = f"{found.samples} random inputs in {found.runtime} with {found.distinct_outputs} different outputs"
    if found.deviation is None:
        text = f"outputs equal on {runs}"
    else:
        moved = found.deviation
        text = (
            f"outputs move by at most {moved.largest:.4g}, on average {moved.mean:.4g}, of a range of"
            f" {moved.span:.4g}, on {runs}"
        )
    if found.distinct_with_random_weights is not None:
        text += (
            f"; with random weights equal too, with {found.distinct_with_random_weights} different outputs"
        )
    if found.is_weak:
        text += "; a weak test, for the model answers every input alike"
    return text
