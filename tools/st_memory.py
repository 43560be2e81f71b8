"""Compares bounds of RAM and flash with what ST Edge AI reports, and updates docs/vendor-runtimes.md.

The table of reports is not part of the repository: it is `truth/stm32_modelzoo.csv` in the shared folder. The
models are read from a clone of ST's model zoo, by commit and path. Nothing is fitted to either.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sizeup.backends import MemoryPart
from sizeup.checks import Needs, fit_memory
from sizeup.cost import count
from sizeup.formats import load
from sizeup.targets import target

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "vendor-runtimes.md"
_KIB = 1024
_DEVICES = {"STM32H747I-DISCO": "stm32h747", "B-U585I-IOT02A": "stm32u585", "STM32N6570-DK": "stm32n657"}
_MAX_BYTES = 64 << 20
_PLACES = ("in the largest bank", "in all banks", "more than on the chip")


@dataclass(frozen=True, slots=True)
class Row:
    """A network on a device: bounds, and the bytes that ST Edge AI reports."""

    family: str
    device: str
    low_bytes: int
    high_bytes: int | None
    reported_bytes: float
    live_bytes: int  # peak activation memory without in-place outputs
    flash: tuple[int, int | None, float]  # bounds and reported bytes
    fits: bool | None

    @property
    def is_covered(self) -> bool:
        """Whether the reported RAM is within the bounds."""
        most = float("inf") if self.high_bytes is None else self.high_bytes
        return self.low_bytes <= self.reported_bytes <= most


def rows(table: Path, zoo: Path) -> Iterator[Row]:
    """The rows of the table whose model file is in the clone, each network on a device once."""
    seen = set()
    with table.open(newline="") as lines:
        reports = list(csv.DictReader(lines))
    for report in reports:
        device = _DEVICES.get(report["device"])
        reported = _reported_ram(report)
        if device is None or reported is None or not report["model_path"].endswith(".tflite"):
            continue
        content = _blob(zoo, report["source_commit"], report["model_path"])
        key = (hash(content), device, reported)
        if content is None or key in seen:
            continue
        seen.add(key)
        yield _row(report, device, content, reported)


def _reported_ram(report: dict[str, str]) -> float | None:
    """Activations and runtime on a CPU, internal and external RAM on an NPU, in bytes."""
    on_cpu = [report["act_ram_kib"], report["runtime_ram_kib"]]
    on_npu = [report["internal_ram_kib"], report["external_ram_kib"]]
    for sizes in (on_cpu, on_npu):
        if all(sizes):
            return sum(map(float, sizes)) * _KIB
    return None


def _blob(zoo: Path, commit: str, path: str) -> bytes | None:
    """A file of the clone at a commit; None if it is missing or a pointer to a large file."""
    command = ["git", "-C", str(zoo), "cat-file", "blob", f"{commit}:{path}"]
    content = subprocess.run(command, capture_output=True, check=False).stdout
    return content if _KIB < len(content) < _MAX_BYTES else None


def _row(report: dict[str, str], device: str, content: bytes, reported: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        file.write_bytes(content)
        graph = load(file)
        needs = Needs(graph, count(graph), None, len(content))
        fit = fit_memory(needs, target(f"{device}/stedgeai"))
    assert fit.flash is not None
    stored, *code = fit.flash.parts
    parts = (stored,) if not report["code_flash_kib"] else (stored, *code)
    flash = float(report["weights_flash_kib"]) + float(report["code_flash_kib"] or 0)
    return Row(
        _family(report),
        device,
        sum(part.low_bytes for part in fit.ram.parts),
        _high(fit.ram.parts),
        reported,
        needs.usage.peak_bytes,
        (sum(part.low_bytes for part in parts), _high(parts), flash * _KIB),
        fit.ram.fits,
    )


def _high(parts: Iterable[MemoryPart]) -> int | None:
    """The sum of the upper bounds, without the placement in banks, which takes no bytes."""
    highs = [part.high_bytes for part in parts if part.name != "placement"]
    known = [high for high in highs if high is not None]
    return sum(known) if len(known) == len(highs) else None


def _family(report: dict[str, str]) -> str:
    """The architecture: the folder of the model in the zoo."""
    folders = report["model_path"].split("/")
    return folders[2] if folders[1] == "pretrained_models" else folders[1]


def summary(all_rows: list[Row]) -> str:
    """The table of the page: one row per kind of target and family."""
    columns = ["target", "family", "networks", "low / reported", "high / reported", "within bounds"]
    columns += ["error of the liveness peak", "flash within bounds"]
    lines = [f"| {' | '.join(columns)} |", f"|---|---|{'--:|' * 6}"]
    for npu in (False, True):
        group = [row for row in all_rows if (row.device == "stm32n657") is npu]
        families = sorted({row.family for row in group})
        for family in (*families, "all"):
            members = [row for row in group if family in (row.family, "all")]
            if members:
                lines.append(_line("Neural-ART" if npu else "Cortex-M", family, members))
    return "\n".join(lines) + "\n"


def verdicts(all_rows: list[Row]) -> str:
    """The fit verdicts for RAM on chips without external RAM, by where the reported RAM fits."""
    lines = ["| reported RAM | networks | YES | UNDETERMINED | NO |", f"|---|{'--:|' * 4}"]
    groups: dict[str, Counter[bool | None]] = {name: Counter() for name in _PLACES}
    for row in all_rows:
        device = target(row.device).device
        banks = (device.largest_ram_bytes or 0, device.ram_bytes or 0)
        place = sum(row.reported_bytes > size for size in banks)
        groups[_PLACES[place]][row.fits] += 1
    for name, counts in groups.items():
        cells = [str(counts.total()), *(str(counts[fits]) for fits in (True, None, False))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _line(chip: str, family: str, members: list[Row]) -> str:
    lows = [row.low_bytes / row.reported_bytes for row in members]
    highs = [row.high_bytes / row.reported_bytes for row in members if row.high_bytes is not None]
    error = statistics.mean(abs(row.live_bytes / row.reported_bytes - 1) for row in members)
    flash = [
        low <= value and (high is None or value <= high) for low, high, value in (r.flash for r in members)
    ]
    cells = (
        chip,
        family,
        str(len(members)),
        _spread(lows),
        _spread(highs) if highs else "no bound",
        f"{sum(row.is_covered for row in members)} of {len(members)}",
        f"{error:.0%}".replace("%", " %"),
        f"{sum(flash)} of {len(flash)}",
    )
    return f"| {' | '.join(cells)} |"


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> int:
    """Update the page, or print the table with --print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("zoo", type=Path, help="a clone of github.com/STMicroelectronics/stm32ai-modelzoo")
    parser.add_argument("--print", action="store_true", help="print the table instead of updating the page")
    options = parser.parse_args()
    shared = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
    all_rows = list(rows(shared / "truth" / "stm32_modelzoo.csv", options.zoo))
    text = f"{summary(all_rows)}\n{verdicts(all_rows)}"
    if options.print:
        sys.stdout.write(text)
        return 0
    start, end = "<!-- st -->\n", "<!-- end -->"
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(before + start + text + rest[rest.index(end) :])
    return 0


if __name__ == "__main__":
    sys.exit(main())
