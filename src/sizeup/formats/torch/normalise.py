"""From ATen's arguments to what our rules read: input order and attributes, one function a kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sizeup.ops.matmul import letters

Arguments: TypeAlias = dict[str, Any]


class Normal(NamedTuple):
    """What a normaliser may change: the kind, the order of tensor inputs, the attributes."""

    attrs: dict[str, Any]
    inputs: list[Any] | None = None
    kind: str | None = None


# (name of the operator without its namespace, its arguments by name)
Normaliser: TypeAlias = Callable[[str, Arguments], Normal]


def _conv(name: str, given: Arguments) -> Normal:
    weight = given["weight"]
    attrs = {"groups": given.get("groups", 1), "kernel": tuple(weight.shape[2:])}
    # For whoever reads an explanation; defaults that the caller left out are no news.
    attrs |= {name: given[name] for name in ("stride", "padding", "dilation") if name in given}
    if given.get("transposed"):
        return Normal({**attrs, "in_channels": weight.shape[0]}, kind="conv_transpose")
    return Normal({**attrs, "out_channels": weight.shape[0]})


def _conv_transpose(name: str, given: Arguments) -> Normal:
    return Normal({"in_channels": given["weight"].shape[0], "groups": given.get("groups", 1)})


def _deform_conv(name: str, given: Arguments) -> Normal:
    inputs = [given["input"], given["weight"], given["bias"], given["offset"], given["mask"]]
    return Normal({"out_channels": given["weight"].shape[0]}, inputs)


_LAST = (-1,)
# The addend comes first in ATen and last with us: argument names of (left, right, addend).
_ADDED = {
    "addmm": ("mat1", "mat2", "self"),
    "_addmm_activation": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
    "addbmm": ("batch1", "batch2", "self"),
    "addmv": ("mat", "vec", "self"),
}


def _matmul(name: str, given: Arguments) -> Normal:
    operands = _ADDED.get(name)
    inputs = [given[operand] for operand in operands] if operands else None
    if name == "addbmm":  # sums over the batch too
        return Normal({"contracted": (0, -1)}, inputs)
    if name == "_scaled_mm":
        scales = [given["scale_a"], given["scale_b"]]
        return Normal({"contracted": _LAST}, [given["self"], given["mat2"], given.get("bias"), *scales])
    return Normal({"contracted": _LAST}, inputs)


def _einsum(name: str, given: Arguments) -> Normal:
    ranks = [len(tensor.shape) for tensor in given["tensors"]]
    terms, result = letters(given["equation"], ranks)
    if given.get("path") and len(ranks) > 2:
        return Normal({}, kind="einsum_in_order")  # what it costs depends on the order of its products
    return Normal({"terms": terms, "result": result})


def _recurrent(name: str, given: Arguments) -> Normal:
    gates = {"lstm": 4, "gru": 3}.get(name.removesuffix("_cell"), 1)
    if name.endswith("_cell"):
        state = given["hx"] if isinstance(given["hx"], Sequence) else [given["hx"]]
        inputs = [given["input"], *state, *(given.get(each) for each in ("w_ih", "w_hh", "b_ih", "b_hh"))]
        attrs = {
            "rows": (0,),
            "matrices": (1 + len(state), 2 + len(state)),
            "units": given["w_ih"].shape[0] // gates,
        }
        return Normal(attrs, inputs)
    packed = "data" in given
    sequence = given["data"] if packed else given["input"]
    state = given["hx"] if isinstance(given["hx"], Sequence) else [given["hx"]]
    lengths = [given["batch_sizes"]] if packed else []
    before = [sequence, *lengths, *state]
    parameters = given["params"]
    matrices = tuple(len(before) + i for i, each in enumerate(parameters) if len(each.shape) == 2)
    # Per layer and direction: input matrix, recurrent matrix, two biases, a projection.
    stride = 2 + 2 * bool(given["has_biases"])
    directions = given["num_layers"] * (1 + bool(given["bidirectional"]))
    stride += len(parameters) == directions * (stride + 1)
    units = sum(each.shape[0] // gates for each in parameters[::stride])
    rows = (0,) if packed else (0, 1)
    return Normal({"rows": rows, "matrices": matrices, "units": units}, [*before, *parameters])


def _pool(name: str, given: Arguments) -> Normal:
    kernel = given["kernel_size"]
    spatial = next(int(character) for character in name if character.isdigit())
    sides = list(kernel) if isinstance(kernel, list | tuple) else [kernel] * spatial
    if len(sides) == 1:
        sides = sides * spatial
    return Normal({"taps": math.prod(sides), "kernel": tuple(sides), "stride": given.get("stride")})


_TAPS = {"nearest": 1, "linear1d": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}


def _resize(name: str, given: Arguments) -> Normal:
    return Normal({"taps": next(taps for part, taps in _TAPS.items() if part in name)})


def _grid_sample(name: str, given: Arguments) -> Normal:
    mode = given.get("interpolation_mode", 0)  # 0 bilinear, 1 nearest, 2 bicubic
    spatial = len(given["input"].shape) - 2
    return Normal({"taps": {0: 2**spatial, 1: 1}.get(mode, 4**spatial)})


def _attention(name: str, given: Arguments) -> Normal:
    inputs = [given["query"], given["key"], given["value"], given.get("attn_mask", given.get("attn_bias"))]
    return Normal({}, inputs)


def _attention_layer(name: str, given: Arguments) -> Normal:
    data = given["query"] if "query" in given else given["src"]
    matrices = [given[each] for each in ("qkv_weight", "proj_weight")]
    biases = [given[each] for each in ("qkv_bias", "proj_bias")]
    rest = [given.get("mask")]
    hidden = 0
    if "src" in given:  # a whole encoder layer
        matrices += [given["ffn_weight_1"], given["ffn_weight_2"]]
        biases += [given["ffn_bias_1"], given["ffn_bias_2"]]
        rest += [given[f"norm_{part}_{place}"] for place in (1, 2) for part in ("weight", "bias")]
        hidden = given["ffn_weight_1"].shape[0]
    attrs = {
        "heads": given["num_head"] if "num_head" in given else given["num_heads"],
        "matrices": tuple(range(1, 1 + len(matrices))),
        "biases": tuple(range(1 + len(matrices), 1 + len(matrices) + len(biases))),
        "hidden": hidden,
    }
    return Normal(attrs, [data, *matrices, *biases, *rest])


NORMALISERS: dict[str, Normaliser] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "deform_conv": _deform_conv,
    "matmul": _matmul,
    "einsum": _einsum,
    "attention": _attention,
    "attention_layer": _attention_layer,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn": _recurrent,
    "pool": _pool,
    "resize": _resize,
    "grid_sample": _grid_sample,
}
