"""Settings files: device, calibration, budget and sweep TOML, precision maps and graphics cards in JSON.

A seed is parsed, a value, a key or a table of it is changed, and it is written again; some mutants have lines
or raw bytes changed instead.
"""

from __future__ import annotations

import copy
import datetime
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.values import TEXTS, changed_bytes, integer, number

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_UNITS = ("", "KiB", "GiB", "MHz", "TOPS", "GB/s", "W", "us", "ms", "mJ", "M", "%", "B", "s")
_WORDS = (
    "int8",
    "fp32",
    "fp16",
    "cpu",
    "gpu",
    "ram",
    "flash",
    "*.tflite",
    "stm32f746/tflm",
    "own-board",
    "derived: x",
)


@dataclass(frozen=True)
class Settings:
    """A mutator of one kind of file."""

    texts: tuple[str, ...]
    parse: Callable[[str], Any]
    write: Callable[[Any], str]

    def seeds(self, folder: Path) -> list[bytes]:
        """Files that use every key."""
        return [each.encode() for each in self.texts]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change values, keys and tables; or lines; or raw bytes."""
        choice = random.random()
        if choice < 0.1:
            return changed_bytes(content, random)
        if choice < 0.25:
            return changed_lines(content, random)
        try:
            tree = self.parse(content.decode())
        except (ValueError, RecursionError):
            return changed_bytes(content, random)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            tree = changed_tree(tree, random)
        try:
            return self.write(tree).encode("utf-8", "surrogatepass")
        except (RecursionError, TypeError, ValueError):
            return changed_bytes(content, random)


def changed_lines(content: bytes, random: Random) -> bytes:
    """Delete, repeat, swap or join lines."""
    lines = content.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    choice = random.randrange(4)
    if choice == 0:
        del lines[at]
    elif choice == 1:
        lines.insert(other, lines[at])
    elif choice == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    return b"\n".join(lines)


def changed_tree(tree: Any, random: Random) -> Any:
    """Change one place of nested tables and lists."""
    if isinstance(tree, dict) and tree and random.random() < 0.85:
        key = random.choice(list(tree))
        if random.random() < 0.75:
            tree[key] = changed_tree(tree[key], random)
        else:
            _change_keys(tree, key, random)
        return tree
    if isinstance(tree, list) and tree and random.random() < 0.85:
        at = random.randrange(len(tree))
        if random.random() < 0.75:
            tree[at] = changed_tree(tree[at], random)
        else:
            _change_entries(tree, at, random)
        return tree
    return _near(tree, random) if random.random() < 0.5 else anything(random)


def _change_keys(table: dict[str, Any], key: str, random: Random) -> None:
    choice = random.randrange(3)
    if choice == 0:
        del table[key]
    elif choice == 1:
        table[random.choice(TEXTS) or key + "s"] = table.pop(key)
    else:
        table[random.choice((*table, "like", "note", "power", "name"))] = copy.deepcopy(table[key])


def _change_entries(entries: list[Any], at: int, random: Random) -> None:
    choice = random.randrange(3)
    if choice == 0:
        del entries[at]
    elif choice == 1:
        entries.append(copy.deepcopy(entries[at]))
    else:
        entries.extend(copy.deepcopy(entries[at]) for _ in range(random.choice((2, 50))))


def _near(value: Any, random: Random) -> Any:
    """A value of the same type that is larger, smaller or of the other sign."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice(
            (-value, value * 1000, value // 1000, value + 1, 0, number(random), integer(random))
        )
    if isinstance(value, str):
        amount = random.choice(
            (str(integer(random)), f"{number(random):g}", "9" * 400, "0.0000001", "1e5", "²")
        )
        return random.choice((value + value, value[:-1], value.upper(), f"{amount} {random.choice(_UNITS)}"))
    return anything(random)


def anything(random: Random) -> Any:
    """A value of any type."""
    choice = random.randrange(10)
    if choice <= 2:
        return random.choice((*TEXTS, *_WORDS))
    if choice == 3:
        return integer(random)
    if choice == 4:
        return 10 ** random.choice((20, 400, 5000))
    if choice == 5:
        return number(random)
    if choice == 6:
        return random.choice((True, False, [], {}, [1], [""], [[]], {"a": 1}))
    if choice == 7:
        return random.choice((datetime.date(2026, 1, 1), datetime.time(1, 2), datetime.datetime(2026, 1, 1)))
    return nested(random.choice((2, 20, 90, 2000)), random)


@dataclass(frozen=True)
class Nested:
    """Lists or tables within each other, written out only when the file is."""

    depth: int
    opening: str
    closing: str


def nested(depth: int, random: Random) -> Nested:
    """A value that is deeply nested."""
    return Nested(depth, *random.choice((("[", "]"), ("{ a = ", " }"))))


def toml(tree: Any) -> str:
    """TOML text: tables inline below the top level, so that any tree can be written."""
    if not isinstance(tree, dict):
        return f"value = {_value(tree)}\n"
    plain = [f"{_key(key)} = {_value(value)}" for key, value in tree.items() if not _is_tables(value)]
    for key, value in tree.items():
        if _is_tables(value):
            for each in value:
                plain += [
                    "",
                    f"[[{_key(key)}]]",
                    *(f"{_key(name)} = {_value(held)}" for name, held in each.items()),
                ]
    return "\n".join(plain) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, Nested):
        return value.opening * value.depth + "1" + value.closing * value.depth
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value) if value >= 10**30 else str(max(value, -(10**400)))
    if isinstance(value, float):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan" if math.isnan(value) else repr(value))
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else value.isoformat()


