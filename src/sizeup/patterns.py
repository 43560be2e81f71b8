"""Shell patterns of paths: `*` does not match a slash, `**` does.

Matching takes time linear in the files and in the parts of a pattern, whatever the pattern: those of budgets
come from pull requests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

WILD = "*?["
LONGEST = 1_000
"""Characters of a pattern."""
_ANY = "**"
# Steps of about 0.1 us, of one finder and of what it does. 200 patterns that start with `**` take 60,000,000
# in 20,000 files with names of 60 characters.
_MOST_STEPS = 100_000_000
_ENTRY, _PART, _STATE, _MATCH, _LINK = 2, 10, 20, 50, 400
_CHARACTERS, _PART_OVERHEAD = 50, 3  # compared in a step, and what each costs in addition to the part's own
_TOO_MANY_STEPS = "it takes too many steps: too many patterns, files or long names"
_LINKED = 100  # times as much in a linked folder: links of links lead to very many paths


def is_wild(pattern: str) -> bool:
    """Whether a pattern may match names other than itself."""
    return any(sign in pattern for sign in WILD)


@lru_cache(maxsize=10_000)
def _matcher(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


def _without_repeats(parts: Sequence[str]) -> list[str]:
    """The parts of a pattern, with one `**` for several in a row, which match the same."""
    return [part for index, part in enumerate(parts) if part != _ANY or parts[index - 1 : index] != [_ANY]]


def _comparison_steps(part: str, characters: int) -> int:
    """The steps to compare names of that many characters in total with a part of a pattern.

    What is between two stars may be compared at every character of a name.
    """
    return (max(map(len, part.split("*"))) + _PART_OVERHEAD) * characters // _CHARACTERS


class Matcher:
    """Matches paths with patterns; raises ValueError if that takes too long."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS
        self._parts: dict[str, list[str]] = {}

    def matches(self, name: str, pattern: str) -> bool:
        """Whether a path matches a pattern."""
        parts = name.split("/")
        if pattern not in self._parts:
            self._parts[pattern] = _without_repeats(pattern.split("/"))
        matched = {0}  # numbers of parts that the pattern so far can match
        for pattern_part in self._parts[pattern]:
            self._left -= _PART
            if pattern_part == _ANY:
                matched = set(range(min(matched), len(parts) + 1))
                continue
            compared = [n for n in matched if n < len(parts)]
            self._left -= 2 * _ENTRY * len(compared)
            self._left -= _comparison_steps(pattern_part, sum([len(parts[n]) for n in compared]))
            if self._left < 0:
                raise ValueError(_TOO_MANY_STEPS)
            matcher = _matcher(pattern_part)
            matched = {n + 1 for n in compared if matcher.match(parts[n])}
            if not matched:
                return False
        return len(parts) in matched


class Finder:
    """Finds the files of a folder that match patterns; raises ValueError if that takes too long.

    With `as_shell`, `*` and `**` match no names that start with a dot, and `**` follows links to folders.
    """

    def __init__(self, folder: str | os.PathLike[str], *, as_shell: bool = False) -> None:
        self._folder = Path(folder)
        self._as_shell = as_shell
        self._left = _MOST_STEPS
        self._listings: dict[str, list[_Entry]] = {}
        self._linked: set[str] = set()  # folders that were reached by a link

    def paths(self, pattern: str) -> Iterator[str]:
        """The paths that match, relative to the folder."""
        pattern = pattern.replace(os.sep, "/")
        parts = _without_repeats([part for n, part in enumerate(pattern.split("/")) if part or not n])
        if any(_ANY in part and part != _ANY for part in parts):
            raise ValueError("'**' can only be an entire path component")
        # A state is a path and the number of parts that led to it. Each is visited once: with several `**`
        # very many ways lead to it.
        stack, seen = [("", 0)], set[tuple[str, int]]()
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            path, number = state
            self._take(_STATE + len(path) // _CHARACTERS, path)
            if number == len(parts):
                self._take(_MATCH + len(path) // 4)
                yield path
            else:
                is_last = number + 1 == len(parts)
                stack += (
                    self._anywhere(path, number, is_last)
                    if parts[number] == _ANY
                    else ((child, number + 1) for child in self._children(path, parts[number], is_last))
                )

    def _anywhere(self, path: str, number: int, is_last: bool) -> Iterator[tuple[str, int]]:
        """The states after a folder was matched by `**`, or none was."""
        yield path, number + 1
        for entry in self._visible(path, _ANY):
            if entry.is_link:
                self._take(_LINK)
            if not entry.is_folder and is_last:
                yield _joined(path, entry.name), number + 1
            elif entry.is_folder:
                child = _joined(path, entry.name)
                if not entry.is_link or self._follows(path, child):
                    yield child, number

    def _children(self, path: str, part: str, is_last: bool) -> Iterator[str]:
        """The paths in a folder that match a part; folders only unless it is the last one."""
        if is_wild(part):
            entries = [each for each in self._visible(path, part) if is_last or each.is_folder]
            self._take(_comparison_steps(part, sum([len(entry.name) for entry in entries])), path)
            matcher = _matcher(os.path.normcase(part))
            for entry in entries:
                if matcher.match(entry.key):
                    yield _joined(path, entry.name)
            return
        child = _joined(path, part) if part else "/"
        inside = self._folder / child
        if os.path.lexists(inside) if is_last else os.path.isdir(inside):  # noqa: PTH112 - a long name
            if path in self._linked or inside.is_symlink():
                self._linked.add(child)
            yield child

    def _take(self, steps: int, path: str = "") -> None:
        self._left -= steps * (_LINKED if path in self._linked else 1)
        if self._left < 0:
            raise ValueError(_TOO_MANY_STEPS)

    def _follows(self, path: str, link: str) -> bool:
        """Whether `**` follows a link: not to a folder that contains it, which would not end."""
        target, parent = (os.path.realpath(self._folder / each) for each in (link, path))
        return self._as_shell and not f"{parent}{os.sep}".startswith(f"{target.rstrip(os.sep)}{os.sep}")

    def _visible(self, path: str, part: str) -> list[_Entry]:
        entries = self._listing(path)
        if not self._as_shell or part.startswith("."):
            return entries
        return [entry for entry in entries if not entry.name.startswith(".")]

    def _listing(self, path: str) -> list[_Entry]:
        if path not in self._listings:
            try:
                with os.scandir(self._folder / path) as entries:
                    self._listings[path] = [*map(_entry, entries)]
            except OSError:  # not a folder, or not readable
                self._listings[path] = []
            is_linked = path in self._linked
            self._linked.update(
                _joined(path, each.name) for each in self._listings[path] if is_linked or each.is_link
            )
            self._take(_STATE * len(self._listings[path]))
        self._take(_ENTRY * len(self._listings[path]), path)
        return self._listings[path]


class _Entry(NamedTuple):
    name: str
    key: str  # the name as it is compared
    is_folder: bool
    is_link: bool


def _entry(entry: os.DirEntry[str]) -> _Entry:
    try:
        is_folder = entry.is_dir()
    except OSError:  # a loop of links
        is_folder = False
    return _Entry(entry.name, os.path.normcase(entry.name), is_folder, entry.is_symlink())


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path and not path.endswith("/") else f"{path}{name}"
