"""The catalog of devices, runtimes and calibrations: user files first, then those shipped with sizeup."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sizeup.errors import TargetError, TargetWarning
from sizeup.files import is_folder, read_settings
from sizeup.targets import read, read_boards, read_calibrations
from sizeup.targets.anchors import Anchor, anchor
from sizeup.targets.board import Board
from sizeup.targets.device import Core, Device
from sizeup.targets.gpu_specs import adding_command
from sizeup.targets.names import lookup_keys, nearest, suggestion
from sizeup.targets.runtime import MeasuredQuantity, Runtime, Slowdown, Target, TargetCalibration
from sizeup.targets.table import Table
from sizeup.targets.target_files import (
    BUILT_IN,
    KINDS,
    OTHERS,
    SPACES,
    VARIABLE,
    files_of,
    named_tables,
    suspected_names,
)

FITS = BUILT_IN / "fits"  # a third of the data, read only when a calibration is needed
# Keys that a device does not inherit from the one it is `like`.
_OWN = ("name", "title", "aliases", "note", "like", "verified")
_NAME = re.compile(r"^name *= *[\"']([^\"']+)[\"']", re.MULTILINE)

_T = TypeVar("_T")


class Catalog:
    """Devices, runtimes and calibrations by name, parsed on first use."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        # Of several tables with one name the first is used; `like` may refer to the others.
        self._tables: dict[str, dict[str, list[Table]]] = {kind: {} for kind in KINDS}
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self._cache: dict[tuple[str, str], Any] = {}
        # Files of the user's folders that cannot be used: one of them must not stop every command.
        self._optional: set[str] = set()
        self._problems: dict[str, TargetError] = {}
        self._suspects: dict[str, TargetError] = {}  # by the lookup keys that such a file would define
        cards: list[Path] = []
        for folder in folders:
            files = files_of(folder)
            if folder != BUILT_IN and is_folder(folder):
                self._optional.update(map(str, files))
            self._add([file for file in files if file.suffix != ".json"])
            cards += [file for file in files if file.suffix == ".json"]
        # Last, because device files take precedence over the cards of a gpu_specs.json.
        for path in cards:
            self._add([path], set(self._names["device"]))
        self._unread = [*sorted(FITS.glob("*.toml"))] if BUILT_IN in folders else []

    def devices(self) -> list[Device]:
        """All devices, the user's first."""
        return self._all(
            "device", [name for name in self._tables["device"] if self.has_device(name)], self.device
        )

    def boards(self) -> list[Board]:
        """All boards, the user's first."""
        return self._all(
            "board", [name for name in self._tables["board"] if self.has_board(name)], self.board
        )

    def runtimes(self) -> list[Runtime]:
        """All runtimes, the user's first."""
        return self._all("runtime", self._tables["runtime"], self.runtime)

    def has_device(self, name: str) -> bool:
        """Whether that is the name or an alias of a device."""
        return self._lookup("device", name) is not None

    def has_board(self, name: str) -> bool:
        """Whether that is the name or an alias of a board."""
        return self._lookup("board", name) is not None

    def board(self, name: str) -> Board:
        """The board of that name or alias; raises TargetError if it or its device is unknown."""
        return self._cached("board", self._resolve("board", name), self._board)

    def device(self, name: str) -> Device:
        """The device of that name or alias, or the device of the board of that name."""
        if not self.has_device(name) and self.has_board(name):
            name = self.board(name).device
        return self._cached("device", self._resolve("device", name), self._device)

    def runtime(self, name: str) -> Runtime:
        """The runtime of that name or alias."""
        return self._cached("runtime", self._resolve("runtime", name), read.runtime)

    def target(self, text: str) -> Target:
        """The target of `device/runtime` or `board/runtime`, with the device's default runtime if omitted.

        Raises TargetError if the device or runtime is unknown, or the runtime does not run on the device.
        """
        # An alias may contain a slash, so try the whole text as a name first.
        is_name = self.has_device(text) or self.has_board(text)
        first, _, second = (text, "", "") if is_name else text.partition("/")
        if not first:
            raise TargetError(f"{text!r} is not a target such as nano33ble or h100/vllm, nor a .toml file")
        board = self.board(first) if self.has_board(first) else None
        device = self.device(first if board is None else board.device)
        name = device.name if board is None else board.name
        if not second and not device.runtimes:
            raise TargetError(f"{name} has no default runtime; write {name}/RUNTIME")
        runtime = self.runtime(second or device.runtimes[0])
        if runtime.name not in device.runtimes or not any(
            u.unit_class in runtime.units for u in device.units
        ):
            known = ", ".join(device.runtimes) or "none"
            raise TargetError(f"{runtime.name} does not run on {name}; its runtimes: {known}")
        target = Target(device if board is None else board.equip(device), runtime, board)
        self._check_readable(target.calibration_name)
        return target

    def targets_of(self, board: Board) -> list[Target]:
        """The board with each runtime that runs on a unit of its device, the default first."""
        device = board.equip(self.device(board.device))
        kinds = {unit.unit_class for unit in device.units}
        runtimes = map(self.runtime, device.runtimes)
        return [Target(device, runtime, board) for runtime in runtimes if kinds.intersection(runtime.units)]

    def calibrations(self) -> list[TargetCalibration]:
        """All calibrations, the user's first."""
        return self._listed("fit", self._calibration_tables("fit"), read_calibrations.calibration)

    def calibration(self, target: Target, quantity: MeasuredQuantity = "latency") -> TargetCalibration | None:
        """The calibration of a target, also for dtypes with the peak of a measured one; None without one."""
        if target.file:
            return with_file(target.file).calibration(replace(target, file=""), quantity)
        self._calibration_tables("fit")
        name = self._lookup("fit", target.calibration_name)
        if name is None:
            return None
        calibration = self._cached("fit", name, read_calibrations.calibration)
        return calibration.with_equal_precisions(target) if calibration.quantity == quantity else None

    def slowdowns(self) -> list[Slowdown]:
        """All measured slowdowns against data sheets, the user's first."""
        return self._listed("slowdown", self._calibration_tables("slowdown"), read_calibrations.slowdown)

    def slowdown(self, target: Target) -> Slowdown | None:
        """The slowdown of a target's units with its runtime against the data sheet.

        None if it was not measured on several devices of that family with that runtime.
        """
        if target.file:
            return with_file(target.file).slowdown(replace(target, file=""))
        name = f"{target.family}/{target.runtime.name}"
        is_known = name in self._calibration_tables("slowdown")
        return self._cached("slowdown", name, read_calibrations.slowdown) if is_known else None

    def anchors(self) -> list[Anchor]:
        """Measured times of served language models, the user's first."""
        return self._listed("anchor", self._tables["anchor"], anchor)

    def _calibration_tables(self, kind: str) -> dict[str, list[Table]]:
        """Tables of calibrations or slowdowns, read on first use."""
        unread, self._unread = self._unread, []
        self._add(unread)
        return self._tables[kind]

    def _cached(self, kind: str, name: str, make: Callable[[Table], _T]) -> _T:
        if (kind, name) not in self._cache:
            self._cache[kind, name] = make(self._tables[kind][name][0])
        item: _T = self._cache[kind, name]
        return item

    def _all(self, kind: str, names: Iterable[str], get: Callable[[str], _T]) -> list[_T]:
        """The items that can be read; a file in a folder of the user's that cannot be is ignored."""
        items = []
        for name in names:
            file = self._tables[kind][name][0].file
            try:
                items.append(get(name))
            except TargetError as error:
                if file not in self._optional:
                    raise
                self._ignore(file, error)
        return items

    def _listed(self, kind: str, names: Iterable[str], make: Callable[[Table], _T]) -> list[_T]:
        return self._all(kind, names, lambda name: self._cached(kind, name, make))

    def _ignore(self, file: str, error: TargetError) -> None:
        if file not in self._problems:
            self._problems[file] = error
            warnings.warn(f"{error}; this file is ignored", TargetWarning, stacklevel=2)

    def _check_readable(self, name: str) -> None:
        """Raises TargetError if a file that cannot be read seems to describe that name."""
        for key in lookup_keys(name):
            if key in self._suspects:
                raise self._suspects[key]

    def _resolve(self, kind: str, name: str) -> str:
        self._check_readable(name)
        known_name = self._lookup(kind, name)
        if known_name is None:
            names = self._names[kind] | (self._names["board"] if kind == "device" else {})
            near = dict.fromkeys(names[spelling] for spelling in nearest(name, names, 8))
            hint = f"nearest: {', '.join(list(near)[:5])}" if near else self._listing(kind)
            if kind == "device" and "," in name:
                hint = f"{hint}; one target is given at a time"
            adding = f"; to add it: {adding_command(name)}" if kind == "device" and "," not in name else ""
            ignored = f"; ignored: {', '.join(self._problems)}" if self._problems else ""
            raise TargetError(f"unknown {kind} {name!r}; {hint}{adding}{ignored}")
        self._check_readable(known_name)
        return known_name

    def _lookup(self, kind: str, name: str) -> str | None:
        return next(
            (self._names[kind][spelling] for spelling in lookup_keys(name) if spelling in self._names[kind]),
            None,
        )

    def _listing(self, kind: str) -> str:
        commands = {"device": "sizeup devices", "board": "sizeup devices --boards"}
        return (
            f"{commands[kind]} lists all" if kind in commands else f"known: {', '.join(self._tables[kind])}"
        )

    def _board(self, table: Table) -> Board:
        board = read_boards.board(table)
        if not self.has_device(board.device):
            hint = suggestion(board.device, self._tables["device"])
            raise table.error(f"unknown device {board.device!r}{hint}")
        read_boards.check_board(table, board, self.device(board.device))
        return board

    def _device(self, table: Table) -> Device:
        device = read.device(self._inherited(table, ()), self.core)
        for name in device.runtimes:
            if self._lookup("runtime", name) is None:
                raise table.error(
                    f"runtimes: unknown runtime {name!r}{_hint(name, list(self._tables['runtime']))}"
                )
        return device

    def core(self, name: str) -> Core | None:
        """The core of that name; None if no file describes it."""
        return self._cached("core", name, read.core) if name in self._tables["core"] else None

    def _inherited(self, table: Table, descendants: tuple[Table, ...]) -> Table:
        """A table with the values that it inherits by `like`."""
        if "like" not in table.values:
            return table
        other = table.text("like")
        parent_name = self._lookup("device", other) or other
        # A device may be like one with the same name that it overrides.
        candidates = [
            candidate
            for candidate in self._tables["device"].get(parent_name, ())
            if candidate not in (*descendants, table)
        ]
        if not candidates:
            known = list(self._tables["device"])
            raise table.error(f"like {other!r}: no other device has that name{_hint(other, known)}")
        parent = _with_sources(self._inherited(candidates[0], (*descendants, table)))
        inherited = {name: value for name, value in parent.items() if name not in _OWN}
        own = {name: value for name, value in table.values.items() if name != "like"}
        return Table({**inherited, **own}, table.file, table.location, table.sources)

    def _add(self, paths: list[Path], known: Collection[str] = ()) -> None:
        """Adds the files of one folder, except tables with a known name; earlier folders take precedence."""
        seen: dict[tuple[str, str], str] = {}
        for path in paths:
            try:
                rows = list(named_tables(path, known, seen))
            except TargetError as error:
                if str(path) not in self._optional:
                    raise
                self._ignore(str(path), error)
                defined = {spelling for names in self._names.values() for spelling in names}
                self._suspects |= dict.fromkeys(suspected_names(path) - defined, error)
                continue
            for kind, table, name, spellings in rows:
                # Boards and devices share their names; those of files that were read before take precedence.
                space, other = SPACES.get(kind, kind), self._names[OTHERS.get(kind, kind)]
                for spelling in spellings:
                    seen[space, spelling] = f"{name} in {table.file}"
                    if kind not in OTHERS or spelling not in other:
                        self._names[kind].setdefault(spelling, name)
                self._tables[kind].setdefault(name, []).append(table)


