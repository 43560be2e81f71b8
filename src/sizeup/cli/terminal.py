"""Where a verb prints: results on stdout, everything else on stderr, with the time since it started."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.text import Text

from sizeup.cli.clock import since_start
from sizeup.units import brief, duration, plain, size

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from sizeup.sweeps import Progress

_SECONDS_BETWEEN_LINES = 10.0
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_QUIET = ContextVar("quiet", default=False)


def set_quiet(quiet: bool) -> None:
    """Print only errors on stderr from now on, or everything again."""
    _QUIET.set(quiet)


class _Log:
    """A stream in which no line is a command to GitHub Actions: a layer may be named `::error::`."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write lines, with a space in what would be `::command` or `##[command]`."""
        return self._stream.write(_COMMAND.sub(r"\1: ", text).replace("##[", "## ["))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the verb's end, which knows the exit code."""
        raise BrokenPipeError


def output() -> Console:
    """The console for results; no colours where they are not wanted or not shown."""
    return _Output(file=cast(IO[str], _Log(sys.stdout)), highlight=False, soft_wrap=False)


def _errors() -> Console:
    return Console(file=cast(IO[str], _Log(sys.stderr)), highlight=False)


def complain(message: str, hint: str = "") -> None:
    """Say on stderr what is wrong, and on a line of its own where to look."""
    text = Text("sizeup: ", style="bold red").append(plain(message))
    if hint:
        text.append(f"\n{plain(hint)}")
    _errors().print(text, soft_wrap=True)


def remark(message: str) -> None:
    """Say on stderr what a result does not show, unless nobody wants to hear it."""
    if _QUIET.get():
        return
    _errors().print(Text(plain(message), style="dim"), soft_wrap=True)


def tell_written(paths: Iterable[Path | None]) -> None:
    """Say on stderr which files there are now, and how large they became; what was no file is passed over."""
    for path in paths:
        if path is not None and path.is_file():
            remark(f"{path} written, {size(path.stat().st_size)}")


def name_of(model: object) -> str:
    """What a model is called where there is little room: the end of its path."""
    return brief(plain(PurePath(str(model)).name or str(model)))


def _is_watched() -> bool:
    """Whether somebody sees what moves on stderr."""
    # Not Console.is_terminal, which FORCE_COLOR sets: colours may be wanted in a file, a spinner is not.
    return not _QUIET.get() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show that work goes on, on terminals only, and keep stdout free of what other code prints.

    Yields a way to say what is done next.
    """
    with contextlib.redirect_stdout(sys.stderr):
        if not _is_watched():
            yield lambda _: None
            return
        with Console(stderr=True).status(_one_line(text)) as status:
            yield lambda next_text: status.update(_one_line(next_text))


def _one_line(text: str) -> Text:
    return Text(plain(text), overflow="ellipsis", no_wrap=True)


@contextlib.contextmanager
def searching(text: str, seconds: float) -> Iterator[Callable[[str, int, int], None] | None]:
    """As `busy`, with a way to show how far a search has come: what it looks for, its bound and its best."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return
        searched = ""

        def show(what: str, bound: int, best: int) -> None:
            nonlocal searched
            if what != searched:
                bar.begin(seconds)
                searched = what
            bar.lasting(f"best {what}: {bound:,} B proven, {best:,} B found")

        yield show


@contextlib.contextmanager
def timing(text: str, seconds: float) -> Iterator[Callable[[int, float], None] | None]:
    """As `busy`, with a way to show how many runs there were and the fastest of them."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return

        def show(runs: int, least: float) -> None:
            if not bar.is_determinate:
                bar.begin(seconds)
            bar.lasting(f"{text}: {runs:,} runs, {duration(least)} at best")

        yield show


@contextlib.contextmanager
def steps(text: str) -> Iterator[Callable[..., None] | None]:
    """As `busy`, with a bar: told how many steps are done, of how many, and which is next."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return

        def show(done: int, total: int, what: str = text) -> None:
            bar.show(what, done, total, f"{done:,}/{total:,}")

        yield show


class _Bar:
    """A line that tells what is done, how far it is, and how long it takes still."""

    def __init__(self, bar: Bars, text: str) -> None:
        self._bar = bar
        self._task = bar.add_task(plain(text), total=None, figures="")

    @property
    def is_determinate(self) -> bool:
        """Whether it is known how much there is to do."""
        return self._bar.tasks[0].total is not None

    def begin(self, seconds: float) -> None:
        """From now on it takes so long, at most."""
        self._bar.reset(self._task, total=max(seconds, 1e-3))

    def lasting(self, text: str) -> None:
        """Show what is done as far as time has passed."""
        elapsed = self._bar.tasks[0].elapsed or 0.0
        self._bar.update(self._task, description=plain(text), completed=elapsed)

    def show(self, text: str, done: float, total: float, figures: str) -> None:
        """Show what is done next and how much there is behind and ahead."""
        self._bar.update(self._task, description=plain(text), completed=done, total=total, figures=figures)


@contextlib.contextmanager
def _bar(text: str) -> Iterator[_Bar | None]:
    if not _is_watched():
        yield None
        return
    from rich import progress
    from rich.table import Column

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        progress.BarColumn(12),
        progress.TextColumn("{task.fields[figures]}"),
        progress.TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, text)


@contextlib.contextmanager
def sweeping(text: str) -> Iterator[Callable[[Progress], None]]:
    """As `busy`, with a line that tells how far a sweep is; without a terminal, one every few seconds."""
    with contextlib.redirect_stdout(sys.stderr):
        if _is_watched():
            with Console(stderr=True).status(_one_line(text)) as status:
                yield lambda progress: status.update(_one_line(_how_far(progress)))
            return
        told = 0.0

        def show(progress: Progress) -> None:
            nonlocal told
            if not _QUIET.get() and progress.seconds - told >= _SECONDS_BETWEEN_LINES:
                told = progress.seconds
                print(_how_far(progress), file=sys.stderr, flush=True)

        yield show


def _how_far(progress: Progress) -> str:
    """Done, failed, wall time of the process, rate and time left, in words."""
    of_all = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.done:,}{of_all} models"]
    if progress.there:
        parts.append(f"{progress.there:,} already there")
    parts.append(f"{progress.failed:,} with errors")
    parts.append(f"{_clock(since_start())} elapsed")
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
