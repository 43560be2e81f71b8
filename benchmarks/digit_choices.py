"""How choices of precisions do on digits that were kept apart: five networks, several budgets.

python benchmarks/digit_choices.py            # print the table
python benchmarks/digit_choices.py --write    # and write it into docs/precision.md
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "precision.md"
BLOCK = re.compile(r"(<!-- choices -->\n).*?(<!-- end -->)", re.DOTALL)
SEEDS = range(5)


def main() -> None:
    """Print one line a budget, and write the page where that is asked for."""
    sys.path.insert(0, str(ROOT / "tests"))  # the networks and the split belong to the tests
    from precision.digit_choices import SHARES, judged

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/precision.md")
    args = parser.parse_args()
    lines = [
        "| weight budget, share of fp32 | exact | best of eight, measured | best uniform | greedy |",
        " exact, per network (%) |\n",
        "|--:|--:|--:|--:|--:|---|\n",
    ]
    found = [judged(seed) for seed in SEEDS]
    for place, share in enumerate(SHARES):
        here = [each[place] for each in found]
        exact, refined, greedy = (
            100 * np.mean([getattr(each, name) for each in here]) for name in ("exact", "refined", "greedy")
        )
        best = 100 * np.mean([max(each.uniform.values()) for each in here])
        singly = ", ".join(f"{100 * each.exact:.1f}" for each in here)
        means = " | ".join(f"{each:.2f} %" for each in (exact, refined, best, greedy))
        lines.append(f"| {100 * share:.0f} % | {means} | {singly} |\n")
    print("".join(lines))
    if args.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text), "utf-8")


if __name__ == "__main__":
    main()
