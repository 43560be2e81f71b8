"""Whole rows: answers with the names of what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from sizeup.sweeps.evaluate import Row, evaluate, failure
from sizeup.sweeps.models import Identity, Model
from sizeup.sweeps.points import Point, PointSet


def rows_of(
    model: Model,
    identity: Identity,
    asked: PointSet,
    *,
    is_last: bool = True,
    bound: set[str] | None = None,
) -> Iterator[Row]:
    """The rows of a model, one per point, evaluated in this process; MemoryError if another try is left."""
    for point, row in evaluate(model.opened(), asked, model.file_bytes, is_last=is_last, bound=bound):
        if "error" in row:
            row["error"] = _by_name(row["error"], model)
        yield {**row, **_names(identity, asked, point)}


def error_rows(model: Model, identity: Identity, asked: PointSet, kind: str, reason: str) -> Iterator[Row]:
    """The rows of a model of which nothing could be found out."""
    for point in asked.points:
        yield {**failure(point, kind, _by_name(reason, model)), **_names(identity, asked, point)}


def _by_name(reason: str, model: Model) -> str:
    """A reason that speaks of the model's name, not of where its file lies today."""
    return reason.replace(model.source, model.name) if model.source else reason


def _names(identity: Identity, asked: PointSet, point: Point) -> Row:
    return {
        "key": asked.key(identity.digest, point),
        "model": identity.name,
        "model_hash": identity.hash,
        "target_hash": asked.target_hashes[point.target],
        "version": asked.version,
    }
