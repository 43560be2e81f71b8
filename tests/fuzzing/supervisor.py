"""The supervisor: starts workers, restarts those that died, and collects what they found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzzing.targets import TARGETS, Target
from fuzzing.worker import PROGRESS, Order, command

TESTS = Path(__file__).resolve().parent.parent
CPU_SECONDS = 5.0
MEMORY_BYTES = 1 << 30
STALLED_SECONDS = 120.0  # of waiting: a worker that uses no CPU and does not move on
_POLL_SECONDS = 0.1
_NOT_STARTED = -1


class SetupError(RuntimeError):
    """The fuzzer cannot run here: a library is missing."""


class _WorkerError(RuntimeError):
    """An exception of the fuzzer itself ended a worker."""


@dataclass
class Cause:
    """Findings with one signature: how many, and the smallest input."""

    signature: str
    details: str
    count: int = 0
    index: int = 0
    size: int = 0
    kept: str = ""


@dataclass
class Summary:
    """The outcome of one round."""

    target: str
    mode: str
    seed: int
    inputs: int = 0
    results: int = 0
    cpu_seconds: float = 0.0
    causes: dict[str, Cause] = field(default_factory=dict)
    failure: str = ""  # why the round ended early, with the counts until then

    @property
    def findings(self) -> int:
        """All inputs that are findings."""
        return sum(each.count for each in self.causes.values())

    @property
    def rate(self) -> float:
        """Inputs per CPU second."""
        return self.inputs / self.cpu_seconds if self.cpu_seconds else 0.0


@dataclass
class _Running:
    """One worker, how far it came when it last moved, and the CPU time that it had used."""

    order: Order
    process: subprocess.Popen[bytes]
    state: tuple[int, int] = (-1, 0)
    moved: float = 0.0


def fuzz(
    name: str,
    mode: str = "analyze",
    *,
    seed: int = 1,
    inputs: int = 1000,
    workers: int = 1,
    seconds: float | None = None,
    keep: Path | None = None,
    target: Target | None = None,
    cpu_seconds: float = CPU_SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    first: int = 0,
) -> Summary:
    """Run so many mutants of a target, the `first` number on, and summarize the findings."""
    target = target or TARGETS[name]
    deadline = None if seconds is None else time.time() + seconds
    summary = Summary(name, mode, seed)
    with tempfile.TemporaryDirectory(prefix="sizeup-fuzz-", dir=_memory_folder()) as top:
        orders = [
            Order(
                name,
                mode,
                seed,
                first + n,
                first + inputs,
                workers,
                f"{top}/{n}",
                cpu_seconds,
                memory_bytes,
                deadline,
            )
            for n in range(workers)
        ]
        running = [_start(_prepared(order), target) for order in orders]
        try:
            _supervise(running, target, deadline)
        except _WorkerError as error:
            summary.failure = str(error)
        finally:
            for each in running:
                each.process.kill()
                each.process.wait()
        for order in orders:
            _collect(summary, Path(order.folder), target, keep)
    return summary


def _memory_folder() -> str | None:
    """Inputs are small and many: they need not reach a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _prepared(order: Order) -> Order:
    folder = Path(order.folder)
    for each in (folder, folder / "kept", folder / "seeds"):
        each.mkdir()
    (folder / "progress").write_bytes(PROGRESS.pack(_NOT_STARTED, 0, 0, 0, 0.0))
    (folder / "findings").touch()
    return order


