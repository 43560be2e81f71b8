"""Tensorscope's face: elements moved by every operator, and what limits it on a graphics card.

    from sizeup.compat.tensorscope import ElemCountAnalysis, analyze_model

Its FLOPs are one for each MAC, while a card's rate counts two: its estimate of compute is half of what it
should be. The old number is printed, and the right one beside it. Unlike the original, rows add up to the
total (modules that hold others are no rows), every row is timed at its own precision, a model is sized up
as it runs in inference, and no fvcore is needed.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from sizeup import targets
from sizeup.api import analyze as analyze_api
from sizeup.api import models as api
from sizeup.compat.networks import simple
from sizeup.compat.tools import library_usage
from sizeup.conventions import CONVENTIONS, ConventionCounts
from sizeup.conventions.table import FVCORE_SILENT
from sizeup.cost import Cost
from sizeup.errors import SizeupError, TargetError
from sizeup.files import is_file
from sizeup.targets.gpu_specs import EXAMPLE, NAME, TYPES, read_gpu_specs
from sizeup.targets.gpu_specs import rates as spec_rates
from sizeup.targets.table import Table

PRECISIONS: Mapping[str, tuple[str, int, bool]] = {  # number type, its bytes, whether norms keep fp32
    "fp64": ("fp64", 8, False),
    "fp32": ("fp32", 4, False),
    "fp16-mixed": ("fp16", 2, True),
    "fp16-true": ("fp16", 2, False),
    "bf16-mixed": ("bf16", 2, True),
    "bf16-true": ("bf16", 2, False),
    "fp16": ("fp16", 2, False),
    "bf16": ("bf16", 2, False),
}
HEADERS = (
    *("Module", "Op", "Precision", "FLOPs", "Bytes"),
    *("Arithmetic Intensity", "GPU FLOPs:Bytes Ratio", "Limitation"),
)
_NORMS = frozenset({"batch_norm", "layer_norm"})
_TERA, _GIGA = 10**12, 10**9


_LOG = logging.getLogger(__name__)


class _Total(int):
    """A number that may be called: the text prints `elems.total` without calling it."""

    _of: Mapping[str, Counter[str]]

    def __call__(self, module_name: str = "") -> int:
        """Elements moved within a module; without a name, in the whole model."""
        return sum(self._of[module_name].values())


class ElemCountAnalysis:
    """How many elements the operators of a model read and write in one pass, by module and by operator."""

    def __init__(self, model: Any, inputs: Any) -> None:
        cost = _counted_in_evaluation(model, inputs)
        self._cells = _cells(CONVENTIONS["tensorscope"].counted(cost))
        self._counts = _by_module_and_operator(model, self._cells)
        self._uncounted = _uncounted(cost)
        self._warns = True

    @property
    def _by_module(self) -> Mapping[str, Counter[str]]:
        """Elements by module and operator; the first who asks is warned of operators that are not counted."""
        if self._warns:
            self._warns = False
            _warn_uncounted(self._uncounted)
        return self._counts

    def unsupported_ops_warnings(self, enabled: bool) -> ElemCountAnalysis:
        """Whether the first count warns of operators that are not counted."""
        self._warns = enabled
        return self

    @property
    def total(self) -> _Total:
        """Elements moved in all; may also be called, with the name of a module."""
        found = _Total(sum(self._by_module[""].values()))
        found._of = self._by_module
        return found

    def by_module(self) -> Counter[str]:
        """Elements by module, with all that is inside it; the model itself is ''."""
        return Counter({path: sum(found.values()) for path, found in self._by_module.items()})

    def by_operator(self, module_name: str = "") -> Counter[str]:
        """Elements by operator, within a module."""
        return Counter(self._by_module[module_name])

    def by_module_and_operator(self) -> dict[str, Counter[str]]:
        """Elements by module, with all that is inside it, and by operator."""
        return {path: Counter(found) for path, found in self._by_module.items()}

    def unsupported_ops(self) -> Counter[str]:
        """Operators that are not counted, by name, and how often each runs."""
        return Counter(_listed(name) for name in self._uncounted.elements())


@dataclass(frozen=True, slots=True)
class Row:
    """The operators of one name in one module; FLOPs as the original counts them, one for each MAC."""

    module: str
    op: str
    precision: str
    flops: int
    bytes: int
    ratio: float
    seconds: float
    right_seconds: float  # with two FLOPs for each MAC

    @property
    def intensity(self) -> float:
        """FLOPs for each byte."""
        return self.flops / self.bytes

    @property
    def limitation(self) -> str:
        """What the original takes for the limit."""
        return "Arithmetic" if self.intensity > self.ratio else "Memory"


@dataclass(frozen=True, slots=True)
class Analysis:
    """What `analyze_model` printed."""

    rows: tuple[Row, ...]
    flops: int
    elements: int
    containers: float  # what the original's rows add up to, as a share of the total
    seconds: float
    right_seconds: float


def analyze_model(
    model: Any,
    input_shapes: Sequence[Sequence[int]],
    gpu: str,
    precision: str,
    gpu_specs: str | PathLike[str] | None = None,
) -> Analysis:
    """Print FLOPs, bytes and the limit of every operator on a card, and how long a pass takes at least.

    The card is one of the nine that the original knew, one of a file such as its gpu_specs.json (the one
    in the working directory without a name), or any other that `sizeup devices` lists.
    """
    if precision not in PRECISIONS:
        raise SizeupError(f"there is no precision {precision!r}; known are {', '.join(PRECISIONS)}")
    rates = card(gpu, gpu_specs)
    cost = _counted_in_evaluation(model, tuple(tuple(shape) for shape in input_shapes))
    _warn_uncounted(_uncounted(cost))
    cells = _cells(CONVENTIONS["tensorscope"].counted(cost))
    rows = tuple(_row(cell, rates, precision) for cell in cells)
    whole = sum(cell.flops for cell in cells)
    found = Analysis(
        rows,
        whole,
        sum(cell.elements for cell in cells),
        _with_containers(model, cells) / whole if whole else 1.0,
        sum(row.seconds for row in rows),
        sum(row.right_seconds for row in rows),
    )
    _print(found, cost, gpu, PRECISIONS[precision][0])
    return found


@dataclass(slots=True)
class _Cell:
    """The operators of one name that ran directly in one module."""

    module: str
    op: str
    is_norm: bool
    flops: int = 0
    macs: int = 0
    elements: int = 0


def _counted_in_evaluation(model: Any, inputs: Any) -> Cost:
    from sizeup.formats.torch.modes import run_mode

    with run_mode(model):
        counted: Cost = api.count(model, inputs if isinstance(inputs, tuple) else (inputs,))
    return counted


def _name(op: Any) -> str:
    """The name under which fvcore lists an operator."""
    if op.kind == "attention_layer":
        return "linear"  # of which it is made, as far as it is counted
    if op.kind in ("conv", "conv_transpose"):
        return "conv"
    return _listed(str(op.source or op.kind))


def _listed(source: str) -> str:
    """The name of an operator without its namespace, in place or not."""
    return source.removeprefix("aten.").rstrip("_")


def _uncounted(cost: Cost) -> Counter[str]:
    """Operators of which no elements are counted, and how often each runs."""
    counted = CONVENTIONS["tensorscope"].reads
    return Counter(str(op.source or op.kind) for op in cost.graph.ops if op.kind not in counted)


def _warn_uncounted(uncounted: Mapping[str, int]) -> None:
    """Warn as fvcore does, through logging: on stderr unless the program has set up another place."""
    for source, times in uncounted.items():
        if source.removeprefix("aten.") not in FVCORE_SILENT:
            name = source.replace("aten.", "aten::", 1)
            _LOG.warning("Unsupported operator %s encountered %d time(s)", name, times)


def _cells(counts: ConventionCounts) -> list[_Cell]:
    cells: dict[tuple[str, str], _Cell] = {}
    graph, macs, elements = counts.cost.graph, counts.cost.macs, counts.elements
    for index, op in enumerate(graph.ops):
        if op.kind in counts.convention.reads:
            key = (op.scope, _name(op))
            cell = cells.setdefault(key, _Cell(*key, op.kind in _NORMS))
            cell.flops += int(counts.counts[index])
            cell.macs += int(macs[index])
            cell.elements += int(elements[index])
    return list(cells.values())


def _by_module_and_operator(model: Any, cells: Iterable[_Cell]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {path: Counter() for path, _ in model.named_modules()}
    for cell in cells:
        for path in _within(cell.module):
            found.setdefault(path, Counter())[cell.op] += cell.elements
    return found


def _within(path: str) -> list[str]:
    """A module and all that hold it, the model first."""
    parts = path.split(".") if path else []
    return [".".join(parts[:depth]) for depth in range(len(parts) + 1)]


def _with_containers(model: Any, cells: Sequence[_Cell]) -> int:
    """FLOPs of the original's rows: every module in which one operator alone was counted, inner or outer."""
    flops: dict[str, Counter[str]] = {}
    for cell in cells:
        for path in _within(cell.module)[1:]:
            flops.setdefault(path, Counter())[cell.op] += cell.flops
    return sum(sum(found.values()) for found in flops.values() if len(found) == 1)


