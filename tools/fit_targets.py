"""Fit the targets that come along to the tables of measurements beside the project, where licences allow it.

    python tools/fit_targets.py               # write the files of fits and docs/fits.md
    python tools/fit_targets.py --only ncnn   # the sources whose file's name holds that word
    python tools/fit_targets.py --page        # docs/fits.md alone, from the files

The tables are looked for in the folder `shared/truth` beside the project (SIZEUP_SHARED names another place).
The same tables give the same files, byte by byte.
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
from fitting.reach import covered, licensed, reached, text_of_reach  # noqa: E402
from fitting.shipped import Shipped, text_of  # noqa: E402
from sizeup.targets import BUILT_IN, Catalog  # noqa: E402

SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
FOLDER = BUILT_IN / "fits"
PAGE = ROOT / "docs" / "fits.md"


def write_fits(only: str) -> list[Shipped]:
    """Write every file, and return what is too far off to be shipped."""
    left_out = []
    FOLDER.mkdir(exist_ok=True)
    for source, found in files(SHARED / "truth", SHARED / "models", only):
        kept = [each for each in found if each.doubt <= WORST]
        left_out += [each for each in found if each.doubt > WORST]
        (FOLDER / source.file).write_text(text_of(kept, source.sources, source.head), "utf-8")
        print(f"{source.file}: {len(kept)} fits")
    return left_out


def write_reach() -> str:
    """Write what kinds of devices attain, and return how often that held on devices left out."""
    found = licensed(SHARED / "truth", SHARED / "models")
    (FOLDER / "reach.toml").write_text(text_of_reach(reached(found)), "utf-8")
    also = judges(SHARED / "truth")
    return page.coverage({**covered(found, found), **covered(also, found)})


def left_out_lines(found: list[Shipped]) -> str:
    """What was fitted and judged, and is not shipped."""
    lines = ["| target | measurements | held out | mean error |\n", "|---|--:|---|--:|\n"]
    for each in sorted(found, key=lambda fit: fit.target):
        held_out = each.held_out.rstrip(",")
        error = f"{100 * each.error:.1f} %"
        if each.elsewhere > each.error:
            error += f" (like targets, search space held out: {100 * each.elsewhere:.0f} %)"
        lines.append(f"| `{each.target}` | {each.measurements:,} | {held_out} | {error} |\n")
    return "".join(lines)


def current_page(text: str) -> str:
    """The page with what the files say now."""
    catalog = Catalog((BUILT_IN,))
    text = page.with_block(text, "fits", page.fits(catalog.fits()))
    return page.with_block(text, "reach", page.reaches(catalog.reaches()))


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="a word that the names of files must hold")
    parser.add_argument("--page", action="store_true", help="write docs/fits.md alone, from the files")
    args = parser.parse_args()
    text = PAGE.read_text("utf-8")
    if not args.page:
        left_out = write_fits(args.only)
        if not args.only:
            text = page.with_block(text, "left out", left_out_lines(left_out))
            text = page.with_block(text, "coverage", write_reach())
    PAGE.write_text(current_page(text), "utf-8")


if __name__ == "__main__":
    main()
