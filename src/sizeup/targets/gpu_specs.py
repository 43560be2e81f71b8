"""Reads gpu_specs.json, Tensorscope's file of graphics cards, and writes templates of device files.

{"NVIDIA GeForce GTX 1650 Ti": {"memory_bandwidth": 192, "fp32": 3, "fp16": 6}}
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from sizeup.errors import TargetError
from sizeup.files import read_problem, read_settings
from sizeup.settings import parse_json
from sizeup.targets.device import DEVICE_CLASSES, ROLES, UNIT_KINDS
from sizeup.targets.table import Table
from sizeup.units import quoted

NAME = "gpu_specs.json"
EXAMPLE = '{"NAME": {"memory_bandwidth": GB/s, "fp32": TFLOPS, "fp16": TFLOPS}}'
TYPES = ("fp64", "fp32", "fp16", "bf16")
_BANDWIDTH = "memory_bandwidth"
_LEAST, _MOST = 1e-6, 1e9  # GB/s or TFLOPS of any card


def read_gpu_specs(path: str | os.PathLike[str]) -> dict[str, Table]:
    """The cards of a file by name; values are checked when used, and unknown keys are ignored."""
    try:
        content = parse_json(read_settings(path))
    except OSError as error:
        raise TargetError(f"{path}: {read_problem(error)}") from None
    except ValueError as error:
        raise TargetError(f"{path}: not a JSON file of graphics cards: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(card, dict) for card in content.values()):
        raise TargetError(f"{path}: not a table of graphics cards by name: {EXAMPLE}")
    for name in content:
        if not name.isprintable():
            raise TargetError(f"{path}: the card name {quoted(name)} has unprintable characters")
    return {name: Table(card, str(path), f"card {name}", {}) for name, card in content.items()}


def rates(card: Table) -> dict[str, float]:
    """The GB/s of a card and its TFLOPS by dtype, under the names of the file."""
    if _BANDWIDTH not in card.values:
        raise card.error(f"memory_bandwidth in GB/s is missing: {EXAMPLE}")
    return {name: card.number(name, _LEAST, _MOST) for name in (_BANDWIDTH, *TYPES) if name in card.values}


def device_tables(path: Path) -> dict[str, Any]:
    """The cards of a file as the content of a device file, with PyTorch as runtime."""
    return {"device": [_device(path, name, card.values) for name, card in read_gpu_specs(path).items()]}


def _device(path: Path, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
    peaks = {dtype: f"{_plain(card[dtype])} TFLOPS" for dtype in TYPES if dtype in card}
    bandwidth = {"bandwidth": f"{_plain(card[_BANDWIDTH])} GB/s"} if _BANDWIDTH in card else {}
    return {
        "name": slug(name),
        "title": name,
        "kind": "gpu",
        "maker": "not given",
        "runtimes": ["torch-eager"],
        "source": f"derived: the figures in {path.name}, which names no source",
        "units": [{"kind": "gpu", "name": "not given", "peak": peaks}],
        "memories": [{"name": "RAM", "role": "ram", **bandwidth}],
    }


def _plain(value: Any) -> str:
    """A number without an exponent; other values are quoted, for `quantities.parse` to reject."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return quoted(value)
    return format(Decimal(value if isinstance(value, int) else repr(value)), "f")


_TEMPLATE = """\
# Replace each ?, delete lines with unknown values, then: sizeup analyze MODEL -d {file}
[[device]]
name = {name}
title = {title}
kind = "?"  # {kinds}
maker = "?"
runtimes = ["?"]  # default first: {runtimes}
source = "?"  # URL of a data sheet, or "derived: ...", "measured: ..."
# like = "?"  # a similar device known to sizeup, from which missing lines are inherited
units = [
  # kind: {units}; dtypes: fp64, fp32, bf16, fp16, int8, ...
  {{ kind = "?", name = "?", peak = {{ fp32 = "? TFLOPS", int8 = "? TOPS" }} }},
]
memories = [
  # role: {roles}
  {{ name = "RAM", role = "ram", size = "? GiB", bandwidth = "? GB/s" }},
]
"""


def template(title: str, runtimes: Sequence[str]) -> str:
    """A device file with a question mark for each value; it is invalid until they are replaced."""
    return _TEMPLATE.format(
        file=shlex.quote(f"{slug(title)}.toml"),
        name=json.dumps(slug(title)),
        title=json.dumps(title, ensure_ascii=False).replace("\x7f", "\\u007f"),
        kinds=", ".join(DEVICE_CLASSES),
        runtimes=", ".join(runtimes),
        units=", ".join(UNIT_KINDS),
        roles=", ".join(ROLES),
    )


def adding_command(title: str) -> str:
    """The command that adds a device."""
    file = f"{slug(title)}.toml"
    return f"sizeup devices {shlex.quote(title)} --template > {file}, fill it in, and use -d {file}"


def slug(title: str) -> str:
    """A short name for a device: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9+]+", "-", title.casefold()).strip("-") or "device"
