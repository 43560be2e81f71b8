"""How other tools count: the formula of a tool by op kind, and the usual reasons for other numbers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup.conventions import formulas as f
from sizeup.conventions.seen import Formula, Seen, seen
from sizeup.cost import Cost
from sizeup.errors import SizeupError
from sizeup.ops import UnknownShape

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_RECURRENT = ("lstm", "gru", "rnn")
_ACTIVATIONS = ("relu", "relu6", "leaky_relu", "prelu")


@dataclass(frozen=True, slots=True)
class Convention:
    """What another tool counts, by kind of operator; what has no formula counts nothing there."""

    name: str
    title: str  # the tool, in the version that was compared
    unit: str  # the tool's own word
    counts: Mapping[str, Formula]
    # It sees modules, not what they call: every module, or those of PyTorch's own classes alone.
    hooks: Literal["", "any", "own"] = ""
    reads: Mapping[str, Formula] = field(default_factory=dict)  # numbers, where it counts them
    writes: Mapping[str, Formula] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()  # kinds that it counts in a way that is not reproduced here

    def why(self, each: Seen) -> str:
        """How it comes to its number for an operator, in one sentence."""
        if each.op.kind in self.untold or (each.is_block and self.hooks):
            return "counted in a way that is not reproduced here"
        if self._is_hidden(each):
            return "Nothing: it looks at modules, and this is called as a function."
        formula = self.counts.get(each.op.kind)
        return "Nothing: it has no rule for this kind." if formula is None else formula.__doc__ or ""

    def count(self, each: Seen) -> float:
        """Its number for an operator; not a number where that is not reproduced."""
        return self._number(self.counts, each)

    def _number(self, table: Mapping[str, Formula], each: Seen) -> float:
        if each.op.kind in self.untold or each.op.bodies or (each.is_block and self.hooks):
            return float("nan")
        formula = table.get(each.op.kind)
        if formula is None or self._is_hidden(each):
            return 0.0
        try:
            return float(formula(each))
        except UnknownShape:
            return float("nan")

    def _is_hidden(self, each: Seen) -> bool:
        return bool(self.hooks) and not (each.is_plain if self.hooks == "own" else each.is_layer)

    def read(self, each: Seen) -> float:
        """Numbers that it takes an operator to read."""
        return self._number(self.reads, each)

    def written(self, each: Seen) -> float:
        """Numbers that it takes an operator to write."""
        return self._number(self.writes, each)

    def counted(self, cost: Cost) -> Counted:
        """What the tool says of every operator of a counted graph."""
        rows = [(self.count(each), self.read(each), self.written(each)) for each in seen(cost)]
        columns = np.array(rows, np.float64).reshape(-1, 3).T
        return Counted(self, cost, columns[0], columns[1], columns[2])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counted:
    """A convention's numbers for every operator of a graph; not a number where it is not reproduced."""

    convention: Convention
    cost: Cost
    counts: Floats
    reads: Floats
    writes: Floats

    @property
    def total(self) -> float:
        """The tool's total, without what is not reproduced."""
        return float(np.nansum(self.counts))

    @property
    def untold(self) -> int:
        """Operators that the tool counts in a way that is not reproduced."""
        return int(np.isnan(self.counts).sum())

    @property
    def elements(self) -> Floats:
        """Numbers read and written by every operator, where the tool counts those."""
        return self.reads + self.writes

    @property
    def whole_total(self) -> int | float:
        """The total, an int if it is one, which it is for all tools that do not divide by strides."""
        return _whole(self.total)

    def differences_by_kind(self) -> dict[str, int | float]:
        """Its count less our MACs by op kind, the largest first, without kinds on which both agree."""
        sums: Counter[str] = Counter()
        rows = zip(self.cost.graph.ops, self.counts.tolist(), self.cost.macs.tolist(), strict=True)
        for op, theirs, ours in rows:
            if not np.isnan(theirs):
                sums[op.kind] += theirs - ours
        parts = sorted(sums.items(), key=lambda pair: -abs(pair[1]))
        return {kind: _whole(value) for kind, value in parts if value}

    def sentence(self, index: int) -> str:
        """Its number for one operator, and why that is so."""
        value, why = self.counts[index], self.why(index)
        if np.isnan(value):
            return f"{self.convention.title}: {why}"
        return f"{self.convention.title}: {_whole(value):,} {self.convention.unit}. {why}"

    def why(self, index: int) -> str:
        """How the tool comes to its number for one operator."""
        return self.convention.why(_at(self.cost, index))

    def __repr__(self) -> str:
        return f"<{self.convention.title}: {self.total:,.0f} {self.convention.unit}>"


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _at(cost: Cost, index: int) -> Seen:
    return next(each for place, each in enumerate(seen(cost)) if place == index)


