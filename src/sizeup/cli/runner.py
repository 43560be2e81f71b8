"""How a command starts and ends: `--quiet`, device files, and errors as one line and an exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli.commands import USAGE_ERROR, usage_message
from sizeup.cli.options import MemoryLimit, TimeLimit, work_limits
from sizeup.cli.outputs import outputs, paths_in
from sizeup.errors import Incomplete, SizeupError, TargetWarning
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.targets.device_file import DeviceFile

# Not 1, which means that a check failed.
_CRASHED = 70
FAILED = 1
BAD_INPUT = 2
INCOMPLETE = 3
# As shells report a program ended by a signal; SIGINT is 2.
_INTERRUPTED = 128 + 2

_Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print only errors on stderr; results are still printed on stdout."),
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap the function of a command: a SizeupError becomes one line on stderr and an exit code."""

    @functools.wraps(function)
    def run(*args: Any, quiet: bool = False, **kwargs: Any) -> None:
        with _reported_errors():
            # Imported late: completion and --help do without the packages that this needs.
            from sizeup.cli import terminal

            terminal.set_quiet(quiet)
            are_reports = function.__name__ in ("check", "llm")
            with (
                _printed_warnings(terminal.print_note),
                outputs(kwargs, are_reports=are_reports),
                resolved_devices(kwargs) as arguments,
            ):
                function(*args, **arguments)
            sys.stdout.flush()

    return _with_options(run, {"quiet": _Quiet}, default=False)


@contextmanager
def _reported_errors() -> Iterator[None]:
    """Print the errors that a user can mend, and exit with their code."""
    try:
        yield
    except SizeupError as error:
        from sizeup.cli import terminal

        terminal.print_error(str(error))
        raise typer.Exit(INCOMPLETE if isinstance(error, Incomplete) else BAD_INPUT) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        from sizeup.render.console.layout import PIPE_CLOSED, forget_output

        forget_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        from sizeup.cli import terminal

        if error.errno == errno.ENAMETOOLONG:
            terminal.print_error(f"{error.filename}: {error.strerror}")
            raise typer.Exit(BAD_INPUT) from None
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        from sizeup.render.console.layout import forget_output

        forget_output()
        terminal.print_error(f"cannot write the report to stdout: {error.strerror}")
        raise typer.Exit(BAD_INPUT) from None


def limited_command(function: Callable[..., None]) -> Callable[..., None]:
    """Like `command`, with --time-limit and --memory-limit: the command then runs in a worker."""

    @functools.wraps(function)
    def run(
        *args: Any, time_limit: float | None = None, memory_limit: str | None = None, **kwargs: Any
    ) -> None:
        if time_limit is None and memory_limit is None:  # nothing to import
            return function(*args, **kwargs)
        from sizeup.api.limits import NO_LIMITS, run_in_worker

        limits = work_limits(time_limit, memory_limit, NO_LIMITS)
        if not limits:
            return function(*args, **kwargs)
        code = run_in_worker(
            lambda: exit_code(lambda: _run_reported(function, args, kwargs)),
            limits,
            _readable(kwargs),
            paths_in(kwargs, are_outputs=True),
        )
        if code:
            raise typer.Exit(code)
        return None

    options = {"time_limit": TimeLimit, "memory_limit": MemoryLimit}
    return command(_with_options(run, options, None))


def _readable(arguments: dict[str, Any]) -> list[Path] | None:
    """The folders of all files that a user names, and the files of devices; None if code is named."""
    from sizeup.formats.names import is_code
    from sizeup.targets import search_path

    if arguments.get("rules") or any(is_code(str(arguments.get(name, ""))) for name in ("model", "a", "b")):
        return None
    named = [path for path in paths_in(arguments, are_outputs=False) if os.path.isfile(path)]  # noqa: PTH113 - long names
    return [*search_path(), *(folder for path in named for folder in (path.parent, path.resolve().parent))]


def _run_reported(function: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with _reported_errors():
        function(*args, **kwargs)
        sys.stdout.flush()


def exit_code(call: Callable[[], Any]) -> int:
    """The exit code of a command; prints what is wrong with its options, or an internal error."""
    try:
        return int(call() or 0)
    except typer.Exit as ended:
        return ended.exit_code
    except USAGE_ERROR as error:
        from sizeup.cli.terminal import print_error

        print_error(*usage_message(error))
        return BAD_INPUT
    except Exception:
        for line in traceback.format_exc().splitlines():
            print(printable(line), file=sys.stderr)
        print("sizeup: internal error; please report it with the traceback above", file=sys.stderr)
        return _CRASHED


@contextmanager
def _printed_warnings(print_note: Callable[[str], None]) -> Iterator[None]:
    """Prints warnings about files of targets as one line each, without a place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", TargetWarning)
        show_others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **others: Any) -> None:
            if issubclass(category, TargetWarning):
                print_note(f"warning: {message}")
            else:
                show_others(message, category, *place, **others)

        warnings.showwarning = show
        yield


def _with_options(run: Callable[..., None], options: dict[str, Any], default: Any) -> Callable[..., None]:
    """Add options to the signature that typer reads."""
    signature = inspect.signature(run, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation in options.items()
    ]
    run.__annotations__ = {**run.__annotations__, **options}
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return run


_DEVICE_ARGUMENTS = ("device", "device_b")


def parse_device_file(text: Any) -> DeviceFile | None:
    """The device file that a text names; None for a name, a cluster file, or another type."""
    if not isinstance(text, str) or not text.partition(":")[0].count("."):
        return None
    from sizeup.targets import device_file

    named = device_file.parse_device_file(text)
    if named is None:
        return None
    from sizeup.targets.cluster_names import is_cluster

    return None if is_cluster(text) else named


@contextmanager
def resolved_devices(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a command with device files replaced by the names of their devices."""
    parsed = {name: parse_device_file(arguments.get(name)) for name in _DEVICE_ARGUMENTS}
    files = {name: device_file for name, device_file in parsed.items() if device_file is not None}
    with device_files(*(device_file.file for device_file in files.values())):
        yield {**arguments, **{name: device_file.target() for name, device_file in files.items()}}


@contextmanager
def device_files(*files: str) -> Iterator[None]:
    """Make the devices of these files known in addition to all others, also in subprocesses."""
    if not files:
        yield
        return
    from sizeup.targets import VARIABLE
    from sizeup.targets.device_file import check_exists

    for file in files:
        check_exists(file)
    before = os.environ.get(VARIABLE)
    # Absolute paths, because catalogs are cached by path.
    paths = [*map(os.path.abspath, files), *([before] if before else [])]
    os.environ[VARIABLE] = os.pathsep.join(paths)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        os.environ |= {} if before is None else {VARIABLE: before}
