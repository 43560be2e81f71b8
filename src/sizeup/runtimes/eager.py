"""PyTorch as code runs in it, operator by operator; runs in a process of its own only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from sizeup.formats.torch.real import read, runnable
from sizeup.runtimes.timing import Kernel

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
        """The outermost operators of each run, in their order, with the modules that they ran in."""
        found: dict[tuple[str, int], list[float]] = defaultdict(list)
        modules: dict[tuple[str, int], set[str | None]] = defaultdict(set)
        for _ in range(runs):
            seen: Counter[str] = Counter()
            for name, seconds, module in self._profiled():
                place = name, seen[name]
                found[place].append(seconds)
                modules[place].add(module)
                seen[name] += 1
        return [
            # A model that runs otherwise each time has kernels in no particular module.
            Kernel(
                f"{name}_{place}" if place else name,
                f"aten.{name}",
                min(seconds),
                module=modules[name, place].pop() if len(modules[name, place]) == 1 else None,
            )
            for (name, place), seconds in found.items()
        ]

    def _profiled(self) -> list[_Row]:
        with profile(activities=[ProfilerActivity.CPU]) as record:
            if not self.invoke.has_modules:
                self.invoke()
            else:
                with self.invoke.telling_modules(_mark):
                    self.invoke()
        return _outermost(record, "" if self.invoke.has_modules else None)


_Row = tuple[str, float, str | None]  # the name of an operator, its seconds, its module
_MODULE = "sizeup module: "


def _mark(path: str) -> None:
    """Leave the path of the module that runs now among the events."""
    with record_function(f"{_MODULE}{path}"):
        pass


def _outermost(record: Any, module: str | None) -> list[_Row]:
    """Operators that no other operator called, without those that only rename bytes."""
    rows: list[_Row] = []
    events = record.profiler.kineto_results.experimental_event_tree()
    for event in sorted(events, key=lambda each: each.start_time_ns):
        if event.name.startswith(_MODULE):
            module = event.name.removeprefix(_MODULE)
        rows += [(name, seconds, module) for name, seconds in _walk(event)]
    return rows


def _walk(event: Any) -> list[tuple[str, float]]:
    name = event.name.removeprefix("aten::")
    if name != event.name:
        return [] if name in _NO_KERNEL else [(name, event.duration_time_ns * 1e-9)]
    return [row for child in event.children for row in _walk(child)]