def _row(cell: _Cell, rates: Mapping[str, float], precision: str) -> Row:
    dtype, width, keeps_norms = PRECISIONS[precision]
    if cell.is_norm and keeps_norms:
        dtype, width = "fp32", 4
    if dtype not in rates:
        raise TargetError(f"{rates['name']}: its rate at {dtype} is not known")
    peak, bandwidth = rates[dtype], rates["memory_bandwidth"]
    size = cell.elements * width
    moving = size / (bandwidth * _GIGA)
    return Row(
        cell.module,
        cell.op,
        dtype,
        cell.flops,
        size,
        peak / (bandwidth / 1000),
        max(cell.flops / (peak * _TERA), moving),
        max((2 * cell.macs or cell.flops) / (peak * _TERA), moving),
    )


def _print(found: Analysis, cost: Cost, gpu: str, dtype: str) -> None:
    print(f"Total FLOPs: {found.flops}")
    print(f"Total elems: {found.elements}")
    print(simple(HEADERS, [_printed(row) for row in found.rows]))
    print(f"Estimated forward pass: {found.seconds}")
    print(
        "Note: the FLOPs above are one for each MAC, while the card's rate counts two. With two FLOPs for"
        f" each of the {cost.total_macs} MACs: {found.right_seconds} s at least."
    )
    if found.containers != 1.0:
        print(
            "Note: rows add up to the total; those of the original made"
            f" {100 * found.containers:.0f} % of it, because modules that hold one kind of layer were rows"
            " too, and functions were none."
        )
    print(_by_sizeup(cost, gpu, dtype))


