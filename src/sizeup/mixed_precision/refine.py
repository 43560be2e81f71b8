"""A choice by what was measured: losses of single layers first, then the best few choices as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.dtypes import DType, precision_name
from sizeup.mixed_precision.choose import Choice, Search, candidates
from sizeup.mixed_precision.figures import Budgets
from sizeup.mixed_precision.losses import Losses
from sizeup.mixed_precision.measuring import Bench
from sizeup.mixed_precision.options import Options
from sizeup.mixed_precision.table import Judged, SensitivityTable


@dataclass(frozen=True, slots=True)
class Refined:
    """The choice that lost least when it was run as a whole, of so many that were."""

    choice: Choice
    losses: Losses
    table: SensitivityTable
    judged: Judged
    tried: int
    predicted: float  # the sum of its layers' own losses


def losses_by_layer(table: SensitivityTable, judged: Judged | None = None) -> dict[str, dict[str, float]]:
    """What each layer loses at each precision, as a choice takes it: a gain by chance counts as no loss."""
    found = table.losses(judged)
    return {f"#{op}": {name: max(loss, 0.0) for name, loss in row.items()} for op, row in found.items()}


def choose_by_measuring(
    bench: Bench,
    options: Options,
    budgets: Budgets,
    precisions: Sequence[DType],
    *,
    judged: Judged | None = None,
    most: int = 8,
    search: Search | None = None,
) -> Refined:
    """The choice within budgets that loses least on the bench.

    Losses of single layers add up only about, so the `most` best choices by their sum are run as a whole, and
    the one that loses least of them is taken.
    """
    search = search or Search()
    progress = search.progress
    table = bench.sensitivity([precision_name(each) for each in precisions], progress)
    measure = judged or table.usual_measure
    loss = options.losses(losses_by_layer(table, measure))
    found = candidates(options, loss, budgets, most, search)
    measured = []
    for place, each in enumerate(found):
        if progress is not None:
            progress(place, len(found), "the best choices as a whole")
        measured.append(bench.measure(each.chosen))
    best = min(range(len(found)), key=lambda place: table.loss_of(measured[place], measure))
    return Refined(found[best], measured[best], table, measure, len(found), found[best].loss)
