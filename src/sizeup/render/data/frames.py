"""Rows as a pandas data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.results.plan import Place
from sizeup.results.rows import OpRow

if TYPE_CHECKING:
    from sizeup.results.plan import Plan
    from sizeup.results.report import Report

_COUNTS = ("macs", "elementwise_ops", "params", "read_bytes", "written_bytes", "live_bytes")


def _pandas() -> Any:
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore] # no types of its own
    except ImportError as error:
        raise MissingLibrary("a data frame", "pandas", "frames") from error
    return pandas


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A data frame of columns by name; whole numbers stay whole where some of them are not known."""
    table = _pandas().DataFrame(columns)
    kinds = {name: "Int64" for name, column in columns.items() if None in column and _are_whole(column)}
    return table.astype(kinds)


def frame_of_arrow(table: Any) -> Any:
    """A data frame of a table of Arrow; whole numbers and answers stay such where some are not known."""
    pandas = _pandas()
    kinds = {"int64": pandas.Int64Dtype(), "int32": pandas.Int32Dtype(), "bool": pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))


def _are_whole(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, int) for value in column)


def report_frame(report: Report) -> Any:
    """One row an operator, indexed by its place in the schedule; what is not known is missing."""
    pandas = _pandas()
    names = [each.name for each in fields(OpRow)]
    table = pandas.DataFrame([[getattr(row, name) for name in names] for row in report.ops], columns=names)
    table["known"] = table["reason"].isna()
    table["intensity"] = pandas.Series([row.intensity for row in report.ops], dtype="Float64")
    # Nullable integers: a plain column would turn counts into floats as soon as one is missing.
    return table.astype(dict.fromkeys(_COUNTS, "Int64")).set_index("index")


def plan_frame(plan: Plan) -> Any:
    """One row per tensor that is no constant: where it is, and for how long."""
    names = [each.name for each in fields(Place)]
    return frame_of({name: [getattr(place, name) for place in plan.places()] for name in names})
