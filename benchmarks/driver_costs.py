"""What a task costs the driver of a sweep on Ray, by how many wait at a time: behind docs/scale.md.

    python benchmarks/driver_costs.py [TASKS]

The loop is that of `sweeps/engine/ray.py`, two tasks for each core of a cluster; the tasks do nothing, so
that the CPU time of this process is the driver's alone, however busy the machine is.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ray

from sizeup.sweeps.engine.ray import _ray_session

WAITING = (4, 128, 512, 2048)


def seconds_of(remote: Any, tasks: int, most: int) -> float:
    """CPU seconds of the driver for each task, with so many waiting."""
    waiting: set[Any] = set()
    left, started = tasks, time.process_time()
    while left or waiting:
        while left and len(waiting) < most:
            waiting.add(remote.remote())
            left -= 1
        done, _ = ray.wait(list(waiting), num_returns=1)
        waiting.difference_update(done)
        ray.get(done)
    return (time.process_time() - started) / tasks


def main() -> None:
    """Print one line for each number of tasks that wait."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with _ray_session(ray, None, 2):
        remote = ray.remote(num_cpus=1)(lambda: None)
        seconds_of(remote, 200, 4)
        for queued in WAITING:
            milliseconds = 1e3 * seconds_of(remote, tasks, queued)
            print(f"{queued:5} queued: {milliseconds:.3f} ms of the driver per task", flush=True)


if __name__ == "__main__":
    main()
