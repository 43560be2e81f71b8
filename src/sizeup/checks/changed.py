"""Which models to check after a commit changed some files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sizeup.checks.budgets import Budgets
from sizeup.formats.names import means_code


def affected(budgets: Budgets, changed: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """The models to check (None: all that budgets name), and the changed files that no budget names.

    A change of the budget file or of a baseline affects every model.
    """
    deciding = {(budgets.folder / each.baseline).resolve() for each in budgets.budgets if each.baseline}
    deciding.add(budgets.path.resolve())
    if any(_followed(Path(file)) in deciding for file in changed):
        return None, []
    links = _linked(budgets)
    models: dict[str, None] = {}
    others = []
    for file in changed:
        affected_by_it = links.get(_followed(Path(file)), []) + [file] * budgets.names(file)
        models.update((_as_path(each), None) for each in affected_by_it)
        if not affected_by_it:
            others.append(file)
    return list(models), others


def _linked(budgets: Budgets) -> dict[Path, list[str]]:
    """The models that are symbolic links, by the file that each leads to."""
    links: dict[Path, list[str]] = {}
    for link in budgets.links():
        links.setdefault(_followed(link), []).append(str(link))
    return links


def _as_path(file: str) -> str:
    """The file by a name that never means code: `module:factory` may be a file that was deleted."""
    return f"{os.curdir}{os.sep}{file}" if means_code(file) else file


def _followed(path: Path) -> Path:
    """The file behind all links; of a loop of links, some path within it."""
    return Path(os.path.realpath(path))
