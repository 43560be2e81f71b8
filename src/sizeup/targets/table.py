"""A table of a TOML file whose errors name the file, the table and the key."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sizeup.errors import TargetError
from sizeup.targets import quantities
from sizeup.targets.names import suggestion
from sizeup.targets.quantities import Quantity
from sizeup.units import quoted

_T = TypeVar("_T")
_SOURCE = re.compile(r"[a-z]+://\S|^(derived|measured): \S")


def is_source(text: str) -> bool:
    """Whether a text is a source: a URL, "derived: ..." or "measured: ..."."""
    return _SOURCE.search(text) is not None


@dataclass(frozen=True, slots=True)
class Table:
    """Typed access to the values of a table. Invalid values raise TargetError."""

    values: Mapping[str, Any]
    file: str
    location: str
    sources: Mapping[str, str]

    def error(self, message: str) -> TargetError:
        """The error to raise about this table."""
        return TargetError(f"{self.file}: {self.location}: {message}")

    def check_keys(self, keys: Iterable[str]) -> None:
        """Raises TargetError if there are other keys."""
        known = list(keys)
        for name in self.values:
            if name not in known:
                meant = suggestion(name, known) or f"; known: {', '.join(known)}"
                raise self.error(f"unknown key {name!r}{meant}")

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; required unless there is a default."""
        value = self._value(name, str, "a text", default)
        if value == "" and default != "":
            raise self.error(f"{name} is empty")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of the choices."""
        value = self.text(name, default)
        self._among(name, value, choices)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty if the key is missing."""
        values = self._value(name, list, "a list of texts", [])
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(f"{name} is {quoted(values)}, not a list of texts")
        return tuple(values)

    def choices(self, name: str, choices: Sequence[str]) -> tuple[str, ...] | None:
        """A list of choices; None if the key is missing, which differs from an empty list."""
        if name not in self.values:
            return None
        values = self.texts(name)
        for value in values:
            self._among(name, value, choices)
        return values

    def integer(self, name: str, least: int, most: int) -> int | None:
        """An integer within limits; None if the key is missing."""
        if name not in self.values:
            return None
        value = self.values[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{name} is {quoted(value)}, not a whole number")
        if not least <= value <= most:
            raise self.error(f"{name} is {quoted(value)}, not within {least:,} to {most:,}")
        return value

    def quantity(self, name: str, kind: Quantity) -> float | None:
        """A number with a unit; None if the key is missing."""
        return self._parse(name, lambda text: quantities.parse(text, kind))

    def bus(self, name: str) -> float | None:
        """The bandwidth of a bus such as "64 bit x 4266 MT/s"; None if the key is missing."""
        return self._parse(name, quantities.bus_bandwidth)

    def by_name(
        self, name: str, names: Sequence[str] | None, read: Callable[[Table, str], float]
    ) -> dict[str, float]:
        """Numbers by name, such as rates by dtype; empty if the key is missing."""
        inner = self.table(name)
        if inner is None:
            return {}
        if names is not None:
            inner.check_keys(names)
        return {key: read(inner, key) for key in inner.values}

    def number(self, name: str, least: float, most: float) -> float:
        """A number within limits."""
        if name not in self.values:
            raise self.error(f"{name} is missing; it is a number")
        value = self.values[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < math.inf:
            raise self.error(f"{name} is {quoted(value)}, not a number")
        if not least <= value <= most:
            raise self.error(f"{name} is {quoted(value)}, not within {least:g} to {most:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        """A boolean; False if the key is missing."""
        return self._value(name, bool, "true or false", False)

    def table(self, name: str) -> Table | None:
        """A nested table; None if the key is missing."""
        if name not in self.values:
            return None
        values = self._value(name, dict, "a table", None)
        return Table(values, self.file, f"{self.location}: {name}", self.sources)

    def tables(self, name: str) -> tuple[Table, ...]:
        """A list of nested tables; empty if the key is missing."""
        items = self._value(name, list, "a list of tables", [])
        if not all(isinstance(item, dict) for item in items):
            raise self.error(f"{name} is not a list of tables")
        return tuple(
            Table(item, self.file, f"{self.location}: {name}[{index}]", self.sources)
            for index, item in enumerate(items)
        )

    def date(self, name: str) -> str:
        """A date such as "2026-01-31"; empty if the key is missing."""
        text = self.text(name, "")
        try:
            return text and datetime.date.fromisoformat(text).isoformat()
        except ValueError:
            raise self.error(f"{name} is {quoted(text)}, not a date such as 2026-01-31") from None

    def source(self, default: str | None = None) -> str:
        """The source of the values: a key of [sources], a URL, "derived: ..." or "measured: ..."."""
        if "source" not in self.values and default is None:
            raise self.error("source is missing; each table of values needs one")
        text = self.text("source", default)
        if text in self.sources:
            return self.sources[text]
        if is_source(text):
            return text
        known = ", ".join(self.sources) or "none"
        raise self.error(
            f"source {text!r} is not a key of [sources] (known: {known}), a URL,"
            " 'derived: ...' or 'measured: ...'"
        )

    def _parse(self, name: str, parse: Callable[[str], float]) -> float | None:
        if name not in self.values:
            return None
        try:
            return parse(self.text(name))
        except ValueError as error:
            raise self.error(f"{name}: {error}") from None

    def _value(self, name: str, kind: type[_T], words: str, default: _T | None) -> _T:
        value = self.values.get(name, default)
        if value is None:
            raise self.error(f"{name} is missing; it is {words}")
        if not isinstance(value, kind):
            raise self.error(f"{name} is {quoted(value)}, not {words}")
        return value

    def _among(self, name: str, value: str, choices: Sequence[str]) -> None:
        if value not in choices:
            meant = suggestion(value, choices) or f"; known: {', '.join(choices)}"
            raise self.error(f"{name} is {quoted(value)}{meant}")
