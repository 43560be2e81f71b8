"""Renderers: pure functions of results, chosen by the type of a result and the ending of a file.

A renderer computes nothing: all that it shows is in the result. The tables below name every renderer by its
module in this package and its function; a module is imported when it is first needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.files import write_text


@dataclass(frozen=True, slots=True)
class Writer:
    """A function that yields the text of a file, or that writes the file itself, and what it is asked for."""

    place: str  # module:function
    quantity: str | None = None  # what an overlay shows
    writes: bool = False  # whether it writes the file itself
    is_timed: bool = False  # whether it shows times, which need a target


_OVERLAY = "interop.model_explorer:lines"
_JSON = Writer("envelope:json_lines")

WRITERS: dict[str, dict[str, Writer]] = {
    "Report": {
        ".json": Writer("data.report:json_lines"),
        ".csv": Writer("data.report:csv_lines"),
        ".md": Writer("markdown:lines"),
        ".html": Writer("html:lines"),
        ".trace.json": Writer("interop.perfetto:lines", is_timed=True),
        ".overlay.json": Writer(_OVERLAY),
        ".macs.overlay.json": Writer(_OVERLAY, "macs"),
        ".bytes.overlay.json": Writer(_OVERLAY, "bytes"),
        ".live.overlay.json": Writer(_OVERLAY, "live"),
        ".ms.overlay.json": Writer(_OVERLAY, "ms", is_timed=True),
        ".onnx": Writer("interop.onnx_metadata:save", writes=True),
    },
    "Plan": {".json": Writer("data.plan:json_lines"), ".csv": Writer("data.plan:csv_lines")},
    "Checks": {
        ".json": _JSON,
        ".md": Writer("markdown:markdown"),
        ".xml": Writer("data.ci:junit_lines"),
        ".codequality.json": Writer("data.ci:code_quality_lines"),
    },
    "Comparison": {
        ".json": Writer("data.comparison:json_lines"),
        ".csv": Writer("data.comparison:csv_lines"),
        ".md": Writer("console.comparison_page:markdown"),
    },
    "PrecisionAssignment": {".json": Writer("data.precision:mapping_lines")},
    "PrecisionFront": {".json": _JSON, ".csv": Writer("data.precision:front_csv_lines")},
    "PrecisionFits": {".json": _JSON},
    "Tradeoff": {
        ".csv": Writer("data.precision:tradeoff_csv_lines"),
        ".json": _JSON,
        ".md": Writer("console.precision:tradeoff_markdown"),
        ".html": Writer("html.tradeoff:lines"),
    },
    "Measurement": {".json": _JSON},
    "QueryResult": {
        ".csv": Writer("data.query:save", writes=True),
        ".parquet": Writer("data.query:save", writes=True),
        ".json": Writer("data.query:json_lines"),
        ".html": Writer("html.leaderboard:lines"),
    },
}
"""Result type -> ending of a file -> what writes it. The longest ending that a name has decides."""
_NOUNS = {
    "Report": "a report is",
    "Plan": "a plan is",
    "Checks": "a check is",
    "Comparison": "a comparison is",
    "PrecisionAssignment": "a choice of precisions is",
    "PrecisionFront": "a front is",
    "PrecisionFits": "a list of precisions is",
    "Tradeoff": "the table is",
    "Measurement": "a measurement is",
    "QueryResult": "an answer is",
}
_PLAIN_DATA = {
    "Report": "data.report:to_dict",
    "Plan": "data.plan:to_dict",
    "Check": "data.check:to_dict",
    "Checks": "data.check:all_to_dict",
    "Comparison": "data.comparison:to_dict",
    "PrecisionAssignment": "data.precision:assignment",
    "PrecisionFront": "data.precision:front",
    "PrecisionFits": "data.precision:fits",
    "Tradeoff": "data.precision:tradeoff",
    "Measurement": "data.measurement:to_dict",
    "QueryResult": "data.query:to_dict",
}
_FRAMES = {
    "Report": "data.frames:report_frame",
    "Plan": "data.frames:plan_frame",
    "Comparison": "data.comparison:frame",
    "Tradeoff": "data.precision:tradeoff_frame",
    "QueryResult": "data.query:frame",
}
_PICTURES = {"Report": "plots:plot", "Plan": "plots:plot_plan", "Tradeoff": "plots:plot_tradeoff"}
_TEXTS = {
    "Report": "notebook:text",
    "Explanation": "console.report:explanation_text",
    "ClosedForms": "console.closed_forms:text_of",
    "Comparison": "console.comparison:headline",
}
_PAGES = {
    "Report": "notebook:html",
    "Check": "notebook:check_html",
    "Comparison": "console.comparison_page:html",
}


def save(result: Any, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
    """Write a result as the ending of the file says."""
    ending, writer = _writer(type(result).__name__, path)
    function = _function(writer.place)
    options: dict[str, Any] = {} if writer.quantity is None else {"quantity": writer.quantity}
    if ending == ".csv":
        options["raw"] = raw_csv
    if writer.writes:
        function(result, path, **options)
    else:
        write_text(path, function(result, **options))


def check_path(kind: str, path: str | os.PathLike[str], *, timed: bool = True) -> None:
    """Raise unless a result of that type can be written to a file, before any work is done for it."""
    _, writer = _writer(kind, path)
    if writer.is_timed and not timed:
        raise SizeupError(f"{os.fspath(path)}: it shows times, which need a target: give one with -d")


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise if there is no folder for a file."""
    if not Path(path).absolute().parent.is_dir():
        raise SizeupError(f"{os.fspath(path)}: there is no such folder")


