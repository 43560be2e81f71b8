"""The rows of a report as a pandas data frame."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary
from sizeup.report.rows import OpRow

if TYPE_CHECKING:
    from sizeup.report.summary import Report

_COUNTS = ("macs", "elementwise_ops", "params", "read_bytes", "written_bytes")


def frame(report: Report) -> Any:
    """One row an operator, indexed by its place in the schedule; what is not known is missing."""
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore] # no types of its own
    except ImportError as error:
        raise MissingLibrary("a data frame", "pandas", "frames") from error
    names = [each.name for each in fields(OpRow)]
    table = pandas.DataFrame([[getattr(row, name) for name in names] for row in report.ops], columns=names)
    table["known"] = table["reason"].isna()
    table["intensity"] = pandas.Series([row.intensity for row in report.ops], dtype="Float64")
    # Nullable integers: a plain column would turn counts into floats as soon as one is missing.
    return table.astype(dict.fromkeys(_COUNTS, "Int64")).set_index("index")
