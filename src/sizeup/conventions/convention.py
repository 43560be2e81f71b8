"""Counting conventions: the formulas of other tools by op kind, and usual reasons for different numbers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup.conventions import formulas as f
from sizeup.conventions.observed_op import Formula, ObservedOp, observed_ops
from sizeup.conventions.table import RECURRENT, ROWS, Counts, PyTorchOnly, column
from sizeup.cost import Cost
from sizeup.errors import SizeupError
from sizeup.ops import UnknownShape

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_NO_COUNTS = Counts()


@dataclass(frozen=True, slots=True)
class Convention:
    """The formulas of another tool by op kind; an op kind without a formula counts 0."""

    name: str
    title: str  # the tool and its version
    unit: str  # in the tool's output
    counts: Mapping[str, Formula]
    # It hooks modules and misses functions: "any" module, or only those of PyTorch's "own" classes.
    hooks: Literal["", "any", "own"] = ""
    reads: Mapping[str, Formula] = field(default_factory=dict)  # elements, if it counts them
    writes: Mapping[str, Formula] = field(default_factory=dict)
    not_reproduced: frozenset[str] = frozenset()  # op kinds whose formula is not reproduced here

    def why(self, observed: ObservedOp) -> str:
        """How the tool counts an op, in one sentence."""
        if observed.op.kind in self.not_reproduced or (observed.is_encoder_layer and self.hooks):
            return "counted in a way that is not reproduced here"
        if self._is_hidden(observed):
            return "Not counted: it hooks modules, and this op is called as a function."
        formula = self.counts.get(observed.op.kind)
        return "Not counted: it has no rule for this op kind." if formula is None else formula.__doc__ or ""

    def count(self, observed: ObservedOp) -> float:
        """Its count for an op; NaN if not reproduced."""
        return self._number(self.counts, observed)

    def _number(self, table: Mapping[str, Formula], observed: ObservedOp) -> float:
        if (
            observed.op.kind in self.not_reproduced
            or observed.op.bodies
            or (observed.is_encoder_layer and self.hooks)
        ):
            return float("nan")
        formula = table.get(observed.op.kind)
        if formula is None or self._is_hidden(observed):
            return 0.0
        try:
            return float(formula(observed))
        except UnknownShape:
            return float("nan")

    def _is_hidden(self, observed: ObservedOp) -> bool:
        return bool(self.hooks) and not (observed.is_plain if self.hooks == "own" else observed.is_layer)

    def read(self, observed: ObservedOp) -> float:
        """The elements that it counts as read by an op."""
        return self._number(self.reads, observed)

    def written(self, observed: ObservedOp) -> float:
        """The elements that it counts as written by an op."""
        return self._number(self.writes, observed)

    def counted(self, cost: Cost) -> ConventionCounts:
        """The counts of the tool for every op of a graph."""
        rows = [
            (self.count(observed), self.read(observed), self.written(observed))
            for observed in observed_ops(cost)
        ]
        columns = np.array(rows, np.float64).reshape(-1, 3).T
        return ConventionCounts(self, cost, columns[0], columns[1], columns[2])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConventionCounts:
    """The counts of a convention for every op of a graph; NaN if not reproduced."""

    convention: Convention
    cost: Cost
    counts: Floats
    reads: Floats
    writes: Floats

    @property
    def total(self) -> float:
        """The tool's total, without ops that are not reproduced."""
        return float(np.nansum(self.counts))

    @property
    def not_reproduced(self) -> int:
        """The number of ops whose counts are not reproduced."""
        return int(np.isnan(self.counts).sum())

    @property
    def elements(self) -> Floats:
        """Elements read and written by every op, if the tool counts them."""
        return self.reads + self.writes

    @property
    def exact_total(self) -> int | float:
        """The total, as int if integral, as for all tools that do not divide by strides."""
        return _whole(self.total)

    def differences_by_kind(self) -> dict[str, int | float]:
        """Its count minus our MACs by op kind, largest first, without zeros."""
        sums: Counter[str] = Counter()
        rows = zip(self.cost.graph.ops, self.counts.tolist(), self.cost.macs.tolist(), strict=True)
        for op, theirs, ours in rows:
            if not np.isnan(theirs):
                sums[op.kind] += theirs - ours
        parts = sorted(sums.items(), key=lambda pair: -abs(pair[1]))
        return {op_kind: _whole(value) for op_kind, value in parts if value}

    def sentence(self, index: int) -> str:
        """Its count for one op, with the reason."""
        value, reason = self.counts[index], self.reason(index)
        if np.isnan(value):
            return f"{self.convention.title}: {reason}"
        return f"{self.convention.title}: {_whole(value):,} {self.convention.unit}. {reason}"

    def reason(self, index: int) -> str:
        """How the tool counts one op."""
        return self.convention.why(_observed_op(self.cost, index))

    def __repr__(self) -> str:
        return f"<{self.convention.title}: {self.total:,.0f} {self.convention.unit}>"


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _observed_op(cost: Cost, index: int) -> ObservedOp:
    return next(observed for position, observed in enumerate(observed_ops(cost)) if position == index)


