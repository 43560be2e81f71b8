"""All targets that can be named: the user's own files first, then those that come along."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sizeup.errors import TargetError
from sizeup.files import read_settings
from sizeup.targets import gpu_specs, read
from sizeup.targets.device import Core, Device
from sizeup.targets.gpu_specs import adding_command
from sizeup.targets.names import key, keys, nearest, suggestion
from sizeup.targets.runtime import Fit, Reach, Runtime, Target
from sizeup.targets.table import Table, is_source
from sizeup.units import quoted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLE = "SIZEUP_TARGETS"
BUILT_IN = Path(__file__).parent / "data"
FITS = BUILT_IN / "fits"  # read when the first fit is asked for: a third of all that comes along
_KINDS = ("core", "device", "runtime", "fit", "reach")
_SECTIONS = ("sources", "common", *_KINDS)
# What all devices of a file may share.
_COMMON_KEYS = ("kind", "maker", "runtimes", "source", "recorded", "note")
# What a device that is `like` another one does not take over.
_OWN = ("name", "title", "aliases", "note", "like", "verified")
_NAME = re.compile(r"^name *= *[\"']([^\"']+)[\"']", re.MULTILINE)

_Made = TypeVar("_Made")


class Catalog:
    """Tables by name, made into devices and runtimes when one is asked for."""

    def __init__(self, places: tuple[Path, ...]) -> None:
        # Of several tables of one name the first counts; the others are there to be `like`.
        self._tables: dict[str, dict[str, list[Table]]] = {kind: {} for kind in _KINDS}
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
        self._made: dict[tuple[str, str], Any] = {}
        cards: list[Path] = []
        for place in places:
            files = _files(place)
            self._add([each for each in files if each.suffix != ".json"])
            cards += [each for each in files if each.suffix == ".json"]
        # Last: a gpu_specs.json adds cards, and leaves those to a device file that one describes.
        for path in cards:
            self._add([path], set(self._names["device"]))
        self._unread = [*sorted(FITS.glob("*.toml"))] if BUILT_IN in places else []

    def devices(self) -> list[Device]:
        """Every device, the user's own first."""
        return [self.device(name) for name in self._tables["device"]]

    def runtimes(self) -> list[Runtime]:
        """Every runtime, the user's own first."""
        return [self.runtime(name) for name in self._tables["runtime"]]

    def has_device(self, name: str) -> bool:
        """Whether that is the name or an alias of a device."""
        return self._spelt("device", name) is not None

    def device(self, name: str) -> Device:
        """The device of that name or alias."""
        return self._once("device", self._found("device", name), self._device)

    def runtime(self, name: str) -> Runtime:
        """The runtime of that name or alias."""
        return self._once("runtime", self._found("runtime", name), read.runtime)

    def target(self, text: str) -> Target:
        """The pair behind `device/runtime`; a device alone takes its usual runtime."""
        # An alias may hold a slash: a name that is known as a whole is one.
        first, _, second = (text, "", "") if self._spelt("device", text) else text.partition("/")
        device = self.device(first)
        if not second and not device.runtimes:
            raise TargetError(f"{device.name} has no usual runtime: write {device.name}/RUNTIME")
        runtime = self.runtime(second or device.runtimes[0])
        if runtime.name not in device.runtimes or not any(u.kind in runtime.units for u in device.units):
            known = ", ".join(device.runtimes) or "none"
            raise TargetError(f"{runtime.name} is not known to run on {device.name}; known are: {known}")
        return Target(device, runtime)

    def fits(self) -> list[Fit]:
        """Every fit, the user's own first."""
        return [self._once("fit", name, read.fit) for name in self._measured("fit")]

    def fit(self, target: Target) -> Fit | None:
        """What was measured of a target; None where nothing was."""
        self._measured("fit")
        name = self._spelt("fit", target.name)
        return None if name is None else self._once("fit", name, read.fit)

    def reaches(self) -> list[Reach]:
        """All that is known of what kinds of devices attain, the user's own first."""
        return [self._once("reach", name, read.reach) for name in self._measured("reach")]

    def reach(self, target: Target) -> Reach | None:
        """What a kind of device attains of its data sheet, with this runtime or with any; None where nobody
        measured."""
        kind = target.device.kind
        names = (f"{kind}/{target.runtime.name}", kind)
        found = next((name for name in names if name in self._measured("reach")), None)
        return None if found is None else self._once("reach", found, read.reach)

    def _measured(self, kind: str) -> dict[str, list[Table]]:
        """Tables of fits or of what kinds attain, now that they are needed."""
        unread, self._unread = self._unread, []
        self._add(unread)
        return self._tables[kind]

    def _once(self, kind: str, name: str, make: Callable[[Table], _Made]) -> _Made:
        if (kind, name) not in self._made:
            self._made[kind, name] = make(self._tables[kind][name][0])
        found: _Made = self._made[kind, name]
        return found

    def _found(self, kind: str, name: str) -> str:
        found = self._spelt(kind, name)
        if found is None:
            near = dict.fromkeys(self._names[kind][each] for each in nearest(name, self._names[kind], 8))
            hint = f"nearest: {', '.join(list(near)[:5])}" if near else self._listing(kind)
            adding = f"; to add it: {adding_command(name)}" if kind == "device" else ""
            raise TargetError(f"no {kind} is called {name!r}; {hint}{adding}")
        return found

    def _spelt(self, kind: str, name: str) -> str | None:
        return next((self._names[kind][each] for each in keys(name) if each in self._names[kind]), None)

    def _listing(self, kind: str) -> str:
        return "sizeup devices lists all" if kind == "device" else f"known: {', '.join(self._tables[kind])}"

    def _device(self, table: Table) -> Device:
        return read.device(self._whole(table, ()), self.core)

    def core(self, name: str) -> Core | None:
        """The core of that name; None where no file describes it."""
        return self._once("core", name, read.core) if name in self._tables["core"] else None

    def _whole(self, table: Table, heirs: tuple[Table, ...]) -> Table:
        """A table with all that it takes over from the one that it is like."""
        if "like" not in table.values:
            return table
        other = table.text("like")
        named = self._spelt("device", other) or other
        # A device that takes the place of another one of its name may well be like that one.
        found = [each for each in self._tables["device"].get(named, ()) if each not in (*heirs, table)]
        if not found:
            known = list(self._tables["device"])
            raise table.fail(f"like {other!r}: there is no other device of that name{_unless(other, known)}")
        parent = _with_sources(self._whole(found[0], (*heirs, table)))
        kept = {each: value for each, value in parent.items() if each not in _OWN}
        own = {each: value for each, value in table.values.items() if each != "like"}
        return Table({**kept, **own}, table.file, table.place, table.sources)

    def _add(self, paths: list[Path], known: Collection[str] = ()) -> None:
        """Take in the files of one place; what an earlier place has named stays its own.

        What has a known name is left out.
        """
        seen: dict[tuple[str, str], str] = {}
        for path in paths:
            for kind, table in _tables(path):
                name, spellings = table.text("name"), _spellings(kind, table)
                if any(spelt in known for spelt in spellings):
                    continue
                for spelt in spellings:
                    if (kind, spelt) in seen:
                        raise table.fail(f"the name {spelt!r} is already that of {seen[kind, spelt]}")
                    seen[kind, spelt] = f"{name} in {table.file}"
                    self._names[kind].setdefault(spelt, name)
                self._tables[kind].setdefault(name, []).append(table)


