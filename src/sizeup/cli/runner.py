"""How a command starts and ends: `--quiet`, device files, and errors as one line and an exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.errors import Incomplete, SizeupError, TargetWarning

if TYPE_CHECKING:
    from sizeup.targets.device_file import DeviceFile

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
        try:
            # Imported late: completion and --help do without the packages that this needs.
            from sizeup.cli import terminal

            terminal.set_quiet(quiet)
            with _printed_warnings(terminal.print_note), resolved_devices(kwargs) as arguments:
                function(*args, **arguments)
            sys.stdout.flush()
        except SizeupError as error:
            terminal.print_error(str(error))
            raise typer.Exit(INCOMPLETE if isinstance(error, Incomplete) else BAD_INPUT) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            from sizeup.render.console.layout import PIPE_CLOSED, forget_output

            forget_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            from sizeup.render.console.layout import forget_output

            forget_output()
            terminal.print_error(f"cannot write the report to stdout: {error.strerror}")
            raise typer.Exit(BAD_INPUT) from None

    return _with_quiet(run)


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


def _with_quiet(run: Callable[..., None]) -> Callable[..., None]:
    """Add the option --quiet, which all commands have, to the signature that typer reads."""
    signature = inspect.signature(run, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Quiet)
    run.__annotations__ = {**run.__annotations__, "quiet": _Quiet}
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), quiet])  # type: ignore[attr-defined]
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
    from sizeup.language_models.clusters import is_cluster

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