_FVCORE: dict[str, Formula] = {
    "conv": f.macs,
    "conv_transpose": f.macs,
    "matmul": f.macs,
    "einsum": f.macs,
    "attention_layer": f.projections,
    "batch_norm": f.scale_and_shift,
    "layer_norm": f.five_a_number,
    "global_pool": f.adaptive_average_2d,
    "resize": f.interpolation_2d,
    "grid_sample": f.four_an_output,
}
_THOP: dict[str, Formula] = {
    "conv": f.macs,
    "conv_transpose": f.output_channels,
    "matmul": f.macs,
    "batch_norm": f.twice_scale_and_shift,
    "layer_norm": f.twice_without_groups,
    "prelu": f.one_an_input,
    "softmax": f.softmax_steps,
    "pool": f.pool_of_windows,
    "global_pool": f.adaptive_average,
    "resize": f.interpolation_steps,
}
_PTFLOPS: dict[str, Formula] = {
    **dict.fromkeys(("conv", "conv_transpose"), f.as_layer(f.macs_and_bias)),
    "matmul": f.as_layer(f.macs_and_bias, also=("matmul", "mm", "bmm", "addmm", "baddbmm")),
    "attention_layer": f.hooked_attention,
    "batch_norm": f.as_layer(f.scale_and_shift),
    "layer_norm": f.as_layer(f.shift_of_norms),
    **dict.fromkeys(("relu", "prelu", "elu", "gelu", "pool", "global_pool"), f.twice_as_layer),
    "resize": f.twice_an_output_as_layer,
    **dict.fromkeys(("relu6", "leaky_relu"), f.as_layer(f.one_an_input)),
    **dict.fromkeys(("silu", "softmax"), f.one_an_input),
}
_PTFLOPS_ATEN: dict[str, Formula] = {
    "conv": f.macs_and_bias,
    "conv_transpose": f.macs_and_bias,
    "matmul": f.macs_and_bias,
    "attention_layer": f.projections_and_bias,
}
_TORCHINFO: dict[str, Formula] = {
    "conv": f.macs_and_bias,
    "conv_transpose": f.weights_over_positions,
    **dict.fromkeys(("matmul", "batch_norm", "layer_norm", "prelu", "embedding"), f.weights_a_batch),
}
_DNN_ANALYZER: dict[str, Formula] = {
    "conv": f.over_strides,
    "matmul": f.second_dimensions,
    "batch_norm": f.scale_and_shift,
    **dict.fromkeys((*_ACTIVATIONS, "pool", "global_pool"), f.one_an_input),
}
_DNN_ANALYZER_READS: dict[str, Formula] = {
    "conv": f.product_reads,
    "matmul": f.parameters_alone,
    "batch_norm": f.output_and_channels,
    **dict.fromkeys((*_ACTIVATIONS, "pool", "global_pool"), f.first_input),
    "prelu": f.data_and_slopes,
}
_TENSORSCOPE_READS: dict[str, Formula] = {
    "conv": f.product_reads,
    "conv_transpose": f.product_reads,
    "matmul": f.product_reads,
    "einsum": f.operand_reads,
    "attention_layer": f.projection_reads,
    **dict.fromkeys(("batch_norm", "layer_norm", "global_pool", "resize"), f.first_input),
    "grid_sample": f.first_two_inputs,
}
_TENSORSCOPE_WRITES: dict[str, Formula] = {
    **dict.fromkeys(_TENSORSCOPE_READS, f.first_output),
    "attention_layer": f.projection_writes,
}

