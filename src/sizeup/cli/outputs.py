"""Files that commands write: none is an input, and no report of another run is left after a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sizeup.cli.commands import USAGE_ERROR, usage_message
from sizeup.errors import SizeupError, WriteError
from sizeup.files import is_file

if TYPE_CHECKING:
    from sizeup.results.check import Checks

_OUTPUTS = ("output", "file", "plot", "junit", "recipe")  # parameters of commands


@contextmanager
def outputs(arguments: Mapping[str, Any], *, are_reports: bool) -> Iterator[None]:
    """Refuses outputs that are inputs; reports of a verdict are emptied first, and filled on an error."""
    paths, inputs = list(paths_in(arguments, are_outputs=True)), list(paths_in(arguments, are_outputs=False))
    if not are_reports:
        for path in paths:
            _require_no_input(path, inputs)
        yield
        return
    paths = [path for path in paths if _is_report(path)]
    if any(map(_may_be_baselines, paths)):  # else nothing is read before reports are emptied
        inputs += _baselines(arguments.get("budget"))
    try:
        for path in paths:
            _clear(path, inputs)
        yield
    except (typer.Exit, OSError):  # a closed stdout comes after the reports
        raise
    except Exception as error:
        for path in paths:
            if not _is_input(path, inputs):
                with suppress(SizeupError, OSError):
                    _error_checks(arguments, error).save(path)
        raise


def paths_in(arguments: Mapping[str, Any], *, are_outputs: bool) -> Iterator[Path]:
    """Yields what may be paths among the values of the parameters for outputs, or of all others."""
    for name, value in arguments.items():
        if (name in _OUTPUTS) is are_outputs:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str | Path):
                    yield Path(each)
                if isinstance(each, str):
                    yield from map(Path, filter(None, (each.partition(":")[0], each.partition(":")[2])))


def _may_be_baselines(path: Path) -> bool:
    with suppress(OSError):
        if is_file(path):
            with path.open("rb") as file:
                return b"sizeup baselines" in file.read(64)
    return False


def _baselines(budget: Any) -> list[Path]:
    from sizeup.checks import read_budgets

    with suppress(SizeupError):
        budgets = read_budgets(Path(budget or ""))
        return [budgets.folder / each.baseline for each in budgets.budgets if each.baseline]
    return []


def _is_input(output: Path, inputs: list[Path]) -> bool:
    # `calibrate` adds to a target file, which may be that of the device.
    return output.suffix.lower() != ".toml" and any(_are_same(path, output) for path in inputs)


def _are_same(path: Path, other: Path) -> bool:
    with suppress(OSError, ValueError):  # names that are too long, or not of files
        return is_file(path) and path.samefile(other)
    return False


def _require_no_input(output: Path, inputs: list[Path]) -> None:
    if _is_input(output, inputs):
        raise WriteError(f"{output}: is an input, which is not overwritten; give another output path")


def _is_report(path: Path) -> bool:
    from sizeup import render

    with suppress(SizeupError):
        render.check_path("Checks", path)
        return True
    return False


def _clear(path: Path, inputs: list[Path]) -> None:
    """Empty an old report; of a link that may not be followed, remove the link itself."""
    from sizeup import files

    try:
        _require_no_input(path, inputs)
        target = path.resolve()
        if files.is_file(target) and target.suffix.lower() != path.suffix.lower():
            raise WriteError(
                f"{path}: a link leads to {target}, which is no report; give another output path"
            )
        files.clear(path)
    except WriteError:
        if path.is_symlink():
            path.unlink()
        raise


def _error_checks(arguments: Mapping[str, Any], error: Exception) -> Checks:
    from sizeup.api.check_each import error_check
    from sizeup.results.check import Checks

    known = SizeupError(usage_message(error)[0]) if isinstance(error, USAGE_ERROR) else error
    others = arguments.get("config") or arguments.get("budget") or "sizeup check"
    names = arguments.get("models") or [str(others)]
    return Checks(tuple(error_check(name, known) for name in names))
