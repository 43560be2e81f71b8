"""The policy of a gate: budgets and the settings files that they name, of the work tree or of a git revision.

A change that is judged by a policy must not choose it. So every edit of the policy since a revision is
listed, and an edit that may be the reason for a yes makes the verdict undetermined.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from sizeup.checks.budgets import Budget, Budgets, read_budgets
from sizeup.checks.revision import Revision, open_revision
from sizeup.errors import RevisionError
from sizeup.files import is_file, is_folder, read_settings
from sizeup.settings import parse_json, parse_toml
from sizeup.units import quoted

# A drive letter, or the start of a path: such texts have no revision before their colon.
_FILE = re.compile(r"[A-Za-z]:[\\/]|\.{0,2}[\\/]|~")
_MOST_LISTED = 20
_SETTINGS = (".toml", ".json", ".py")
_NEW = ("allow", "ask", "deny")


JUDGED_BY_ITSELF = (
    "it is judged by the policy that it edits; to judge it by that of the base: --budget REV:FILE"
)


@dataclass(frozen=True, slots=True)
class Edit:
    """A settings file that differs from that of a revision; `reason` is set if it may decide the verdict."""

    path: Path  # in the work tree
    changes: tuple[str, ...]
    reason: str = ""


def revision_and_path(text: str) -> tuple[str, str] | None:
    """The two parts of REV:PATH, as git writes a file of a revision; None for the path of a file.

    A file of that name does not count, since the change that is judged could add one.
    """
    name, colon, path = text.partition(":")
    is_drive = sys.platform == "win32" and len(name) == 1
    return None if not colon or not name or is_drive or _FILE.match(text) else (name, path)


def budgets_of(revision: Revision, path: Path, copies: Path, others: Iterable[str] = ()) -> Budgets:
    """The budget file of a revision, for the models of the work tree.

    It is copied to a folder with the files that it names, and others next to it.
    """
    name = revision.path_of(path)
    label = f"{revision.name}:{name}"
    if not revision.copy_settings(name, copies):
        raise RevisionError(f"{label}: no such file at {revision.name} ({revision.commit[:12]})")
    home = copies / PurePosixPath(name).parent
    budgets = replace(read_budgets(copies / name, label), path=path, settings_folder=home)
    for setting in (*budgets.settings(), *others):
        revision.copy_settings(str(PurePosixPath(name).parent / setting), copies)
    return budgets


def open_policy(file: str | Path, copies: Path) -> tuple[Budgets, Revision | None]:
    """The budgets of a file, or of REV:PATH as a text with their revision."""
    parts = revision_and_path(file) if isinstance(file, str) else None
    if parts is None:
        return read_budgets(Path(file)), None
    revision = open_revision(parts[0])
    is_relative = parts[1].startswith(("./", "../"))  # as in git
    path = Path(parts[1]) if is_relative else Path(os.path.relpath(revision.top / parts[1]))
    return budgets_of(revision, path, copies), revision


def edits(used: Budgets, old: Budgets, is_old_used: bool) -> Iterator[Edit]:
    """The policy files of the work tree that differ from those of a revision, whose budgets are `old`."""
    names = dict.fromkeys((*old.settings(), *used.settings()))
    baselines = {budget.baseline for budget in (*old.budgets, *used.budgets)}
    assert old.settings_folder is not None
    for name in (used.path.name, *names):
        changes = tuple(_changes(old.settings_folder / name, old.folder / name))
        if name == used.path.name and not changes and not is_stricter(old.budgets, used.budgets):
            changes = ("its limits",)  # whatever their texts are
        # Growth since a revision is not judged by baselines.
        is_harmless = is_old_used or name in baselines
        is_harmless = is_harmless or (name == used.path.name and is_stricter(old.budgets, used.budgets))
        if changes:
            yield Edit(used.folder / name, changes, "" if is_harmless else JUDGED_BY_ITSELF)


def edited_files(used: Iterable[Path], revision: Revision) -> Iterator[Edit]:
    """The edits of settings files in use, or in folders in use, that belong to the repository."""
    files: dict[str, Path] = {}
    for path in used:
        with suppress(RevisionError):  # elsewhere
            name = revision.path_of(path)
            below = [each for each in revision.objects if posixpath.dirname(each) == name]
            below += [f"{name}/{each.name}" for each in path.iterdir()] if is_folder(path) else [name]
            files.update((each, revision.top / each) for each in below if each.endswith(_SETTINGS))
    with TemporaryDirectory(prefix="sizeup-") as folder:
        copies = Path(folder)
        for name, path in files.items():
            revision.copy_settings(name, copies)
            if changes := tuple(_changes(copies / name, path)):
                yield Edit(path, changes, "it is judged by a file that it edits")


def is_stricter(old: Iterable[Budget], new: Iterable[Budget]) -> bool:
    """Whether every old budget still holds, with limits that are not higher."""
    after = _by_name(new)
    return all(name in after and _holds(budget, after[name]) for name, budget in _by_name(old).items())


def _by_name(budgets: Iterable[Budget]) -> dict[tuple[str, int], Budget]:
    seen: Counter[str] = Counter()
    by_name = {}
    for budget in budgets:
        seen[budget.name] += 1
        by_name[budget.name, seen[budget.name]] = budget
    return by_name


def _holds(old: Budget, new: Budget) -> bool:
    def is_within(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
        return all(name in after and after[name] <= most for name, most in before.items())

    # Without a limit on them, RAM and flash are those of the target: a limit may raise them.
    if old.target and any(name in new.limits and name not in old.limits for name in ("ram", "flash")):
        return False
    return (
        is_within(old.limits, new.limits)
        and is_within(old.growth, new.growth)
        and all(is_within(limits, new.layers.get(name, {})) for name, limits in old.layers.items())
        and old.strict <= new.strict
        and _NEW.index(old.new) <= _NEW.index(new.new)
        and (old.models, old.target, old.precision, old.bind, old.expected)
        == (new.models, new.target, new.precision, new.bind, new.expected)
    )


def _changes(before: Path, after: Path) -> Iterator[str]:
    """The settings that differ between two files, either of which may be missing."""
    if not is_file(before) and not is_file(after):
        return
    if not is_file(before) or not is_file(after):
        yield "removed" if is_file(before) else "added"
        return
    old, new = _settings(before), _settings(after)
    names = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    for name in names[:_MOST_LISTED]:
        before_text, after_text = (quoted(each[name]) if name in each else "none" for each in (old, new))
        yield f"{name}{': ' * bool(name)}{before_text} -> {after_text}"
    if len(names) > _MOST_LISTED:
        yield f"and {len(names) - _MOST_LISTED:,} more"


def _settings(path: Path) -> dict[str, Any]:
    """The values of a settings file by their names; of a file that is not TOML or JSON, its text."""
    try:
        text = read_settings(path)
    except (OSError, ValueError) as error:
        return {"": str(error)}
    try:
        return dict(_flat((parse_json if path.suffix == ".json" else parse_toml)(text), ""))
    except ValueError:
        return {"": text}


def _flat(content: Any, start: str) -> Iterator[tuple[str, Any]]:
    """All values of nested tables with their names."""
    rows: list[tuple[str, Any]] = []
    if isinstance(content, dict):
        rows = [(f"{start}{'.' * bool(start)}{key}", value) for key, value in content.items()]
    elif isinstance(content, list) and content and all(isinstance(item, dict) for item in content):
        seen: Counter[str] = Counter()
        for item in content:
            words = [item[key] for key in ("name", "models", "model", "target", "precision") if key in item][
                :3
            ]
            label = " ".join(word if isinstance(word, str) else repr(word) for word in words)
            seen[label] += 1
            number = f" #{seen[label]}" if seen[label] > 1 else ""
            rows.append((f"{start} {label!r}{number}", item))  # in full: it is a key
    else:
        yield start, content
    for name, value in rows:
        yield from _flat(value, name)
