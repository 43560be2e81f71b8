"""How other tools count each op kind: one row per op kind, one field per tool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sizeup.conventions import formulas as f
from sizeup.conventions.observed_op import Formula
from sizeup.ops import cost_rules


class PyTorchOnly(str):
    """A reason that applies only to counters of PyTorch models."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The formulas of other tools for an op kind; None for a tool that has no rule for it."""

    fvcore: Formula | None = None
    thop: Formula | None = None
    ptflops: Formula | None = None
    ptflops_aten: Formula | None = None
    torchinfo: Formula | None = None
    dnn_analyzer: Formula | None = None
    dnn_analyzer_reads: Formula | None = None  # elements; the tool writes the first output
    tensorscope_reads: Formula | None = None
    tensorscope_writes: Formula = f.first_output  # counted only with its reads
    reasons: tuple[str, ...] = ()  # why counts differ, next to those of the family


def column(tool: str) -> dict[str, Formula]:
    """The formulas of a tool by op kind."""
    return {op_kind: formula for op_kind, row in ROWS.items() if (formula := getattr(row, tool)) is not None}


# The recurrent layers of PyTorch.
RECURRENT = frozenset(rule.kind for rule in cost_rules() if rule.family == "recurrent" and rule.torch)
_per_input = partial(Counts, dnn_analyzer=f.one_per_input, dnn_analyzer_reads=f.first_input)
ROWS: dict[str, Counts] = {
    "conv": Counts(
        fvcore=f.macs, thop=f.macs, ptflops=f.as_layer(f.macs_and_bias), ptflops_aten=f.macs_and_bias,
        torchinfo=f.macs_and_bias, dnn_analyzer=f.over_strides, dnn_analyzer_reads=f.product_reads,
        tensorscope_reads=f.product_reads,
    ),
    "conv_transpose": Counts(
        fvcore=f.macs, thop=f.output_channels, ptflops=f.as_layer(f.macs_and_bias),
        ptflops_aten=f.macs_and_bias, torchinfo=f.weights_over_positions, tensorscope_reads=f.product_reads,
    ),
    "matmul": Counts(
        fvcore=f.macs, thop=f.macs,
        ptflops=f.as_layer(f.macs_and_bias, also=("matmul", "mm", "bmm", "addmm", "baddbmm")),
        ptflops_aten=f.macs_and_bias, torchinfo=f.weights_per_sample, dnn_analyzer=f.second_dimensions,
        dnn_analyzer_reads=f.parameters_only, tensorscope_reads=f.product_reads,
    ),
    "einsum": Counts(
        fvcore=f.macs, tensorscope_reads=f.operand_reads,
        reasons=(PyTorchOnly("five of thirteen counters give 0 for an einsum"),),
    ),
    "grouped_matmul": Counts(
        reasons=(PyTorchOnly("torch's FlopCounterMode gives 0 for the grouped products of experts"),),
    ),
    "attention_layer": Counts(
        fvcore=f.projections, ptflops=f.hooked_attention, ptflops_aten=f.projections_and_bias,
        tensorscope_reads=f.projection_reads, tensorscope_writes=f.projection_writes,
    ),
    "batch_norm": Counts(
        fvcore=f.scale_and_shift, thop=f.twice_scale_and_shift, ptflops=f.as_layer(f.scale_and_shift),
        torchinfo=f.weights_per_sample, dnn_analyzer=f.scale_and_shift,
        dnn_analyzer_reads=f.output_and_channels, tensorscope_reads=f.first_input,
        reasons=("tools that count two MACs per element here show a higher total",),
    ),
    "layer_norm": Counts(
        fvcore=f.five_per_element, thop=f.twice_without_groups, ptflops=f.as_layer(f.shift_of_norms),
        torchinfo=f.weights_per_sample, tensorscope_reads=f.first_input,
    ),
    "relu": _per_input(ptflops=f.twice_as_layer),
    "relu6": _per_input(ptflops=f.as_layer(f.one_per_input)),
    "leaky_relu": _per_input(ptflops=f.as_layer(f.one_per_input)),
    "prelu": Counts(
        thop=f.one_per_input, ptflops=f.twice_as_layer, torchinfo=f.weights_per_sample,
        dnn_analyzer=f.one_per_input, dnn_analyzer_reads=f.data_and_slopes,
    ),
    "elu": Counts(ptflops=f.twice_as_layer),
    "gelu": Counts(ptflops=f.twice_as_layer),
    "silu": Counts(ptflops=f.one_per_input),
    "softmax": Counts(thop=f.softmax_steps, ptflops=f.one_per_input),
    "pool": _per_input(thop=f.pool_of_windows, ptflops=f.twice_as_layer),
    "global_pool": _per_input(
        fvcore=f.adaptive_average_2d, thop=f.adaptive_average, ptflops=f.twice_as_layer,
        tensorscope_reads=f.first_input,
    ),
    "resize": Counts(
        fvcore=f.interpolation_2d, thop=f.interpolation_steps, ptflops=f.twice_per_output_as_layer,
        tensorscope_reads=f.first_input,
    ),
    "grid_sample": Counts(fvcore=f.four_per_output, tensorscope_reads=f.first_two_inputs),
    "embedding": Counts(
        torchinfo=f.weights_per_sample,
        reasons=(PyTorchOnly(
            "if the table is tied to the output layer, tools that sum over modules count it twice"
        ),),
    ),
}  # fmt: skip
# Operators that fvcore (0.1.5) leaves out without a word, although some of them compute.
FVCORE_SILENT = frozenset({
    "alias", "arange", "bitwise_not", "cat", "chunk", "clamp", "clamp_", "constant_pad_nd", "contiguous",
    "copy_", "detach", "dropout", "empty", "eq", "expand", "flatten", "floor", "floor_divide", "full",
    "full_like", "gather", "ge", "gt", "index", "index_put_", "masked_fill", "max", "narrow", "new_empty",
    "new_full", "new_zeros", "nonzero", "ones", "permute", "relu", "relu_", "remainder", "reshape", "roll",
    "scalar_tensor", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "t", "to",
    "transpose", "type_as", "unbind", "unsqueeze", "unsqueeze_", "view", "zeros", "zeros_like",
})  # fmt: skip
