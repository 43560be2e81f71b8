"""A report as text: the lines that every readable output shares, and their layout on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.render.console import latency
from sizeup.render.console.columns import table_text
from sizeup.render.console.layout import LABELS, print_labeled, print_sparkline
from sizeup.render.console.npu import npu_lines
from sizeup.render.vocabulary import named, shortfall, size_text
from sizeup.results.rows import NO_TARGET, Port, op_label
from sizeup.results.table import By, Table, build_table

if TYPE_CHECKING:
    from sizeup.results.explanation import Explanation
    from sizeup.results.parts import ConventionCounts, DeviceMemory, MicroArena, Usage
    from sizeup.results.plan import Plan
    from sizeup.results.report import Report

_MOST_PORTS = 4
_MOST_UNKNOWN = 10
_ARENA_ALIGNMENT = 16


def title(report: Report) -> str:
    """Returns the name and the format of the model."""
    return named(report.name, report.format)


def amount(value: int) -> str:
    """Returns a count in short form, with the exact value if the short form rounds."""
    short = units.count(value)
    return short if value < 1000 else f"{short} ({value:,})"


def _total(report: Report, value: int, words: str) -> str:
    if not report.unknown_ops:
        return f"{amount(value)} {words}"
    return f"{amount(value)} {words}, incomplete" if value else "unknown"


def headline(report: Report) -> list[tuple[str, str]]:
    """Returns labels and texts: that it does not fit, inputs, outputs, totals, memory and latency."""
    totals = report.totals
    weights, read, written = map(units.size, (totals.weight_bytes, totals.read_bytes, totals.written_bytes))
    too_large = shortfall(report)
    lines = [("fit verdict", too_large)] if too_large else []
    lines += [("input", text) for text in _ports(report.inputs)]
    lines += [("output", text) for text in _ports(report.outputs)]
    if report.precision is not None:
        lines.append(("precision", precision_text(report.precision)))
    lines += [
        ("MACs", _total(report, totals.macs, "multiply-accumulates")),
        ("FLOPs", _total(report, totals.flops, "at 2 per MAC")),
        *(_convention_lines(report.convention) if report.convention is not None else ()),
        ("elementwise", _total(report, totals.elementwise_ops, "operations without a MAC")),
        ("parameters", f"{amount(totals.params)} in {weights}"),
        (
            "traffic",
            f"{read} read, {written} written per inference{', incomplete' if report.unknown_ops else ''}",
        ),
    ]
    lines += _memory(report)
    if report.npu is not None:
        lines += npu_lines(report.npu)
    if report.latency_details is not None:
        lines += latency.latency_lines(report.latency_details)
    elif report.no_latency_reason != NO_TARGET:
        lines.append(("latency", f"unknown: {report.no_latency_reason}"))
    return lines


def precision_text(precision: DType) -> str:
    """Returns the precision that a result assumes."""
    return f"{precision_name(precision)} (index and mask tensors keep their dtype)"


_MOST_TENSORS = 3


def _memory(report: Report) -> list[tuple[str, str]]:
    """Returns the peak, the live tensors, the peak of the best schedule, and the arena of TFLite Micro."""
    memory = report.memory
    usage, arena = memory.usage, memory.arena
    if usage.unavailable_reason:
        return [("memory", f"unknown: {usage.unavailable_reason}")]
    if usage.peak_op is None:
        return []
    peak, op_kind = peak_size(usage), op_label(report.graph, report.graph.ops[usage.peak_op])
    location = f"in operator {usage.peak_op} ({op_kind}){_run_note(report)}"
    lines = [("memory", f"{peak} peak activation memory, {location}")]
    if memory.device_memory is not None:
        lines.append(("GPU memory", _device_memory(memory.device_memory)))
    if usage.unmodeled:
        lines.append(("excluded", unmodeled_text(usage.unmodeled)))
    tensors = [
        f"{units.shorten(tensor.name)} {size_text(tensor.bytes)}"
        for tensor in usage.peak_tensors[:_MOST_TENSORS]
    ]
    rest = len(usage.peak_tensors) - _MOST_TENSORS
    lines.append(("live at peak", f"{', '.join(tensors)}{f' and {rest:,} more' if rest > 0 else ''}"))
    if memory.best_peak_bytes is not None and memory.best_peak_bytes < usage.peak_bytes:
        proof = "proven optimal" if memory.status == "optimal" else "best found"
        lines.append(
            ("schedule", f"{units.size(memory.best_peak_bytes)} peak in the best schedule ({proof})")
        )
    if arena is not None:
        text = micro_arena(arena, memory.word_bits, has_target=report.target is not None)
        lines += [("arena", text), *micro_warnings(arena)]
    elif memory.unsupported_reason:
        lines.append(("unsupported", f"TFLite Micro does not run this file: {memory.unsupported_reason}"))
    return lines


def _run_note(report: Report) -> str:
    run = report.graph.recorded_run
    if run is None:
        return ""
    if report.target is not None and not report.target.is_cpu:
        return f", eager PyTorch on the {report.target.units[0].unit_class.upper()}"
    return f", eager PyTorch{' on this CPU' if run.device == 'cpu' else ''}"


def _device_memory(memory: DeviceMemory) -> str:
    """Returns what PyTorch's caching allocator takes of a GPU, in one line."""
    return (
        f"{units.size(memory.reserved_bytes)} reserved by PyTorch, {units.size(memory.allocated_bytes)} of it"
        f" allocated at the peak ({units.size(memory.weight_bytes)} weights)"
    )


