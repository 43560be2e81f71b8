"""Many small models in turns, in one process: what disturbs the machine for a while disturbs all alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes.process import Sample, environment, reason_of, save_model, save_samples, scratch_folder
from sizeup.runtimes.stopwatch import Kernel
from sizeup.runtimes.timing import TIMED, Effort, _Limit

ROUNDS = 4
TURN = Effort(seconds=0.1, warm_up=2, least_runs=3, most_runs=10_000, profiled_runs=5)
"""What one model has of one round."""

Shown = Callable[[int, int], None]  # turns that ended, turns in all


@dataclass(slots=True)
class Turns:
    """What all turns of one model brought; `failure` where the runtime would not run it."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    kernels: tuple[Kernel, ...] = ()
    version: str = ""
    failure: str = ""


def time_series(
    runtime: str,
    models: Sequence[tuple[bytes, Sequence[Sample]]],
    *,
    threads: int = 1,
    effort: Effort = TURN,
    rounds: int = ROUNDS,
    progress: Shown | None = None,
    timeout: float = 3600,
) -> list[Turns]:
    """Time the content of model files, each on its sample, a short while in every round.

    A model that the runtime refuses, or that ends the process, has its failure noted, and the others go on.
    Raises MissingLibrary where the runtime is not there, RunFailed where no turn ends in time.
    """
    clocked = TIMED[runtime]
    library = clocked.library
    if find_spec(library.module) is None:
        raise MissingLibrary(f"timing a model in {library.title}", library.package, library.extra)
    with scratch_folder() as folder:
        for index, (model, samples) in enumerate(models):
            place = folder / str(index)
            place.mkdir()
            save_model(place / "model", model)
            save_samples(place / "inputs.npz", samples)
        settings = {
            **{key: getattr(effort, key) for key in Effort.__slots__},
            **clocked.options,
            "module": clocked.module,
            "threads": threads,
            "path": sys.path,
        }
        return _Series(runtime, folder, settings, len(models), rounds, progress).run(timeout)


class _Series:
    def __init__(
        self,
        runtime: str,
        folder: Path,
        settings: dict[str, Any],
        models: int,
        rounds: int,
        progress: Shown | None,
    ) -> None:
        self.runtime, self.folder, self.settings, self.progress = runtime, folder, settings, progress
        self.title = TIMED[runtime].library.title
        self.found = [Turns() for _ in range(models)]
        self.left = [(index, step == rounds - 1) for step in range(rounds) for index in range(models)]
        self.total = len(self.left)

    def run(self, timeout: float) -> list[Turns]:
        """Start processes until every model has had its turns; each start ends at least one model's."""
        while self.left:
            current, code, heard = self._process(timeout)
            if not code and current is None:
                break
            if current is None:
                raise RunFailed(f"{self.title} {reason_of(code, '', self.folder, heard)}")
            self._give_up(current, f"{self.title} {reason_of(code, self.runtime, self.folder, heard)}")
        return self.found

    def _process(self, timeout: float) -> tuple[int | None, int, str]:
        """Which model's turn it was when the process ended, with which code, and what it said."""
        written = {**self.settings, "turns": self.left}
        (self.folder / "settings.json").write_text(json.dumps(written), "utf-8")
        command = [sys.executable, "-m", "sizeup.runtimes.turns", str(self.folder)]
        current: int | None = None
        with (
            (self.folder / "said").open("wb") as said,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, env=environment()
            ) as process,
            _Limit(process, timeout) as limit,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                row = json.loads(line)
                current = row.get("begins")
                if current is None:
                    self._note(row)
            code = process.wait()
        if limit.reached:
            raise RunFailed(f"{self.title} took longer than {timeout:g} s")
        return current, code, (self.folder / "said").read_text("utf-8", errors="replace")

    def _note(self, row: dict[str, Any]) -> None:
        index = row["ends"]
        if "error" in row:
            self._give_up(index, f"{self.title} does not run it: {row['error']}")
            return
        turns = self.found[index]
        turns.version = row["version"]
        turns.wall += [wall for wall, _ in row["runs"]]
        turns.cpu += [cpu for _, cpu in row["runs"]]
        turns.kernels = tuple(Kernel(**each) for each in row.get("kernels", ())) or turns.kernels
        self.left.remove(next(each for each in self.left if each[0] == index))
        self._show()

    def _give_up(self, index: int, failure: str) -> None:
        self.found[index] = Turns(failure=failure)
        self.left = [each for each in self.left if each[0] != index]
        self._show()

    def _show(self) -> None:
        if self.progress is not None:
            self.progress(self.total - len(self.left), self.total)
