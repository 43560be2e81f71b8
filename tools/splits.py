"""Optimizes model files with and without strips, and writes docs/splits.md and its picture.

The models are not part of the repository: they are in the folder `models` of `SIZEUP_SHARED`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import sizeup
from sizeup.rewrite import Optimization

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "splits.md"
PICTURES = ROOT / "docs" / "pictures"
PICTURED = "tflm_person_detect"
MODELS = (
    *("tflm_mobilenetv2_224", "te_mcunetv2_large", "te_persondet", "te_vww", "mp_hand_recrop"),
    *("swiftnet_vww_int8conv", "mlperf_vww96_fp32", "mlperf_vww96_int8", "tflm_person_detect"),
    *("mlperf_resnet_large_int8", "mlperf_resnet8_int8", "mlperf_kws_int8"),
)
HEAD = """# Arenas of split models

`make splits` optimizes public `.tflite` files in four ways and writes this page: the arena (head and tail of
the 64-bit interpreter, reference kernels) before, with the best schedule and memory plan, with `--overlap`,
with `--split`, and with both. No result needs more than the file. The last columns are the splits of
`--split`, their MACs, and the splits of `--split --overlap`. Arenas are predicted;
[tests](../tests/rewrite/test_strips.py) compare them with the interpreter. Clustering changes the size of the
file, not its arena, so it is not listed.

`make long` runs tflm_person_detect, mlperf_vww96_int8, te_vww and tflm_mobilenetv2_224 on 20 random inputs
each, with and without `--overlap`: all outputs of TFLite Micro's interpreter are bit-equal to those of the
original file, and its arena is the predicted one to the byte. Without overlaps, outputs were also bit-equal
in LiteRT, with reference and with optimized kernels (LiteRT does not load tflm_person_detect).

| model | before | schedule, plan | `--overlap` | `--split` | both | splits | MACs | splits of both |
|---|--:|--:|--:|--:|--:|---|--:|---|
"""
PICTURE = """
The arena of tflm_person_detect before and after `--split`: bytes over operators.

![before](pictures/splits-before.png)
![after](pictures/splits-after.png)
"""


class Row(NamedTuple):
    """The results for a model: as it is, with overlaps, with strips, with both."""

    model: str
    plain: Optimization
    overlapped: Optimization
    split: Optimization
    both: Optimization


def optimized(source: Path, folder: Path, time_limit: float) -> Row:
    """The results for a model."""
    results = [
        sizeup.optimize(
            source,
            folder / f"{name}.tflite",
            overlap=name in ("overlapped", "both"),
            split=name in ("split", "both"),
            verify=False,
            time_limit=time_limit,
        )
        for name in ("plain", "overlapped", "split", "both")
    ]
    return Row(source.stem, *results)


def line(row: Row) -> str:
    """A row of the table."""
    arenas = [row.plain.before.used, *(result.after.used for result in row[1:])]
    sizes = [f"{arena.total_bytes:,} B" if arena is not None else "not known" for arena in arenas]
    strips = row.split.strips
    macs = "" if strips is None else f"+{100 * strips.extra_macs_share:.1f} %"
    cells = [row.model, *sizes, splits(row.split), macs, splits(row.both)]
    return f"| {' | '.join(cells)} |\n"


def splits(result: Optimization) -> str:
    """The operators and the number of strips of each segment."""
    segments = () if result.strips is None else result.strips.segments
    parts = (f"{each.first_op}-{each.last_op} in {len(each.strip_rows)}" for each in segments)
    return ", ".join(parts) or "none"


def draw(source: Path, picture: str) -> None:
    """The arena of a file as it is stored."""
    sizeup.plan(source, reorder=False, alignment=16).plot(PICTURES / f"splits-{picture}.png")


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help="names of models")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per search")
    options = parser.parse_args()
    models = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "models"
    lines = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(line(optimized(models / f"{name}.tflite", Path(folder), options.time_limit)))
            print(lines[-1], end="", flush=True)
            if name == PICTURED:
                draw(models / f"{name}.tflite", "before")
                draw(Path(folder, "split.tflite"), "after")
    PAGE.write_text(HEAD + "".join(lines) + PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
