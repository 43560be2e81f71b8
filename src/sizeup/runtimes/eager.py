"""PyTorch in eager mode; imported only in a worker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from sizeup.formats.torch.runnable import read, runnable
from sizeup.ops import cost_rules
from sizeup.runtimes.timing import Kernel

# Ops that move no bytes and start no kernel.
_NO_KERNEL = {name.removeprefix("aten.") for rule in cost_rules() if rule.views for name in rule.torch}
_NO_KERNEL |= {"empty", "size", "is_pinned", "to"}


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """A timer of the module in the file that `source` wrote."""
    return _Timer(settings)


class _Timer:
    version = str(torch.__version__)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        torch.set_num_threads(settings["threads"])
        self.invoke = runnable(*read(Path(settings["model"])))

    def profile(self, runs: int) -> list[Kernel]:
        """The outermost ops of a run in execution order, with their modules and least times."""
        seconds_by_call: dict[tuple[str, int], list[float]] = defaultdict(list)
        modules: dict[tuple[str, int], set[str | None]] = defaultdict(set)
        for _ in range(runs):
            seen: Counter[str] = Counter()
            for name, seconds, module in self._profile_once():
                occurrence = name, seen[name]
                seconds_by_call[occurrence].append(seconds)
                modules[occurrence].add(module)
                seen[name] += 1
        return [
            # A kernel that ran in different modules has no module.
            Kernel(
                f"{name}_{occurrence}" if occurrence else name,
                f"aten.{name}",
                min(seconds),
                module=modules[name, occurrence].pop() if len(modules[name, occurrence]) == 1 else None,
            )
            for (name, occurrence), seconds in seconds_by_call.items()
        ]

    def _profile_once(self) -> list[_Row]:
        with profile(activities=[ProfilerActivity.CPU]) as record:
            if not self.invoke.has_modules:
                self.invoke()
            else:
                with self.invoke.module_scopes(_mark):
                    self.invoke()
        return _outermost_rows(record, "" if self.invoke.has_modules else None)


_Row = tuple[str, float, str | None]  # the name of an op, its seconds, its module
_MODULE = "sizeup module: "


def _mark(path: str) -> None:
    """Record the path of the running module as an event."""
    with record_function(f"{_MODULE}{path}"):
        pass


def _outermost_rows(record: Any, module: str | None) -> list[_Row]:
    """Ops that no other op called, without aliasing ops."""
    rows: list[_Row] = []
    events = record.profiler.kineto_results.experimental_event_tree()
    for event in sorted(events, key=lambda event_node: event_node.start_time_ns):
        if event.name.startswith(_MODULE):
            module = event.name.removeprefix(_MODULE)
        rows += [(name, seconds, module) for name, seconds in _kernel_rows(event)]
    return rows


def _kernel_rows(event: Any) -> list[tuple[str, float]]:
    name = event.name.removeprefix("aten::")
    if name != event.name:
        return [] if name in _NO_KERNEL else [(name, event.duration_time_ns * 1e-9)]
    return [row for child in event.children for row in _kernel_rows(child)]
