"""Where a verb prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup.report.text import plain
from sizeup.units import duration

if TYPE_CHECKING:
    from sizeup.sweeps import Progress

_SECONDS_BETWEEN_LINES = 10.0


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the verb's end, which knows the exit code."""
        raise BrokenPipeError


def output() -> Console:
    """The console for results; no colours where they are not wanted or not shown."""
    return _Output(highlight=False, soft_wrap=False)


def complain(message: str) -> None:
    """Say on stderr what is wrong."""
    text = Text("sizeup: ", style="bold red").append(plain(message))
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def remark(message: str) -> None:
    """Say on stderr what a result does not show."""
    Console(stderr=True, highlight=False).print(Text(plain(message), style="dim"), soft_wrap=True)


@contextlib.contextmanager
def busy(text: str) -> Iterator[None]:
    """Show that work goes on, on terminals only, and keep stdout free of what other code prints."""
    with contextlib.redirect_stdout(sys.stderr):
        # Not Console.is_terminal, which FORCE_COLOR sets: colours may be wanted in a file, a spinner is not.
        if sys.stderr.isatty():
            with Console(stderr=True).status(text):
                yield
        else:
            yield


@contextlib.contextmanager
def searching(text: str, seconds: float) -> Iterator[Callable[[str, int, int], None] | None]:
    """As `busy`, with a way to show how far a search has come: what it looks for, its bound and its best."""
    with contextlib.redirect_stdout(sys.stderr):
        if not sys.stderr.isatty():
            yield None
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(plain(text), total=None)
            searched = ""

            def show(what: str, bound: int, best: int) -> None:
                nonlocal task, searched
                if what != searched:
                    bar.remove_task(task)
                    task, searched = bar.add_task(what, total=seconds), what
                bounds = f"searching the best {what}: {bound:,} B proven, {best:,} B found"
                bar.update(task, description=bounds, completed=bar.tasks[-1].elapsed or 0)

            yield show


@contextlib.contextmanager
def timing(text: str) -> Iterator[Callable[[int, float], None] | None]:
    """As `busy`, with a way to show how many runs there were and the fastest of them."""
    with contextlib.redirect_stdout(sys.stderr):
        if not sys.stderr.isatty():
            yield None
            return
        with Console(stderr=True).status(text) as status:
            yield lambda runs, least: status.update(f"{text}: {runs:,} runs, {duration(least)} at best")


@contextlib.contextmanager
def steps(text: str) -> Iterator[Callable[..., None] | None]:
    """As `busy`, with a bar: told how many steps are done, of how many, and which is next."""
    with contextlib.redirect_stdout(sys.stderr):
        if not sys.stderr.isatty():
            yield None
            return
        from rich import progress

        columns = (
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(20),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(plain(text), total=None)

            def show(done: int, total: int, what: str = text) -> None:
                bar.update(task, completed=done, total=total, description=plain(what))

            yield show


@contextlib.contextmanager
def sweeping(text: str) -> Iterator[Callable[[Progress], None]]:
    """As `busy`, with a line that tells how far a sweep is; without a terminal, one every few seconds."""
    with contextlib.redirect_stdout(sys.stderr):
        if sys.stderr.isatty():
            with Console(stderr=True).status(plain(text)) as status:
                yield lambda progress: status.update(plain(_how_far(progress)))
            return
        told = 0.0

        def show(progress: Progress) -> None:
            nonlocal told
            if progress.seconds - told >= _SECONDS_BETWEEN_LINES:
                told = progress.seconds
                print(_how_far(progress), file=sys.stderr, flush=True)

        yield show


def _how_far(progress: Progress) -> str:
    """Done, failed, rate and time left, in words."""
    of_all = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.done:,}{of_all} models"]
    if progress.there:
        parts.append(f"{progress.there:,} already there")
    parts.append(f"{progress.failed:,} with errors")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.3g} models/s")
    if progress.left is not None:
        parts.append(f"{_clock(progress.left)} left")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    """A time that is still to come: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
