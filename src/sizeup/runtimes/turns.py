"""The process in which many models take turns: `python -m sizeup.runtimes.turns FOLDER`.

Every model has a folder of its own with its settings. A turn is told on stdout as it begins and as it ends,
so that the one who waits knows which model ended the process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

Seconds = list[list[float]]  # wall and CPU, of one run after the other


def main(folder: str) -> int:
    """Let every model that is left have its turn, round by round."""
    home = Path(folder)
    settings = json.loads((home / "settings.json").read_text("utf-8"))
    sys.path += [each for each in settings["path"] if each not in sys.path]
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module = importlib.import_module(f"sizeup.runtimes.{settings['module']}")
    failed: set[int] = set()
    for index, is_last in settings["turns"]:
        if index in failed:
            continue
        print(json.dumps({"begins": index}), file=told, flush=True)
        try:
            found = _turn(module, home / str(index), settings, is_last)
        # Whatever a runtime raises is the answer that the caller waits for.
        except Exception as error:
            failed.add(index)
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"ends": index, **found}), file=told, flush=True)
    return 0


def _turn(module: Any, folder: Path, settings: dict[str, Any], is_last: bool) -> dict[str, Any]:
    timer = module.timer(folder, {**settings, "model": str(folder / "model")})
    found = {"version": timer.version, "runs": _runs(timer.invoke, settings)}
    if is_last and settings["profiled_runs"]:
        found["kernels"] = [asdict(each) for each in timer.profile(settings["profiled_runs"])]
    return found


def _runs(invoke: Callable[[], None], settings: dict[str, Any]) -> Seconds:
    for _ in range(settings["warm_up"]):
        invoke()
    rows: Seconds = []
    deadline = time.perf_counter() + settings["seconds"]
    while len(rows) < settings["most_runs"]:
        wall, cpu = time.perf_counter(), time.process_time()
        invoke()
        rows.append([time.perf_counter() - wall, time.process_time() - cpu])
        if len(rows) >= settings["least_runs"] and time.perf_counter() > deadline:
            break
    return rows


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
