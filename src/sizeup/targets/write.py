"""Writes target files with calibrations and their devices."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sizeup.errors import TargetError
from sizeup.files import exists, is_folder, read_problem, read_settings, write_text
from sizeup.settings import parse_toml
from sizeup.targets.catalog import Catalog
from sizeup.targets.target_files import BUILT_IN

# Identifies files written by sizeup, so older files need it unchanged.
HEAD = "# Written by sizeup calibrate, which replaces it; your own devices belong in another file."


def save(path: Path, calibration: Mapping[str, Any], device: Mapping[str, Any] | None) -> None:
    """Writes a calibration and its device to a file; other tables in that file stay."""
    _write(path, "fit", [calibration], device)


def save_anchors(path: Path, anchors: Sequence[Mapping[str, Any]]) -> None:
    """Writes measured times of language models to a file; other tables in that file stay."""
    _write(path, "anchor", anchors, None)


def _write(
    path: Path, kind: str, added: Sequence[Mapping[str, Any]], device: Mapping[str, Any] | None
) -> None:
    tables = _read_ours(path)
    named = {table["name"]: dict(table) for table in (*tables.get(kind, []), *added)}
    tables[kind] = list(named.values())
    if device is not None:
        tables["device"] = [dict(device)]
    kinds = ("device", "fit", "anchor")
    blocks = [HEAD, *(_table(each, table) for each in kinds for table in tables.get(each, []))]
    write_text(path, ["\n\n".join(blocks), "\n"], make_folder=True, check=_check)


def _check(path: Path) -> None:
    """Raises TargetError if a new file would not be read again."""
    catalog = Catalog((path, BUILT_IN))
    for items in (catalog.devices, catalog.calibrations, catalog.anchors):
        items()


def check_writable(path: Path) -> None:
    """Raises TargetError if the file exists and was not written by sizeup."""
    _read_ours(path)


def _read_ours(path: Path) -> dict[str, Any]:
    if is_folder(path) or path.suffix != ".toml":
        raise TargetError(f"{path}: not a .toml file; name one with -o")
    if not exists(path):
        return {}
    try:
        text = read_settings(path)
        if text.startswith(HEAD):
            return _tables(parse_toml(text))
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: {read_problem(error)}") from error
    raise TargetError(f"{path}: not written by sizeup, so it is not overwritten; name another file with -o")


def _tables(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file that sizeup wrote: lists of tables with names; raises ValueError for others."""
    for kind, tables in content.items():
        is_list = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
        if not is_list or not all(isinstance(table.get("name"), str) for table in tables):
            raise ValueError(f"{kind} is not a list of tables with names")
    return content


def _table(kind: str, values: Mapping[str, Any]) -> str:
    """A table of an array: plain values first, then nested tables."""
    lines = [f"[[{kind}]]"]
    lines += [
        f"{_key(name)} = {_value(value)}" for name, value in values.items() if not isinstance(value, dict)
    ]
    for name, value in values.items():
        if isinstance(value, dict):
            lines += _inner(f"{kind}.{_key(name)}", value)
    return "\n".join(lines)


def _inner(place: str, values: Mapping[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    lines = ["", f"[{place}]", *(f"{_key(name)} = {_value(value)}" for name, value in plain.items())]
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    nested = {
        name for name, value in tables.items() if any(isinstance(each, dict) for each in value.values())
    }
    # First, because what follows a header belongs to its table.
    lines += [f"{_key(name)} = {_value(value)}" for name, value in tables.items() if name not in nested]
    for name in (name for name in tables if name in nested):
        lines += _inner(f"{place}.{_key(name)}", tables[name])
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TargetError(f"rate is {value}; it must be finite")
        return float.__repr__(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON escapes are valid in TOML, except DEL. A name of a file may have surrogates, which are no text.
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
