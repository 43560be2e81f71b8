"""Reads the profiles of runtimes and attributes kernels to ops and modules."""

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
from sizeup.files import read_problem, read_settings
from sizeup.graph import Graph
from sizeup.latency import Execution, dtype_of, execution_of
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
    """The kernels of one run in order, and the seconds of a run if the profile has them."""

    kernels: tuple[Kernel, ...]
    seconds: float | None = None


def read_profile(path: Path) -> Profile:
    """Read a profile of ONNX Runtime (JSON), TFLite's benchmark_model (text) or PyTorch (trace or table)."""
    try:
        text = read_settings(path, _MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        raise SizeupError(f"{path}: {error}; profile fewer runs") from error
    try:
        profile = _parse(text)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise SizeupError(f"{path}: not a supported profile: {error}") from error
    if profile is None or not profile.kernels:
        raise SizeupError(
            f"{path}: no kernel times; give a profile of ONNX Runtime, the output of benchmark_model"
            " with --enable_op_profiling=true, or a trace or table of torch.profiler"
        )
    times = [kernel.seconds for kernel in profile.kernels] + [profile.seconds or 0.0]
    if not all(0 <= seconds < 1e6 for seconds in times):
        raise SizeupError(f"{path}: a time is negative or not finite")
    return profile


def _parse(text: str) -> Profile | None:
    if text.lstrip()[:1] in ("[", "{"):
        content = json.loads(text)
        return (
            _parse_trace(content["traceEvents"])
            if isinstance(content, dict)
            else _parse_onnx_runtime(content)
        )
    if "Run Order" in text or "[node type]" in text.lower():
        return _parse_benchmark(text)
    return _parse_averages(text) if "CPU total" in text else None


def kernels_of(events: list[dict[str, Any]], skipped_runs: int = 0) -> list[Kernel]:
    """The kernels in a profile of ONNX Runtime, each with its least time over the runs."""
    seconds: dict[str, list[float]] = defaultdict(list)
    op_kinds: dict[str, str] = {}
    for event in events:
        name, arguments = event.get("name", ""), event.get("args", {})
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            node = name.removesuffix("_kernel_time")
            seconds[node].append(event["dur"] * _MICRO)
            op_kinds[node] = arguments.get("op_name", "")
    return [
        Kernel(node, op_kinds[node], min(times[skipped_runs:] or times)) for node, times in seconds.items()
    ]


def _parse_onnx_runtime(events: list[dict[str, Any]]) -> Profile:
    runs = [event["dur"] * _MICRO for event in events if event.get("name") == "model_run"]
    # The first run allocates: it counts only if it is the only one.
    return Profile(tuple(kernels_of(events, skipped_runs=1)), min(runs[1:] or runs, default=None))


def _parse_benchmark(text: str) -> Profile:
    """The run-order table; if there are several, the last one is of the regular runs."""
    inference_times = _INFERENCE.findall(text)
    tables = text.split("Run Order")
    return Profile(
        tuple(_benchmark_rows(tables[-1].splitlines())),
        float(inference_times[-1]) * _MICRO if inference_times else None,
    )


def _benchmark_rows(lines: list[str]) -> Iterator[Kernel]:
    titles: list[str] = []
    for line in lines:
        if "[node type]" in line.lower():
            titles = [field.strip(" []").lower() for field in line.strip().split("\t")]
        elif titles:
            fields = [field.strip() for field in line.strip().split("\t")]
            if len(fields) < len(titles):
                return
            row = dict(zip(titles, fields, strict=False))
            average = row.get("avg ms") or row["avg_ms"]
            name = row.get("name", "").rpartition(":")[0].strip("[]")
            yield Kernel(name, row["node type"], float(average) * _MILLI)


def _parse_trace(events: list[dict[str, Any]]) -> Profile:
    """The outermost ops of a Chrome trace, in order."""
    op_events = [event for event in events if event.get("cat") == "cpu_op" and event.get("ph") == "X"]
    op_events.sort(key=lambda event: (str(event.get("tid")), event["ts"], -event["dur"]))
    kernels, end, thread = [], float("-inf"), None
    for event in op_events:
        if event.get("tid") == thread and event["ts"] < end:
            continue
        thread, end = event.get("tid"), event["ts"] + event["dur"]
        kernels.append(Kernel(event["name"], _aten(event["name"]), event["dur"] * _MICRO))
    return Profile(tuple(kernels))


def _aten(name: str) -> str:
    return name.replace("::", ".")


def _parse_averages(text: str) -> Profile:
    """A table of key_averages(): one row per op kind, with the time of all its calls."""
    header = next(line for line in text.splitlines() if "CPU total" in line)
    titles = re.split(r"\s{2,}", header.strip())
    total, calls = titles.index("CPU total"), titles.index("# of Calls")
    kernels = []
    for line in text.splitlines():
        fields = re.split(r"\s{2,}", line.strip())
        if len(fields) == len(titles) and fields[0].startswith("aten::"):
            amount = _TIME.fullmatch(fields[total])
            if amount is not None:
                seconds = float(amount[1]) * _UNITS[amount[2]]
                kernels.append(Kernel(fields[0], _aten(fields[0]), seconds, int(fields[calls])))
    return Profile(tuple(kernels))


# What runtimes append to the name of an op in the name of its kernel.
_SUFFIX = re.compile(r"(_nchwc|_token_\d+|_quant|/[A-Za-z]*Fusion/?|[;:].*)$")


def named_ops(graph: Graph, ops: Iterable[int]) -> dict[str, int]:
    """Ops by their names and those of their outputs; the first of a name wins."""
    known: dict[str, int] = {}
    for index in ops:
        op = graph.ops[index]
        for name in (op.name, *(graph.tensors[identity].name for identity in op.outputs)):
            known.setdefault(name, index)
    return known


def op_of(known: Mapping[str, int], kernel: Kernel) -> int | None:
    """The op that a kernel is named after."""
    return known.get(kernel.name, known.get(_SUFFIX.sub("", kernel.name))) if kernel.name else None


@dataclass(frozen=True, slots=True)
class AttributedKernel:
    """A kernel of a profile, its module ('' is the model itself), and the ops that it computes.

    Either is None if it could not be matched. An op that two kernels compute belongs to the first.
    """

    kernel: Kernel
    module: str | None
    ops: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """The kernels of a module: their seconds, the MACs in them, and the share of the target's peak.

    `module` is None for all kernels that match no op, and for the MACs of ops without a kernel. `macs` is
    None if unknown.
    """

    module: str | None
    kernels: int
    seconds: float
    macs: int | None
    compute_share: float | None = None

    @property
    def macs_per_second(self) -> float | None:
        """MACs per second; None for kernels without a module, or if unknown."""
        is_rate = self.module is not None and self.macs is not None and self.seconds
        return (self.macs or 0) / self.seconds if is_rate else None


def macs_of(cost: Cost, ops: Sequence[int]) -> int | None:
    """MACs of some ops; None if those of one are unknown."""
    indices = list(ops)
    return int(sum(cost.macs[indices].tolist())) if cost.known[indices].all() else None


def attribute(cost: Cost, kernels: Sequence[Kernel], fuses: Sequence[str]) -> tuple[AttributedKernel, ...]:
    """Every kernel of a profile with its module and ops, if they can be matched."""
    if any(kernel.module is not None for kernel in kernels) or cost.graph.format.startswith("torch"):
        return _attribute_in_order(cost.graph, kernels)
    return _attribute_by_name(cost, kernels, execution_of(cost, None, fuses))


def _attribute_by_name(
    cost: Cost, kernels: Sequence[Kernel], fused: Execution
) -> tuple[AttributedKernel, ...]:
    """Match by name: a kernel named after one op of a fused group computes all of it, if it is alone."""
    graph = cost.graph
    known = named_ops(graph, range(len(graph.ops)))
    matched = [op_of(known, kernel) for kernel in kernels]
    members: dict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(fused.kernel.tolist()):
        members[group].append(index)
    parts = Counter(int(fused.kernel[op]) for op in set(matched) if op is not None)
    seen: set[int] = set()
    attributed = []
    for kernel, op in zip(kernels, matched, strict=True):
        if op is None:
            attributed.append(AttributedKernel(kernel, None))
            continue
        group = int(fused.kernel[op])
        is_single = group >= 0 and parts[group] == 1
        # A convolution fused with an activation may be named after either, but belongs to the convolution.
        scope = graph.ops[int(fused.main_op[group]) if is_single else op].scope
        # Two kernels of one name, such as a copy before the product: MACs are counted once.
        ops = () if op in seen else tuple(members[group]) if is_single else (op,)
        attributed.append(AttributedKernel(kernel, scope, ops))
        seen.add(op)
    return tuple(attributed)


def _attribute_in_order(graph: Graph, kernels: Sequence[Kernel]) -> tuple[AttributedKernel, ...]:
    """Match by order, as PyTorch runs ops in recorded order: the n-th of an op kind in a module.

    If the numbers of kernels and recorded ops differ, the kernels have no ops.
    """
    has_modules = any(kernel.module is not None for kernel in kernels)
    ours: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        ours[op.scope if has_modules else None, op.source.rstrip("_")].append(index)
    theirs: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for position, kernel in enumerate(kernels):
        theirs[kernel.module, kernel.op_kind.rstrip("_")].append(position)
    op_at: dict[int, int] = {}
    for key, positions in theirs.items():
        if len(positions) == len(ours[key]) and (key[0] is not None or not has_modules):
            op_at.update(zip(positions, ours[key], strict=True))
    return tuple(
        AttributedKernel(
            kernel,
            kernel.module if has_modules else graph.ops[op_at[position]].scope if position in op_at else None,
            (op_at[position],) if position in op_at else None,
        )
        for position, kernel in enumerate(kernels)
    )


def by_module(
    cost: Cost, kernels: Sequence[AttributedKernel], target: Target | None, fuses: Sequence[str]
) -> tuple[ModuleTime, ...]:
    """One row per module, slowest first, then one without a module for the remaining kernels and MACs."""
    rows: dict[str, list[AttributedKernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.module is not None:
            rows[kernel.module].append(kernel)
    peaks = None if target is None else _seconds_at_peak(cost, target, fuses)
    module_ops = _module_ops(cost.graph, kernels)
    times = [_module_time(cost, module, members, module_ops, peaks) for module, members in rows.items()]
    return (*sorted(times, key=lambda row: -row.seconds), *_unattributed(cost, kernels, times))


def _unattributed(
    cost: Cost, kernels: Sequence[AttributedKernel], rows: Sequence[ModuleTime]
) -> Iterator[ModuleTime]:
    unmatched = [kernel.kernel.seconds for kernel in kernels if kernel.module is None]
    macs = cost.total_macs - sum(row.macs or 0 for row in rows) if cost.known.all() else None
    if unmatched or macs:
        yield ModuleTime(None, len(unmatched), sum(unmatched), macs)


def _module_ops(graph: Graph, kernels: Sequence[AttributedKernel]) -> dict[str, list[int]] | None:
    """The ops per module; None unless the runtime reported the modules of kernels."""
    if all(kernel.kernel.module is None for kernel in kernels):
        return None
    ops: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        ops[op.scope].append(index)
    return ops


def _module_time(
    cost: Cost,
    module: str,
    kernels: Sequence[AttributedKernel],
    module_ops: Mapping[str, list[int]] | None,
    peaks: Sequence[float | None] | None,
) -> ModuleTime:
    seconds = sum(kernel.kernel.seconds for kernel in kernels)
    ops = (
        [op for kernel in kernels for op in kernel.ops or ()]
        if module_ops is None
        else module_ops.get(module, [])
    )
    macs = macs_of(cost, ops)
    least = [None if peaks is None else peaks[op] for op in ops]
    known = [seconds_at_peak for seconds_at_peak in least if seconds_at_peak is not None]
    share = sum(known) / seconds if macs and seconds and len(known) == len(least) else None
    return ModuleTime(module, len(kernels), seconds, macs, share)


def _seconds_at_peak(cost: Cost, target: Target, fuses: Sequence[str]) -> list[float | None]:
    """Seconds per op for its MACs at the target's peak for their precision; None if unknown."""
    fused = execution_of(cost, None, fuses)
    rates = [target.peak(dtype_of(name)) for name in fused.work.names]
    seconds: list[float | None] = []
    for macs, kernel in zip(cost.macs.tolist(), fused.kernel.tolist(), strict=True):
        rate = rates[int(fused.work.class_index[kernel])] if kernel >= 0 else None
        seconds.append(0.0 if not macs else None if rate is None else macs / rate)
    return seconds
