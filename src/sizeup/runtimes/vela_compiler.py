"""Vela in a worker: runs its command line on one file, and reads the reports that it writes.

Imported only in a worker, whose start has to be fast.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ethosu import regor
from ethosu.vela import architecture_features, vela

from sizeup.workers.worker import limit_output

_MAX_OUTPUT_BYTES = 1 << 28  # of a file that Vela writes
_KIB = 1024
_MEMORIES = ("sram", "dram", "on_chip_flash", "off_chip_flash")
_ACCESSES = ("Sram_ac", "Dram_ac", "OnChipFlash_ac", "OffChipFlash_ac")
_TENSOR = re.compile(r" \([^()]*\)$")
# What Vela prints for an operator that it leaves to the CPU: the operator, its output, and the reason.
_FALLBACK = re.compile(
    r"^Warning \(supported operators\) operator: (\w+), ofm: '(.*)'\nReason: (.*(?:\n.+)*)", re.MULTILINE
)


def compile_file(model: str, options: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Compile a file with Vela's command line; returns its figures, and sends the compiled file.

    `options` are the fields of `VelaOptions`. Vela writes its files to the folder of the model.
    """
    limit_output(_MAX_OUTPUT_BYTES)
    home, name = Path(model).parent, Path(model).stem
    arguments = [
        model,
        *("--accelerator-config", options["accelerator"], "--memory-mode", options["memory_mode"]),
        *_system_config(options, home),
        *("--output-dir", str(home), "--show-cpu-operations", "--verbose-performance"),
    ]
    compiled: list[Any] = []
    with _recorded(compiled), _printed(home / "printed.txt") as printed:
        code = vela.main(arguments)
    if code:
        raise RuntimeError(f"Vela ended with exit code {code}")
    channel.write((home / f"{name}_vela.tflite").read_bytes())
    (summary,) = home.glob(f"{name}_summary_*.csv")
    with summary.open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    report, database = compiled[0].perf_report, compiled[0].opt_database
    return {
        **_summary(row),
        "npu_ops": report.npuOps,
        "cpu_ops": report.cpuOps,
        "cascades": report.cascades,
        "cascaded_ops": report.cascadedOps,
        "operators": list(_operators(database.tables)),
        "cpu_operators": [[match[1], match[2], _reason(match[3])] for match in _FALLBACK.finditer(printed())],
    }


def _system_config(options: dict[str, Any], home: Path) -> list[str]:
    """Vela's own system configuration, or one that differs from it in the clock of the NPU."""
    name, clock = options["system_config"], options["clock_hz"]
    if clock is None:
        return ["--config", "Arm/vela.ini", "--system-config", name]
    known = Path(architecture_features.CONFIG_FILES_PATH, "Arm", "vela.ini").read_text("utf-8")
    own = f"{name}_{clock / 1e6:g}_MHz"
    section = f"\n[System_Config.{own}]\ninherit=System_Config.{name}\ncore_clock={clock:.0f}\n"
    (home / "clock.ini").write_text(known + section, "utf-8")
    return ["--config", str(home / "clock.ini"), "--system-config", own]


def _summary(row: dict[str, str]) -> dict[str, Any]:
    """The figures of Vela's summary, in bytes, cycles and seconds."""
    return {
        "system_config": row["system_config"],
        "memory_mode": row["memory_mode"],
        "clock_hz": float(row["core_clock"]),
        "seconds": float(row["inference_time"]),
        "macs": int(row["nn_macs"]),
        "memory_bytes": {name: round(_KIB * float(row[f"{name}_memory_used"])) for name in _MEMORIES},
        "memory_cycles": {name: int(row[f"cycles_{name}_access"]) for name in _MEMORIES},
        "npu_cycles": int(row["cycles_npu"]),
        "total_cycles": int(row["cycles_total"]),
    }


def _reason(text: str) -> str:
    """The reason in one line, without the name of the tensor at the end of its first line."""
    first, *others = text.splitlines()
    return "; ".join([_TENSOR.sub("", first), *others])


def _operators(tables: Any) -> Iterator[dict[str, Any]]:
    """The cycles of every operator of the file that has a part in the compiled network."""
    if "perf" not in tables or "source" not in tables:
        return
    header = tables["source"].header
    keys = {row[header.index("id")]: int(row[header.index("ext_key")]) for row in tables["source"].data}
    header, totals = tables["perf"].header, dict[int, dict[str, Any]]()
    for cells in tables["perf"].data:
        row = dict(zip(header, cells, strict=True))
        index = keys.get(row["source_id"], -1)
        total = totals.setdefault(
            index,
            {"index": index, "name": row["name"], "is_on_cpu": False}
            | dict.fromkeys(("cycles", "npu_cycles", "memory_cycles"), 0),
        )
        total["is_on_cpu"] |= row["operator"] == "Passthrough"
        total["cycles"] += int(row["op_cycles"])
        total["npu_cycles"] += int(row["npu_cycles"])
        total["memory_cycles"] += max(int(row.get(name, 0)) for name in _ACCESSES)
    yield from totals.values()


@contextlib.contextmanager
def _recorded(compiled: list[Any]) -> Iterator[None]:
    """Keep what the compiler returns: the summary has no count of cascades and of operators."""
    original = regor.compile

    def compile(*arguments: Any, **options: Any) -> Any:
        compiled.append(original(*arguments, **options))
        return compiled[-1]

    regor.compile = compile
    try:
        yield
    finally:
        regor.compile = original


@contextlib.contextmanager
def _printed(path: Path) -> Iterator[Any]:
    """Send what Python and C print to a file; yields a function that returns its text."""
    before = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield lambda: path.read_text("utf-8", errors="replace")
    finally:
        sys.stdout.flush()
        with contextlib.suppress(OSError, TypeError):  # Windows has no handle of the whole process
            ctypes.CDLL(None).fflush(None)
        os.dup2(before, 1)
        os.close(before)
