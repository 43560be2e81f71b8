"""The hard packing instances beside the project: whether they fit their capacity, how, and how soon."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # who reads these files is written there

from memory.memory_graphs import packing_instance  # noqa: E402
from sizeup.errors import DoesNotFit  # noqa: E402
from sizeup.memory.packing import pack  # noqa: E402

SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))


def main() -> None:
    """Print one line an instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="ABCDEFGHIJK", help="letters of the instances, such as DIJ")
    args = parser.parse_args()
    print(f"{'instance':10} {'buffers':>8} {'fits':>6} {'method':>10} {'wall s':>7} {'CPU s':>7}")
    for name in args.only:
        buffers, capacity = packing_instance(SHARED, name)
        wall, cpu = time.monotonic(), time.process_time()
        try:
            found = pack(buffers, capacity=capacity, time_limit=args.seconds)
            answer, method = "yes", found.method
        except DoesNotFit as told:
            answer, method = f"{100 * (told.best / capacity - 1):.1f} %", "open"
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        print(f"{name:10} {len(buffers):8} {answer:>6} {method:>10} {wall:7.1f} {cpu:7.1f}", flush=True)


if __name__ == "__main__":
    main()