def _hint(name: str, known: list[str]) -> str:
    return "" if name in known else suggestion(name, known)


def _with_sources(table: Table) -> dict[str, Any]:
    """The values of a table with each reference to [sources] replaced by its text."""

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        resolved = {name: resolve(item) for name, item in value.items()}
        if isinstance(resolved.get("source"), str):
            resolved["source"] = table.sources.get(resolved["source"], resolved["source"])
        return resolved

    values: dict[str, Any] = resolve(dict(table.values))
    return values


def user_folder() -> Path:
    """The folder of the user's target files."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "sizeup" / "targets"


def search_path() -> tuple[Path, ...]:
    """The files and folders that are searched for targets; earlier ones take precedence."""
    listed = [Path(entry).expanduser() for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
    settings = user_folder()
    return (*listed, *([settings] if is_folder(settings) else []), BUILT_IN)


@cache
def _catalog(folders: tuple[Path, ...]) -> Catalog:
    return Catalog(folders)


def with_file(file: str) -> Catalog:
    """The catalog for the current search path after one more file."""
    return _catalog((Path(file), *search_path()))


def current_catalog() -> Catalog:
    """The catalog for the current search path; files are read once per process."""
    return _catalog(search_path())


def names_of_kind(kind: str) -> list[str]:
    """Names of devices or runtimes, without parsing the files: shell completion must be fast."""
    texts = []
    for path in (path for folder in search_path() for path in files_of(folder)):
        with suppress(OSError, ValueError):
            texts.append(read_settings(path))
    return list(dict.fromkeys(name for text in texts for name in _named(kind, text)))


def _named(kind: str, text: str) -> Iterator[str]:
    for table in text.split(f"[[{kind}]]")[1:]:
        match = _NAME.search(table.partition("\n[")[0])
        if match is not None:
            yield match[1]


def clear_cache() -> None:
    """Drops the cached catalog, so that changed files are read again."""
    _catalog.cache_clear()