def _unless(name: str, known: list[str]) -> str:
    return "" if name in known else suggestion(name, known)


def _spellings(kind: str, table: Table) -> dict[str, None]:
    names = [table.text("name"), *(table.texts("aliases") if kind in ("device", "runtime") else ())]
    if kind == "device" and "title" in table.values:
        names.append(table.text("title"))
    return dict.fromkeys(map(key, names))


def _with_sources(table: Table) -> dict[str, Any]:
    """The values of a table with every short word for a source written out."""

    def spelt_out(value: Any) -> Any:
        if isinstance(value, list):
            return [spelt_out(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: spelt_out(each) for name, each in value.items()}
        if isinstance(found.get("source"), str):
            found["source"] = table.sources.get(found["source"], found["source"])
        return found

    whole: dict[str, Any] = spelt_out(dict(table.values))
    return whole


def _files(place: Path) -> list[Path]:
    if place == BUILT_IN:
        return [*place.glob("*.toml"), *sorted((place / "devices").glob("*.toml"))]
    return [*sorted(place.glob("*.toml")), *place.glob(gpu_specs.NAME)] if place.is_dir() else [place]


def _tables(path: Path) -> Iterator[tuple[str, Table]]:
    """Every core, device, runtime and fit of a file, with what they share."""
    file = path.name if BUILT_IN in path.parents else str(path)
    content = gpu_specs.device_tables(path) if path.suffix == ".json" else _parsed(path)
    top = Table(content, file, "top level", {})
    top.only(_SECTIONS)
    sources = _sources(top)
    common = top.table("common")
    if common is not None:
        common.only(_COMMON_KEYS)
    shared = {} if common is None else common.values
    for kind in _KINDS:
        for index, table in enumerate(top.tables(kind)):
            taken = {name: value for name, value in shared.items() if kind == "device" or name == "recorded"}
            name = table.values.get("name", index)
            place = f"{kind} {name if isinstance(name, str) else quoted(name)}"
            yield kind, Table({**taken, **table.values}, file, place, sources)


def _sources(top: Table) -> dict[str, str]:
    named = top.table("sources")
    if named is None:
        return {}
    found = {word: named.text(word) for word in named.values}
    for word, text in found.items():
        if not is_source(text):
            raise named.fail(f"{word} holds no address (https://...), 'derived: ...' or 'measured: ...'")
    return found


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_settings(path))
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}; {VARIABLE} names files and folders") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise TargetError(f"{path}: not a TOML file: {error}") from None


def names_in(path: Path) -> list[str]:
    """The devices that one file describes."""
    return [table.text("name") for kind, table in _tables(path) if kind == "device"]


def own_folder() -> Path:
    """Where a user's own files are."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "sizeup" / "targets"


def places() -> tuple[Path, ...]:
    """Where targets are looked for; the first place that knows a name wins."""
    named = [Path(each).expanduser() for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    settings = own_folder()
    return (*named, *([settings] if settings.is_dir() else []), BUILT_IN)


@cache
def _catalog(where: tuple[Path, ...]) -> Catalog:
    return Catalog(where)


def current() -> Catalog:
    """All that can be named now; files are read once in a process."""
    return _catalog(places())


def listed(kind: str) -> list[str]:
    """Names of devices or runtimes, found without reading the files in full: who types waits for them."""
    texts = (
        path.read_text("utf-8", "replace") for place in places() for path in _files(place) if path.is_file()
    )
    return list(dict.fromkeys(name for text in texts for name in _named(kind, text)))


def _named(kind: str, text: str) -> Iterator[str]:
    for table in text.split(f"[[{kind}]]")[1:]:
        found = _NAME.search(table.partition("\n[")[0])
        if found is not None:
            yield found[1]


def read_again() -> None:
    """Take notice of files that have been written since they were read."""
    _catalog.cache_clear()
