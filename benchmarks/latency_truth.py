"""Every set of measurements beside the project: held-out error, order and coverage of the stated interval.

python benchmarks/latency_truth.py              # print the table
python benchmarks/latency_truth.py --write      # and write it into docs/latency.md
python benchmarks/latency_truth.py --only timm  # the sets whose name holds that word
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "truth"
PAGE = ROOT / "docs" / "latency.md"
BLOCK = re.compile(r"(<!-- held-out errors -->\n).*?(<!-- end -->)", re.DOTALL)
HEADER = (
    "| set | measurements | MAPE | goal | within 10 % | Kendall's tau | 90 % interval covers |"
    " baseline MAPE |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|\n"
)


def main() -> None:
    """Print one line a set, and write the page where that is asked for."""
    sys.path.insert(0, str(ROOT / "tests"))  # the held-out groups and the goals belong to the tests
    from latency.truth.suite import CASES, outcome

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word that the names of sets must hold")
    parser.add_argument("--write", action="store_true", help="write the table into docs/latency.md")
    args = parser.parse_args()
    lines, missing = [], False
    for case in CASES:
        if args.only not in case.name:
            continue
        if case.needs is not None and not case.needs.exists():
            print(f"{case.name}: {case.needs} is not there (see benchmarks/trace_timm.py)")
            missing = True
            continue
        started = time.process_time()
        found = outcome(case, FOLDER)
        goal = f"{case.error:g} %" if case.error else f"{case.within:g} % within 10 %" if case.within else ""
        goal += " (missed)" if case.misses("error") or case.misses("within") else ""
        plain = "" if found.baseline is None else f"{found.baseline_error:.1f} %"
        lines.append(
            f"| {case.name} | {len(found.measured):,} | {found.error:.1f} % | {goal} | {found.within:.0f} % |"
            f" {found.tau:.3f} | {found.coverage:.0f} % | {plain} |\n"
        )
        print(lines[-1].rstrip(), f"{time.process_time() - started:.1f} s", flush=True)
    if args.write and missing:
        sys.exit("not written: some sets could not be judged")
    if args.write and not args.only:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + HEADER + "".join(lines) + match[2], text), "utf-8")


if __name__ == "__main__":
    main()
