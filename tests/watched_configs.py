"""A process that reads configurations under limits and under an audit hook, which cannot be removed again.

Each line of its input is `{"text": ..., "warm_up": ...}`; each line of its output has the outcome, the
finding, if it is one, and the CPU seconds. Limits of memory and CPU seconds (the argument) apply from the
first text that is not there to warm up, because imports on first use are not a file's doing.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzzing.hf_configs import NAMES

_MOST_SECONDS = 120.0  # so that a file that never ends is a finding; slow machines take 20 for a large model
_EXTRA_BYTES = 1 << 30
_PACKAGES = ("transformers", "torch", "torchvision", "timm", "huggingface_hub", "numpy", "sizeup", "sympy")
_FORBIDDEN = (
    *("socket.", "subprocess.", "ctypes.dlopen", "builtins.input"),
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"),
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ROOT = Path(__file__).parents[1]
_INSTALLED = (sys.prefix, sys.base_prefix, str(_ROOT / "src"), str(_ROOT / "tests"), "<frozen ")
_IMPORTING = "<frozen importlib._bootstrap>"


class Watch:
    """Notes what reading data never does: code of unknown origin, processes, sockets, files of others."""

    def __init__(self, folder: Path) -> None:
        self.is_active = False
        self.events: list[str] = []
        self._readable = (str(folder), "/proc/", "/sys/", "/dev/")
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_active and self._is_foreign(event, arguments):
            self.events.append(f"{event} {str(arguments)[:200]}")

    def _is_foreign(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "import":
            return not _is_known(str(arguments[0]).partition(".")[0])
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = str(Path(os.fsdecode(arguments[0])).absolute())
            writes = isinstance(arguments[2], int) and arguments[2] & _WRITES
            return not path.startswith(self._readable if writes else (*self._readable, *_INSTALLED))
        if event in ("exec", "compile"):
            name = arguments[0].co_filename if event == "exec" else arguments[1]
            return not str(name).startswith(_INSTALLED) and not _is_importing()
        return event.startswith(_FORBIDDEN)


def _is_known(package: str) -> bool:
    return package in _PACKAGES or (package in sys.stdlib_module_names and package not in NAMES)


def _is_importing() -> bool:
    """Installed modules make dataclasses, and so code, while they are imported."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == _IMPORTING:
            return True
    return False


class _TooLong(BaseException):
    """No library catches this one."""


def _stop(*_: Any) -> None:
    raise _TooLong


def judge(path: Path, watch: Watch) -> tuple[str, str]:
    """What became of a file, and why that is a finding, if it is one."""
    import sizeup

    finding = ""
    watch.events, watch.is_active = [], True
    signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
    try:
        report = sizeup.analyze(f"hf:{path}")
        outcome = "a result"
        odd = (f"{where} is {value}" for where, value in _numbers(report.to_dict()) if _is_odd(value))
        finding = next(odd, "")
    except sizeup.SizeupError as error:
        outcome = f"{type(error).__name__}: {error}"
        finding = "an error of more than one line" if "\n" in str(error) else ""
    except BaseException as error:
        outcome = finding = f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        watch.is_active = False
    return outcome, "; ".join(watch.events) or finding


def _numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each, where)
    elif isinstance(value, int | float):
        yield where, value


def _is_odd(value: float) -> bool:
    return not math.isfinite(value) or value < 0


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def main() -> None:
    """Judge one text after another."""
    signal.signal(signal.SIGPROF, _stop)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    is_warm = False
    with tempfile.TemporaryDirectory() as folder:
        path, watch = Path(folder) / "config.json", Watch(Path(folder))
        for line in sys.stdin:
            order = json.loads(line)
            path.write_text(order["text"], "utf-8", "surrogatepass")
            if not is_warm and not order["warm_up"]:
                is_warm = True
                _limit_memory()
                os.environ["SIZEUP_HF_SECONDS"] = sys.argv[1]
            started = time.process_time()
            outcome, finding = judge(path, watch)
            seconds = time.process_time() - started
            output.write(json.dumps({"outcome": outcome, "finding": finding, "seconds": seconds}) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
