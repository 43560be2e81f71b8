"""The catalog of devices, runtimes and calibrations: user files first, then those shipped with sizeup."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sizeup.errors import TargetError
from sizeup.files import read_problem, read_settings
from sizeup.settings import parse_toml
from sizeup.targets import gpu_specs, read, read_calibrations
from sizeup.targets.anchors import Anchor, anchor
from sizeup.targets.board import Board
from sizeup.targets.device import Core, Device
from sizeup.targets.gpu_specs import adding_command
from sizeup.targets.names import lookup_key, lookup_keys, nearest, suggestion
from sizeup.targets.runtime import MeasuredQuantity, Runtime, Slowdown, Target, TargetCalibration
from sizeup.targets.table import Table, is_source
from sizeup.units import quoted

VARIABLE = "SIZEUP_TARGETS"
BUILT_IN = Path(__file__).parent / "data"
FITS = BUILT_IN / "fits"  # a third of the data, read only when a calibration is needed
_KINDS = ("core", "device", "board", "runtime", "fit", "slowdown", "anchor")
_SECTIONS = ("sources", "common", *_KINDS)
# Keys that all devices of a file may share, and those that its boards may share.
_SHARED = {
    "device": ("kind", "maker", "runtimes", "source", "recorded", "note"),
    "board": ("maker", "source", "recorded", "note", "reserve"),
}
_COMMON_KEYS = tuple(dict.fromkeys(key for keys in _SHARED.values() for key in keys))
# Keys that a device does not inherit from the one it is `like`.
_OWN = ("name", "title", "aliases", "note", "like", "verified")
_SPACES = {"board": "device"}
_OTHERS = {"board": "device", "device": "board"}
_NAME = re.compile(r"^name *= *[\"']([^\"']+)[\"']", re.MULTILINE)

_T = TypeVar("_T")


class Catalog:
    """Devices, runtimes and calibrations by name, parsed on first use."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        # Of several tables with one name the first is used; `like` may refer to the others.
        self._tables: dict[str, dict[str, list[Table]]] = {kind: {} for kind in _KINDS}
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
        self._cache: dict[tuple[str, str], Any] = {}
        cards: list[Path] = []
        for folder in folders:
            files = _files(folder)
            self._add([file for file in files if file.suffix != ".json"])
            cards += [file for file in files if file.suffix == ".json"]
        # Last, because device files take precedence over the cards of a gpu_specs.json.
        for path in cards:
            self._add([path], set(self._names["device"]))
        self._unread = [*sorted(FITS.glob("*.toml"))] if BUILT_IN in folders else []

    def devices(self) -> list[Device]:
        """All devices, the user's first."""
        return [self.device(name) for name in self._tables["device"] if self.has_device(name)]

    def boards(self) -> list[Board]:
        """All boards, the user's first."""
        return [self.board(name) for name in self._tables["board"] if self.has_board(name)]

    def runtimes(self) -> list[Runtime]:
        """All runtimes, the user's first."""
        return [self.runtime(name) for name in self._tables["runtime"]]

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
        return Target(device if board is None else board.equip(device), runtime, board)

    def targets_of(self, board: Board) -> list[Target]:
        """The board with each runtime that runs on a unit of its device, the default first."""
        device = board.equip(self.device(board.device))
        kinds = {unit.unit_class for unit in device.units}
        runtimes = map(self.runtime, device.runtimes)
        return [Target(device, runtime, board) for runtime in runtimes if kinds.intersection(runtime.units)]

    def calibrations(self) -> list[TargetCalibration]:
        """All calibrations, the user's first."""
        return [
            self._cached("fit", name, read_calibrations.calibration)
            for name in self._calibration_tables("fit")
        ]

    def calibration(self, target: Target, quantity: MeasuredQuantity = "latency") -> TargetCalibration | None:
        """The calibration of a target, also for dtypes with the peak of a measured one; None without one."""
        self._calibration_tables("fit")
        name = self._lookup("fit", target.calibration_name)
        if name is None:
            return None
        calibration = self._cached("fit", name, read_calibrations.calibration)
        return calibration.with_equal_precisions(target) if calibration.quantity == quantity else None

    def slowdowns(self) -> list[Slowdown]:
        """All measured slowdowns against data sheets, the user's first."""
        return [
            self._cached("slowdown", name, read_calibrations.slowdown)
            for name in self._calibration_tables("slowdown")
        ]

    def slowdown(self, target: Target) -> Slowdown | None:
        """The slowdown of a target's units with its runtime against the data sheet.

        None if it was not measured on several devices of that family with that runtime.
        """
        name = f"{target.family}/{target.runtime.name}"
        is_known = name in self._calibration_tables("slowdown")
        return self._cached("slowdown", name, read_calibrations.slowdown) if is_known else None

    def anchors(self) -> list[Anchor]:
        """Measured times of served language models, the user's first."""
        return [self._cached("anchor", name, anchor) for name in self._tables["anchor"]]

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

    def _resolve(self, kind: str, name: str) -> str:
        known_name = self._lookup(kind, name)
        if known_name is None:
            names = self._names[kind] | (self._names["board"] if kind == "device" else {})
            near = dict.fromkeys(names[spelling] for spelling in nearest(name, names, 8))
            hint = f"nearest: {', '.join(list(near)[:5])}" if near else self._listing(kind)
            if kind == "device" and "," in name:
                hint = f"{hint}; one target is given at a time"
            adding = f"; to add it: {adding_command(name)}" if kind == "device" and "," not in name else ""
            raise TargetError(f"unknown {kind} {name!r}; {hint}{adding}")
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
        board = read.board(table)
        if not self.has_device(board.device):
            hint = suggestion(board.device, self._tables["device"])
            raise table.error(f"unknown device {board.device!r}{hint}")
        read.check_board(table, board, self.device(board.device))
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
            for kind, table in _tables(path):
                name, spellings = table.text("name"), _spellings(kind, table)
                if any(spelling in known for spelling in spellings):
                    continue
                # Boards and devices share their names; those of files that were read before take precedence.
                space, other = _SPACES.get(kind, kind), self._names[_OTHERS.get(kind, kind)]
                for spelling in spellings:
                    if (space, spelling) in seen:
                        raise table.error(f"duplicate name {spelling!r}, also of {seen[space, spelling]}")
                    seen[space, spelling] = f"{name} in {table.file}"
                    if kind not in _OTHERS or spelling not in other:
                        self._names[kind].setdefault(spelling, name)
                self._tables[kind].setdefault(name, []).append(table)


