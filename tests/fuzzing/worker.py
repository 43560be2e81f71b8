"""A worker process: makes mutants, runs them one after another, and writes down what it finds.

It runs under an address-space limit. A timer of CPU time ends an input that runs too long in Python; if the
process is inside a library and cannot react, the kernel ends it by RLIMIT_CPU. The supervisor sees from a
shared file how far it came.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fuzzing.targets import Target, mutant, seeds_of
from fuzzing.verdicts import Finding, Hang, finding_of, judge, stop

Run: TypeAlias = Callable[[Path], Any]
PROGRESS = struct.Struct("<qqqqd")  # next index, inputs run, results, findings, CPU seconds
_WARM_UP = 3  # imports on first use count for no input
_MOST_KEPT = 20  # inputs per cause; the smallest is reported
_GRACE_SECONDS = 10  # from the timer to the kernel's kill


@dataclass(frozen=True)
class Order:
    """What one worker is to do: every `step`-th input from `start` up to `stop`, until a deadline."""

    target: str
    mode: str
    seed: int
    start: int
    stop: int
    step: int
    folder: str
    cpu_seconds: float
    memory_bytes: int
    deadline: float | None = None


def main(order: Order, target: Target) -> None:
    """Run all inputs of an order."""
    folder = Path(order.folder)
    _silence(folder)
    run = target.runner(order.mode)
    path = folder / f"input{target.suffix}"
    contents = seeds_of(target, folder / "seeds", order.mode)
    for content in contents[:_WARM_UP]:
        _replace(path, content)
        judge(run, path)
    _limit_memory(order.memory_bytes)
    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("error")
    with (folder / "progress").open("r+b") as file, mmap.mmap(file.fileno(), PROGRESS.size) as progress:
        _loop(order, target, run, path, progress)


def _loop(order: Order, target: Target, run: Run, path: Path, progress: mmap.mmap) -> None:
    _, inputs, results, findings, spent = PROGRESS.unpack(progress[:])
    seen: Counter[str] = Counter()
    begin = time.process_time() - spent
    for index in range(order.start, order.stop, order.step):
        if order.deadline is not None and time.time() > order.deadline:
            break
        PROGRESS.pack_into(progress, 0, index, inputs, results, findings, time.process_time() - begin)
        try:
            content = mutant(target, path.parent / "seeds", order.seed, index, order.mode)
        except Exception as error:  # an input that does not exist: the others are not lost
            findings += 1
            cause = finding_of(error)
            _record(path.parent, index, 0, cause._replace(signature=f"the mutator failed: {cause.signature}"))
            continue
        _replace(path, content)
        has_result, finding = _timed(run, path, order.cpu_seconds)
        inputs, results = inputs + 1, results + has_result
        if finding is not None:
            findings += 1
            seen[finding.signature] += 1
            keep(path, index, finding, with_input=seen[finding.signature] <= _MOST_KEPT)
    PROGRESS.pack_into(progress, 0, order.stop, inputs, results, findings, time.process_time() - begin)


def _timed(run: Run, path: Path, cpu_seconds: float) -> tuple[bool, Finding | None]:
    """Judge one input within its CPU time."""
    # The kernel counts ticks for this limit, which drift away from the exact time that the process reads.
    most = math.ceil(1.1 * time.process_time() + cpu_seconds) + _GRACE_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        verdict = judge(run, path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return verdict
    except Hang:  # the time was over while another exception was described
        return False, Finding("Hang after an exception", "")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def keep(path: Path, index: int, finding: Finding, *, with_input: bool = True) -> None:
    """Append a finding to the worker's list, and keep its input."""
    folder = path.parent
    size = path.stat().st_size
    _record(folder, index, size if with_input else 0, finding)
    if with_input:
        shutil.copy(path, folder / "kept" / f"{index}{path.suffix}")


def _record(folder: Path, index: int, size: int, finding: Finding) -> None:
    with (folder / "findings").open("a", encoding="utf-8") as file:
        file.write(json.dumps([index, size, *finding]) + "\n")


def _replace(path: Path, content: bytes) -> None:
    """Put a new file in place of the last: memory maps of the old one stay valid."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _limit_memory(memory_bytes: int) -> None:
    """Allow that much beyond what is mapped already: libraries reserve address space that they never use."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _silence(folder: Path) -> None:
    """Send what libraries print to a file."""
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)


def command(order: Order, target: Target) -> list[str]:
    """The command line of a worker."""
    described: dict[str, object] = {"mutator": target.mutator, "suffix": target.suffix}
    described |= {"modes": dict(target.modes), "mutators": dict(target.mutators)}
    return [sys.executable, "-m", "fuzzing.worker", json.dumps([asdict(order), described])]


if __name__ == "__main__":
    given, described = json.loads(sys.argv[1])
    main(Order(**given), Target(**described))
