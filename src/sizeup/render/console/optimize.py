"""What rewriting a model brought, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sizeup.render.console.layout import print_labelled
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Footprint, Optimization, Verification


def render(result: Optimization, console: Console) -> None:
    """Print sizes before and after, what was changed, how it was verified, and what else to know."""
    console.print(Text(plain(f"{result.name} ({result.format})"), style="bold"))
    console.print(_sizes(result))
    for label, text, style in _findings(result):
        print_labelled(console, label, text, style)
    for note in result.notes:
        print_labelled(console, "note", note, "dim")
    print_labelled(console, "written", f"{result.path}{_end(result)}", "bold")


def _end(result: Optimization) -> str:
    if result.changed:
        return ""
    if not result.is_verifiable:
        return ", the original: nothing was changed, because nothing could be verified"
    return ", the original: nothing needs less"


def _sizes(result: Optimization) -> Table:
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
    used = footprint.used
    yield "peak", footprint.peak_bytes
    yield "arena", footprint.arena_bytes
    yield "arena head", None if used is None else used.head_bytes
    yield "arena tail, 64-bit", None if used is None else used.tail_bytes
    yield "arena used, 64-bit", None if used is None else used.total_bytes
    yield "file", footprint.file_bytes
    yield "file, gzip", footprint.gzip_bytes


def _change(before: int, after: int) -> str:
    return "" if before == after or not before else f"{100 * (after - before) / before:+.1f} %"


def _findings(result: Optimization) -> Iterator[tuple[str, str, str]]:
    if result.after.used is not None:
        measured = "; what 64 bits use is measured in its own interpreter" if result.arena_is_measured else ""
        yield "arena", f"of TFLite Micro, predicted for a 32-bit processor{measured}", ""
    if result.order_status is not None:
        yield "order", _order(result), ""
    if result.planned:
        firmware = "unchanged firmware with reference kernels" if result.overlaps else "unchanged firmware"
        yield "plan", f"stored in the file, {result.plan_status}; {firmware} follows it", ""
    if result.overlaps:
        yield "overlap", _overlap(result), "yellow"
    if result.clustered_weights:
        have = "has" if result.clustered_weights == 1 else "have"
        weights = _number(result.clustered_weights, "weight")
        yield "cluster", f"{weights} {have} at most {result.cluster_values} values", ""
    if result.packed_weights:
        weights = _number(result.packed_weights, "weight")
        books = "a code-book" if result.packed_weights == 1 else "code-books"
        yield "pack", f"{weights} stored as {books}; only TFLite Micro runs the file", ""
    if result.verification is not None:
        found = result.verification
        yield "verified", _verified(found), "yellow" if found.is_weak else "green"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _overlap(result: Optimization) -> str:
    if not result.overlaps_dying_inputs:
        text = f"{_number(result.overlaps, 'tensor')} over others in use at once"
    elif result.overlaps == 1:
        text = "1 output over a dying input"
    else:
        text = f"{result.overlaps:,} outputs over dying inputs"
    whose = "" if result.planned else ", by the plan that the file came with"
    return f"{text}{whose}: {result.kernels}"


def _order(result: Optimization) -> str:
    is_best = result.order_status == "optimal"
    if not result.moved_ops:
        return "as it was; no order has a lower peak" if is_best else "as it was; nothing better was found"
    proof = "no order has a lower peak" if is_best else "the best found in time"
    return f"{result.moved_ops:,} of {_number(result.ops, 'operator')} moved; {proof}"


def _verified(found: Verification) -> str:
    runs = (
        f"{_number(found.samples, 'random input')} in {found.runtime} with {_answers(found.distinct_outputs)}"
    )
    if found.deviation is None:
        text = f"outputs equal on {runs}"
    else:
        moved = found.deviation
        text = (
            f"outputs move by at most {moved.largest:.4g}, on average {moved.mean:.4g}, of a range of"
            f" {moved.span:.4g}, on {runs}"
        )
    if found.distinct_with_random_weights is not None:
        text += f"; with random weights equal too, with {_answers(found.distinct_with_random_weights)}"
    return text


def _answers(distinct: int) -> str:
    return f"{distinct:,} different outputs" if distinct > 1 else "1 output for all, which is weak evidence"