def peak_size(usage: Usage) -> str:
    """Returns the peak, as a lower bound if a kernel has a workspace of unknown size."""
    return f"{'at least ' if usage.unmodeled else ''}{units.size(usage.peak_bytes)}"


def unmodeled_text(names: tuple[str, ...]) -> str:
    """Returns the ops whose internal memory is not part of the peak."""
    listed_names = [name.removeprefix("aten.") for name in names[:_MOST_TENSORS]]
    if len(names) > _MOST_TENSORS:
        listed_names.append(f"{len(names) - _MOST_TENSORS:,} more")
    listed = (
        f"{', '.join(listed_names[:-1])} and {listed_names[-1]}" if len(listed_names) > 1 else listed_names[0]
    )
    return f"workspace of {listed}, size unknown"


def micro_arena(arena: MicroArena, word_bits: int = 32, *, has_target: bool) -> str:
    """Returns the smallest arena that TFLite Micro accepts for the file, and its parts."""
    kernels = "" if has_target else " with reference kernels"
    head, tail, needed = arena.head_bytes, arena.tail_bytes(word_bits), arena.arena_bytes(word_bits)
    if tail is None or needed is None:
        return f"unknown: {head:,} B head, tail unknown: {arena.tail_unknown_reason}"
    rounding = min(-(head + tail) % _ARENA_ALIGNMENT, needed - head - tail)
    setup = needed - head - tail - rounding
    parts = [f"{head:,} B head", f"{tail:,} B tail"]
    parts += [f"{rounding:,} B to round up to {_ARENA_ALIGNMENT}"] if rounding else []
    parts += [f"{setup:,} B during setup"] if setup else []
    return f"{needed:,} B on a {word_bits}-bit processor{kernels}: {' + '.join(parts)}"


def micro_warnings(arena: MicroArena) -> list[tuple[str, str]]:
    """Returns labels and texts: overlaps that only some kernels support, and why the file does not run."""
    lines = []
    if arena.overlapping_tensors:
        tensors = "1 tensor" if arena.overlapping_tensors == 1 else f"{arena.overlapping_tensors:,} tensors"
        kernels = f": {arena.valid_kernels}" if arena.valid_kernels else ""
        lines.append(
            ("overlap", f"{tensors} with other live tensors, in the memory plan stored in the file{kernels}")
        )
    if arena.unsupported_reason:
        lines.append(("unsupported", f"TFLite Micro does not run this file: {arena.unsupported_reason}"))
    return lines


def verdict(plan: Plan) -> str:
    """Returns the bytes of a memory plan, what it saves, and whether it is proven optimal."""
    size, file_peak = plan.plan_bytes, plan.file_schedule_peak_bytes
    if plan.peak_step is None:
        return f"{size:,} B for the inputs; the model has no operators"
    if is_beaten_by_overlap(plan):
        return (
            f"{size:,} B without overlap; the plan stored in the file overlaps and needs less; {_proof(plan)}"
        )
    if size < file_peak:
        less = f"-{100 * (file_peak - size) / file_peak:.1f} %"
        return f"{size:,} B, {less} from at least {file_peak:,} B in the original order; {_proof(plan)}"
    if plan.status != "optimal" or plan.moved_ops:
        return f"{size:,} B; {_proof(plan)}"
    arena = plan.tflm_arena
    if arena is not None and arena.head_bytes > max(arena.live_bytes, size):
        return f"{size:,} B in the original order, less than TFLite Micro's own plan; {_proof(plan)}"
    return f"{size:,} B in the original order; {_proof(plan)}"


def is_beaten_by_overlap(plan: Plan) -> bool:
    """Whether the plan stored in the file needs less because live tensors overlap in it."""
    arena = plan.tflm_arena
    return arena is not None and bool(arena.overlapping_tensors) and arena.head_bytes < plan.plan_bytes


def _proof(plan: Plan) -> str:
    condition = " without overlap" if is_beaten_by_overlap(plan) else ""
    if plan.status == "optimal":
        schedule = "" if plan.memory_plan.best_schedule else " of this schedule"
        return f"proven optimal: no plan{schedule}{condition} needs less"
    bound = plan.lower_bound_bytes
    gap = units.share(plan.plan_bytes - bound, bound)
    return f"at most {gap} above the lower bound of {bound:,} B{condition}"