def _by_sizeup(cost: Cost, gpu: str, dtype: str) -> str:
    try:
        found = analyze_api.estimate(cost, gpu, precision=dtype)
    except SizeupError as error:
        return f"Note: sizeup itself has no estimate: {error}"
    within = "" if found.low is None or found.high is None else f", from {found.low} to {found.high} s"
    return f"Note: sizeup itself estimates {found.seconds} s{within} ({found.basis}: {found.provenance})."


def _printed(row: Row) -> tuple[Any, ...]:
    numbers = (row.flops, row.bytes, row.intensity, row.ratio)
    return (row.module, row.op, row.precision, *numbers, row.limitation)


if __name__ == "__main__":
    sys.exit(library_usage("tensorscope"))


_FLOPS_PER_MAC = 2
_A100 = {"fp64": 19.5, "fp32": 156.0}
# The nine by the names that torch.cuda.get_device_name() gives, and where Tensorscope's TFLOPS are not those
# of the data sheet's plain units: on the A100 it took the tensor cores' (TF32 under the name of fp32, and
# fp64), on the GTX 1650 Ti rounded figures.
CARDS: Mapping[str, Mapping[str, float]] = {
    "NVIDIA GeForce GTX 1650 Ti": {"fp64": 0.095, "fp32": 3.0, "fp16": 6.0},
    "NVIDIA A100-PCIE-40GB": _A100,
    "NVIDIA A100 80GB PCIe": _A100,
    "NVIDIA A100-SXM4-40GB": _A100,
    "NVIDIA A100-SXM4-80GB": _A100,
    "Tesla V100-SXM2-16GB": {},
    "Tesla V100-SXM2-32GB": {},
    "Tesla V100-PCIE-16GB": {},
    "Tesla V100-PCIE-32GB": {},
}


def card(name: str, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """A card's GB/s (`memory_bandwidth`) and its TFLOPS by number type, as far as they are known."""
    specs = _specs(file)
    if name in specs:
        return {"name": name, **spec_rates(specs[name])}
    try:
        device = targets.device(name)
    except TargetError as error:
        raise TargetError(
            f"{error}; Tensorscope knew {', '.join(CARDS)}; others go into a file such as {NAME}: {EXAMPLE}"
        ) from error
    if device.bandwidth is None:
        raise TargetError(f"{device.title}: its bandwidth is not known")
    rates = {each: device.peak(each) for each in TYPES}
    return {
        "name": device.title,
        "memory_bandwidth": device.bandwidth / 1e9,
        **{each: _FLOPS_PER_MAC * rate / 1e12 for each, rate in rates.items() if rate is not None},
        **_as_tensorscope(device),
    }


def _as_tensorscope(device: targets.Device) -> Mapping[str, float]:
    return next((own for known, own in CARDS.items() if targets.device(known).name == device.name), {})


def _specs(file: str | os.PathLike[str] | None) -> dict[str, Table]:
    """The cards of the file that was named, or of the one in the working directory if there is one."""
    if file is None and not is_file(NAME):
        return {}
    return read_gpu_specs(NAME if file is None else file)
