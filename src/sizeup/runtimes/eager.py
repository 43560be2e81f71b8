"""PyTorch as code runs in it, operator by operator; runs in a process of its own only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from sizeup.formats.torch.real import read, runnable
from sizeup.runtimes.stopwatch import Kernel

# What moves no byte and starts no kernel.
_NO_KERNEL = frozenset({
    *("view", "reshape", "permute", "transpose", "t", "flatten", "unsqueeze", "squeeze", "expand", "slice"),
    *("select", "split", "chunk", "unbind", "detach", "alias", "unflatten", "as_strided", "_unsafe_view"),
    *("dropout", "empty", "size", "is_pinned", "lift_fresh", "to", "contiguous"),
})  # fmt: skip


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """What the caller left in a file: a name or a module, and its inputs."""
    return _Timer(settings)


class _Timer:
    version = str(torch.__version__)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        torch.set_num_threads(settings["threads"])
        self.invoke = runnable(*read(Path(settings["model"])))

    def profile(self, runs: int) -> list[Kernel]:
        """The outermost operators of each run, in their order."""
        found: dict[tuple[str, int], list[float]] = defaultdict(list)
        for _ in range(runs):
            with profile(activities=[ProfilerActivity.CPU]) as record:
                self.invoke()
            seen: Counter[str] = Counter()
            for name, seconds in _outermost(record):
                found[name, seen[name]].append(seconds)
                seen[name] += 1
        return [
            Kernel(f"{name}_{place}" if place else name, f"aten.{name}", min(seconds))
            for (name, place), seconds in found.items()
        ]


def _outermost(record: Any) -> list[tuple[str, float]]:
    """Operators that no other operator called, without those that only rename bytes."""
    rows = []
    for event in record.profiler.kineto_results.experimental_event_tree():
        rows += _walk(event)
    return rows


def _walk(event: Any) -> list[tuple[str, float]]:
    name = event.name.removeprefix("aten::")
    if name != event.name:
        return [] if name in _NO_KERNEL else [(name, event.duration_time_ns * 1e-9)]
    return [row for child in event.children for row in _walk(child)]
