"""What the precision verbs find, for people: an assignment, a front, what fits, and a trade-off."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.dtypes import DType, precision_name
from sizeup.render.console.latency import spoken
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.markdown import cell, prose
from sizeup.render.vocabulary import NOTHING, UNKNOWN, named
from sizeup.results.precision import BUDGETS, WORDS, names_of, place_of, share_of
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Choice, Point, Refined, Row, Sizes
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront, Tradeoff

_MORE = {"weight_bytes": "1 KiB", "activation_bytes": "1 KiB", "seconds": "1 ms", "joules": "1 mJ"}


def _measured(refined: Refined) -> str:
    losses, baseline = refined.losses, refined.table.baseline
    parts = []
    if losses.accuracy is not None and baseline.accuracy is not None:
        parts.append(f"{100 * losses.accuracy:.1f} % right, {100 * baseline.accuracy:.1f} % in float")
    if losses.kl is not None:
        parts.append(f"divergence {losses.kl:.3g}")
    parts.append(f"{losses.sqnr_db:.1f} dB signal to noise")
    return f"{', '.join(parts)}; the best of {refined.tried:,} choices that were run as a whole"


def render(found: PrecisionAssignment, console: Console, top: int | None = None) -> None:
    """Print what is kept and lost first, then the layers."""
    console.print(Text(named(found.graph.name or "model", found.graph.format), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "choice" else "")
    widest = max((len(layer.kind) for layer in found.options.layers), default=0)
    rows = [
        (
            precision_name(found.choice.chosen[layer.op]),
            f"{found.losses[layer.op]:.3g}",
            f"{layer.kind:<{widest}}  {layer.name}",
        )
        for layer in found.options.layers
    ]
    shown = rows if top is None else rows[:top]
    console.print()
    print_rows(console, ("type", "loss", "layer"), shown)
    if len(shown) < len(rows):
        console.print(Text(f"  {len(rows) - len(shown):,} more: --top N shows them", style="dim"))


def _proof(found: PrecisionAssignment) -> str:
    """How near to the best the choice is known to be."""
    if found.refined is not None:
        return f"the best of {found.refined.tried:,} that were run"
    if found.choice.proven:
        return "proven: no other choice loses less"
    if found.choice.gap is None:
        return "the best that was found; how near it is to the best is not known"
    return f"the best that was found; no other loses {100 * found.choice.gap:.2g} % less"


def _lines(found: PrecisionAssignment) -> Iterator[tuple[str, str]]:
    counts = Counter(precision_name(each) for each in found.choice.chosen.values())
    mix = ", ".join(f"{count:,} layer{'s' * (count != 1)} at {name}" for name, count in counts.most_common())
    yield "choice", f"{mix}; {_proof(found)}"
    yield "loss", f"{found.choice.loss:.4g}, {found.basis}"
    if found.refined is not None:
        yield "measured", _measured(found.refined)
        yield from (("note", note) for note in found.refined.table.notes)
    for name in BUDGETS:
        taken, most = getattr(found.choice.figures, name), getattr(found.budgets, name)
        if taken is None:
            continue
        text = units.amount(name, taken)
        if most is not None:
            text += f" of {units.amount(name, most)} ({units.share(taken, most)})"
        before = getattr(found.widest, name)
        yield WORDS[name], f"{text}, {units.amount(name, before)} as given" if before is not None else text
        if name == "seconds" and found.estimate is not None:
            yield "", f"{spoken(found.estimate)}, {found.estimate.basis}"
    for reason in found.options.unsupported:
        yield "left out", reason
    for name in found.choice.binding:
        gain = (found.choice.gains or {}).get(name, 0.0)
        saves = (
            f"{_MORE[name]} more would save {gain:.3g} of the loss"
            if gain
            else f"{_MORE[name]} more saves nothing yet"
        )
        yield "held back", f"by the {WORDS[name]}: {saves}"
    if found.graph.format == "tflite" and found.budgets.activation_bytes is not None:
        yield (
            "note",
            (
                "activations are the size of the best memory plan; TFLite Micro's own planner may need more,"
                " and its arena has a tail: sizeup check --arena judges the file that you deploy"
            ),
        )
    if found.has_budgets and not found.choice.binding:
        yield "held back", "by no budget: all could be smaller"


def render_front(found: PrecisionFront, console: Console) -> None:
    """Print one line a choice."""
    console.print(Text(plain(found.options.graph.name or "model"), style="bold"))
    number = len(found.choices)
    by = " and ".join(found.axes)
    print_labelled(
        console, "front", f"{number} choice{'s' * (number != 1)} by {by}; {_front_proof(found.choices)}"
    )
    print_labelled(console, "loss", found.basis)
    for reason in found.options.unsupported:
        print_labelled(console, "left out", reason)
    console.print()
    known = [
        name for name in BUDGETS if any(getattr(each.figures, name) is not None for each in found.choices)
    ]
    rows = [_front_row(*each, known) for each in zip(found.losses, found.choices, strict=True)]
    print_rows(console, ("loss", *(WORDS[name] for name in known), "layers"), rows)


def _front_proof(choices: Sequence[Choice]) -> str:
    """How near to the best all of them are known to be."""
    gaps = [choice.gap for choice in choices]
    if any(gap is None for gap in gaps):
        return "how near they are to the best is not known"
    widest = max((gap or 0.0 for gap in gaps), default=0.0)
    return (
        f"a gap of up to {100 * widest:.2g} % is left"
        if widest
        else "each is proven the best within what it takes"
    )


def _front_row(loss: float, choice: Choice, known: Sequence[str]) -> list[str]:
    amounts = [getattr(choice.figures, name) for name in known]
    told = [
        NOTHING if amount is None else units.amount(name, amount)
        for name, amount in zip(known, amounts, strict=True)
    ]
    counts = Counter(map(precision_name, choice.chosen.values()))
    mix = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return [f"{loss:.3g}", *told, mix]


def render_fits(found: PrecisionFits, console: Console, top: int | None = None) -> None:
    """Print how many layers fit, then each with the sizes of its tensors; a star marks what fits."""
    console.print(Text(named(found.graph.name or "model", found.graph.format), style="bold"))
    every = sum(1 for each in found.layers if len(each.kept) == len(found.precisions))
    limit = units.size(found.threshold_bytes)
    print_labelled(console, "limit", f"{limit} for the {_measure(found.measure)} of each layer")
    print_labelled(console, "layers", f"{len(found.layers):,}, of which {every:,} fit at every type")
    if found.without:
        print_labelled(
            console,
            "warning",
            f"{len(found.without):,} fit at no type: {_layer_names(found.without)}",
            "yellow",
        )
    if found.undetermined:
        words = f"{len(found.undetermined):,} undetermined, with a size that depends on data"
        print_labelled(console, "caveat", f"{words}: {_layer_names(found.undetermined)}", "yellow")
    console.print()
    titles = [*(precision_name(each) for each in found.precisions), "layer"]
    shown = found.layers[: top or None]
    rows = [row for each in shown for row in _fit_rows(each, found.precisions)]
    print_rows(console, titles, rows)
    if top is not None and top < len(found.layers):
        console.print(Text(f"  {len(found.layers) - top:,} more: --top N shows them", style="dim"))


def _measure(measure: str) -> str:
    return {"tensors": "larger of input and output", "sum": "sum of input and output"}.get(measure, measure)


def _layer_names(layers: Sequence[Sizes]) -> str:
    names = [each.layer.name for each in layers[:3]]
    return ", ".join(names) + (f" and {len(layers) - 3:,} more" if len(layers) > 3 else "")


def _fit_rows(each: Sizes, precisions: Sequence[DType]) -> Iterator[list[str]]:
    """The layer by its measure, then the tensors that it reads and produces, each with its bytes."""
    marks = ["*" if dtype in each.kept else " " for dtype in precisions]
    yield [*_fit_cells(each, each.bytes, marks), f"{each.layer.kind} {each.layer.name}"]
    blank = [" "] * len(precisions)
    for label, sizes, shapes in (
        ("input ", each.read_bytes, each.input_shapes),
        ("output", each.made_bytes, each.output_shapes),
    ):
        yield [*_fit_cells(each, sizes, blank), f"  {label} {', '.join(map(units.shape, shapes))}"]


def _fit_cells(each: Sizes, sizes: Sequence[int], marks: Sequence[str]) -> list[str]:
    texts = [units.size(size) if each.is_known else UNKNOWN for size in sizes]
    return [text + mark for text, mark in zip(texts, marks, strict=True)]


_MOST_ROWS = 40


def titles_of(tradeoff: Tradeoff) -> list[str]:
    """The columns of the readable tables: batch, size and budgets only if there are any."""
    batches = ["batch"] if any(each.batch is not None for each in tradeoff.points) else []
    sizes = ["size"] if any(each.size is not None for each in tradeoff.points) else []
    budgets = ["accepted by"] if tradeoff.has_budgets else []
    share = tradeoff.share_name
    return ["precision", *batches, *sizes, share, "latency", "90 % interval", "energy", "memory", *budgets]


def ordered(tradeoff: Tradeoff) -> list[Point]:
    """The points by batch and input size, the fastest or smallest first."""
    unknown = math.inf

    def rank(point: Point) -> tuple[float, float, float, float]:
        seconds = None if point.latency is None else point.latency.seconds
        memory = unknown if point.memory_bytes is None else point.memory_bytes
        return point.batch or 0, point.size or 0, unknown if seconds is None else seconds, memory

    return sorted(tradeoff.points, key=rank)


def words_of(tradeoff: Tradeoff, point: Point) -> list[str]:
    """A point under those titles."""
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
    """The precision, and the batch and size if there are any."""
    yield point.precision
    place = place_of(point)
    if place:
        yield f"({place})"


def highlight_words(tradeoff: Tradeoff) -> Iterator[tuple[str, str, str]]:
    """Labels, points and amounts of the highlights; first, how many points the budgets accept."""
    if tradeoff.has_budgets:
        accepted = sum(each.accepted is True for each in tradeoff.points)
        undetermined = sum(each.accepted is None for each in tradeoff.points)
        detail = f"{undetermined:,} undetermined" if undetermined else "by all budgets"
        yield "accepted", f"{accepted:,} of {len(tradeoff.points):,} points", detail
    titles = titles_of(tradeoff)
    for label, point in tradeoff.highlights.items():
        words = dict(zip(titles, words_of(tradeoff, point), strict=True))
        quantity = label.split(" ")[-1]
        others = [f"{words[each]} {each}" for each in (tradeoff.share_name, "latency") if each != quantity]
        known = [each for each in others if not each.startswith(NOTHING)]
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
    """The budgets that accept a point, then with a question mark those of which it is undetermined."""
    undetermined = [f"{name} (?)" for name, answer in point.verdicts.items() if answer is None]
    return ", ".join([*filter(None, [names_of(point, True)]), *undetermined]) or "none"


def render_tradeoff(tradeoff: Tradeoff, console: Console) -> None:
    """Print where the numbers come from, every point, and the means by precision."""
    console.print(Text(plain(tradeoff.name), style="bold"))
    where = f" on {tradeoff.target}" if tradeoff.target else ""
    print_labelled(console, "points", f"{len(tradeoff.points):,}{where}")
    for label, text in tradeoff.provenance():
        print_labelled(console, label, text, "yellow" if label in ("unsupported", "caveat") else "")
    console.print()
    points = ordered(tradeoff)
    rows = [titles_of(tradeoff), *(words_of(tradeoff, each) for each in points[:_MOST_ROWS])]
    # The precision comes last: only the last column may be shortened, and budgets must not be.
    titles, *others = ([*row[1:], row[0]] for row in rows)
    print_rows(console, titles, others)
    if len(points) > _MOST_ROWS:
        more = f"  {len(points) - _MOST_ROWS:,} more rows: -o FILE.csv writes all"
        console.print(Text(more, style="dim"), soft_wrap=True)
    if len(points) > len(tradeoff.rows):
        console.print()
        print_rows(console, _mean_titles(tradeoff), [_mean_words(tradeoff, row) for row in tradeoff.rows])


def _mean_titles(tradeoff: Tradeoff) -> list[str]:
    accepted = ["accepted"] if tradeoff.has_budgets else []
    return ["points", tradeoff.share_name, "latency", "energy", "memory", *accepted, "precision (means)"]


def _mean_words(tradeoff: Tradeoff, row: Row) -> list[str]:
    accepted = NOTHING if row.accepted_ratio is None else f"{100 * row.accepted_ratio:.0f} %"
    return [
        f"{row.points:,}",
        _percent(row.agreement if tradeoff.share_name == "agreement" else row.accuracy),
        NOTHING if row.seconds is None else units.duration(row.seconds),
        NOTHING if row.joules is None else units.joules(row.joules),
        NOTHING if row.memory_bytes is None else units.size(row.memory_bytes),
        *([accepted] if tradeoff.has_budgets else []),
        row.precision,
    ]


def tradeoff_markdown(tradeoff: Tradeoff) -> Iterator[str]:
    """The table and its provenance, for a pull request."""
    where = f" on {tradeoff.target}" if tradeoff.target else ""
    yield f"## {cell(tradeoff.name + where)}\n\n"
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
