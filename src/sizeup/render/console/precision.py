"""Results of the precision verbs as text: an assignment, a front, fitting precisions, and a trade-off."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.render.console.latency import latency_text
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.render.markdown import cell, prose
from sizeup.render.vocabulary import NOTHING, UNKNOWN, named
from sizeup.results.precision import BUDGET_LABELS, BUDGETS, batch_and_size, budgets_with_verdict, share_of
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Assignment, LayerSizes, MeasuredAssignment, Point, Row
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront, Tradeoff

_MORE = {"weight_bytes": "1 KiB", "activation_bytes": "1 KiB", "seconds": "1 ms", "joules": "1 mJ"}


def _measured(refined: MeasuredAssignment) -> str:
    losses, baseline = refined.losses, refined.table.baseline
    parts = []
    if losses.accuracy is not None and baseline.accuracy is not None:
        parts.append(f"accuracy {100 * losses.accuracy:.1f} % ({100 * baseline.accuracy:.1f} % in float)")
    if losses.kl is not None:
        parts.append(f"KL divergence {losses.kl:.3g}")
    parts.append(f"SQNR {losses.sqnr_db:.1f} dB")
    return f"{', '.join(parts)}; best of {refined.candidate_count:,} assignments that were run"


def render(assignment: PrecisionAssignment, console: Console, top: int | None = None) -> None:
    """Print the assignment, its loss and its resources, then the layers."""
    console.print(Text(named(assignment.graph.name or "model", assignment.graph.format), style="bold"))
    for label, text in _lines(assignment):
        print_labeled(console, label, text, "bold" if label == "assignment" else "")
    widest = max((len(layer.kind) for layer in assignment.options.layers), default=0)
    rows = [
        (
            precision_name(assignment.assignment.dtypes[layer.op]),
            f"{assignment.losses[layer.op]:.3g}",
            f"{layer.kind:<{widest}}  {layer.name}",
        )
        for layer in assignment.options.layers
    ]
    listed = rows if top is None else rows[:top]
    console.print()
    print_rows(console, ("precision", "loss", "layer"), listed)
    if len(listed) < len(rows):
        console.print(Text(f"  {len(rows) - len(listed):,} more: --top N shows them", style="dim"))


def _proof(assignment: PrecisionAssignment) -> str:
    """Returns the optimality gap of an assignment."""
    if assignment.measured is not None:
        return f"best of {assignment.measured.candidate_count:,} that were run"
    if assignment.assignment.is_proven:
        return "proven optimal: no assignment has a lower loss"
    if assignment.assignment.gap is None:
        return "best found; optimality gap unknown"
    return f"best found; optimality gap at most {100 * assignment.assignment.gap:.2g} %"


def _unknown(assignment: PrecisionAssignment) -> Iterator[tuple[str, str]]:
    """Yields why there is no latency, and which precisions the target does not run."""
    if assignment.no_latency_reason:
        yield "latency", f"unknown: {assignment.no_latency_reason}"
    yield from (("unsupported", reason) for reason in assignment.options.unsupported)


def _lines(assignment: PrecisionAssignment) -> Iterator[tuple[str, str]]:
    counts = Counter(precision_name(dtype) for dtype in assignment.assignment.dtypes.values())
    mix = ", ".join(f"{count:,} layer{'s' * (count != 1)} at {name}" for name, count in counts.most_common())
    yield "assignment", f"{mix}; {_proof(assignment)}"
    yield "loss", f"{assignment.assignment.loss:.4g}, {assignment.basis}"
    if assignment.measured is not None:
        yield "measured", _measured(assignment.measured)
        yield from (("note", note) for note in assignment.measured.table.notes)
    for name in BUDGETS:
        used, budget = getattr(assignment.assignment.figures, name), getattr(assignment.budgets, name)
        if used is None:
            continue
        text = assignment.assignment.figures.text(name)
        if budget is not None:
            text += f" of the {units.amount(name, budget)} budget ({units.share(used, budget)})"
        if getattr(assignment.original, name) is not None:
            text += f", {assignment.original.text(name)} originally"
        yield BUDGET_LABELS[name], text
        if name == "seconds" and assignment.estimate is not None:
            yield "", f"{latency_text(assignment.estimate)}, {assignment.estimate.basis}"
            yield from (("caveat", note) for note in assignment.estimate.notes)
    yield from _undetermined(assignment)
    yield from _unknown(assignment)
    for name in assignment.assignment.binding:
        gain = (assignment.assignment.gains or {}).get(name, 0.0)
        effect = (
            f"+{_MORE[name]} reduces the loss by {gain:.3g}"
            if gain
            else f"a larger budget reduces the loss, +{_MORE[name]} does not"
        )
        yield "binding", f"{BUDGET_LABELS[name]}: {effect}"
    if assignment.graph.format == "tflite" and assignment.budgets.activation_bytes is not None:
        yield (
            "note",
            (
                "activations are those of the best memory plan; TFLite Micro's own plan may need more, and"
                " its arena has a tail: run sizeup check --arena on the file that you deploy"
            ),
        )
    if assignment.has_budgets and not assignment.assignment.binding:
        yield "binding", "none: every budget could be smaller"


def _undetermined(result: PrecisionAssignment | PrecisionFront) -> Iterator[tuple[str, str]]:
    for name in result.undetermined_budgets:
        label = BUDGET_LABELS[name]
        yield "undetermined", f"only a lower bound of the {label} is known: it may exceed the budget"


def render_front(front: PrecisionFront, console: Console) -> None:
    """Print one line per assignment."""
    console.print(Text(printable(front.options.graph.name or "model"), style="bold"))
    number = len(front.assignments)
    by = " and ".join(front.axes)
    print_labeled(
        console,
        "front",
        f"{number} assignment{'s' * (number != 1)} by {by}; {_front_proof(front.assignments)}",
    )
    print_labeled(console, "loss", front.basis)
    if front.estimate is not None:
        print_labeled(console, "latency", front.estimate.basis)
        for note in front.estimate.notes:
            print_labeled(console, "caveat", note)
    for label, text in _undetermined(front):
        print_labeled(console, label, text)
    for reason in front.options.unsupported:
        print_labeled(console, "unsupported", reason)
    console.print()
    known = [
        name
        for name in BUDGETS
        if any(getattr(choice.figures, name) is not None for choice in front.assignments)
    ]
    rows = [_front_row(*choice, known) for choice in zip(front.losses, front.assignments, strict=True)]
    print_rows(console, ("loss", *(BUDGET_LABELS[name] for name in known), "layers"), rows)


def _front_proof(choices: Sequence[Assignment]) -> str:
    """Returns the largest optimality gap of all assignments."""
    gaps = [choice.gap for choice in choices]
    if any(gap is None for gap in gaps):
        return "optimality gap unknown"
    widest = max((gap or 0.0 for gap in gaps), default=0.0)
    return (
        f"optimality gap at most {100 * widest:.2g} %" if widest else "each proven optimal for its resources"
    )


def _front_row(loss: float, choice: Assignment, known: Sequence[str]) -> list[str]:
    figures = choice.figures
    cells = [NOTHING if getattr(figures, name) is None else figures.text(name) for name in known]
    counts = Counter(map(precision_name, choice.dtypes.values()))
    mix = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return [f"{loss:.3g}", *cells, mix]


def render_fits(fits: PrecisionFits, console: Console, top: int | None = None) -> None:
    """Print how many layers fit, then each with the sizes of its tensors; a star marks a fit."""
    console.print(Text(named(fits.graph.name or "model", fits.graph.format), style="bold"))
    at_all = sum(1 for layer in fits.layers if len(layer.fitting_dtypes) == len(fits.precisions))
    limit = units.size(fits.threshold_bytes)
    print_labeled(console, "limit", f"{limit} per layer, for the {_measure(fits.measure)}")
    print_labeled(
        console, "layers", f"{len(fits.layers):,}; {at_all:,} fit at every precision (* marks a fit)"
    )
    if fits.not_fitting:
        print_labeled(
            console,
            "warning",
            f"{len(fits.not_fitting):,} fit at no precision: {_layer_names(fits.not_fitting)}",
            "yellow",
        )
    if fits.undetermined:
        words = f"{len(fits.undetermined):,} undetermined: size depends on data"
        print_labeled(console, "caveat", f"{words}: {_layer_names(fits.undetermined)}", "yellow")
    console.print()
    titles = [*(precision_name(layer) for layer in fits.precisions), "layer"]
    listed = fits.layers[: top or None]
    rows = [row for layer in listed for row in _fit_rows(layer, fits.precisions)]
    print_rows(console, titles, rows)
    if top is not None and top < len(fits.layers):
        console.print(Text(f"  {len(fits.layers) - top:,} more: --top N shows them", style="dim"))


def _measure(measure: str) -> str:
    return {"tensors": "larger of input and output", "sum": "sum of input and output"}.get(measure, measure)


def _layer_names(layers: Sequence[LayerSizes]) -> str:
    names = [layer.layer.name for layer in layers[:3]]
    return ", ".join(names) + (f" and {len(layers) - 3:,} more" if len(layers) > 3 else "")


def _fit_rows(layer_sizes: LayerSizes, precisions: Sequence[DType]) -> Iterator[list[str]]:
    """Yields a layer by its measure, then its input and output tensors with their bytes."""
    marks = ["*" if dtype in layer_sizes.fitting_dtypes else " " for dtype in precisions]
    yield [
        *_fit_cells(layer_sizes, layer_sizes.bytes, marks),
        f"{layer_sizes.layer.kind} {layer_sizes.layer.name}",
    ]
    blank = [" "] * len(precisions)
    for label, sizes, shapes in (
        ("input ", layer_sizes.read_bytes, layer_sizes.input_shapes),
        ("output", layer_sizes.written_bytes, layer_sizes.output_shapes),
    ):
        yield [*_fit_cells(layer_sizes, sizes, blank), f"  {label} {', '.join(map(units.shape, shapes))}"]


def _fit_cells(layer: LayerSizes, sizes: Sequence[int], marks: Sequence[str]) -> list[str]:
    texts = [units.size(size) if layer.is_known else UNKNOWN for size in sizes]
    return [text + mark for text, mark in zip(texts, marks, strict=True)]


_MOST_ROWS = 40


def titles_of(tradeoff: Tradeoff) -> list[str]:
    """Returns the columns of the table; batch, size and budgets only if present."""
    batches = ["batch"] if any(point.batch is not None for point in tradeoff.points) else []
    sizes = ["size"] if any(point.size is not None for point in tradeoff.points) else []
    budgets = ["accepted by"] if tradeoff.has_budgets else []
    share = tradeoff.share_name
    return ["precision", *batches, *sizes, share, "latency", "90 % interval", "energy", "memory", *budgets]


def ordered(tradeoff: Tradeoff) -> list[Point]:
    """Returns the points by batch and input size, the fastest or smallest first."""
    unknown = math.inf

    def rank(point: Point) -> tuple[float, float, float, float]:
        seconds = None if point.latency is None else point.latency.seconds
        memory = unknown if point.memory_bytes is None else point.memory_bytes
        return point.batch or 0, point.size or 0, unknown if seconds is None else seconds, memory

    return sorted(tradeoff.points, key=rank)


def words_of(tradeoff: Tradeoff, point: Point) -> list[str]:
    """Returns the cells of a point under those titles."""
    joules = None if point.figures is None else point.figures.joules
    words = {
        "precision": point.precision,
        "batch": NOTHING if point.batch is None else f"{point.batch:,}",
        "size": NOTHING if point.size is None else f"{point.size:,}",
        tradeoff.share_name: _percent(share_of(point)),
        "latency": _latency(point),
        "90 % interval": _interval(point),
        "energy": NOTHING if joules is None else units.joules(joules),
        "memory": NOTHING if point.memory_bytes is None else units.size(point.memory_bytes),
        "accepted by": _acceptance(point),
    }
    return [words[title] for title in titles_of(tradeoff)]


def label_of(point: Point) -> Iterator[str]:
    """Yields the precision, and the batch and size if present."""
    yield point.precision
    variant = batch_and_size(point)
    if variant:
        yield f"({variant})"


def highlight_words(tradeoff: Tradeoff) -> Iterator[tuple[str, str, str]]:
    """Yields labels, amounts and details of the highlights, after the number of accepted points."""
    if tradeoff.has_budgets:
        accepted = sum(name.accepted is True for name in tradeoff.points)
        undetermined = sum(name.accepted is None for name in tradeoff.points)
        detail = f"{undetermined:,} undetermined" if undetermined else "by all budgets"
        yield "accepted", f"{accepted:,} of {units.plural(len(tradeoff.points), 'point')}", detail
    titles = titles_of(tradeoff)
    for label, point in tradeoff.highlights.items():
        words = dict(zip(titles, words_of(tradeoff, point), strict=True))
        quantity = label.split(" ")[-1]
        details = [f"{words[name]} {name}" for name in (tradeoff.share_name, "latency") if name != quantity]
        known = [name for name in details if not name.startswith(NOTHING)]
        yield label, words[quantity], ", ".join([" ".join(label_of(point)), *known])


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"


def _latency(point: Point) -> str:
    if point.latency is None:
        return NOTHING
    seconds = point.latency.seconds
    return f"at least {units.duration(point.latency.low)}" if seconds is None else units.duration(seconds)


def _interval(point: Point) -> str:
    latency = point.latency
    if latency is None or latency.seconds is None or latency.high is None:
        return NOTHING if latency is None else UNKNOWN
    return f"{units.duration(latency.low)} to {units.duration(latency.high)}"


def _acceptance(point: Point) -> str:
    """Returns the budgets that accept a point, then with a question mark the undetermined ones."""
    undetermined = [f"{name} (?)" for name, is_accepted in point.verdicts.items() if is_accepted is None]
    return ", ".join([*filter(None, [budgets_with_verdict(point, True)]), *undetermined]) or "none"


def render_tradeoff(tradeoff: Tradeoff, console: Console) -> None:
    """Print the provenance, every point, and the means by precision."""
    console.print(Text(printable(tradeoff.name), style="bold"))
    location = f" on {tradeoff.target}" if tradeoff.target else ""
    print_labeled(console, "points", f"{len(tradeoff.points):,}{location}")
    for label, text in tradeoff.provenance():
        print_labeled(console, label, text, "yellow" if label in ("unsupported", "caveat") else "")
    console.print()
    points = ordered(tradeoff)
    rows = [titles_of(tradeoff), *(words_of(tradeoff, point) for point in points[:_MOST_ROWS])]
    # The precision is last because only the last column may be shortened.
    titles, *others = ([*row[1:], row[0]] for row in rows)
    print_rows(console, titles, others)
    if len(points) > _MOST_ROWS:
        more = f"  {units.plural(len(points) - _MOST_ROWS, 'more row')}: -o FILE.csv writes all"
        console.print(Text(more, style="dim"), soft_wrap=True)
    if len(points) > len(tradeoff.rows):
        text = "per precision, over all its points: means, and the largest memory"
        console.print(Text(f"\n  {text}", style="dim"), soft_wrap=True)
        print_rows(console, _mean_titles(tradeoff), [_mean_words(tradeoff, row) for row in tradeoff.rows])


def _mean_titles(tradeoff: Tradeoff) -> list[str]:
    accepted = ["accepted"] if tradeoff.has_budgets else []
    return ["points", tradeoff.share_name, "latency", "energy", "memory", *accepted, "precision"]


def _mean_words(tradeoff: Tradeoff, row: Row) -> list[str]:
    accepted = NOTHING if row.accepted_ratio is None else f"{100 * row.accepted_ratio:.0f} %"
    # A mean of memory over batch sizes is the memory of none of them.
    memory = [point.memory_bytes or 0 for point in tradeoff.points if point.precision == row.precision]
    return [
        f"{row.points:,}",
        _percent(row.agreement if tradeoff.share_name == "agreement" else row.accuracy),
        NOTHING if row.seconds is None else units.duration(row.seconds),
        NOTHING if row.joules is None else units.joules(row.joules),
        NOTHING if row.memory_bytes is None else units.size(max(memory)),
        *([accepted] if tradeoff.has_budgets else []),
        row.precision,
    ]


def tradeoff_markdown(tradeoff: Tradeoff) -> Iterator[str]:
    """Yields the table and its provenance, for a pull request."""
    location = f" on {tradeoff.target}" if tradeoff.target else ""
    yield f"## {cell(tradeoff.name + location)}\n\n"
    titles = titles_of(tradeoff)
    yield _line(titles)
    yield _line(["---", *["---:"] * (len(titles) - 1)])
    for point in ordered(tradeoff):
        yield _line([cell(each) for each in words_of(tradeoff, point)])
    yield "\n"
    for label, text in tradeoff.provenance():
        yield f"- {label}: {prose(text)}\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
