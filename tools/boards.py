"""Compares arenas and verdicts for TFLite Micro with emulated Cortex-M boards, and writes docs/boards.md.

The measurements are not part of the repository: they are in the folder `boards` next to the models.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sizeup.backends.tflm import arena
from sizeup.backends.tflm.layout import PYTHON_PACKAGE, Build, KernelLibrary, Vectors
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.backends.tflm.support import unsupported_reason
from sizeup.errors import SizeupError
from sizeup.formats import load
from sizeup.graph import Graph

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "boards.md"
VECTORS: dict[str, Vectors] = {"m3": "", "m4": "dsp", "m7": "dsp", "m55": "mve"}
LIBRARIES: dict[str, KernelLibrary] = {"ref": "reference", "cmsis-nn": "cmsis-nn"}
FIRMWARES = tuple((core, kernels) for core in VECTORS for kernels in LIBRARIES)
_PUBLIC = "real_boards.csv"
_CORES = {"m3": "Cortex-M3", "m4": "Cortex-M4", "m7": "Cortex-M7", "m55": "Cortex-M55"}
_NAMES = {"ref": "reference", "cmsis-nn": "CMSIS-NN"}
_SHOWN = (("m4", "ref"), ("m4", "cmsis-nn"), ("m55", "cmsis-nn"))
HEAD = """# Arenas compared with boards

`make boards` compares what sizeup computes from a file with what TFLite Micro (commit 90b983c) did on
emulated Cortex-M boards (QEMU 7.2, GCC 12.2) with its reference kernels and with CMSIS-NN (commit 4ab83cc):
whether `AllocateTensors` and `Invoke` succeed, and the smallest arena in which they do. The models are the
public `.tflite` files below, and generated ones of one or a few operators. sizeup derives both from the file
and the sources of the kernels; no measurement is built in. `tests/backends/tflm` checks every row.

"""
COLUMNS = ("equal", "too low", "too high", "right YES", "wrong YES", "right NO", "wrong NO")
SUMMARY = f"""| core | kernels | models | arena {" | ".join(COLUMNS)} |
|---|---|{"--:|" * (1 + len(COLUMNS))}
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model on a board: head, tail and smallest arena, and whether it runs, computed and measured."""

    model: str
    computed: tuple[int, int, int] | str  # or the error
    measured: tuple[int, int, int] | None  # if AllocateTensors succeeded
    refusal: str | None  # the reason if the verdict is NO
    runs: bool
    why: str  # what the board printed

    @property
    def arena(self) -> str:
        """How the computed arena compares with the measured one; empty without a measurement."""
        if self.measured is None:
            return ""
        if isinstance(self.computed, str):
            return "error"
        difference = self.computed[2] - self.measured[2]
        return "equal" if not difference else "too low" if difference < 0 else "too high"

    @property
    def verdict(self) -> str:
        """Whether the verdict is right."""
        is_right = (self.refusal is None) == self.runs
        return f"{'right' if is_right else 'wrong'} {'YES' if self.refusal is None else 'NO'}"


@cache
def measurements(shared: Path) -> list[dict[str, str]]:
    """Return the rows of both tables; the public models come first."""
    rows = []
    for name in (_PUBLIC, "generated_boards.csv"):
        with (shared / "boards" / name).open(newline="") as file:
            rows += [{**row, "table": name} for row in csv.DictReader(file)]
    return rows


@cache
def files(shared: Path) -> dict[str, Path]:
    """Return the models by name."""
    folders = (shared / "models", shared / "boards" / "generated")
    return {path.stem: path for folder in folders for path in folder.rglob("*.tflite")}


@cache
def graph(path: Path) -> Graph:
    """Return the graph of a file, read once."""
    return load(path)


def build_of(core: str, kernels: str) -> Build:
    """Return the firmware of a row; x86 is the Python package."""
    if core == "x86":
        return PYTHON_PACKAGE
    return Build(4, 1, kernels=LIBRARIES[kernels], vectors=VECTORS[core])


def compare(shared: Path, core: str, kernels: str, *, only_public: bool = False) -> list[Comparison]:
    """Return a comparison per model that was run on a core with a kernel library."""
    rows = [row for row in measurements(shared) if (row["core"], row["kernels"]) == (core, kernels)]
    build = build_of(core, kernels)
    return [_compare(shared, row, build) for row in rows if not only_public or row["table"] == _PUBLIC]


def _compare(shared: Path, row: dict[str, str], build: Build) -> Comparison:
    model = graph(files(shared)[row["model"]])
    measured = None
    computed: tuple[int, int, int] | str = ""
    if row["smallest_arena"]:
        measured = (int(row["head"]), int(row["tail"]), int(row["smallest_arena"]))
        try:
            predicted = arena(model, offsets=model.offsets or None, overlap=True, firmware=build)
            computed = (predicted.head_bytes, predicted.tail_bytes_32 or 0, predicted.arena_bytes_32 or 0)
        except SizeupError as error:
            computed = str(error)
    refusal = unsupported_reason(subgraphs(model), build)
    runs = row["runs_ok"] == "1"
    return Comparison(row["model"], computed, measured, refusal, runs, row["why"])


def summary(core: str, kernels: str, rows: list[Comparison]) -> str:
    """Return a row of the first table."""
    counts = Counter(row.arena for row in rows) + Counter(row.verdict for row in rows)
    assert not counts["error"], [row for row in rows if row.arena == "error"]
    figures = " | ".join(f"{counts[column]:,}" for column in COLUMNS)
    return f"| {_CORES[core]} | {_NAMES[kernels]} | {len(rows):,} | {figures} |\n"


def public_models(shared: Path) -> str:
    """Return the table of the public models: the arena computed and measured, per firmware."""
    columns = [
        {row.model: row for row in compare(shared, *firmware, only_public=True)} for firmware in _SHOWN
    ]
    heads = (f"{_CORES[core]}, {_NAMES[kernels]} | board" for core, kernels in _SHOWN)
    lines = [f"| smallest arena (B) | {' | '.join(heads)} |", "|---" + "|--:" * (2 * len(_SHOWN)) + "|"]
    for model in columns[0]:
        cells = [cell for column in columns for cell in _cells(column.get(model))]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(row: Comparison | None) -> tuple[str, str]:
    if row is None:
        return "-", "-"
    ours = f"{row.computed[2]:,}" if isinstance(row.computed, tuple) else "-"
    return (
        ours if row.refusal is None else "cannot run",
        f"{row.measured[2]:,}" if row.measured and row.runs else "does not run",
    )


def page(shared: Path) -> str:
    """Return the page."""
    rows = "".join(summary(*firmware, compare(shared, *firmware)) for firmware in FIRMWARES)
    return f"{HEAD}{SUMMARY}{rows}\n{public_models(shared)}"


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--shared", type=Path, default=shared, help="folder with `boards` and `models`")
    PAGE.write_text(page(parser.parse_args().shared))
    return 0


if __name__ == "__main__":
    sys.exit(main())
