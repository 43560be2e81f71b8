"""Assignments by measured losses: first per layer, then of the best few assignments as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.dtypes import DType, precision_name
from sizeup.mixed_precision.choose import Assignment, Search, candidates
from sizeup.mixed_precision.figures import Budgets
from sizeup.mixed_precision.losses import Losses
from sizeup.mixed_precision.measurement import Bench
from sizeup.mixed_precision.options import OptionTable
from sizeup.mixed_precision.table import LossMeasure, SensitivityTable


@dataclass(frozen=True, slots=True)
class MeasuredAssignment:
    """The assignment with the least measured loss of the `candidate_count` candidates."""

    assignment: Assignment
    losses: Losses
    table: SensitivityTable
    loss_measure: LossMeasure
    candidate_count: int
    predicted_loss: float  # the sum of its layers' losses


def losses_by_layer(
    table: SensitivityTable, loss_measure: LossMeasure | None = None
) -> dict[str, dict[str, float]]:
    """Returns the loss of each layer at each precision for a search; gains by chance count as no loss."""
    losses = table.losses(loss_measure)
    return {f"#{op}": {name: max(loss, 0.0) for name, loss in row.items()} for op, row in losses.items()}


def find_measured_assignment(
    bench: Bench,
    options: OptionTable,
    budgets: Budgets,
    precisions: Sequence[DType],
    *,
    loss_measure: LossMeasure | None = None,
    most: int = 8,
    search: Search | None = None,
) -> MeasuredAssignment:
    """Returns the assignment within budgets with the least loss on the bench.

    Losses of single layers add up only approximately, so the `most` best assignments by their sum are
    measured as a whole.
    """
    search = search or Search()
    progress = search.progress
    table = bench.sensitivity([precision_name(dtype) for dtype in precisions], progress)
    measure = loss_measure or table.default_measure
    loss = options.losses(losses_by_layer(table, measure))
    assignments = candidates(options, loss, budgets, most, search)
    measured = []
    for index, candidate in enumerate(assignments):
        if progress is not None:
            progress(index, len(assignments), "measuring the best assignments")
        measured.append(bench.measure(candidate.dtypes))
    best = min(range(len(assignments)), key=lambda index: table.loss_of(measured[index], measure))
    return MeasuredAssignment(
        assignments[best], measured[best], table, measure, len(assignments), assignments[best].loss
    )