def _start(order: Order, target: Target) -> _Running:
    path = [str(TESTS), str(TESTS.parent / "tools"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "0"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(command(order, target), env=environment, stdin=subprocess.DEVNULL)
    return _Running(order, process, moved=time.monotonic())


def _supervise(running: list[_Running], target: Target, deadline: float | None) -> None:
    """Wait until every worker is through with its inputs."""
    alive = list(range(len(running)))
    while alive:
        time.sleep(_POLL_SECONDS)
        for place in tuple(alive):
            each = running[place]
            code = each.process.poll()
            if code is None:
                _kill_if_stalled(each)
            elif code == 0:
                alive.remove(place)
            else:
                following = _after_death(each, code)
                if following is None or (deadline is not None and time.time() > deadline):
                    alive.remove(place)
                else:
                    running[place] = _start(following, target)


def _kill_if_stalled(worker: _Running) -> None:
    now, state = time.monotonic(), (_progress(Path(worker.order.folder))[0], _cpu_ticks(worker.process.pid))
    if state != worker.state:
        worker.state, worker.moved = state, now
    elif now - worker.moved > STALLED_SECONDS:
        worker.process.kill()


def _cpu_ticks(identity: int) -> int:
    """CPU time of a process and of its children; on a busy machine, even a start may take minutes."""
    fields = Path(f"/proc/{identity}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _progress(folder: Path) -> tuple[int, int, int, int, float]:
    index, inputs, results, findings, spent = PROGRESS.unpack((folder / "progress").read_bytes())
    return index, inputs, results, findings, spent


def _after_death(worker: _Running, code: int) -> Order | None:
    """Note the input that ended a worker, and what is left to do; None if nothing is."""
    order, folder = worker.order, Path(worker.order.folder)
    index, inputs, results, findings, spent = _progress(folder)
    path = next(folder.glob("input.*"), None)
    output = (folder / "output").read_bytes()[-4000:].decode("utf-8", "replace")
    if code == 1 or index == _NOT_STARTED:  # an exception of the fuzzer itself, or a seed that crashes
        last = output.strip().rpartition("\n")[2]
        if last.startswith(("ImportError: ", "ModuleNotFoundError: ")):
            raise SetupError(last)
        raise _WorkerError(f"the worker failed: {output}")
    assert path is not None
    reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    record = [index, path.stat().st_size, f"worker ended: {reason}", output]
    with (folder / "findings").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    shutil.copy(path, folder / "kept" / f"{index}{path.suffix}")
    following = index + order.step
    (folder / "progress").write_bytes(PROGRESS.pack(_NOT_STARTED, inputs + 1, results, findings + 1, spent))
    return replace(order, start=following) if following < order.stop else None


def _collect(summary: Summary, folder: Path, target: Target, keep: Path | None) -> None:
    """Add what one worker did; the smallest input of each cause goes to the folder `keep`."""
    _, inputs, results, _, spent = _progress(folder)
    summary.inputs += inputs
    summary.results += results
    summary.cpu_seconds += spent
    for line in (folder / "findings").read_text("utf-8").splitlines():
        index, size, signature, details = json.loads(line)
        cause = summary.causes.setdefault(signature, Cause(signature, details, index=index))
        cause.count += 1
        if size and (not cause.size or size < cause.size):
            cause.index, cause.size, cause.details = index, size, details
            if keep is not None:
                cause.kept = str(_kept(summary, cause, folder, target, keep))


def _kept(summary: Summary, cause: Cause, folder: Path, target: Target, keep: Path) -> Path:
    keep.mkdir(parents=True, exist_ok=True)
    if cause.kept:
        Path(cause.kept).unlink(missing_ok=True)
        Path(f"{cause.kept}.cause").unlink(missing_ok=True)
    place = keep / f"{summary.target}-{summary.mode}-{summary.seed}-{cause.index}{target.suffix}"
    shutil.copy(folder / "kept" / f"{cause.index}{target.suffix}", place)
    Path(f"{place}.cause").write_text(f"{cause.signature}\n\n{cause.details}\n", "utf-8")
    return place


def report(summary: Summary) -> str:
    """The outcome in a few lines, one per cause of findings."""
    head = (
        f"{summary.target} {summary.mode}: {summary.inputs:,} inputs, {summary.results:,} results,"
        f" {summary.findings:,} findings of {len(summary.causes)} causes,"
        f" {summary.cpu_seconds:,.1f} CPU s, {summary.rate:,.0f} inputs per CPU s"
    )
    causes: Sequence[Cause] = sorted(summary.causes.values(), key=lambda each: -each.count)
    lines = [
        f"  {each.count:6,} x {each.signature} (input {each.index}, {each.size:,} B) {each.kept}".rstrip()
        for each in causes
    ]
    return "\n".join([head, *lines, *filter(None, [summary.failure])])


def write(text: str) -> None:
    """Print at once: rounds are long."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
