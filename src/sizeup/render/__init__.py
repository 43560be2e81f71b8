"""Renderers: pure functions of results, chosen by the type of the result and the file name extension.

A renderer computes nothing: all its numbers are in the result. The tables below name every renderer as
`module:function`, relative to this package, or with all of its name; a module is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.files import is_folder, write_text
from sizeup.logs import inert, inert_json


@dataclass(frozen=True, slots=True)
class Writer:
    """A function that yields the text of a file or writes the file, and its options."""

    place: str  # module:function
    quantity: str | None = None  # the quantity of an overlay
    writes: bool = False  # whether it writes the file
    is_timed: bool = False  # whether it needs a latency estimate, hence a target
    reader: str = ""  # module:function that reads the file again


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
        ".md": Writer("console.comparison_output:markdown"),
    },
    "PrecisionAssignment": {
        ".json": Writer(
            "data.precision:mapping_lines", reader="sizeup.mixed_precision.precision_map:read_precision_map"
        )
    },
    "PrecisionFront": {".json": _JSON, ".csv": Writer("data.precision:front_csv_lines")},
    "PrecisionFits": {".json": _JSON},
    "Tradeoff": {
        ".csv": Writer("data.precision:tradeoff_csv_lines"),
        ".json": _JSON,
        ".md": Writer("console.precision:tradeoff_markdown"),
        ".html": Writer("html.tradeoff:lines"),
    },
    "Measurement": {".json": _JSON},
    "Ranking": {".json": _JSON},
    "Diffusion": {".json": _JSON},
    "Serving": {
        ".json": _JSON,
        ".html": Writer("sizeup.serving.render.page:lines"),
        ".md": Writer("sizeup.serving.render.checks:markdown_lines"),
        ".xml": Writer("sizeup.serving.render.checks:junit_lines"),
        ".codequality.json": Writer("sizeup.serving.render.checks:code_quality_lines"),
    },
    "QueryResult": {
        ".csv": Writer("data.query:save", writes=True),
        ".parquet": Writer("data.query:save", writes=True),
        ".json": Writer("data.query:json_lines"),
        ".html": Writer("html.leaderboard:lines"),
    },
}
"""Result type -> extension -> writer. The longest matching extension of a file name applies."""
_INERT: dict[str, Callable[[str], str]] = {".json": inert_json, ".md": inert}  # they may be printed in a log
_NOUNS = {
    "Report": "a report is",
    "Plan": "a plan is",
    "Checks": "a check is",
    "Comparison": "a comparison is",
    "PrecisionAssignment": "a precision assignment is",
    "PrecisionFront": "a Pareto front is",
    "PrecisionFits": "a list of precisions is",
    "Tradeoff": "a trade-off is",
    "Measurement": "a measurement is",
    "Ranking": "a ranking is",
    "Diffusion": "a diffusion estimate is",
    "Serving": "a serving estimate is",
    "QueryResult": "a query result is",
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
    "Ranking": "data.boards:ranking_to_dict",
    "Diffusion": "sizeup.serving.render.data:diffusion_to_dict",
    "Serving": "sizeup.serving.render.data:to_dict",
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
    "Comparison": "console.comparison_output:text_of",
}
_HEADLINES = {"Comparison": "console.comparison:headline"}
_PAGES = {
    "Report": "notebook:html",
    "Check": "notebook:check_html",
    "Comparison": "console.comparison_output:html",
}


def save(result: Any, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
    """Write a result in the format of the file name's extension."""
    extension, writer = _writer(type(result).__name__, path)
    function = _function(writer.place)
    options: dict[str, Any] = {} if writer.quantity is None else {"quantity": writer.quantity}
    if extension == ".csv":
        options["raw"] = raw_csv
    if writer.writes:
        function(result, path, **options)
    else:
        lines = map(_INERT.get(Path(path).suffix.lower(), str), function(result, **options))
        reader = _function(writer.reader) if writer.reader else None
        write_text(path, lines, check=reader)


def check_path(result_type: str, path: str | os.PathLike[str], *, timed: bool = True) -> None:
    """Raise SizeupError unless a result of that type can be written to that path."""
    _, writer = _writer(result_type, path)
    if writer.is_timed and not timed:
        raise SizeupError(f"{os.fspath(path)}: this output needs a latency estimate; add -d DEVICE")


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise SizeupError if the folder of a file does not exist."""
    if not is_folder(Path(path).absolute().parent):
        raise SizeupError(f"{os.fspath(path)}: no such folder")


def to_dict(result: Any) -> dict[str, Any]:
    """Returns a result as plain data."""
    content: dict[str, Any] = _of(_PLAIN_DATA, result, "plain data")(result)
    return content


def to_pandas(result: Any) -> Any:
    """Returns the rows of a result as a data frame."""
    return _of(_FRAMES, result, "a data frame")(result)


def plot(result: Any, path: str | os.PathLike[str], picture: str | None = None) -> Path:
    """Draw a result as a .png or .svg file; `picture` selects one of several (default: by file name)."""
    function = _of(_PICTURES, result, "a picture")
    target: Path = function(result, path) if picture is None else function(result, path, picture)
    return target


def text(result: Any) -> str:
    """Returns a result as printed, for `str` or `repr`."""
    words: str = _of(_TEXTS, result, "text")(result)
    return words


def headline(result: Any) -> str:
    """Returns a result in one sentence."""
    sentence: str = _of(_HEADLINES, result, "a headline")(result)
    return sentence


def page(result: Any) -> str:
    """Returns a result as HTML for a notebook."""
    text: str = _of(_PAGES, result, "a page")(result)
    return text


def _of(table: dict[str, str], result: Any, form: str) -> Any:
    address = table.get(type(result).__name__)
    if address is None:
        raise SizeupError(f"a {type(result).__name__} cannot be rendered as {form}")
    return _function(address)


def _function(address: str) -> Any:
    module, _, name = address.partition(":")
    module = module if module.startswith("sizeup.") else f"{__name__}.{module}"
    return getattr(import_module(module), name)


def _writer(result_type: str, path: str | os.PathLike[str]) -> tuple[str, Writer]:
    """Returns the extension of a file name and its writer; raises if its folder does not exist."""
    writers = WRITERS.get(result_type)
    if writers is None:
        raise SizeupError(f"a {result_type} is not written to files")
    extension = next((candidate for candidate in _extensions(path) if candidate in writers), None)
    if extension is None:
        *others, last = writers
        listed = f"{', '.join(others)} or {last}" if others else last
        advice = "one of these extensions" if others else "this extension"
        raise SizeupError(f"{os.fspath(path)}: {_NOUNS[result_type]} written as {listed}; use {advice}")
    check_folder(path)
    return extension, writers[extension]


def _extensions(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the possible extensions of a file name, longest first: `.trace.json`, `.json`."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return ("".join(suffixes[start:]) for start in range(len(suffixes)))