CONVENTIONS: dict[str, Convention] = {
    entry.name: entry
    for entry in (
        Convention("fvcore", "fvcore 0.1.5 (FlopCountAnalysis)", "FLOPs", column("fvcore")),
        Convention("thop", "thop 0.1.1", "MACs", column("thop"), hooks="own", not_reproduced=RECURRENT),
        Convention(
            "ptflops",
            "ptflops 0.7.5 (pytorch backend)",
            "MACs",
            column("ptflops"),
            not_reproduced=RECURRENT,
        ),
        Convention("ptflops-aten", "ptflops 0.7.5 (aten backend)", "MACs", column("ptflops_aten")),
        Convention(
            "torchinfo",
            "torchinfo 1.8.0",
            "mult-adds",
            column("torchinfo"),
            hooks="any",
            not_reproduced=RECURRENT,
        ),
        Convention(
            "dnn-analyzer",
            "DNN analyzer",
            "MACs",
            column("dnn_analyzer"),
            hooks="any",
            reads=column("dnn_analyzer_reads"),
            writes=dict.fromkeys(column("dnn_analyzer_reads"), f.first_output),
        ),
        Convention(
            "tensorscope",
            "Tensorscope 1.0.1",
            "FLOPs",
            column("fvcore"),
            reads=column("tensorscope_reads"),
            writes={kind: ROWS[kind].tensorscope_writes for kind in column("tensorscope_reads")},
        ),
    )
}


def convention(name: str) -> Convention:
    """The convention of that name; case is ignored, and underscores equal dashes."""
    key = name.lower().replace("_", "-")
    known = CONVENTIONS.get(key)
    if known is None:
        near = "".join(f"; nearest: {each}" for each in difflib.get_close_matches(key, CONVENTIONS, 1))
        raise SizeupError(f"unknown convention {name!r}{near}; known: {', '.join(CONVENTIONS)}")
    return known


_MAC_OR_FLOP = "a tool that counts FLOPs shows twice the MACs; several print MACs under the name FLOPs"

_BY_FAMILY: dict[str, tuple[str, ...]] = {
    "conv": (
        "tools that count the bias add one per output element",
        PyTorchOnly(
            "tools that hook modules give 0 for a functional convolution, as five of thirteen counters did"
        ),
    ),
    "matmul": (
        PyTorchOnly("tools that hook modules count nn.Linear but not @, matmul or bmm"),
        "tools that count the bias add one per output element",
    ),
    "attention": (
        PyTorchOnly(
            "tools that only hook modules miss the two products: they count 80 % of a block, some 0 %"
        ),
        PyTorchOnly(
            "torch's FlopCounterMode gives 0 for fused attention on the CPU; others count 106 % of a block"
        ),
    ),
    "recurrent": (
        PyTorchOnly("five of thirteen counters give 0 for an LSTM, others 102 % and 135 %"),
        PyTorchOnly("torch's FlopCounterMode gives 0 for an LSTM on the CPU"),
    ),
    "elementwise": ("this op kind has no MACs; tools that count activations as FLOPs show more",),
    "reduction": ("this op kind has no MACs; tools that count norms, pooling or softmax as FLOPs show more",),
    "resample": ("this op kind has no MACs; tools that count interpolation as FLOPs show more",),
}
_NO_RULE = ("most counters silently give 0 for an unknown op",)


def differences(op_kind: str, family: str | None, has_macs: bool, format: str = "") -> tuple[str, ...]:
    """The usual reasons for different counts; `family` is None for an op without a cost rule.

    Reasons that apply only to PyTorch models are omitted for ONNX and TFLite.
    """
    if family is None:
        return _NO_RULE
    reasons = (*ROWS.get(op_kind, _NO_COUNTS).reasons, *_BY_FAMILY.get(family, ()))
    if format in ("onnx", "tflite"):
        reasons = tuple(text for text in reasons if not isinstance(text, PyTorchOnly))
    return (_MAC_OR_FLOP, *reasons) if has_macs else reasons
