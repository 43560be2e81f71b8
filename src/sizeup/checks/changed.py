"""Which models to check after a commit changed some files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sizeup.checks.budgets import Budgets


def affected(budgets: Budgets, changed: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """The models to check (None: all that budgets name), and the changed files that no budget names.

    A change of the budget file or of a baseline affects every model.
    """
    deciding = {(budgets.folder / each.baseline).resolve() for each in budgets.budgets if each.baseline}
    deciding.add(budgets.path.resolve())
    if any(Path(file).resolve() in deciding for file in changed):
        return None, []
    models = [file for file in changed if budgets.names(file)]
    return models, [file for file in changed if file not in set(models)]
