"""Files of targets that we write ourselves: devices and fits, each value as text."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizeup.errors import TargetError
from sizeup.files import write_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAD = "# Written by sizeup calibrate, which replaces it; your own devices belong in another file."


def save(path: Path, fit: Mapping[str, Any], device: Mapping[str, Any] | None) -> None:
    """Put a fit, and the device that it is of, into a file; other fits that we wrote there stay."""
    tables = _ours(path)
    tables["fit"] = [*(each for each in tables.get("fit", []) if each["name"] != fit["name"]), dict(fit)]
    if device is not None:
        tables["device"] = [dict(device)]
    blocks = [HEAD, *(_table(kind, each) for kind in ("device", "fit") for each in tables.get(kind, []))]
    write_text(path, ["\n\n".join(blocks), "\n"], make_folder=True)


def check(path: Path) -> None:
    """Raise where a file is there that somebody else wrote."""
    _ours(path)


def _ours(path: Path) -> dict[str, Any]:
    if path.is_dir() or path.suffix != ".toml":
        raise TargetError(f"{path}: a target is written to a file with the ending .toml")
    if not path.exists():
        return {}
    try:
        text = path.read_text("utf-8")
        if text.startswith(HEAD):
            return tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: cannot be read: {error}") from error
    raise TargetError(f"{path}: there is a file that sizeup did not write; name another one with -o")


def _table(kind: str, values: Mapping[str, Any]) -> str:
    """A table of an array: plain values first, then the tables within."""
    lines = [f"[[{kind}]]"]
    lines += [f"{_key(name)} = {_value(each)}" for name, each in values.items() if not isinstance(each, dict)]
    for name, each in values.items():
        if isinstance(each, dict):
            lines += _inner(f"{kind}.{_key(name)}", each)
    return "\n".join(lines)


def _inner(place: str, values: Mapping[str, Any]) -> list[str]:
    plain = {name: each for name, each in values.items() if not isinstance(each, dict)}
    lines = ["", f"[{place}]", *(f"{_key(name)} = {_value(each)}" for name, each in plain.items())]
    for name, each in values.items():
        if isinstance(each, dict) and any(isinstance(inner, dict) for inner in each.values()):
            lines += _inner(f"{place}.{_key(name)}", each)
        elif isinstance(each, dict):
            lines.append(f"{_key(name)} = {_value(each)}")
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
            raise TargetError(f"{value} is no rate")
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # The escapes of JSON are those of TOML, but for what lies beyond the basic plane, which needs none.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
