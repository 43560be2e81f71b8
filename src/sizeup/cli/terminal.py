"""Console output of commands: results on stdout; errors, notes and progress on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from sizeup import files
from sizeup.cli.clock import since_start
from sizeup.logs import inert_json
from sizeup.units import duration, printable, shorten, size

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from sizeup.sweeps import Progress

_SECONDS_BETWEEN_LINES = 10.0
_QUIET = ContextVar("quiet", default=False)


def set_quiet(quiet: bool) -> None:
    """Set whether only errors are printed on stderr."""
    _QUIET.set(quiet)


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Re-raise: the command decides on the exit code."""
        raise BrokenPipeError


def output() -> Console:
    """The console for results; without colors if the terminal or the environment does not allow them."""
    return _Output(file=sys.stdout, highlight=False, soft_wrap=False)


def _errors() -> Console:
    return Console(file=sys.stderr, highlight=False)


def print_json(content: Mapping[str, Any] | Iterable[str]) -> None:
    """Print plain data, or lines of JSON, on stdout."""
    if isinstance(content, Mapping):
        content = [json.dumps(content, indent=2), "\n"]
    sys.stdout.writelines(map(inert_json, content))


def print_error(message: str, hint: str = "") -> None:
    """Print an error on stderr, and a hint on the next line."""
    text = Text("sizeup: ", style="bold red").append(printable(message))
    if hint:
        text.append(f"\n{printable(hint)}")
    _errors().print(text, soft_wrap=True)


def print_note(message: str) -> None:
    """Print a note on stderr, unless --quiet is set."""
    if _QUIET.get():
        return
    _errors().print(Text(printable(message), style="dim"), soft_wrap=True)


def print_written(paths: Iterable[Path | None]) -> None:
    """Print name and size of each written file on stderr; skips None and paths that are not regular files."""
    for path in paths:
        content = path if path is None or files.outbox is None else files.outbox.content_of(path)
        if content is not None and content.is_file():
            print_note(f"{path} written, {size(content.stat().st_size)}")


def name_of(model: object) -> str:
    """The short name of a model for progress messages: the last part of its path."""
    return shorten(printable(PurePath(str(model)).name or str(model)))


def _is_interactive() -> bool:
    """Whether to show progress on stderr."""
    # Not Console.is_terminal: FORCE_COLOR sets it, and a file may want colors but no spinner.
    return not _QUIET.get() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on terminals, and redirect what other code prints on stdout to stderr.

    Yields a function that changes the text next to the spinner.
    """
    with contextlib.redirect_stdout(sys.stderr):
        if not _is_interactive():
            yield lambda _: None
            return
        with Console(stderr=True).status(_one_line(text)) as status:
            yield lambda next_text: status.update(_one_line(next_text))


def _one_line(text: str) -> Text:
    return Text(printable(text), overflow="ellipsis", no_wrap=True)


@contextlib.contextmanager
def searching(text: str, seconds: float) -> Iterator[Callable[[str, int, int], None] | None]:
    """Like `busy`; yields a function that shows a search's name, lower bound and best result in bytes."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return
        current = ""

        def show(search: str, bound: int, best: int) -> None:
            nonlocal current
            if search != current:
                bar.start(seconds)
                current = search
            bar.show_elapsed(f"{search}: lower bound {bound:,} B, best {best:,} B")

        yield show


@contextlib.contextmanager
def timing(text: str, seconds: float) -> Iterator[Callable[[int, float], None] | None]:
    """Like `busy`; yields a function that shows the number of runs and the fastest one."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return

        def show(runs: int, least: float) -> None:
            if not bar.is_determinate:
                bar.start(seconds)
            bar.show_elapsed(f"{text}: {runs:,} runs, fastest {duration(least)}")

        yield show


@contextlib.contextmanager
def steps(text: str) -> Iterator[Callable[..., None] | None]:
    """Like `busy`; yields a function that shows the steps done, their total, and the next step."""
    with contextlib.redirect_stdout(sys.stderr), _bar(text) as bar:
        if bar is None:
            yield None
            return

        def show(done: int, total: int, step: str = text) -> None:
            bar.show(step, done, total, f"{done:,}/{total:,}")

        yield show


class _Bar:
    """A progress line: current step, bar and time left."""

    def __init__(self, bar: Bars, text: str) -> None:
        self._bar = bar
        self._task = bar.add_task(printable(text), total=None, figures="")

    @property
    def is_determinate(self) -> bool:
        """Whether the total is known."""
        return self._bar.tasks[0].total is not None

    def start(self, seconds: float) -> None:
        """Restart the bar for a step that takes at most `seconds`."""
        self._bar.reset(self._task, total=max(seconds, 1e-3))

    def show_elapsed(self, text: str) -> None:
        """Show the current step, with the bar at the elapsed time."""
        elapsed = self._bar.tasks[0].elapsed or 0.0
        self._bar.update(self._task, description=printable(text), completed=elapsed)

    def show(self, text: str, done: float, total: float, figures: str) -> None:
        """Show the current step, with the bar at `done` of `total`."""
        self._bar.update(
            self._task, description=printable(text), completed=done, total=total, figures=figures
        )


@contextlib.contextmanager
def _bar(text: str) -> Iterator[_Bar | None]:
    if not _is_interactive():
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
    """Like `busy`; yields a function that shows a sweep's progress, without a terminal one line per 10 s."""
    with contextlib.redirect_stdout(sys.stderr):
        if _is_interactive():
            with Console(stderr=True).status(_one_line(text)) as status:
                yield lambda progress: status.update(_one_line(_progress_line(progress)))
            return
        last = 0.0

        def show(progress: Progress) -> None:
            nonlocal last
            if not _QUIET.get() and progress.seconds - last >= _SECONDS_BETWEEN_LINES:
                last = progress.seconds
                print(_progress_line(progress), file=sys.stderr, flush=True)

        yield show


def _progress_line(progress: Progress) -> str:
    """Models done, reused and failed, elapsed time, rate and time left."""
    total = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.done:,}{total} models"]
    if progress.existing:
        parts.append(f"{progress.existing:,} already stored")
    parts.append(f"{progress.failed:,} with errors")
    parts.append(f"{_clock(since_start())} elapsed")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.3g} models/s")
    if progress.seconds_left is not None:
        parts.append(f"{_clock(progress.seconds_left)} left")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    """Seconds as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
