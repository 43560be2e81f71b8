"""Profiles that runtimes write, as kernels with times, and the ops and modules of kernels."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.cost import Cost
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.latency import Executed, executed, type_of
from sizeup.runtimes.timing import Kernel
from sizeup.targets import Target

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


# What a runtime adds to the name of an operator when it makes a kernel of it.
_SUFFIX = re.compile(r"(_nchwc|_token_\d+|_quant|/[A-Za-z]*Fusion/?|[;:].*)$")


def named_ops(graph: Graph, ops: Iterable[int]) -> dict[str, int]:
    """Operators by their own name and by those of their outputs; the first of a name counts."""
    known: dict[str, int] = {}
    for index in ops:
        op = graph.ops[index]
        for name in (op.name, *(graph.tensors[each].name for each in op.outputs)):
            known.setdefault(name, index)
    return known


def op_of(known: Mapping[str, int], kernel: Kernel) -> int | None:
    """The operator that gave a kernel its name."""
    return known.get(kernel.name, known.get(_SUFFIX.sub("", kernel.name))) if kernel.name else None


@dataclass(frozen=True, slots=True)
class AttributedKernel:
    """A kernel of a profile, its module ('' is the model itself), and the operators that it computes.

    Either is None if it could not be matched; an operator that two kernels compute is one of the first.
    """

    kernel: Kernel
    module: str | None
    ops: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """The kernels of a module: their seconds, the MACs in them, and the share of the target's peak.

    `module` is None for all kernels that match no operator, and for MACs in no kernel that matches one.
    MACs are None if they are not known.
    """

    module: str | None
    kernels: int
    seconds: float
    macs: int | None
    compute_share: float | None = None

    @property
    def macs_per_second(self) -> float | None:
        """MACs over the seconds; None if it is not known that they ran in these seconds."""
        is_rate = self.module is not None and self.macs is not None and self.seconds
        return (self.macs or 0) / self.seconds if is_rate else None


def macs_of(cost: Cost, ops: Sequence[int]) -> int | None:
    """MACs of some operators; None if one of them is not known."""
    places = list(ops)
    return int(sum(cost.macs[places].tolist())) if cost.known[places].all() else None


def attribute(cost: Cost, kernels: Sequence[Kernel], fuses: Sequence[str]) -> tuple[AttributedKernel, ...]:
    """Every kernel of a profile with its module and its operators, as far as they can be matched."""
    if any(each.module is not None for each in kernels) or cost.graph.format.startswith("torch"):
        return _in_order(cost.graph, kernels)
    return _by_name(cost, kernels, executed(cost, None, fuses))


def _by_name(cost: Cost, kernels: Sequence[Kernel], ran: Executed) -> tuple[AttributedKernel, ...]:
    """A fused kernel has the name of one of its operators, and computes all that no other kernel does."""
    graph = cost.graph
    known = named_ops(graph, range(len(graph.ops)))
    matched = [op_of(known, each) for each in kernels]
    merged: dict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(ran.kernel.tolist()):
        merged[group].append(index)
    parts = Counter(int(ran.kernel[op]) for op in set(matched) if op is not None)
    seen: set[int] = set()
    attributed = []
    for kernel, op in zip(kernels, matched, strict=True):
        if op is None:
            attributed.append(AttributedKernel(kernel, None))
            continue
        group = int(ran.kernel[op])
        is_whole = group >= 0 and parts[group] == 1
        # A convolution with its activation may be named after either; it belongs to the convolution.
        scope = graph.ops[int(ran.main[group]) if is_whole else op].scope
        # Two kernels of one name, such as a copy before the product: the MACs are counted once.
        ops = () if op in seen else tuple(merged[group]) if is_whole else (op,)
        attributed.append(AttributedKernel(kernel, scope, ops))
        seen.add(op)
    return tuple(attributed)


def _in_order(graph: Graph, kernels: Sequence[Kernel]) -> tuple[AttributedKernel, ...]:
    """PyTorch runs operators as they were recorded: the first of a kind in a module is the first there too.

    Where there are more or fewer of them than were recorded, they stay without operators.
    """
    tells_modules = any(each.module is not None for each in kernels)
    ours: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        ours[op.scope if tells_modules else None, op.source.rstrip("_")].append(index)
    theirs: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        theirs[kernel.module, kernel.kind.rstrip("_")].append(place)
    op_at: dict[int, int] = {}
    for key, places in theirs.items():
        if len(places) == len(ours[key]) and (key[0] is not None or not tells_modules):
            op_at.update(zip(places, ours[key], strict=True))
    return tuple(
        AttributedKernel(
            kernel,
            kernel.module if tells_modules else graph.ops[op_at[place]].scope if place in op_at else None,
            (op_at[place],) if place in op_at else None,
        )
        for place, kernel in enumerate(kernels)
    )


def by_module(
    cost: Cost, kernels: Sequence[AttributedKernel], target: Target | None, fuses: Sequence[str]
) -> tuple[ModuleTime, ...]:
    """One row per module, the slowest first; then one without a module for all other kernels and MACs."""
    rows: dict[str, list[AttributedKernel]] = defaultdict(list)
    for each in kernels:
        if each.module is not None:
            rows[each.module].append(each)
    peaks = None if target is None else _seconds_at_peak(cost, target, fuses)
    whole = _module_ops(cost.graph, kernels)
    times = [_row(cost, module, each, whole, peaks) for module, each in rows.items()]
    return (*sorted(times, key=lambda row: -row.seconds), *_rest(cost, kernels, times))


def _rest(
    cost: Cost, kernels: Sequence[AttributedKernel], rows: Sequence[ModuleTime]
) -> Iterator[ModuleTime]:
    unmatched = [each.kernel.seconds for each in kernels if each.module is None]
    macs = cost.total_macs - sum(row.macs or 0 for row in rows) if cost.known.all() else None
    if unmatched or macs:
        yield ModuleTime(None, len(unmatched), sum(unmatched), macs)


def _module_ops(graph: Graph, kernels: Sequence[AttributedKernel]) -> dict[str, list[int]] | None:
    """The operators of every module, if the runtime itself told in which module each kernel ran."""
    if all(each.kernel.module is None for each in kernels):
        return None
    ops: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        ops[op.scope].append(index)
    return ops


def _row(
    cost: Cost,
    module: str,
    kernels: Sequence[AttributedKernel],
    whole: Mapping[str, list[int]] | None,
    peaks: Sequence[float | None] | None,
) -> ModuleTime:
    seconds = sum(each.kernel.seconds for each in kernels)
    ops = [op for each in kernels for op in each.ops or ()] if whole is None else whole.get(module, [])
    macs = macs_of(cost, ops)
    least = [None if peaks is None else peaks[op] for op in ops]
    known = [each for each in least if each is not None]
    share = sum(known) / seconds if macs and seconds and len(known) == len(least) else None
    return ModuleTime(module, len(kernels), seconds, macs, share)


def _seconds_at_peak(cost: Cost, target: Target, fuses: Sequence[str]) -> list[float | None]:
    """Seconds of each operator's MACs at the target's peak for their precision; None if it is not known."""
    work_of = executed(cost, None, fuses)
    rates = [target.peak(type_of(name)) for name in work_of.work.names]
    seconds: list[float | None] = []
    for macs, kernel in zip(cost.macs.tolist(), work_of.kernel.tolist(), strict=True):
        rate = rates[int(work_of.work.kind[kernel])] if kernel >= 0 else None
        seconds.append(0.0 if not macs else None if rate is None else macs / rate)
    return seconds