def json_text(tree: Any) -> str:
    """JSON text; what JSON lacks becomes the nearest that it has."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # numbers of any length are written, whatever may be read
    try:
        return json.dumps(tree, default=_plain)
    finally:
        sys.set_int_max_str_digits(limit)


def _plain(value: Any) -> Any:
    if isinstance(value, Nested):
        made: Any = 1
        for _ in range(min(value.depth, 400)):
            made = [made] if value.opening == "[" else {"a": made}
        return made
    return str(value)


DEVICE = """\
[sources]
sheet = "data sheet, https://example.org/sheet.pdf"
[common]
kind = "microcontroller"
maker = "Acme"
recorded = "2026-01-02"
[[core]]
name = "acme-1"
title = "Acme 1"
architecture = "Acme"
macs_per_cycle = { int8 = 4, fp32 = 0.5 }
source = "sheet"
[[device]]
name = "own-board"
title = "Acme Board"
aliases = ["board 7"]
runtimes = ["acme-run"]
source = "sheet"
verified = "2026-02-03"
units = [
  { core = "acme-1", cores = 2, clock = "100 MHz", boost = "200 MHz" },
  { kind = "npu", name = "Acme NPU", peak = { int8 = "1 TOPS" } },
]
memories = [
  { name = "SRAM", role = "ram", size = "1.5 KiB", bandwidth = "400 MB/s" },
  { name = "SDRAM", role = "external ram", size = "8 MiB", bus = "16 bit x 100 MT/s" },
  { name = "flash", role = "flash", size = "64 KiB" },
]
power = { idle = "5 mW", typical = "0.5 W" }
energy = { pj_per_mac = { int8 = 12.5 }, pj_per_byte = { SRAM = 3 }, source = "derived: 0.5 W / 40 GMAC/s" }
[[device]]
name = "second"
title = "Second"
like = "own-board"
memories = [{ name = "SRAM", role = "ram", size = "2 KiB" }]
[[runtime]]
name = "acme-run"
title = "Acme Run"
units = ["cpu"]
dtypes = ["int8", "fp32"]
fuses = ["activation"]
in_place = []
overhead = "5 us"
micro = "reference"
code = { least = "10 KiB", most = "20 KiB", source = "sheet" }
source = "measured: by hand"
"""
_FIT = """\
[[fit]]
name = "own-board/acme-run"
precisions = ["int8", "fp32"]
measurements = 4
error = 0.1905
within = 0.5
tau = 1
held_out = "network"
source = "sheet"
version = "10.2"
threads = 2
note = "a note"
band = { low = -0.4596, high = 0.4596, unseen = 0.5, drift = 0.1, typical = 0.02, low_longer = 0.3 }
[fit.rates]
schema = 1
run = 0.001
power = 2.0
pooled = { mac = 4.4e-09, byte = 1e-9, launch = 1e-6 }
[fit.rates.classes]
conv = { mac = 1e-9, byte = 1e-9, launch = 1e-6 }
[[slowdown]]
name = "cortex-m7/tflm"
compute = 3.3
traffic = 1.0
launch = 1e-6
low = 0.4
high = 1.8
measurements = 23
devices = 26
source = "sheet"
"""
_BUDGET = """\
[[budget]]
models = ["*.tflite"]
name = "small"
target = "stm32f746/tflm"
precision = "int8"
arena = "64 KiB"
flash = "1 MiB"
macs = "20 M"
latency = "20 ms"
strict = false
expected = true
layers = { "conv*" = { macs = "1 M", latency = "1 ms" } }
[[budget]]
models = "net.tflite"
params = 100000
bind = { batch = 1 }
baseline = "baselines.json"
growth = { macs = "5%", weights = "10%" }
"""
_SWEEP = """\
models = ["*.tflite", "net.tflite"]
exclude = ["other*"]
targets = ["rpi5/ort", "stm32*", "stm32f746/tflm"]
precisions = ["stored", "int8"]
batch = [1, 2, 8]
shapes = [{}, { x = "1x3x8x8", n = 128 }]
[limits]
seconds = 30
memory = "2 GiB"
tries = 2
[[points]]
target = "rpi5"
precision = "fp16"
batch = 4
shapes = { length = 128 }
"""
_MAP = '{"conv*": "int8", "#0": "fp16", "features.0": "int4", "dense": "fp32"}'

_COEFFICIENTS = """\
[conv]
int8 = 28.0
fp32 = 30
[linear]
int8 = 1e-3
"""

_CARDS = """\
{
  "NVIDIA GeForce GTX 1650 Ti": {"memory_bandwidth": 192, "fp64": 0.095, "fp32": 3, "fp16": 6},
  "Own (card)": {"memory_bandwidth": 1555.5, "bf16": 312}
}
"""

DEVICES = Settings((DEVICE,), tomllib.loads, toml)
CALIBRATIONS = Settings((DEVICE + _FIT,), tomllib.loads, toml)
BUDGETS = Settings((_BUDGET,), tomllib.loads, toml)
SWEEPS = Settings((_SWEEP,), tomllib.loads, toml)
COEFFICIENTS = Settings((_COEFFICIENTS,), tomllib.loads, toml)
PRECISION_MAPS = Settings((_MAP,), json.loads, json_text)
GPU_SPECS = Settings((_CARDS,), json.loads, json_text)
