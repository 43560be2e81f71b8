"""Lower operators of torch's quantized modules: unpacked weights as inputs, activations as attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from sizeup.formats.torch.lowering import LOWERING_RULES, Arguments, Lowering, LoweringRule
from sizeup.ops import op_kind_of


class UnpackedWeight(NamedTuple):
    """A packed weight: its tensor, the bias, and scales and zero points if they are tensors."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    scales: tuple[torch.Tensor, ...] = ()
    groups: int = 1


class UnpackedCell(NamedTuple):
    """The packed weights of one layer and direction of a recurrent network."""

    matrices: tuple[UnpackedWeight, ...]
    biases: tuple[torch.Tensor, ...]


_ACTIVATIONS = ("leaky_relu", "relu", "tanh")
_WEIGHT_NAMES = ("packed_weight", "W_prepack", "weight")
_DATA_NAMES = ("qx", "X")
_KINDS = {
    "matmul": (
        "linear linear_relu linear_dynamic linear_relu_dynamic linear_dynamic_fp16 linear_relu_dynamic_fp16"
        " linear_leaky_relu linear_tanh linear_with_input_q_dq_qweight_dq_output_fp32"
        " linear_with_input_q_dq_qweight_dq_relu_output_fp32"
    ),
    "conv": (
        "conv1d conv1d_relu conv1d_dynamic conv2d conv2d_relu conv2d_dynamic"
        " conv3d conv3d_relu conv3d_dynamic"
    ),
    "conv_transpose": (
        "conv_transpose1d conv_transpose1d_dynamic conv_transpose2d conv_transpose2d_dynamic"
        " conv_transpose3d conv_transpose3d_dynamic"
    ),
}


def _activation(name: str) -> dict[str, Any]:
    activation = next((each for each in _ACTIVATIONS if f"_{each}" in name), None)
    return {} if activation is None else {"activation": activation}


def _product(name: str, args: Arguments) -> Lowering:
    """A matrix product or convolution with a packed weight."""
    packed = next(args[key] for key in _WEIGHT_NAMES if key in args)
    if not isinstance(packed, UnpackedWeight):  # it could not be unpacked
        return Lowering({"invalid": "its packed weight cannot be read"})
    data = next(args[key] for key in _DATA_NAMES if key in args)
    op_kind = op_kind_of("torch", f"quantized.{name}") or ""
    call = {**args, "weight": packed.weight, "groups": packed.groups}
    lowering = LOWERING_RULES[op_kind]("linear" if op_kind == "matmul" else name, call)
    inputs = [data, packed.weight, packed.bias, *packed.scales]
    return Lowering({**lowering.attrs, **_activation(name)}, inputs)


def _packed_matmul(name: str, args: Arguments) -> Lowering:
    """A matrix product with a weight that is packed in a tensor; the scales are not a bias."""
    scales = args["scales"] if "scales" in args else args["qScaleAndZeros"]
    return Lowering({"contracted": (-1,)}, [args["self"], args["mat2"], None, scales])


def _activated(name: str, args: Arguments) -> Lowering:
    return Lowering(_activation(name))


def _embedding(name: str, args: Arguments) -> Lowering:
    packed = args["weight"]
    if not isinstance(packed, UnpackedWeight):
        return Lowering({"invalid": "its packed weight cannot be read"})
    rest = [args.get(key) for key in ("offsets", "per_sample_weights")] if "bag" in name else []
    tensors = [tensor for tensor in rest if tensor is not None]
    scales = () if "bag" in name else packed.scales
    return Lowering({}, [packed.weight, args["indices"], *scales, *tensors])


def _cell(name: str, args: Arguments) -> Lowering:
    """One step of a recurrent layer."""
    packed = [args["w_ih"], args["w_hh"]]
    if not all(isinstance(each, UnpackedWeight) for each in packed):
        return Lowering({"invalid": "its packed weights cannot be read"})
    biases = {
        short: args.get(short, args.get(long)) for short, long in (("b_ih", "bias_ih"), ("b_hh", "bias_hh"))
    }
    op_kind = op_kind_of("torch", f"quantized.{name}") or ""
    call = {**args, **biases, "w_ih": packed[0].weight, "w_hh": packed[1].weight}
    return LOWERING_RULES[op_kind](f"{op_kind}_cell", call)


def _recurrent(name: str, args: Arguments) -> Lowering:
    """A recurrent layer over a sequence."""
    cells = args["params"]
    if not cells or not all(isinstance(cell, UnpackedCell) for cell in cells):
        return Lowering({"invalid": "its packed weights cannot be read"})
    parameters = [
        tensor for cell in cells for tensor in (*(each.weight for each in cell.matrices), *cell.biases)
    ]
    call = {**args, "params": parameters, "has_biases": bool(cells[0].biases)}
    op_kind = name.removeprefix("quantized_")
    return LOWERING_RULES[op_kind](op_kind, call)


QUANTIZED_LOWERING_RULES: dict[str, LoweringRule] = {
    **{f"quantized.{name}": _product for names in _KINDS.values() for name in names.split()},
    **{
        f"quantized.{name}": _activated
        for name in (
            "add_relu", "add_scalar_relu", "mul_relu", "mul_scalar_relu", "cat_relu", "batch_norm_relu",
            "batch_norm1d_relu", "batch_norm2d_relu", "batch_norm3d_relu",
        )
    },
    **{
        f"quantized.{name}": _embedding
        for name in ("embedding_byte", "embedding_4bit", "embedding_bag_byte", "embedding_bag_4bit")
    },
    **{
        f"quantized.quantized_{name}_cell_dynamic": _cell for name in ("lstm", "gru", "rnn_relu", "rnn_tanh")
    },
    **{
        f"aten._weight_{name}": _packed_matmul
        for name in ("int8pack_mm", "int4pack_mm", "int4pack_mm_for_cpu")
    },
    "aten.quantized_lstm": _recurrent,
    "aten.quantized_gru": _recurrent,
}  # fmt: skip
