"""What every result offers: plain data, files, pictures and text, made by `sizeup.render`."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any


def _renderers() -> Any:
    """The table of renderers, found by name: results are below it and import nothing of it."""
    return import_module("sizeup.render")


class Result:
    """Frozen data with its analysis done. How it is shown is decided by its type and the ending of a file."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the unit in every key."""
        content: dict[str, Any] = _renderers().to_dict(self)
        return content

    def to_pandas(self) -> Any:
        """Its rows as a data frame."""
        return _renderers().to_pandas(self)

    def save(self, path: str | PathLike[str], *, raw_csv: bool = False) -> None:
        """Write it as the ending of the file says; `sizeup.render.WRITERS` lists the endings of every result.

        `raw_csv` leaves texts as they are that a spreadsheet would take for formulas.
        """
        _renderers().save(self, path, raw_csv=raw_csv)

    def plot(self, path: str | PathLike[str]) -> Path:
        """Draw it as a .png or .svg file; returns the path."""
        return self._plot(path)

    def _plot(self, path: str | PathLike[str], picture: str | None = None) -> Path:
        drawn: Path = _renderers().plot(self, path, picture)
        return drawn

    def _text(self) -> str:
        words: str = _renderers().text(self)
        return words

    def _page(self) -> str:
        page: str = _renderers().page(self)
        return page
