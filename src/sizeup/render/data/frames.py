"""Rows as a pandas data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.results.plan import PlannedTensor
from sizeup.results.rows import OpRow

if TYPE_CHECKING:
    from sizeup.results.plan import Plan
    from sizeup.results.report import Report

_COUNTS = ("macs", "elementwise_ops", "params", "read_bytes", "written_bytes", "live_bytes")


def _pandas() -> Any:
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore] # untyped
    except ImportError as error:
        raise MissingLibrary("a data frame", "pandas", "frames") from error
    return pandas


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Returns a data frame of columns by name; integer columns with unknown values are nullable."""
    table = _pandas().DataFrame(columns)
    dtypes = {name: "Int64" for name, column in columns.items() if None in column and _are_whole(column)}
    return table.astype(dtypes)


def frame_of_arrow(table: Any) -> Any:
    """Returns a data frame of an Arrow table; integers and booleans are nullable."""
    pandas = _pandas()
    dtypes = {"int64": pandas.Int64Dtype(), "int32": pandas.Int32Dtype(), "bool": pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=lambda arrow_type: dtypes.get(str(arrow_type)))


def _are_whole(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, int) for value in column)


def report_frame(report: Report) -> Any:
    """Returns one row per operator, indexed by its position in the schedule; unknown values are missing."""
    pandas = _pandas()
    names = [field.name for field in fields(OpRow)]
    table = pandas.DataFrame([[getattr(row, name) for name in names] for row in report.ops], columns=names)
    table = table.rename(columns={"kind": "op_kind"})
    table["known"] = table["reason"].isna()
    table["intensity"] = pandas.Series([row.intensity for row in report.ops], dtype="Float64")
    # Nullable integers: a plain column with a missing count would be of floats.
    return table.astype(dict.fromkeys(_COUNTS, "Int64")).set_index("index")


def plan_frame(plan: Plan) -> Any:
    """Returns one row per tensor that is not a constant: its offset and liveness."""
    names = [field.name for field in fields(PlannedTensor)]
    return frame_of({name: [getattr(place, name) for place in plan.planned_tensors()] for name in names})
