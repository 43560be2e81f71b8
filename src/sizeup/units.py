"""Formats quantities (counts in powers of 1000, bytes in powers of 1024), shapes, names and quoted values."""

from __future__ import annotations

import json
import re
from typing import Any

_COUNT_SUFFIXES = ("", " k", " M", " G", " T", " P", " E")
_BYTE_SUFFIXES = (" B", " KiB", " MiB", " GiB", " TiB", " PiB")
_LONGEST_NAME = 40
_LONGEST_QUOTE = 60
FLOPS_PER_MAC = 2
"""A multiply-accumulate is one multiplication and one addition."""


def _scaled(value: float, step: int, suffixes: tuple[str, ...]) -> str:
    size, index = float(value), 0
    # 999.5 would print as "1000": use the next suffix before that.
    while abs(size) >= step * 0.9995 and index < len(suffixes) - 1:
        size /= step
        index += 1
    if index == 0:
        return f"{value:,}{suffixes[0]}" if isinstance(value, int) else f"{value:.4g}{suffixes[0]}"
    # One decimal less if rounding adds a digit in front of the point.
    digits = 2 if abs(size) < 9.995 else 1 if abs(size) < 99.95 else 0
    return f"{size:,.{digits}f}{suffixes[index]}"


def count(value: float) -> str:
    """A count with three significant digits, in powers of 1000: 4089184256 -> '4.09 G'."""
    return _scaled(value, 1000, _COUNT_SUFFIXES)


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun: '1 operator', '1,234 operators'."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def size(value: float) -> str:
    """A number of bytes, in powers of 1024: 524288 -> '512 KiB'."""
    return _scaled(value, 1024, _BYTE_SUFFIXES)


def duration(seconds: float) -> str:
    """A duration with three significant digits: 0.00123 -> '1.23 ms'."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.9995 * scale:
            return (
                f"{seconds / scale:.3g} {unit}"
                if seconds < 999.5 * scale
                else f"{seconds / scale:,.0f} {unit}"
            )
    return f"{seconds * 1e9:.3g} ns"


def rate(value: float) -> str:
    """A ratio, or a number per second, with three significant digits, or whole above 999: '3,910'."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def joules(amount: float) -> str:
    """An energy with three significant digits: 0.00123 -> '1.23 mJ'."""
    for scale, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")):
        if amount >= 0.9995 * scale:
            return (
                f"{amount / scale:,.0f} {unit}" if amount >= 999.5 * scale else f"{amount / scale:.3g} {unit}"
            )
    return f"{amount * 1e9:.3g} nJ"


def amount(name: str, value: float) -> str:
    """An amount as text, by the unit at the end of its name: bytes, seconds or joules."""
    formatters = {"bytes": size, "seconds": duration, "joules": joules}
    return formatters[name.rpartition("_")[2]](value)


def share(part: float, total: float) -> str:
    """A part of a total in percent; empty if the total is 0."""
    return f"{100 * part / total:.1f} %" if total else ""


def shape(dimensions: tuple[int, ...] | None) -> str:
    """A shape such as 1x3x224x224; 'scalar' without dimensions, '?' if unknown."""
    if dimensions is None:
        return "?"
    return "x".join(map(str, dimensions)) or "scalar"


def quoted(value: Any) -> str:
    """A value for a message, on one line and shortened to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        return "a value too large to show"
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def toml_key(name: str) -> str:
    """A name as a TOML key, quoted if needed."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def printable(text: str) -> str:
    """Text with control characters replaced, so that names in files cannot control the terminal."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    )


def shorten(name: str) -> str:
    """A name shortened to 40 characters: converters join the names of all fused operators."""
    if len(name) <= _LONGEST_NAME:
        return name
    half = (_LONGEST_NAME - 3) // 2
    return f"{name[: half + 1]}...{name[len(name) - half :]}"


def quantity(unit: str, value: float) -> str:
    """An amount as text, by its unit: bytes, seconds, joules, count or share; it may be negative."""
    sign = "-" if value < 0 else ""
    if unit == "count":
        return f"{sign}{count(round(abs(value)))}"
    if unit == "share":
        return f"{'-' if value < 0 else '+'}{rate(100 * abs(value))} %"
    if unit == "bytes":
        return f"{sign}{size(round(abs(value)))}"
    return f"{sign}{amount(unit, abs(value))}"


def round_digits(number: float) -> float:
    """A number rounded to nine significant digits, which halves the size of HTML pages."""
    return float(f"{number:.9g}")
