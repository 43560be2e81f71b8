"""The planner graphs beside the project: the least peak of any order, what is proven, and how soon."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # who reads these files is written there

from memory.planner_graphs import known_answers, read  # noqa: E402
from sizeup.memory.schedule import best_schedule  # noqa: E402

SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))


def main() -> None:
    """Print one line a graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default="", help="part of the graphs' names")
    args = parser.parse_args()
    print(
        f"{'graph':28} {'ops':>6} {'peak':>11} {'proven':>11} {'best known':>11} {'status':>9} {'CPU s':>6}"
    )
    for known in known_answers(SHARED / "planner"):
        if args.only not in known.name:
            continue
        problem = read(SHARED / "planner" / "graphs" / f"{known.name}.txt")
        start = time.process_time()
        found = best_schedule(problem, time_limit=args.seconds)
        seconds = time.process_time() - start
        peaks = f"{found.peak_bytes:11,} {found.lower_bound_bytes:11,} {known.best:11,}"
        print(f"{known.name:28} {problem.count:6} {peaks} {found.status:>9} {seconds:6.2f}", flush=True)


if __name__ == "__main__":
    main()
