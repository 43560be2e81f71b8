"""The base class of results: plain data, files, plots and text, rendered by `sizeup.render`."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any


def _renderers() -> Any:
    """Returns the renderers; imported by name, as results must not depend on them."""
    return import_module("sizeup.render")


class Result:
    """Frozen data of a finished analysis. Its type and a file's ending decide how it is rendered."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain data, with the unit in every key."""
        content: dict[str, Any] = _renderers().to_dict(self)
        return content

    def to_pandas(self) -> Any:
        """Returns its rows as a data frame."""
        return _renderers().to_pandas(self)

    def save(self, path: str | PathLike[str], *, raw_csv: bool = False) -> None:
        """Writes it in the format of the file's ending; `sizeup.render.WRITERS` lists the endings of every
        result.

        `raw_csv` writes text unescaped, also if a spreadsheet would run it as a formula.
        """
        _renderers().save(self, path, raw_csv=raw_csv)

    def plot(self, path: str | PathLike[str]) -> Path:
        """Draws it as a .png or .svg file; returns the path."""
        return self._plot(path)

    def _plot(self, path: str | PathLike[str], picture: str | None = None) -> Path:
        plot: Path = _renderers().plot(self, path, picture)
        return plot

    def _text(self) -> str:
        text: str = _renderers().text(self)
        return text

    def _headline(self) -> str:
        headline: str = _renderers().headline(self)
        return headline

    def _page(self) -> str:
        page: str = _renderers().page(self)
        return page
