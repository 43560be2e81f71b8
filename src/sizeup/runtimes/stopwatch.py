"""The process in which a runtime is timed: `python -m sizeup.runtimes.stopwatch FOLDER`.

Its settings are in the folder. Every run is told on stdout as it ends, so that the one who waits can show
it; what is known at the end is left in the folder.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a run as the runtime's own profile has it."""

    name: str
    kind: str
    seconds: float  # of one run, the least of those profiled
    calls: int = 1  # in one run
    module: str | None = None  # the path of the module that it ran in, if the runtime tells


class Timer(Protocol):
    """A model that is loaded and given its inputs, ready to run."""

    version: str

    def invoke(self) -> None:
        """Run it once."""

    def profile(self, runs: int, /) -> list[Kernel]:
        """The kernels of a run; an empty list where the runtime tells nothing."""


def main(folder: str) -> int:
    """Load, warm up, time, profile; leave the result, or what went wrong, in the folder."""
    home = Path(folder)
    settings = json.loads((home / "settings.json").read_text("utf-8"))
    sys.path += [each for each in settings["path"] if each not in sys.path]  # where the model's code is
    # What models and runtimes print is not ours to hand on.
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        module = importlib.import_module(f"sizeup.runtimes.{settings['module']}")
        started = time.perf_counter()
        timer: Timer = module.timer(home, settings)
        loading = time.perf_counter() - started
        _time(timer.invoke, settings, told)
        kernels = timer.profile(settings["profiled_runs"]) if settings["profiled_runs"] else []
    # Whatever a runtime raises is the answer that the caller waits for.
    except Exception as error:
        (home / "error.txt").write_text(f"{type(error).__name__}: {error}", "utf-8")
        return 1
    result = {"version": timer.version, "loading": loading, "kernels": [asdict(each) for each in kernels]}
    (home / "result.json").write_text(json.dumps(result), "utf-8")
    return 0


def _time(invoke: Callable[[], None], settings: dict[str, Any], told: TextIO) -> None:
    """Run until there are enough runs and enough time has passed; at least one to warm up."""
    deadline = None
    runs = 0
    while deadline is None or runs < settings["least_runs"] or time.perf_counter() < deadline:
        wall, cpu = time.perf_counter(), time.process_time()
        invoke()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        warm = runs < settings["warm_up"] and deadline is None
        runs += 1
        print(json.dumps({"seconds": wall, "cpu": cpu, "warm_up": warm}), file=told, flush=True)
        if warm:
            continue
        if deadline is None:
            deadline = time.perf_counter() + settings["seconds"]
            runs = 1
        if runs >= settings["most_runs"]:
            break


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
