"""What counts as a finding: any exception but a SizeupError, and numbers that no model can have."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from sizeup.errors import SizeupError

# More bytes than any machine has: a result may state them only with a note or an unknown operator.
MOST_BYTES = 2**60


class Finding(NamedTuple):
    """Why an input is kept; findings with the same signature have the same cause."""

    signature: str
    details: str


class WrongYes(AssertionError):
    """A limit that is said to be met and is not; findings with the same `kind` have the same cause."""

    def __init__(self, kind: str, details: object) -> None:
        super().__init__(f"{kind}: {details}")
        self.kind = kind


class Hang(BaseException):
    """The CPU-time limit passed; no `except Exception` may swallow it."""


def stop(_signal: int, _frame: FrameType | None) -> None:
    """Handle the timer's signal: end the input where it is."""
    raise Hang


def judge(run: Callable[[Path], Any], path: Path) -> tuple[bool, Finding | None]:
    """Whether an input gave a result, and what is wrong with it, if anything is."""
    try:
        numbers = list(wrong_numbers(run(path)))
    except SizeupError:
        return False, None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return False, finding_of(error)
    if numbers:
        keys = sorted({each.partition(" = ")[0] for each in numbers})
        return True, Finding("numbers: " + ", ".join(keys[:4]), "\n".join(numbers[:50]))
    return True, None


def finding_of(error: BaseException) -> Finding:
    """An exception by its place, and with its traceback."""
    text = "".join(traceback.format_exception(error, limit=-60))
    cause = error.kind if isinstance(error, WrongYes) else f"{type(error).__name__} {_place(error)}"
    return Finding(cause, text)


def _place(error: BaseException) -> str:
    """The innermost line of sizeup, or else of the fuzzer, that an exception went through."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.name != stop.__name__]
    own = [each for each in frames if "/sizeup/" in each.filename] or frames
    if not own:
        return "?"
    last = own[-1]
    return f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno}"


def wrong_numbers(data: Any) -> Iterator[str]:
    """Negative, NaN and infinite numbers of plain data, and byte counts that need a caveat and have none."""
    has_caveat = isinstance(data, dict) and bool(data.get("notes") or _unknown(data))
    for key, value in _numbers("", data):
        is_finite = -math.inf < value < math.inf  # math.isfinite refuses integers beyond floats
        if not is_finite or (value < 0 and not key.endswith(_SIGNED)):
            yield f"{key} = {value}"
        elif value > MOST_BYTES and "bytes" in key and not has_caveat and not key.endswith("_per_second"):
            yield f"{key} = {value} without a caveat"


# Numbers that may be below zero: headroom, a rank correlation, the logarithms of a prediction interval.
_SIGNED = ("headroom", "tau", "interval.low", "interval.high")


def _unknown(data: dict[str, Any]) -> Any:
    coverage = data.get("coverage")
    return coverage.get("unknown") if isinstance(coverage, dict) else None


def _numbers(key: str, data: Any) -> Iterator[tuple[str, float]]:
    """Every number with the path of its key, list positions left out."""
    if isinstance(data, bool):
        return
    if isinstance(data, int | float):
        yield key, data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _numbers(f"{key}.{name}" if key else str(name), value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _numbers(key, value)
