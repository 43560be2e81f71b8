"""Reports as files, their format chosen by the suffix."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.errors import SizeupError
from sizeup.files import write_text
from sizeup.render import html, markdown
from sizeup.render.data import report as data

if TYPE_CHECKING:
    from sizeup.results.report import Report


def _trace(report: Report) -> Iterator[str]:
    from sizeup.render.interop import perfetto as trace

    return trace.lines(report)


def _overlay(quantity: str | None) -> Callable[[Report], Iterable[str]]:
    def lines(report: Report) -> Iterator[str]:
        from sizeup.render.interop import model_explorer as overlay

        return overlay.lines(report, quantity)

    return lines


_WRITERS: dict[str, Callable[[Report], Iterable[str]]] = {
    ".json": data.json_lines,
    ".csv": data.csv_lines,
    ".md": markdown.lines,
    ".html": html.lines,
    ".trace.json": _trace,
    ".overlay.json": _overlay(None),
    **{f".{each}.overlay.json": _overlay(each) for each in ("macs", "bytes", "live", "ms")},
}
# A copy of the model itself, with figures.
_COPY = ".onnx"
# What needs an estimate of time.
_TIMED = (".trace.json", ".ms.overlay.json")


def check(path: str | os.PathLike[str], *, timed: bool = True) -> None:
    """Raise unless a report can be written to that file, before anybody works for it."""
    if Path(path).suffix.lower() == _COPY:
        check_folder(path)
        return
    writer_of(path)
    if not timed and os.fspath(path).lower().endswith(_TIMED):
        raise SizeupError(f"{os.fspath(path)}: it shows times, which need a target: give one with -d")


def writer_of(path: str | os.PathLike[str]) -> Callable[[Report], Iterable[str]]:
    """What writes a report to a file of that suffix, which must have a folder to go to."""
    found = next((_WRITERS[ending] for ending in _endings(path) if ending in _WRITERS), None)
    if found is None:
        raise SizeupError(
            f"{os.fspath(path)}: a report is written as {', '.join((*_WRITERS, _COPY))};"
            " give it one of these endings"
        )
    check_folder(path)
    return found


def _endings(path: str | os.PathLike[str]) -> Iterator[str]:
    """What a file's name may be seen to end in, the longest first: `.trace.json`, `.json`."""
    suffixes = [each.lower() for each in Path(path).suffixes]
    return ("".join(suffixes[start:]) for start in range(len(suffixes)))


def check_ending(path: str | os.PathLike[str], what: str, *endings: str) -> None:
    """Refuse a file whose suffix is none of those that `what` ("a front is") can be written as."""
    if Path(path).suffix.lower() not in endings:
        wish = "that ending" if len(endings) == 1 else "one of these endings"
        raise SizeupError(f"{os.fspath(path)}: {what} written as {' or '.join(endings)}; give it {wish}")


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise where there is no folder for a file, before anybody works for it."""
    if not Path(path).absolute().parent.is_dir():
        raise SizeupError(f"{os.fspath(path)}: there is no such folder")


def save(report: Report, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
    """Write a report to a file."""
    if Path(path).suffix.lower() == _COPY:
        from sizeup.render.interop import onnx_metadata as annotated

        annotated.save(report, path)
        return
    writer = writer_of(path)
    lines = data.csv_lines(report, raw=raw_csv) if writer is data.csv_lines else writer(report)
    write_text(path, lines)