CONVENTIONS: dict[str, Convention] = {
    each.name: each
    for each in (
        Convention("fvcore", "fvcore 0.1.5 (FlopCountAnalysis)", "FLOPs", _FVCORE),
        Convention("thop", "thop 0.1.1", "MACs", _THOP, hooks="own", untold=frozenset(_RECURRENT)),
        Convention(
            "ptflops", "ptflops 0.7.5 (pytorch backend)", "MACs", _PTFLOPS, untold=frozenset(_RECURRENT)
        ),
        Convention("ptflops-aten", "ptflops 0.7.5 (aten backend)", "MACs", _PTFLOPS_ATEN),
        Convention(
            "torchinfo",
            "torchinfo 1.8.0",
            "mult-adds",
            _TORCHINFO,
            hooks="any",
            untold=frozenset(_RECURRENT),
        ),
        Convention(
            "dnn-analyzer",
            "DNN analyzer",
            "MACs",
            _DNN_ANALYZER,
            hooks="any",
            reads=_DNN_ANALYZER_READS,
            writes=dict.fromkeys(_DNN_ANALYZER_READS, f.first_output),
        ),
        Convention(
            "tensorscope",
            "Tensorscope 1.0.1",
            "FLOPs",
            _FVCORE,
            reads=_TENSORSCOPE_READS,
            writes=_TENSORSCOPE_WRITES,
        ),
    )
}


def convention(name: str) -> Convention:
    """The convention of that name; case, underscores and dashes do not matter."""
    wanted = name.lower().replace("_", "-")
    found = CONVENTIONS.get(wanted)
    if found is None:
        near = difflib.get_close_matches(wanted, CONVENTIONS, 1)
        raise SizeupError(
            f"there is no convention {name!r}{f'; did you mean {near[0]}?' if near else ''}"
            f" (known: {', '.join(CONVENTIONS)})"
        )
    return found


_MAC_OR_FLOP = "a tool that counts FLOPs shows twice the MACs; several print MACs under the name FLOPs"

_BY_KIND: dict[str, tuple[str, ...]] = {
    "einsum": ("five of thirteen counters give 0 for an einsum",),
    "grouped_matmul": ("torch's FlopCounterMode gives 0 for the grouped products of experts",),
    "embedding": ("where the table is tied to the output layer, tools that add up modules count it twice",),
    "batch_norm": ("tools that count two MACs for each number here show more for the whole network",),
}
_BY_FAMILY: dict[str, tuple[str, ...]] = {
    "conv": (
        "tools that count the bias add one for each output number",
        "tools that hook modules give 0 for a functional convolution: five of thirteen counters did",
    ),
    "matmul": (
        "tools that hook modules see nn.Linear but no @, matmul or bmm",
        "tools that count the bias add one for each output number",
    ),
    "attention": (
        "tools that only hook modules miss the two products: 80 % of a block without them, 0 % in some",
        "torch's FlopCounterMode gives 0 for fused attention on the CPU; others count 106 % of a block",
    ),
    "recurrent": (
        "five of thirteen counters give 0 for an LSTM, others 102 % and 135 %",
        "torch's FlopCounterMode gives 0 for an LSTM on the CPU",
    ),
    "elementwise": ("this kind has no MACs; tools that count activations as FLOPs show more",),
    "reduction": ("this kind has no MACs; tools that count norms, pooling or softmax as FLOPs show more",),
    "resample": ("this kind has no MACs; tools that count interpolation as FLOPs show more",),
}
_NO_RULE = ("most counters give 0 for an operator that they do not know, and do not say so",)


def differences(kind: str, family: str | None, has_macs: bool) -> tuple[str, ...]:
    """The usual reasons, each a line; `family` is None for an operator without a rule."""
    if family is None:
        return _NO_RULE
    reasons = (*_BY_KIND.get(kind, ()), *_BY_FAMILY.get(family, ()))
    return (_MAC_OR_FLOP, *reasons) if has_macs else reasons
