"""Calibrates the targets shipped with sizeup on public tables of measurements with a suitable license.

    python tools/fit_targets.py               # write the calibration files and docs/calibrations.md
    python tools/fit_targets.py --only ncnn   # only sources whose file name contains that text
    python tools/fit_targets.py --page        # only docs/calibrations.md, from the files

The tables are read from `shared/truth` next to the project, or from $SIZEUP_SHARED/truth. The output is
deterministic.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the readers of the tables and the splits belong to the tests

from fitting import page  # noqa: E402 (it needs the path above)
from fitting.fits import WORST, files  # noqa: E402
from fitting.judges import judges  # noqa: E402
from fitting.shipped import Shipped, calibration_file  # noqa: E402
from fitting.slowdowns import coverage_of, licensed, slowdown_file, slowdowns_of  # noqa: E402
from sizeup.targets import BUILT_IN, Catalog  # noqa: E402

SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
FOLDER = BUILT_IN / "fits"
PAGE = ROOT / "docs" / "calibrations.md"


def write_fits(only: str) -> list[Shipped]:
    """Writes the files, and returns all calibrations, also those whose error is too large to ship."""
    every = []
    FOLDER.mkdir(exist_ok=True)
    for source, calibrations in files(SHARED / "truth", SHARED / "models", only):
        shipped = [calibration for calibration in calibrations if calibration.worst_error <= WORST]
        every += calibrations
        (FOLDER / source.file).write_text(calibration_file(shipped, source.sources, source.head), "utf-8")
        print(f"{source.file}: {len(shipped)} calibrations")
    return every


def write_slowdowns() -> str:
    """Writes the slowdowns, and returns a table of their coverage on held-out devices."""
    samples = licensed(SHARED / "truth", SHARED / "models")
    (FOLDER / "slowdowns.toml").write_text(slowdown_file(slowdowns_of(samples)), "utf-8")
    also = judges(SHARED / "truth")
    return page.coverage({**coverage_of(samples, samples), **coverage_of(also, samples)})


def left_out_lines(calibrations: list[Shipped], text: str) -> str:
    """The table of calibrations that are not shipped; those of other sources as on the page."""
    made = {f"| `{calibration.target}` |" for calibration in calibrations}
    rows = [line for line in text.splitlines(keepends=True)[2:] if not line.startswith(tuple(made))]
    for calibration in calibrations:
        if calibration.worst_error <= WORST:
            continue
        held_out = calibration.held_out.rstrip(",")
        error = f"{100 * calibration.error:.1f} %"
        if calibration.elsewhere > calibration.error:
            error += f" (similar targets, search spaces held out: {100 * calibration.elsewhere:.0f} %)"
        rows.append(f"| `{calibration.target}` | {calibration.measurements:,} | {held_out} | {error} |\n")
    return "".join(["| target | measurements | held out | MAPE |\n", "|---|--:|---|--:|\n", *sorted(rows)])


def current_page(text: str) -> str:
    """The page with tables from the current files."""
    catalog = Catalog((BUILT_IN,))
    text = page.with_block(text, "fits", page.fits(catalog.calibrations()))
    return page.with_block(text, "slowdowns", page.slowdowns(catalog.slowdowns()))


def main() -> None:
    """Writes the files and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="text that the file name contains")
    parser.add_argument("--page", action="store_true", help="write only docs/calibrations.md, from the files")
    args = parser.parse_args()
    text = PAGE.read_text("utf-8")
    if not args.page:
        calibrations = write_fits(args.only)
        text = page.with_block(text, "left out", left_out_lines(calibrations, page.block(text, "left out")))
        if not args.only:
            text = page.with_block(text, "coverage", write_slowdowns())
    PAGE.write_text(current_page(text), "utf-8")


if __name__ == "__main__":
    main()
