"""Whole rows: answers with the names of what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from sizeup.sweeps.evaluate import Row, evaluate, failure, load_of
from sizeup.sweeps.models import Model
from sizeup.sweeps.points import Point, Questions


def rows_of(model: Model, model_hash: str, asked: Questions) -> Iterator[Row]:
    """The rows of a model, one a point, evaluated in this process."""
    load = load_of(model.opened())
    for point, row in evaluate(load, asked):
        yield {**row, **_names(model, model_hash, asked, point)}


def error_rows(model: Model, model_hash: str, asked: Questions, kind: str, reason: str) -> Iterator[Row]:
    """The rows of a model of which nothing could be found out."""
    for point in asked.points:
        yield {**failure(point, kind, reason), **_names(model, model_hash, asked, point)}


def _names(model: Model, model_hash: str, asked: Questions, point: Point) -> Row:
    return {
        "key": asked.key(model_hash, point),
        "model": model.name,
        "model_hash": model_hash,
        "target_hash": asked.target_hashes[point.target],
        "version": asked.version,
    }
