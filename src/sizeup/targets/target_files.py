"""The tables of target files, with the names that each of them defines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup.errors import TargetError
from sizeup.files import is_folder, read_problem, read_settings
from sizeup.settings import parse_toml
from sizeup.targets import gpu_specs
from sizeup.targets.names import lookup_key
from sizeup.targets.table import Table, is_source
from sizeup.units import quoted

VARIABLE = "SIZEUP_TARGETS"
BUILT_IN = Path(__file__).parent / "data"
KINDS = ("core", "device", "board", "runtime", "fit", "slowdown", "anchor")
SPACES = {"board": "device"}
OTHERS = {"board": "device", "device": "board"}
_SECTIONS = ("sources", "common", *KINDS)
# Keys that all devices of a file may share, and those that its boards may share.
_SHARED = {
    "device": ("kind", "maker", "runtimes", "source", "recorded", "note"),
    "board": ("maker", "source", "recorded", "note", "reserve"),
}
_COMMON_KEYS = tuple(dict.fromkeys(key for keys in _SHARED.values() for key in keys))
_ANY_NAME = re.compile(r"^\s*(?:(?:name|title)\s*=(.*)|aliases\s*=\s*\[([^]]*))", re.MULTILINE)
_QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


def named_tables(
    path: Path, known: Collection[str], seen: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, Table, str, dict[str, None]]]:
    """The tables of a file with their kind, name and spellings; raises TargetError for one that is taken."""
    here: dict[tuple[str, str], str] = {}
    for kind, table in _tables(path):
        name, spellings = table.text("name"), _spellings(kind, table)
        if any(spelling in known for spelling in spellings):
            continue
        for spelling in spellings:
            key = (SPACES.get(kind, kind), spelling)
            if key in seen or key in here:
                raise table.error(f"duplicate name {spelling!r}, also of {seen.get(key) or here[key]}")
            here[key] = f"{name} in {table.file}"
        yield kind, table, name, spellings


def suspected_names(path: Path) -> set[str]:
    """The lookup keys of the names in a file that cannot be parsed; empty if it is not even text."""
    try:
        text = read_settings(path)
    except (OSError, ValueError):
        return set()
    texts = [match[1] or match[2] or "" for match in _ANY_NAME.finditer(text)]
    return {lookup_key(name) for listed in texts for name in _QUOTED.findall(listed)}


def _spellings(kind: str, table: Table) -> dict[str, None]:
    names = [table.text("name"), *(table.texts("aliases") if kind in ("device", "board", "runtime") else ())]
    if kind in ("device", "board") and "title" in table.values:
        names.append(table.text("title"))
    return dict.fromkeys(map(lookup_key, names))


def files_of(folder: Path) -> list[Path]:
    """The files of targets in a folder, or the file itself."""
    if folder == BUILT_IN:
        inner = (sorted((folder / name).glob("*.toml")) for name in ("devices", "boards"))
        return [*folder.glob("*.toml"), *(file for files in inner for file in files)]
    return [*sorted(folder.glob("*.toml")), *folder.glob(gpu_specs.NAME)] if is_folder(folder) else [folder]


def _tables(path: Path) -> Iterator[tuple[str, Table]]:
    """The tables of a file with their kind, completed with the file's common values."""
    if BUILT_IN in path.parents:
        yield from _shipped_tables(path)
        return
    file = str(path)
    content = gpu_specs.device_tables(path) if path.suffix == ".json" else _read_toml(path)
    top = Table(content, file, "top level", {})
    sources, shared = _common(top)
    for kind in KINDS:
        for index, table in enumerate(top.tables(kind)):
            name = table.values.get("name", index)
            place = f"{kind} {name if isinstance(name, str) else quoted(name)}"
            yield kind, Table({**_inherited(kind, shared), **table.values}, file, place, sources)


def _common(top: Table) -> tuple[dict[str, str], Mapping[str, Any]]:
    """The sources of a file, and the values that its tables share."""
    top.check_keys(_SECTIONS)
    common = top.table("common")
    if common is not None:
        common.check_keys(_COMMON_KEYS)
    return _sources(top), {} if common is None else common.values


def _inherited(kind: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    keys = _SHARED.get(kind, ("recorded",))
    return {name: value for name, value in shared.items() if name in keys}


def _shipped_tables(path: Path) -> Iterator[tuple[str, Table]]:
    """The tables of a file of sizeup's own, each parsed when more than its names is asked for.

    A command needs a few of some 500 tables, and parsing all took a seventh of its time.
    """
    with toml_errors(path):
        text = read_settings(path)
        headers = list(_HEADER.finditer(text))
        starts = [header.start() for header in headers]
        head = parse_toml(text[: starts[0]], is_shipped=True)
    top = Table(head, path.name, "top level", {})
    sources, shared = _common(top)
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    for header, part in zip(headers, parts, strict=True):
        values = _Part(header[1], part, _inherited(header[1], shared))
        yield header[1], Table(values, path.name, f"{header[1]} {values['name']}", sources)


_HEADER = re.compile(rf"^\[\[({'|'.join(KINDS)})\]\]$", re.MULTILINE)
_NAMED = ("name", "title", "aliases")
_NAMES = re.compile(rf"^({'|'.join(_NAMED)}) = (.*)$", re.MULTILINE)


class _Part(Mapping[str, Any]):
    """The values of a table of a shipped file; its names are read without parsing the others."""

    def __init__(self, kind: str, text: str, inherited: Mapping[str, Any]) -> None:
        self._kind, self._text, self._inherited = kind, text, inherited
        head = text.partition("\n[")[0]
        self._names = {
            name: _QUOTED.findall(value) if name == "aliases" else value.strip('"')
            for name, value in _NAMES.findall(head)
        }

    @cached_property
    def _values(self) -> dict[str, Any]:
        (own,) = parse_toml(self._text, is_shipped=True)[self._kind]
        return {**self._inherited, **own}

    def __getitem__(self, name: str) -> Any:
        return (self._names if name in _NAMED else self._values)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _sources(top: Table) -> dict[str, str]:
    named = top.table("sources")
    if named is None:
        return {}
    sources = {word: named.text(word) for word in named.values}
    for word, text in sources.items():
        if not is_source(text):
            raise named.error(f"{word} is not a URL (https://...), 'derived: ...' or 'measured: ...'")
    return sources


def _read_toml(path: Path) -> dict[str, Any]:
    with toml_errors(path, f"; {VARIABLE} names files and folders"):
        return parse_toml(read_settings(path))


@contextmanager
def toml_errors(path: Path, hint: str = "") -> Iterator[None]:
    """Raises TargetError for a file that cannot be read, with a hint, or parsed."""
    try:
        yield
    except OSError as error:
        raise TargetError(f"{path}: {read_problem(error)}{hint}") from None
    except ValueError as error:
        raise TargetError(f"{path}: not a TOML file: {error}") from None


def names_in(path: Path) -> list[str]:
    """The names of the devices and boards in a file."""
    return [table.text("name") for kind, table in _tables(path) if kind in OTHERS]
