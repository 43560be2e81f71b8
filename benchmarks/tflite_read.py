"""TFLite: reading and counting, against the bare object read of the same file.

    python benchmarks/tflite_read.py [FILE.tflite ...]

CPU time of this process, the least of several repeats. The bare read is LiteRT's own object API
(ModelT), which unpacks every table and computes nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ai_edge_litert import schema_py_generated as schema

from sizeup import cost
from sizeup.formats import tflite

_REPEATS = 15
_TARGET = 1.5
_SHARED = Path(os.environ.get("SIZEUP_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def least(path: Path) -> tuple[float, float]:
    """CPU seconds of our read and count, and of the bare object read, taken in turns."""
    ours, bare = [], []
    for _ in range(_REPEATS):
        ours.append(_cpu_seconds(lambda: cost.count(tflite.load(path))))
        bare.append(
            _cpu_seconds(lambda: schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes())))
        )
    return min(ours), min(bare)


def main() -> int:
    """Print the ratio of every file; fail where one is above the target."""
    paths = [Path(each) for each in sys.argv[1:]] or sorted((_SHARED / "models").glob("*.tflite"))
    if not paths:
        print(f"no .tflite files in {_SHARED / 'models'}; name some, or set SIZEUP_SHARED")
        return 2
    worst = 0.0
    print(f"{'file':42}{'ours ms':>9}{'bare ms':>9}{'ratio':>7}")
    for path in paths:
        ours, bare = least(path)
        worst = max(worst, ours / bare)
        print(f"{path.name:42}{1000 * ours:9.2f}{1000 * bare:9.2f}{ours / bare:7.2f}")
    print(f"worst ratio {worst:.2f}, target {_TARGET}")
    return int(worst > _TARGET)


if __name__ == "__main__":
    sys.exit(main())
