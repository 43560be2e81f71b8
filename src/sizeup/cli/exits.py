"""How a verb begins and ends: all take `--quiet`; errors become one line on stderr and an exit code."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from sizeup.errors import Incomplete, SizeupError

FAILED = 1
BAD_INPUT = 2
INCOMPLETE = 3
# As a shell reports a program that a signal ended: SIGINT is 2.
_INTERRUPTED = 128 + 2

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a verb: whatever it raises on purpose ends the program without a traceback."""

    @functools.wraps(function)
    def run(*args: Any, quiet: bool = False, **kwargs: Any) -> None:
        try:
            # Here and not above: completion and --help do without the packages that this needs.
            from sizeup.cli import terminal

            terminal.set_quiet(quiet)
            with devices_named(kwargs) as arguments:
                function(*args, **arguments)
            sys.stdout.flush()
        except SizeupError as error:
            terminal.complain(str(error))
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
            terminal.complain(f"the report could not be written: {error.strerror}")
            raise typer.Exit(BAD_INPUT) from None

    return _with_quiet(run)


def _with_quiet(run: Callable[..., None]) -> Callable[..., None]:
    """The one option that all verbs share, added to what each takes itself."""
    signature = inspect.signature(run, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Quiet)
    run.__annotations__ = {**run.__annotations__, "quiet": _Quiet}
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), quiet])  # type: ignore[attr-defined]
    return run


_OPTIONS = ("device", "device_b")
_WRITTEN = re.compile(r"(.+?\.(?:toml|json))(?::(.+)|(/[^/]+))?")


class InFile(NamedTuple):
    """FILE, FILE:DEVICE[/RUNTIME] or FILE/RUNTIME as a user types it."""

    file: str
    device: str | None
    runtime: str | None

    def target(self) -> str:
        """The device that is meant: the one that is named, or the only one of the file."""
        from sizeup import targets
        from sizeup.errors import TargetError

        if self.device is not None:
            return self.device
        names = targets.names_in(Path(self.file))
        if len(names) != 1:
            listed = f"it describes {', '.join(names) or 'no device'}"
            raise TargetError(f"{self.file}: {listed}; name one: -d '{self.file}:NAME'")
        return names[0] + (self.runtime or "")


def in_file(text: Any) -> InFile | None:
    """What a text says of a device file; None if it is the name of a device, or no text."""
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else InFile(match[1], match[2], match[3])


@contextmanager
def devices_named(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a verb with device files replaced by the devices that they mean."""
    places = {name: in_file(arguments.get(name)) for name in _OPTIONS}
    known = {name: place for name, place in places.items() if place is not None}
    with device_files(*(place.file for place in known.values())):
        yield {**arguments, **{name: place.target() for name, place in known.items()}}


@contextmanager
def device_files(*files: str) -> Iterator[None]:
    """Have the devices of these files beside all others, also in subprocesses."""
    if not files:
        yield
        return
    from sizeup.errors import TargetError
    from sizeup.targets import VARIABLE

    for file in files:
        if not Path(file).is_file():
            raise TargetError(f"{file}: there is no such device file")
    before = os.environ.get(VARIABLE)
    # Absolute, because catalogs are kept by the places that they were read from.
    places = [*map(os.path.abspath, files), *([before] if before else [])]
    os.environ[VARIABLE] = os.pathsep.join(places)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        os.environ |= {} if before is None else {VARIABLE: before}
