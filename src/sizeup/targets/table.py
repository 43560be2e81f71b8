"""A table of a file that remembers where it stands, and refuses what it does not know."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sizeup.errors import TargetError
from sizeup.targets import quantities
from sizeup.targets.names import suggestion
from sizeup.targets.quantities import Quantity
from sizeup.units import quoted

_Made = TypeVar("_Made")
_ORIGINS = ("derived: ", "measured: ")


def is_source(text: str) -> bool:
    """Whether a text says where a value is from: it holds an address, or tells how it came about."""
    return "://" in text or text.startswith(_ORIGINS)


@dataclass(frozen=True, slots=True)
class Table:
    """Values under keys, read by type: a wrong one is an error that names file, place and key."""

    values: Mapping[str, Any]
    file: str
    place: str
    sources: Mapping[str, str]

    def fail(self, message: str) -> TargetError:
        """The error to raise about this table."""
        return TargetError(f"{self.file}: {self.place}: {message}")

    def only(self, keys: Iterable[str]) -> None:
        """Refuse all other keys."""
        known = list(keys)
        for name in self.values:
            if name not in known:
                meant = suggestion(name, known) or f"; known: {', '.join(known)}"
                raise self.fail(f"unknown key {name!r}{meant}")

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; without a default it must be there."""
        found = self._value(name, str, "a text", default)
        if found == "" and default != "":
            raise self.fail(f"{name} is empty")
        return found

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of few words."""
        found = self.text(name, default)
        self._among(name, found, choices)
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty where there is none."""
        found = self._value(name, list, "a list of texts", [])
        if not all(isinstance(each, str) and each for each in found):
            raise self.fail(f"{name} is {quoted(found)}, not a list of texts")
        return tuple(found)

    def choices(self, name: str, choices: Sequence[str]) -> tuple[str, ...] | None:
        """A list of such words; None where there is none, for that is not the same as an empty list."""
        if name not in self.values:
            return None
        found = self.texts(name)
        for each in found:
            self._among(name, each, choices)
        return found

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number within limits; None where there is none."""
        if name not in self.values:
            return None
        found = self.values[name]
        if not isinstance(found, int) or isinstance(found, bool):
            raise self.fail(f"{name} is {quoted(found)}, not a whole number")
        if not least <= found <= most:
            raise self.fail(f"{name} is {quoted(found)}, not within {least:,} to {most:,}")
        return found

    def quantity(self, name: str, kind: Quantity) -> float | None:
        """A number with a unit; None where there is none."""
        return self._parsed(name, lambda text: quantities.parse(text, kind))

    def bus(self, name: str) -> float | None:
        """The bandwidth of a bus such as "64 bit x 4266 MT/s"; None where there is none."""
        return self._parsed(name, quantities.bus_bandwidth)

    def by_name(
        self, name: str, names: Sequence[str] | None, read: Callable[[Table, str], float]
    ) -> dict[str, float]:
        """Numbers under names, such as rates by number type; empty where there are none."""
        inner = self.table(name)
        if inner is None:
            return {}
        if names is not None:
            inner.only(names)
        return {each: read(inner, each) for each in inner.values}

    def number(self, name: str, least: float, most: float) -> float:
        """A number within limits."""
        if name not in self.values:
            raise self.fail(f"{name} is missing; it is a number")
        found = self.values[name]
        if not isinstance(found, int | float) or isinstance(found, bool) or not abs(found) < math.inf:
            raise self.fail(f"{name} is {quoted(found)}, not a number")
        if not least <= found <= most:
            raise self.fail(f"{name} is {quoted(found)}, not within {least:g} to {most:g}")
        return float(found)

    def flag(self, name: str) -> bool:
        """Whether something is so; not where nothing is said."""
        return self._value(name, bool, "true or false", False)

    def table(self, name: str) -> Table | None:
        """A table within; None where there is none."""
        if name not in self.values:
            return None
        found = self._value(name, dict, "a table", None)
        return Table(found, self.file, f"{self.place}: {name}", self.sources)

    def tables(self, name: str) -> tuple[Table, ...]:
        """A list of tables within; empty where there is none."""
        found = self._value(name, list, "a list of tables", [])
        if not all(isinstance(each, dict) for each in found):
            raise self.fail(f"{name} is not a list of tables")
        return tuple(
            Table(each, self.file, f"{self.place}: {name}[{index}]", self.sources)
            for index, each in enumerate(found)
        )

    def date(self, name: str) -> str:
        """A day such as "2026-01-31"; empty where there is none."""
        found = self.text(name, "")
        try:
            return found and datetime.date.fromisoformat(found).isoformat()
        except ValueError:
            raise self.fail(f"{name} is {quoted(found)}, not a day such as 2026-01-31") from None

    def source(self, default: str | None = None) -> str:
        """Where the values are from: a word of the file's own list, an address, or "derived: ..."."""
        if "source" not in self.values and default is None:
            raise self.fail("no source; every table of values says where they are from")
        written = self.text("source", default)
        if written in self.sources:
            return self.sources[written]
        if is_source(written):
            return written
        known = ", ".join(self.sources) or "it lists none"
        raise self.fail(
            f"source {written!r} is no word of the file's [sources] ({known}), and holds no address,"
            " 'derived: ...' or 'measured: ...'"
        )

    def _parsed(self, name: str, parse: Callable[[str], float]) -> float | None:
        if name not in self.values:
            return None
        try:
            return parse(self.text(name))
        except ValueError as error:
            raise self.fail(f"{name}: {error}") from None

    def _value(self, name: str, kind: type[_Made], words: str, default: _Made | None) -> _Made:
        found = self.values.get(name, default)
        if found is None:
            raise self.fail(f"{name} is missing; it is {words}")
        if not isinstance(found, kind):
            raise self.fail(f"{name} is {quoted(found)}, not {words}")
        return found

    def _among(self, name: str, found: str, choices: Sequence[str]) -> None:
        if found not in choices:
            meant = suggestion(found, choices) or f"; known: {', '.join(choices)}"
            raise self.fail(f"{name} is {quoted(found)}{meant}")