def to_dict(result: Any) -> dict[str, Any]:
    """A result as plain data."""
    content: dict[str, Any] = _of(_PLAIN_DATA, result, "plain data")(result)
    return content


def to_pandas(result: Any) -> Any:
    """The rows of a result as a data frame."""
    return _of(_FRAMES, result, "a data frame")(result)


def plot(result: Any, path: str | os.PathLike[str], picture: str | None = None) -> Path:
    """Draw a result as a .png or .svg file; `picture` names one of several, by default its file name does."""
    function = _of(_PICTURES, result, "a picture")
    drawn: Path = function(result, path) if picture is None else function(result, path, picture)
    return drawn


def text(result: Any) -> str:
    """A result in a few lines, as Python shows a value."""
    words: str = _of(_TEXTS, result, "text")(result)
    return words


def page(result: Any) -> str:
    """A result as a notebook shows it."""
    text: str = _of(_PAGES, result, "a page")(result)
    return text


def _of(table: dict[str, str], result: Any, what: str) -> Any:
    place = table.get(type(result).__name__)
    if place is None:
        raise SizeupError(f"a {type(result).__name__} has no form as {what}")
    return _function(place)


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), name)


def _writer(kind: str, path: str | os.PathLike[str]) -> tuple[str, Writer]:
    """The ending of a file's name, and what writes it; the file must have a folder to go to."""
    writers = WRITERS.get(kind)
    if writers is None:
        raise SizeupError(f"a {kind} is not written to files")
    ending = next((each for each in _endings(path) if each in writers), None)
    if ending is None:
        *others, last = writers
        listed = f"{', '.join(others)} or {last}" if others else last
        wish = "one of these endings" if others else "that ending"
        raise SizeupError(f"{os.fspath(path)}: {_NOUNS[kind]} written as {listed}; give it {wish}")
    check_folder(path)
    return ending, writers[ending]


def _endings(path: str | os.PathLike[str]) -> Iterator[str]:
    """What a file's name may be seen to end in, the longest first: `.trace.json`, `.json`."""
    suffixes = [each.lower() for each in Path(path).suffixes]
    return ("".join(suffixes[start:]) for start in range(len(suffixes)))
