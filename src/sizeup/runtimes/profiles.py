"""Profiles that runtimes write, as kernels with their times; no runtime is needed to read them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.runtimes.timing import Kernel

_MOST_BYTES = 1 << 29
_MILLI = 1e-3
_MICRO = 1e-6
_INFERENCE = re.compile(r"Inference \(avg\): *([0-9.e+]+)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"([0-9.]+)(us|ms|s)")


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernels of one run in their order, and the seconds of a whole run where the profile tells."""

    kernels: tuple[Kernel, ...]
    seconds: float | None = None


def read_profile(path: Path) -> Profile:
    """A profile of ONNX Runtime (JSON), of TFLite's benchmark_model (text) or of PyTorch (trace or table)."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SizeupError(f"{path}: a profile of more than {_MOST_BYTES >> 20} MiB; profile fewer runs")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SizeupError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        found = _read(text)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise SizeupError(f"{path}: not a profile that sizeup reads: {error}") from error
    if found is None or not found.kernels:
        raise SizeupError(
            f"{path}: no times of kernels in it; give ONNX Runtime's profile, what benchmark_model prints"
            " with --enable_op_profiling=true, or a trace or table of torch.profiler"
        )
    if any(not 0 <= each.seconds < 1e6 for each in found.kernels):
        raise SizeupError(f"{path}: a kernel has a time that none can take")
    return found


def _read(text: str) -> Profile | None:
    if text.lstrip()[:1] in ("[", "{"):
        content = json.loads(text)
        return _trace(content["traceEvents"]) if isinstance(content, dict) else _onnx_runtime(content)
    if "Run Order" in text or "[node type]" in text.lower():
        return _benchmark(text)
    return _averages(text) if "CPU total" in text else None


def kernels_of(events: list[dict[str, Any]], skipped_runs: int = 0) -> list[Kernel]:
    """The kernels in a profile that ONNX Runtime wrote, each with its fastest time over the runs."""
    ran: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, str] = {}
    for event in events:
        name, arguments = event.get("name", ""), event.get("args", {})
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            node = name.removesuffix("_kernel_time")
            ran[node].append(event["dur"] * _MICRO)
            kinds[node] = arguments.get("op_name", "")
    return [Kernel(node, kinds[node], min(times[skipped_runs:] or times)) for node, times in ran.items()]


def _onnx_runtime(events: list[dict[str, Any]]) -> Profile:
    runs = [event["dur"] * _MICRO for event in events if event.get("name") == "model_run"]
    # The first run allocates: it counts only where it is the only one.
    return Profile(tuple(kernels_of(events, skipped_runs=1)), min(runs[1:] or runs, default=None))


def _benchmark(text: str) -> Profile:
    """The table in the order of runs; where there are several, the last is that of the regular runs."""
    whole = _INFERENCE.findall(text)
    tables = text.split("Run Order")
    return Profile(
        tuple(_rows_of_benchmark(tables[-1].splitlines())), float(whole[-1]) * _MICRO if whole else None
    )


def _rows_of_benchmark(lines: list[str]) -> Iterator[Kernel]:
    titles: list[str] = []
    for line in lines:
        if "[node type]" in line.lower():
            titles = [each.strip(" []").lower() for each in line.strip().split("\t")]
        elif titles:
            fields = [each.strip() for each in line.strip().split("\t")]
            if len(fields) < len(titles):
                return
            row = dict(zip(titles, fields, strict=False))
            average = row.get("avg ms") or row["avg_ms"]
            name = row.get("name", "").rpartition(":")[0].strip("[]")
            yield Kernel(name, row["node type"], float(average) * _MILLI)


def _trace(events: list[dict[str, Any]]) -> Profile:
    """The outermost operators of a Chrome trace, in their order."""
    operators = [each for each in events if each.get("cat") == "cpu_op" and each.get("ph") == "X"]
    operators.sort(key=lambda each: (str(each.get("tid")), each["ts"], -each["dur"]))
    found, end, thread = [], float("-inf"), None
    for each in operators:
        if each.get("tid") == thread and each["ts"] < end:
            continue
        thread, end = each.get("tid"), each["ts"] + each["dur"]
        found.append(Kernel(each["name"], _aten(each["name"]), each["dur"] * _MICRO))
    return Profile(tuple(found))


def _aten(name: str) -> str:
    return name.replace("::", ".")


def _averages(text: str) -> Profile:
    """A table of key_averages(): one row a kind, with the time of all its calls."""
    header = next(line for line in text.splitlines() if "CPU total" in line)
    titles = re.split(r"\s{2,}", header.strip())
    place, calls = titles.index("CPU total"), titles.index("# of Calls")
    found = []
    for line in text.splitlines():
        fields = re.split(r"\s{2,}", line.strip())
        if len(fields) == len(titles) and fields[0].startswith("aten::"):
            amount = _TIME.fullmatch(fields[place])
            if amount is not None:
                seconds = float(amount[1]) * _UNITS[amount[2]]
                found.append(Kernel(fields[0], _aten(fields[0]), seconds, int(fields[calls])))
    return Profile(tuple(found))
