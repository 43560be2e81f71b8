"""Writes target files with calibrations and their devices."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sizeup.errors import TargetError
from sizeup.files import read_problem, read_settings, write_text
from sizeup.settings import parse_toml

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
    write_text(path, ["\n\n".join(blocks), "\n"], make_folder=True)


def check_writable(path: Path) -> None:
    """Raises TargetError if the file exists and was not written by sizeup."""
    _read_ours(path)


def _read_ours(path: Path) -> dict[str, Any]:
    if path.is_dir() or path.suffix != ".toml":
        raise TargetError(f"{path}: not a .toml file; name one with -o")
    if not path.exists():
        return {}
    try:
        text = read_settings(path)
        if text.startswith(HEAD):
            return parse_toml(text)
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: {read_problem(error)}") from error
    raise TargetError(f"{path}: not written by sizeup, so it is not overwritten; name another file with -o")


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
    for name, value in values.items():
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            lines += _inner(f"{place}.{_key(name)}", value)
        elif isinstance(value, dict):
            lines.append(f"{_key(name)} = {_value(value)}")
    return lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TargetError(f"rate is {value}; it must be finite")
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON escapes are valid in TOML, except surrogate pairs and DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
