"""Lower operators of torch's quantized modules: unpacked weights as inputs, activations as attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from sizeup.formats.torch.lowering import LOWERING_RULES, Arguments, Lowering, LoweringRule
from sizeup.ops import cost_rules, names_of, op_kind_of


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
# Products without a packed weight.
_UNPACKED = ("quantized.linear_dynamic_fp16_unpacked_weight", "quantized.matmul")


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


# Op kinds without a packed weight, whose kernels compute an activation if their name ends with it.
_ACTIVATED = [rule.kind for rule in cost_rules() if not rule.macs and "activation" not in rule.traits]


def _quantized(*op_kinds: str) -> list[str]:
    """The operators of torch's quantized modules for op kinds."""
    names = (name for op_kind in op_kinds for name in names_of("torch", op_kind))
    return [name for name in names if name.startswith("quantized.")]


QUANTIZED_LOWERING_RULES: dict[str, LoweringRule] = {
    **dict.fromkeys(set(_quantized("conv", "conv_transpose", "matmul")).difference(_UNPACKED), _product),
    **{name: _activated for name in _quantized(*_ACTIVATED) if name.endswith("_relu")},
    **dict.fromkeys(_quantized("gather_dequantize", "embedding_bag"), _embedding),
    **dict.fromkeys(_quantized("lstm", "gru", "rnn"), _cell),
    **{
        f"aten._weight_{name}": _packed_matmul
        for name in ("int8pack_mm", "int4pack_mm", "int4pack_mm_for_cpu")
    },
    "aten.quantized_lstm": _recurrent,
    "aten.quantized_gru": _recurrent,
}  # fmt: skip
