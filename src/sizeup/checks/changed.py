"""Which models to check after a commit changed some files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sizeup.checks.budgets import Budgets, matches


def affected(budgets: Budgets, changed: Sequence[str]) -> tuple[list[str], list[str]]:
    """The models to check, and the changed files that no budget names.

    A change of the budget file or of a baseline affects every model that a budget names.
    """
    if any(_decides(budgets, file) for file in changed):
        return budgets.models(), []
    named = [any(each.names(file, budgets.folder) for each in budgets.budgets) for file in changed]
    models = [file for file, is_named in zip(changed, named, strict=True) if is_named]
    return models, [file for file, is_named in zip(changed, named, strict=True) if not is_named]


def _decides(budgets: Budgets, file: str) -> bool:
    if Path(file).resolve() == budgets.path.resolve():
        return True
    baselines = {each.baseline.replace("{stem}", "*") for each in budgets.budgets if each.baseline}
    return any(matches(pattern, file, budgets.folder) for pattern in baselines)
