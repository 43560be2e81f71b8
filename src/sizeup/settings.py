"""Parses settings files, TOML and JSON, in time linear in their size: pull requests write them, too."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any

_MOST_PARTS = 16  # of a dotted key; the parser looks every part up again for every key
_MOST_TABLES = 100_000  # headers and dotted keys: each takes a kilobyte
_MOST_ESCAPES = 1_000_000
_MOST_DIGITS = 1000  # Python reads more of them to the base 2, 8 or 16, and then cannot write the number
_DEEPEST = 100  # levels of nested tables and arrays; code that walks them is recursive

# Strings and comments. A string that does not end is an error of the parser, which never reads what follows.
_TOML_TEXT = re.compile(
    r'"""(?:[^\\]*?\\.)*?[^\\]*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)
_JSON_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{_MOST_PARTS}}}")
_LONG_NUMBER = re.compile(rf"0[xob][0-9A-Fa-f_]{{{_MOST_DIGITS}}}")
_TABLE = re.compile(r"^[ \t]*(?:\[|[\w-]+[ \t]*\.)", re.MULTILINE)
_BRACKET = re.compile(r"[][{}]")


def parse_toml(text: str, *, is_shipped: bool = False) -> dict[str, Any]:
    """The content of a TOML file; raises ValueError if it is not TOML, or may take more than linear time.

    Files that are shipped with sizeup are not checked for the latter.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    if not is_shipped:
        _check_toml(text)
    return tomllib.loads(text)


def _check_toml(text: str) -> None:
    _check_escapes(text)
    structure = _TOML_TEXT.sub("_", text)
    _check_depth(structure)
    if _LONG_KEY.search(structure):
        raise ValueError(f"a key of more than {_MOST_PARTS} parts")
    if _LONG_NUMBER.search(structure):
        raise ValueError(f"a number of more than {_MOST_DIGITS:,} digits")
    if sum(1 for _ in _TABLE.finditer(structure)) > _MOST_TABLES:
        raise ValueError(f"more than {_MOST_TABLES:,} tables")


def parse_json(
    text: str,
    *,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """The content of a JSON file; raises ValueError if it is not JSON, or nested too deeply."""
    if text.count("[") + text.count("{") > _DEEPEST:
        _check_escapes(text)
        _check_depth(_JSON_TEXT.sub("", text))
    return json.loads(text, object_hook=object_hook, parse_int=parse_int)


def _check_escapes(text: str) -> None:
    if text.count("\\") > _MOST_ESCAPES:
        raise ValueError(f"more than {_MOST_ESCAPES:,} backslashes")


def _check_depth(structure: str) -> None:
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(structure))
    if max(accumulate(steps), default=0) > _DEEPEST:
        raise ValueError(f"nested too deeply: more than {_DEEPEST} levels")
