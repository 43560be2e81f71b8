"""The result of rewriting a model as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sizeup.render.console.layout import print_labeled
from sizeup.render.console.npu import compilation_lines
from sizeup.render.vocabulary import STANDINGS
from sizeup.units import plural, printable

if TYPE_CHECKING:
    from sizeup.results.parts import Footprint, KernelArena, Optimization, StripExecution, Verification

_VECTORS = {"dsp": ", DSP", "mve": ", Helium"}


def render(result: Optimization, console: Console) -> None:
    """Print sizes before and after, the changes, their verification, and notes."""
    console.print(Text(printable(f"{result.name} ({result.format})"), style="bold"))
    console.print(_sizes(result))
    for label, text, style in _findings(result):
        print_labeled(console, label, text, style)
    for note in result.notes:
        print_labeled(console, "note", note, "dim")
    print_labeled(console, "written", f"{result.path}{_end(result)}", "bold")


def _end(result: Optimization) -> str:
    if result.changed:
        return ""
    if not result.is_verifiable:
        return ", a copy of the original: no change could be verified"
    return ", a copy of the original: no change that was tried makes it smaller"


def _sizes(result: Optimization) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), show_edge=False)
    table.add_column("", style="cyan")
    for title in ("before", "after", "change"):
        table.add_column(title, justify="right")
    for label, size, new in _rows(result):
        if size is not None and new is not None:
            style = "green" if new < size else "yellow" if new > size else ""
            change = _change(size, new)
            if new < size and label.startswith("arena") and result.largest_growth is not None:
                change, style = f"{change} ({_growth(result.largest_growth)})", "yellow"
            table.add_row(label, f"{size:,} B", f"{new:,} B", Text(change, style))
    return table


def _rows(result: Optimization) -> Iterator[tuple[str, int | None, int | None]]:
    """Yields label, size before and size after; without a target also those of the 64-bit interpreter."""
    before, after = result.before, result.after
    yield "peak", before.peak_bytes, after.peak_bytes
    for arena in result.arenas:
        yield f"arena, {_kernels(arena)}", arena.before_bytes, arena.after_bytes
    if result.target is None:
        for (label, old), (_, new) in zip(_used(before), _used(after), strict=False):
            yield label, old, new
    yield "file", before.file_bytes, after.file_bytes
    yield "file, gzip", before.gzip_bytes, after.gzip_bytes


def _used(footprint: Footprint) -> Iterator[tuple[str, int]]:
    used = footprint.used
    if used is not None:
        yield "arena head", used.head_bytes
        yield "arena tail, 64-bit", used.tail_bytes
        yield "arena used, 64-bit", used.total_bytes


def _kernels(arena: KernelArena) -> str:
    return f"{arena.kernels}{_VECTORS.get(arena.vectors, '')}"


def _growth(arena: KernelArena) -> str:
    name = _VECTORS.get(arena.vectors, "").lstrip(", ") or arena.kernels
    return f"{name} {_change(arena.before_bytes, arena.after_bytes)}"


def _change(before: int, after: int) -> str:
    return "" if before == after or not before else _change_of(before, after)


def _change_of(before: float, after: float) -> str:
    return f"{100 * (after - before) / before:+.1f} %"


def _arena_findings(result: Optimization) -> Iterator[tuple[str, str, str]]:
    """Yields the basis of the arenas, and the kernels with which it grows."""
    if result.target is not None:
        if result.arenas:
            yield "arena", f"predicted for TFLite Micro on {result.target.name}", ""
    elif result.after.used is not None:
        measured = "; 64-bit values are measured in its interpreter" if result.arena_is_measured else ""
        yield "arena", f"predicted for TFLite Micro on a 32-bit processor{measured}", ""
    grown = result.largest_growth
    if grown is not None and result.target is None and not result.packed_weights:
        sizes = f"{grown.before_bytes:,} B before, {grown.after_bytes:,} B after"
        vectors = _VECTORS.get(grown.vectors, "").lstrip(", ")
        cores = f" on cores with {vectors}" if vectors else ""
        text = f"with {grown.kernels} kernels{cores}: {sizes}; -d TARGET chooses for its kernels"
        yield "larger", text, "yellow"


def _findings(result: Optimization) -> Iterator[tuple[str, str, str]]:
    yield from _arena_findings(result)
    if result.compilation is not None:
        yield from ((label, text, "") for label, text in compilation_lines(result.compilation))
    if result.schedule_status is not None:
        yield "schedule", _schedule(result), ""
    if result.has_new_plan:
        firmware = "unchanged firmware with reference kernels" if result.overlaps else "unchanged firmware"
        yield "memory plan", f"stored in the file, {result.plan_status}; used by {firmware}", ""
    if result.overlaps:
        yield "overlap", _overlap(result), "yellow"
    if result.strips is not None:
        yield from _strips(result.strips)
    if result.clustered_weights:
        have = "has" if result.clustered_weights == 1 else "have"
        weights = plural(result.clustered_weights, "weight tensor")
        yield "cluster", f"{weights} {have} at most {result.cluster_values} distinct values", ""
    if result.packed_weights:
        weights = plural(result.packed_weights, "weight tensor")
        books = "a code-book" if result.packed_weights == 1 else "code-books"
        yield "pack", f"{weights} stored as {books}; only TFLite Micro runs the file", ""
    if result.verification is not None:
        verification = result.verification
        style = "yellow" if verification.is_weak or verification.deviation is not None else "green"
        yield "verified" if verification.deviation is None else "outputs", _verification(verification), style


def _strips(strips: StripExecution) -> Iterator[tuple[str, str, str]]:
    """Yields the segments in strips, what they cost, and the operators that firmware must register."""
    for segment in strips.segments:
        rows = "rows" if segment.axis == 1 else "columns"
        sizes = sorted(set(segment.strip_rows))
        heights = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        is_one = segment.first_op == segment.last_op
        ops = f"operators {segment.first_op} to {segment.last_op} run"
        ops = f"operator {segment.first_op} runs" if is_one else ops
        count = plural(len(segment.strip_rows), "strip")
        yield "split", f"{ops} in {count} of {heights} {rows}", ""
    proof = "smallest of all splits searched" if strips.status == "optimal" else "best found, not proven"
    cost = f"+{100 * strips.extra_macs_share:.1f} % MACs, {strips.added_ops:,} more operators"
    yield "split cost", f"{cost}; {proof}", ""
    latency = strips.latency
    if latency is not None:
        change = _change_of(latency.before_seconds, latency.after_seconds)
        times = f"{1e3 * latency.before_seconds:.4g} ms before, {1e3 * latency.after_seconds:.4g} ms after"
        standing = STANDINGS.get(latency.standing, latency.basis)
        yield "latency", f"{times} ({change}), predicted: {standing}", ""
    if strips.new_operators:
        names = ", ".join(strips.new_operators)
        yield "firmware", f"its op resolver must register {names}, which the original does not use", "yellow"


def _overlap(result: Optimization) -> str:
    if not result.has_only_input_overlaps:
        text = f"{plural(result.overlaps, 'tensor')} with other live tensors"
    elif result.overlaps == 1:
        text = "1 output with an input that is no longer needed"
    else:
        text = f"{result.overlaps:,} outputs with inputs that are no longer needed"
    origin = "" if result.has_new_plan else ", in the plan stored in the original file"
    return f"{text}{origin}: {result.valid_kernels}"


def _schedule(result: Optimization) -> str:
    is_best = result.schedule_status == "optimal"
    if not result.moved_ops:
        return "original; proven optimal" if is_best else "original; no better schedule was found"
    proof = "proven optimal" if is_best else "best found within the time limit"
    return f"{result.moved_ops:,} of {plural(result.ops, 'operator')} moved; {proof}"


def _verification(verification: Verification) -> str:
    inputs = plural(verification.samples, "random input")
    runs = f"{inputs} in {verification.runtime} with {_distinct(verification.distinct_outputs)}"
    if verification.deviation is None:
        text = f"outputs equal on {runs}"
    else:
        deviation = verification.deviation
        size = f"at most {deviation.largest:.4g}, on average {deviation.mean:.4g}"
        text = f"changed by {size}, of a range of {deviation.span:.4g}, on {runs}"
    if verification.distinct_with_random_weights is not None:
        text += (
            f"; also equal with random weights, with {_distinct(verification.distinct_with_random_weights)}"
        )
    return text


def _distinct(distinct: int) -> str:
    return (
        f"{distinct:,} different outputs"
        if distinct > 1
        else "the same output each time, which is weak evidence"
    )
