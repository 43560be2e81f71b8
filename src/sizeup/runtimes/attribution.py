"""Which operators and modules of a graph the kernels of a profile belong to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sizeup.cost import Cost
from sizeup.graph import Graph
from sizeup.latency import Executed, executed, type_of
from sizeup.runtimes.timing import Kernel
from sizeup.targets import Target

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