def _hint(name: str, known: list[str]) -> str:
    return "" if name in known else suggestion(name, known)


def _spellings(kind: str, table: Table) -> dict[str, None]:
    names = [table.text("name"), *(table.texts("aliases") if kind in ("device", "board", "runtime") else ())]
    if kind in ("device", "board") and "title" in table.values:
        names.append(table.text("title"))
    return dict.fromkeys(map(lookup_key, names))


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


def _files(folder: Path) -> list[Path]:
    if folder == BUILT_IN:
        inner = (sorted((folder / name).glob("*.toml")) for name in ("devices", "boards"))
        return [*folder.glob("*.toml"), *(file for files in inner for file in files)]
    return [*sorted(folder.glob("*.toml")), *folder.glob(gpu_specs.NAME)] if folder.is_dir() else [folder]


def _tables(path: Path) -> Iterator[tuple[str, Table]]:
    """The tables of a file with their kind, completed with the file's common values."""
    file = path.name if BUILT_IN in path.parents else str(path)
    content = gpu_specs.device_tables(path) if path.suffix == ".json" else _read_toml(path)
    top = Table(content, file, "top level", {})
    top.check_keys(_SECTIONS)
    sources = _sources(top)
    common = top.table("common")
    if common is not None:
        common.check_keys(_COMMON_KEYS)
    shared = {} if common is None else common.values
    for kind in _KINDS:
        for index, table in enumerate(top.tables(kind)):
            keys = _SHARED.get(kind, ("recorded",))
            inherited = {name: value for name, value in shared.items() if name in keys}
            name = table.values.get("name", index)
            place = f"{kind} {name if isinstance(name, str) else quoted(name)}"
            yield kind, Table({**inherited, **table.values}, file, place, sources)


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
    try:
        return parse_toml(read_settings(path), is_shipped=BUILT_IN in path.parents)
    except OSError as error:
        raise TargetError(f"{path}: {read_problem(error)}; {VARIABLE} names files and folders") from None
    except ValueError as error:
        raise TargetError(f"{path}: not a TOML file: {error}") from None


def names_in(path: Path) -> list[str]:
    """The names of the devices and boards in a file."""
    return [table.text("name") for kind, table in _tables(path) if kind in _OTHERS]


def user_folder() -> Path:
    """The folder of the user's target files."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "sizeup" / "targets"


def search_path() -> tuple[Path, ...]:
    """The files and folders that are searched for targets; earlier ones take precedence."""
    listed = [Path(entry).expanduser() for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
    settings = user_folder()
    return (*listed, *([settings] if settings.is_dir() else []), BUILT_IN)


@cache
def _catalog(folders: tuple[Path, ...]) -> Catalog:
    return Catalog(folders)


def current_catalog() -> Catalog:
    """The catalog for the current search path; files are read once per process."""
    return _catalog(search_path())


def names_of_kind(kind: str) -> list[str]:
    """Names of devices or runtimes, without parsing the files: shell completion must be fast."""
    texts = (
        path.read_text("utf-8", "replace")
        for folder in search_path()
        for path in _files(folder)
        if path.is_file()
    )
    return list(dict.fromkeys(name for text in texts for name in _named(kind, text)))


def _named(kind: str, text: str) -> Iterator[str]:
    for table in text.split(f"[[{kind}]]")[1:]:
        match = _NAME.search(table.partition("\n[")[0])
        if match is not None:
            yield match[1]


def clear_cache() -> None:
    """Drops the cached catalog, so that changed files are read again."""
    _catalog.cache_clear()
