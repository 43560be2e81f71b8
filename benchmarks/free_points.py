"""A million points of resnet50 (batch, height, width), counted and timed, in CPU seconds."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sizeup

_MODEL = "torchvision:resnet50"
_TARGETS = ("i7-12700h/torch-inductor", "rpi5/ort")  # fitted, and by data sheet


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of several runs."""
    found = []
    for _ in range(repeats):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


def latency(cost: Any, sizes: dict[str, Any], repeats: int) -> None:
    """The time at all points, at one after the other, and the memory that all of them took."""
    points = len(sizes["batch"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for target in _TARGETS:
        free = sizeup.estimate(cost, target)
        free.at(batch=[1, 2], height=225, width=257)
        every = _seconds(lambda free=free: free.at(**sizes), min(repeats, 2))

        def alone(target: str = target) -> None:
            for place in range(5):
                point = {name: int(column[place]) for name, column in sizes.items()}
                sizeup.estimate(cost.cost_at(**point), target)

        print(f"latency of a million points on {target} {every * 1e6 / points:.3f}")
        print(f"latency of one point by itself on {target} {_seconds(alone, repeats) / 5:.4f}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"MB that latency adds, the points' own columns included {grown:.0f}")


def main() -> None:
    """Print one line for each figure; random points from 1 to 64 pictures of 33 to 1023 pixels a side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    random_numbers = np.random.default_rng(0)
    sizes = {
        "batch": random_numbers.integers(1, 65, given.points),
        "height": random_numbers.integers(33, 1024, given.points),
        "width": random_numbers.integers(33, 1024, given.points),
    }

    def fresh() -> int:
        return sizeup.count(_MODEL, inputs=((3, 3, 225, 257),)).total_macs

    def loaded() -> Any:
        free = sizeup.count(_MODEL, free=["batch", "height", "width"])
        free.at(batch=1, height=225, width=257)  # single pictures are a piece of their own
        return free

    fresh()
    load_seconds = _seconds(loaded, 2)
    cost = loaded()

    def everything() -> None:
        counts = cost.at(**sizes)
        for each in (counts.macs, counts.elementwise_ops, counts.read_bytes(), counts.written_bytes()):
            assert len(each) == given.points

    one, macs = _seconds(fresh, given.repeats), _seconds(lambda: cost.at(**sizes).macs, given.repeats)
    every = _seconds(everything, given.repeats)
    print("CPU seconds")
    print(f"one fresh load, counted {one:.3f}")
    print(f"loading with free dimensions, both pieces {load_seconds:.3f}")
    print(f"MACs of a million points {macs * 1e6 / given.points:.3f}")
    print(f"all totals of a million points {every * 1e6 / given.points:.3f}")
    latency(cost, sizes, given.repeats)
    print(f"fresh loads that a million points would take as long as {macs / one * 1e6 / given.points:.2f}")


if __name__ == "__main__":
    main()