def _ports(ports: tuple[Port, ...]) -> list[str]:
    lines = [
        f"{units.shorten(port.name)} {units.shape(port.shape)} {port.dtype}".strip()
        for port in ports[:_MOST_PORTS]
    ]
    return [*lines, f"and {len(ports) - _MOST_PORTS} more"] if len(ports) > _MOST_PORTS else lines


def receipt(report: Report) -> list[str]:
    """Returns the coverage in one line; if incomplete, also the unknown operators and what to do."""
    count = len(report.graph.ops)
    counted = f"{report.known_ops:,} of {count:,} operator{'s' * (count != 1)} counted"
    if not report.unknown_ops:
        return [counted]
    lines = [f"{counted}; the totals are incomplete:"]
    lines += [
        f"{entry.count:,} x {entry.op_kind}: {entry.reason}" for entry in report.unknown_ops[:_MOST_UNKNOWN]
    ]
    if len(report.unknown_ops) > _MOST_UNKNOWN:
        rest = len(report.unknown_ops) - _MOST_UNKNOWN
        lines.append(f"and {rest:,} more op kind{'s' * (rest != 1)}")
    advice = "--strict makes this an error"
    if any(entry.reason.startswith(("no rule", "no cost rule")) for entry in report.unknown_ops):
        advice = f"--rules FILE adds cost rules; {advice}"
    return [*lines, advice]


_STYLES = {**dict.fromkeys(("MACs", "FLOPs", "parameters", "latency"), "bold"), "fit verdict": "bold red"}


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
    """Print the headline, the coverage, the notes and the table, within the width of the console.

    `columns` selects columns of the table; `wide` ignores the width.
    """
    table = build_table(report, by, depth, top)
    console.print(Text(title(report), style="bold"))
    for label, text in headline(report):
        print_labeled(console, label, text, _STYLES.get(label, ""))
        if label == "memory" and not report.memory.usage.unavailable_reason:
            legend = f"over {units.plural(len(report.graph.ops), 'operator')}"
            print_sparkline(console, "live memory", report.memory.usage.live_bytes, legend, LABELS)
    _print_receipt(report, console)
    for note in report.notes:
        print_labeled(console, "note", note, "dim")
    if table.entries:
        console.print()
        print_table(console, table, columns, wide)
    if table.rest is not None and table.rest.ops:
        console.print(Text("--top N shows more rows, -o FILE.csv writes every operator", style="dim"))
    if table.note:
        console.print(Text(table.note, style="dim"))


def render_explanation(explanation: Explanation, console: Console) -> None:
    """Print how the numbers of an operator are computed, or the table of matching operators."""
    console.print(Text(units.printable(explanation.title), style="bold"))
    previous = ""
    for label, text in explanation.lines:
        style = (
            "bold" if label in ("MACs", "FLOPs") else "yellow" if label in ("not known", "unknown") else ""
        )
        print_labeled(console, "" if label == previous else label, text, style)
        previous = label
    if explanation.table is not None:
        print_table(console, explanation.table)


def explanation_text(explanation: Explanation) -> str:
    """Returns an explanation as plain text of 80 columns."""
    buffer = io.StringIO()
    render_explanation(explanation, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def _print_receipt(report: Report, console: Console) -> None:
    first, *others = receipt(report)
    print_labeled(console, "coverage", first, "bold yellow" if report.unknown_ops else "green")
    for line in others:
        print_labeled(console, "", line, "yellow")


def print_table(console: Console, table: Table, columns: Sequence[str] = (), wide: bool = False) -> None:
    """Print a table with as many columns as fit the console."""
    width = None if wide else console.width
    console.print(table_text(table, width, console.options.ascii_only, columns), soft_wrap=True)


_MOST_OP_KINDS = 5


def _convention_lines(counted: ConventionCounts) -> list[tuple[str, str]]:
    """Returns labels and texts: the total of another tool in its unit, and the op kinds that differ."""
    convention, total = counted.convention, counted.exact_total
    text = f"{units.count(total)} ({total:,}) {convention.unit} as counted by {convention.title}"
    ours = counted.cost.total_macs
    if ours:
        text += f", {100 * total / ours:.1f} % of the MACs"
    lines = [("other tool", text)]
    parts = counted.differences_by_kind()
    differences = [f"{op_kind} {_signed(value)}" for op_kind, value in list(parts.items())[:_MOST_OP_KINDS]]
    if len(parts) > _MOST_OP_KINDS:
        differences.append(f"{len(parts) - _MOST_OP_KINDS} more op kinds")
    lines.append(
        (
            "",
            f"difference to the MACs: {', '.join(differences)}" if differences else "equal for every op kind",
        )
    )
    if counted.not_reproduced:
        excluded = units.plural(counted.not_reproduced, "operator")
        lines.append(("", f"excludes {excluded} whose count by that tool is not reproduced"))
    return lines


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{units.count(abs(value))}"
