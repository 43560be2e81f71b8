"""What tasks of a second cost beside their work, in CPU time of all processes.

    python benchmarks/sweep_overhead.py [local|ray] [TASKS]

A clock tells that only on a quiet machine; CPU time tells it on any. What Ray's own processes take goes with
time, not with tasks. So they are looked at at rest too, and beside the sum stands what it would be if the
cores had nothing else to do: what they take at rest in the shorter time, and the rest as it is. Linux alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WARM, WORKERS = 4, 2
SPIN = """
import time

CONTENT = {content!r}


def spin():
    end = time.process_time() + 1.0
    while time.process_time() < end:
        pass
    return CONTENT


def models():
    for index in range({tasks}):
        yield f"model {{index}}", spin
"""
CODE = """
import json, sys, time
sys.path.insert(0, sys.argv[3])
import sizeup
from sweep_overhead import WARM, WORKERS, cpu_seconds

engine, tasks = sys.argv[1], int(sys.argv[2])
marks = {}


def look(each):
    if each.done in (WARM, tasks - WORKERS):
        marks[each.done] = time.monotonic(), cpu_seconds()


sizeup.sweep(
    {"generate": "spin:models", "targets": ["rpi5/ort"]}, "out", engine=engine, workers=WORKERS, progress=look
)
print(json.dumps([*marks.values()]))
"""
IDLE = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import ray
from sizeup.sweeps.engine.ray import _ray_session
from sweep_overhead import WORKERS, cpu_seconds

with _ray_session(ray, None, WORKERS):
    rest = ray.remote(num_cpus=1)(lambda: time.sleep(14))
    waiting = [rest.remote() for _ in range(WORKERS)]
    time.sleep(4)
    before, start = cpu_seconds(), time.monotonic()
    time.sleep(8)
    after, seconds = cpu_seconds(), time.monotonic() - start
print(json.dumps(sum(after[pid][1] - before.get(pid, ["", 0.0])[1] for pid in after) / seconds))
"""


def cpu_seconds() -> dict[str, tuple[str, float, float]]:
    """Of this process and of all below it, by id: command, CPU seconds, seconds of waiting for a core."""
    parents, found = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[folder.name] = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            words = (folder / "cmdline").read_text().replace("\0", " ")
            spent = [[*map(int, each.read_text().split()[:2])] for each in folder.glob("task/*/schedstat")]
        except OSError:  # it ended meanwhile
            continue
        found[folder.name] = words, sum(each[0] for each in spent) / 1e9, sum(each[1] for each in spent) / 1e9
    ours = {str(os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: each for pid, each in found.items() if pid in ours}


def answered(code: str, folder: str, *words: str) -> object:
    """What a program prints last, as data."""
    command = [sys.executable, "-c", code, *words, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Print the parts for each task."""
    from sizeup.calibration.network_spec import NetworkBuilder
    from sizeup.calibration.write_tflite import tflite_file

    engine = sys.argv[1] if len(sys.argv) > 1 else "ray"
    tasks = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    network = NetworkBuilder("net", "net", (16, 16, 3), "int8")
    network.conv(8, 3, 1)
    network.mean()
    network.linear(10)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spin.py").write_text(SPIN.format(content=tflite_file(network.build(), 0), tasks=tasks))
        (start, before), (end, after) = answered(CODE, folder, engine, str(tasks))  # type: ignore[misc]
        at_rest = float(answered(IDLE, folder)) if engine == "ray" else 0.0  # type: ignore[arg-type]
    none = ["", 0.0, 0.0]
    spent = {
        pid: (words, cpu - before.get(pid, none)[1], waited - before.get(pid, none)[2])
        for pid, (words, cpu, waited) in after.items()
    }
    work = sum(cpu for words, cpu, _ in spent.values() if "workers.worker" in words)
    rest = sum(cpu for words, cpu, _ in spent.values() if "workers.worker" not in words)
    kept = sum(waited for words, _, waited in spent.values() if "workers.worker" in words)
    idle = (WORKERS * (end - start) - work - kept) / work
    seconds = (end - start) / work
    told = 1000 * (rest / work - at_rest * seconds)
    beside = 1000 * rest / work
    print(f"{engine}: for each second of work {beside:.1f} ms of CPU beside it, in {seconds:.2f} s")
    print(
        f"those that work had nothing to do for {1000 * idle:.1f} ms of it, others' use of the cores included"
    )
    print(f"at rest {1000 * at_rest:.1f} ms a second; without that {told:.1f} ms for each second of work")
    print(f"with nothing else on {WORKERS} cores: {told + 1000 * at_rest / WORKERS:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
