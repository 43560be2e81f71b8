"""Limits of time and memory for work on untrusted files: a forked worker does it, and ends at the limit."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import files
from sizeup.errors import Incomplete, SizeupError, WorkerFailed
from sizeup.workers import OUT_OF_MEMORY, TIMED_OUT, Supervisor
from sizeup.workers.forked import CAN_FORK

if TYPE_CHECKING:
    from sizeup.checks.limits import Unit
    from sizeup.results.check import Check


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Seconds and bytes of memory for the work on a model, including its subprocesses; 0: no limit."""

    seconds: float = 0.0
    memory_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.seconds or self.memory_bytes)

    def require_worker(self) -> None:
        """Raise SizeupError if there is a limit that this system cannot enforce."""
        if self and not CAN_FORK:
            raise SizeupError("--time-limit and --memory-limit need Linux; leave them out")


NO_LIMITS = WorkLimits()
BUDGET_LIMITS = WorkLimits(300.0, 4 << 30) if CAN_FORK else NO_LIMITS
"""The limits per model of a check with a budget file, which may be of a pull request; as those of a sweep."""


def check_in_worker(
    model: str, check_all: Callable[[], Iterable[Check]], limits: WorkLimits, readable: Iterable[Path] | None
) -> tuple[Check, ...]:
    """The checks of a model, computed in a worker that reads these files and folders and writes nothing.

    At a limit, the verdict is undetermined. None for `readable`: the worker is not confined.
    """
    from sizeup.workers.plain_data import decode, encode

    try:
        checks = decode(_in_worker(lambda: encode(tuple(check_all())), limits, readable))
    except ValueError as error:
        raise SizeupError(f"{model}: the worker answered what cannot be read: {error}") from error
    except WorkerFailed as failed:
        if failed.kind not in (TIMED_OUT, OUT_OF_MEMORY):
            raise SizeupError(f"{model}: the worker {failed}") from failed
        return (_limited_check(model, limits, failed),)
    return tuple(checks)


def run_in_worker(
    run: Callable[[], int], limits: WorkLimits, readable: Iterable[Path] | None, outputs: Iterable[Path]
) -> int:
    """The exit code of a command that runs in a worker; raises Incomplete at a limit.

    It prints on the streams of this process. It writes to a temporary folder, from which this process moves
    the `outputs` that the user named, unless `readable` is None: then it is not confined.
    """
    typed = {target for path in outputs if (target := files.target_of(path)) is not None}

    def moves(scratch: Path, written: dict[str, str]) -> None:
        for content, output in written.items():
            _move(Path(content), Path(output), scratch, typed)

    def work() -> tuple[int, dict[str, str]]:
        return run(), {} if files.outbox is None else files.outbox.outputs

    try:
        code, _ = _in_worker(work, limits, readable, is_silent=False, finish=moves)
        return int(code)
    except WorkerFailed as failed:
        if failed.kind in (TIMED_OUT, OUT_OF_MEMORY):
            raise Incomplete(f"undetermined: it {failed}; {_advice(failed)}") from failed
        raise SizeupError(f"the worker {failed}") from failed


def _move(content: Path, output: Path, scratch: Path, typed: set[Path]) -> None:
    """Move what a worker wrote to an output that the user named, or to a new file next to it."""
    is_new = not os.path.lexists(output) and any(output.is_relative_to(path.parent) for path in typed)
    if content.parent != scratch or content.is_symlink() or not (output in typed or is_new):
        raise SizeupError(f"{output}: the worker may not write it")
    with files.atomic_path(output, like=content, make_folder=True) as new:
        shutil.copyfile(content, new, follow_symlinks=False)


def _in_worker(
    run: Callable[[], Any],
    limits: WorkLimits,
    readable: Iterable[Path] | None,
    *,
    is_silent: bool = True,
    finish: Callable[[Path, dict[str, str]], None] | None = None,
) -> Any:
    """What a function returns in a worker; None for `readable`: it is not confined.

    `finish` is called with the temporary folder, which is then removed, and the second part of the answer.
    """
    from sizeup.workers.sandbox import confinement

    limits.require_worker()
    with _scratch_folder() as scratch:
        confine = None if readable is None else confinement(readable, scratch)

        def work(_channel: object) -> Any:
            if confine is not None:
                _use_scratch(scratch)
            return run()

        with Supervisor(limits.memory_bytes, forks=True, is_silent=is_silent, confine=confine) as supervisor:
            answer = supervisor.call(work, seconds=limits.seconds or math.inf)
        if finish is not None:
            finish(scratch, answer[1])
        return answer


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sizeup-", ignore_cleanup_errors=True) as folder:
        yield Path(os.path.realpath(folder))


def _use_scratch(folder: Path) -> None:
    """Have this process and its subprocesses write outputs, temporary files and caches to a folder."""
    files.outbox = files.Outbox(folder, {})
    os.environ |= dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME"), str(folder))
    tempfile.tempdir = str(folder)


_TIME: tuple[str, Unit] = ("time limit", "seconds")
_MEMORY: tuple[str, Unit] = ("memory limit", "bytes")


def _limited_check(model: str, limits: WorkLimits, failed: WorkerFailed) -> Check:
    """The check of a model whose worker was ended: one limit, of which nothing is known."""
    from sizeup.checks import Limit
    from sizeup.results.check import Check

    is_time = failed.kind == TIMED_OUT
    maximum = limits.seconds if is_time else float(limits.memory_bytes)
    name, unit = _TIME if is_time else _MEMORY
    reason = f"reading and checking it {failed}; {_advice(failed)}"
    limit = Limit(name, unit, maximum, None, None, unknown=(reason,))
    return Check(model, Path(model).name, limits=(limit,), is_file=True)


def _advice(failed: WorkerFailed) -> str:
    return "raise --time-limit" if failed.kind == TIMED_OUT else "raise --memory-limit"
