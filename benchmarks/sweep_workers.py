"""Two workers against one when they trace models of timm, on each engine.

    python benchmarks/sweep_workers.py [COUNT]

Times begin when every worker has traced its first model: importing PyTorch is no part of the work. Run it on
a quiet machine; the bar is that two take at most 1 / 1.7 of the time of one. Beside the clock stand the CPU
seconds of all models, which tell on any machine whether two workers are in each other's way, and the most
that one model takes: no number of workers is faster than that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

WARM = 4
CODE = """
import json, sys
import sizeup
from sizeup.formats.torch import zoo_names

count = int(sys.argv[1])
# Without models that run out of memory: two tries of one took longer than 23 others together.
known = [name for name in zoo_names("timm") if not name.startswith("gemma")]
names = [f"timm:{name}" for name in known[3 :: 1300 // count][:count]]
spec = {"models": ["timm:resnet18", "timm:resnet26", "timm:resnet34", "timm:resnet50", *names]}
times = []
done = sizeup.sweep(
    {**spec, "targets": ["rpi5/ort", "rtx4090"]},
    "out",
    engine=sys.argv[2],
    workers=int(sys.argv[3]),
    progress=lambda each: times.append(each.seconds),
)
lines = [json.loads(line) for line in open("out/log/000000.jsonl")]
spent = [line["cpu_seconds"] or 0.0 for line in lines if line["model"] not in spec["models"][:4]]
print(json.dumps([times, sum(spent), max(spent), done.errors]))
"""


def seconds(count: int, engine: str, workers: int) -> float:
    """How long so many models take once all workers are at work."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(count), engine, str(workers)],
            cwd=Path(folder),
            capture_output=True,
            text=True,
            check=True,
        )
    times, spent, longest, errors = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{engine}, {workers}: {spent:.1f} CPU s, the longest {longest:.1f} s, {errors} error rows",
        flush=True,
    )
    return float(times[-1] - times[WARM - 1])


def main() -> int:
    """Print the times and their ratio."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for engine in ("local", "ray"):
        one, two = seconds(count, engine, 1), seconds(count, engine, 2)
        print(f"{engine}: {count} models in {one:.1f} s by one worker, {two:.1f} s by two: {one / two:.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
