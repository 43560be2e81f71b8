"""Lower ATen calls to the inputs and attributes that cost rules expect, one function per op kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils._python_dispatch import _disable_current_modes

from sizeup.formats.torch.attention_lowering import attention_sizes
from sizeup.formats.torch.inputs import values_of
from sizeup.ops.handlers import Handlers
from sizeup.ops.matmul import letters

Arguments: TypeAlias = dict[str, Any]


class Lowering(NamedTuple):
    """The result of lowering a call: attributes, and inputs and op kind if they change."""

    attrs: dict[str, Any]
    inputs: list[Any] | None = None
    kind: str | None = None


# (operator name without namespace, arguments by name)
LoweringRule: TypeAlias = Callable[[str, Arguments], Lowering]
LOWERING_RULES = Handlers[LoweringRule]()
"""The lowering of each op kind that needs one."""


@LOWERING_RULES("conv")
def _conv(name: str, args: Arguments) -> Lowering:
    weight = args["weight"]
    attrs = {"groups": args.get("groups", 1), "kernel": tuple(weight.shape[2:])}
    # Only shown by explain; omitted defaults are left out.
    attrs |= {name: args[name] for name in ("stride", "padding", "dilation") if name in args}
    if args.get("transposed"):
        return Lowering({**attrs, "in_channels": weight.shape[0]}, kind="conv_transpose")
    return Lowering({**attrs, "out_channels": weight.shape[0]})


@LOWERING_RULES("conv_transpose")
def _conv_transpose(name: str, args: Arguments) -> Lowering:
    return _conv(name, {**args, "transposed": True})


@LOWERING_RULES("deform_conv")
def _deform_conv(name: str, args: Arguments) -> Lowering:
    inputs = [args["input"], args["weight"], args["bias"], args["offset"], args["mask"]]
    return Lowering({"out_channels": args["weight"].shape[0]}, inputs)


_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
_LAST = (-1,)
# Argument names of the factors, if the first argument is an addend.
_FACTORS = (("mat1", "mat2"), ("batch1", "batch2"), ("mat", "vec"))


@LOWERING_RULES("matmul", "sparse_matmul")
def _matmul(name: str, args: Arguments) -> Lowering:
    factors = next((pair for pair in _FACTORS if args.keys() >= {"self", *pair}), None)
    inputs = [args[operand] for operand in (*factors, "self")] if factors else None
    left, right, *addend = inputs or _tensors(args)
    if left.layout in _SPARSE or right.layout in _SPARSE:
        is_linear = name in ("linear", "inner")  # the right operand is transposed
        return _sparse_matmul(left, right, addend if args.get("beta", 1) else [], is_linear)
    if name == "addbmm":  # sums over the batch too
        return Lowering({"contracted": (0, -1)}, inputs)
    if name == "_scaled_mm":
        scales = [args["scale_a"], args["scale_b"]]
        return Lowering({"contracted": _LAST}, [args["self"], args["mat2"], args.get("bias"), *scales])
    return Lowering({"contracted": _LAST}, inputs)


def _tensors(args: Arguments) -> list[torch.Tensor]:
    return [value for value in args.values() if isinstance(value, torch.Tensor)]


def _sparse_matmul(
    left: torch.Tensor, right: torch.Tensor, addend: list[torch.Tensor], is_transposed: bool
) -> Lowering:
    """A product with one operand in a sparse layout; the other has `columns` vectors."""
    is_left = left.layout in _SPARSE
    sparse, dense = (left, right) if is_left else (right, left)
    inputs = [sparse, dense, *addend]
    if dense.layout in _SPARSE:
        reason = "a product of two sparse matrices depends on their indices"
        return Lowering({"invalid": reason}, inputs, "sparse_matmul")
    contracted = right.shape[-1] if is_transposed else left.shape[-1]
    batch = math.prod(sparse.shape[:-2])
    columns = math.prod(dense.shape) // max(contracted * batch, 1)
    values = values_of(sparse)
    if values is None:
        reason = "the number of stored elements of a sparse matrix depends on data"
        return Lowering({"invalid": reason}, inputs, "sparse_matmul")
    with _disable_current_modes():
        elements = values._values() if values.layout is torch.sparse_coo else values.values()
    return Lowering({"stored": elements.numel(), "columns": columns}, inputs, "sparse_matmul")


@LOWERING_RULES("grouped_matmul")
def _grouped_matmul(name: str, args: Arguments) -> Lowering:
    left, right = list(args.values())[:2]
    if (left.dim(), right.dim()) != (2, 3):
        return Lowering({})
    # Rows select matrices, as tokens select experts: at most one matrix is read per row.
    matrices = torch.sym_min(left.shape[0], right.shape[0])  # type: ignore[no-untyped-call]
    return Lowering({"matrices_read": matrices})


@LOWERING_RULES("einsum")
def _einsum(name: str, args: Arguments) -> Lowering:
    ranks = [len(tensor.shape) for tensor in args["tensors"]]
    terms, result = letters(args["equation"], ranks)
    if args.get("path") and len(ranks) > 2:
        return Lowering({}, kind="einsum_in_order")  # the cost depends on the contraction order
    return Lowering({"terms": terms, "result": result})


@LOWERING_RULES("lstm", "gru", "rnn")
def _recurrent(name: str, args: Arguments) -> Lowering:
    gates = {"lstm": 4, "gru": 3}.get(name.removesuffix("_cell"), 1)
    if name.endswith("_cell"):
        state = args["hx"] if isinstance(args["hx"], Sequence) else [args["hx"]]
        inputs = [args["input"], *state, *(args.get(name) for name in ("w_ih", "w_hh", "b_ih", "b_hh"))]
        attrs = {
            "rows": (0,),
            "matrices": (1 + len(state), 2 + len(state)),
            "units": args["w_ih"].shape[0] // gates,
        }
        return Lowering(attrs, inputs)
    packed = "data" in args
    sequence = args["data"] if packed else args["input"]
    state = args["hx"] if isinstance(args["hx"], Sequence) else [args["hx"]]
    lengths = [args["batch_sizes"]] if packed else []
    before = [sequence, *lengths, *state]
    parameters = args["params"]
    matrices = tuple(len(before) + i for i, parameter in enumerate(parameters) if len(parameter.shape) == 2)
    # Per layer and direction: input matrix, recurrent matrix, two biases, a projection.
    stride = 2 + 2 * bool(args["has_biases"])
    directions = args["num_layers"] * (1 + bool(args["bidirectional"]))
    stride += len(parameters) == directions * (stride + 1)
    units = sum(matrix.shape[0] // gates for matrix in parameters[::stride])
    rows = (0,) if packed else (0, 1)
    return Lowering({"rows": rows, "matrices": matrices, "units": units}, [*before, *parameters])


@LOWERING_RULES("pool")
def _pool(name: str, args: Arguments) -> Lowering:
    kernel = args["kernel_size"]
    spatial = next(int(character) for character in name if character.isdigit())
    sides = list(kernel) if isinstance(kernel, list | tuple) else [kernel] * spatial
    if len(sides) == 1:
        sides = sides * spatial
    return Lowering({"taps": math.prod(sides), "kernel": tuple(sides), "stride": args.get("stride")})


_TAPS = {"nearest": 1, "linear1d": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}


@LOWERING_RULES("resize")
def _resize(name: str, args: Arguments) -> Lowering:
    return Lowering({"taps": next(taps for part, taps in _TAPS.items() if part in name)})


@LOWERING_RULES("grid_sample")
def _grid_sample(name: str, args: Arguments) -> Lowering:
    mode = args.get("interpolation_mode", 0)  # 0 bilinear, 1 nearest, 2 bicubic
    spatial = len(args["input"].shape) - 2
    return Lowering({"taps": {0: 2**spatial, 1: 1}.get(mode, 4**spatial)})


@LOWERING_RULES("attention")
def _attention(name: str, args: Arguments) -> Lowering:
    inputs = [args["query"], args["key"], args["value"], args.get("attn_mask", args.get("attn_bias"))]
    return Lowering(attention_sizes(name, args), inputs)


@LOWERING_RULES("attention_layer")
def _attention_layer(name: str, args: Arguments) -> Lowering:
    data = args["query"] if "query" in args else args["src"]
    matrices = [args[key] for key in ("qkv_weight", "proj_weight")]
    biases = [args[key] for key in ("qkv_bias", "proj_bias")]
    rest = [args.get("mask")]
    hidden = 0
    if "src" in args:  # an encoder layer
        matrices += [args["ffn_weight_1"], args["ffn_weight_2"]]
        biases += [args["ffn_bias_1"], args["ffn_bias_2"]]
        rest += [args[f"norm_{part}_{index}"] for index in (1, 2) for part in ("weight", "bias")]
        hidden = args["ffn_weight_1"].shape[0]
    attrs = {
        "heads": args["num_head"] if "num_head" in args else args["num_heads"],
        "matrices": tuple(range(1, 1 + len(matrices))),
        "biases": tuple(range(1 + len(matrices), 1 + len(matrices) + len(biases))),
        "hidden": hidden,
    }
    return Lowering(attrs, [data, *matrices, *biases, *rest])


@LOWERING_RULES("batch_norm")
def _batch_norm(name: str, args: Arguments) -> Lowering:
    is_training = args.get("training") or name == "_batch_norm_with_update"
    return Lowering({}, kind="batch_norm_training" if is_training else None)


def _sides(matrix: torch.Tensor) -> dict[str, Any]:
    return {"shorter": min(matrix.shape[-2:]), "longer": max(matrix.shape[-2:])}


@LOWERING_RULES("triangular_solve")
def _triangular_solve(name: str, args: Arguments) -> Lowering:
    is_old = name == "triangular_solve"
    inputs = [args["A"], args["self"]] if is_old else [args["self"], args["B"]]
    return Lowering({"unit_diagonal": bool(args.get("unitriangular"))}, inputs)


@LOWERING_RULES("lu", "pseudo_inverse")
def _lu(name: str, args: Arguments) -> Lowering:
    return Lowering(_sides(_tensors(args)[0]))


@LOWERING_RULES("lu_solve", "cholesky_solve")
def _factor_first(name: str, args: Arguments) -> Lowering:
    """Solvers of a factored matrix, which older operators take after the right-hand side."""
    if name == "linalg_lu_solve":
        return Lowering({}, [args["LU"], args["B"], args["pivots"]])
    return Lowering({}, [*_tensors(args)[1:2], args["self"], *_tensors(args)[2:]])


@LOWERING_RULES("qr")
def _qr(name: str, args: Arguments) -> Lowering:
    matrix = _tensors(args)[0]
    rows, columns = matrix.shape[-2:]
    forms_q = name == "linalg_qr" and args.get("mode", "reduced") != "r"
    return Lowering({**_sides(matrix), "is_wide": bool(rows < columns), "forms_q": forms_q})


@LOWERING_RULES("symmetric_eigen", "eigen")
def _vectors(name: str, args: Arguments) -> Lowering:
    return Lowering(
        {"vectors": name == "linalg_eig" or (name == "_linalg_eigh" and args.get("compute_v", True))}
    )


@LOWERING_RULES("svd")
def _svd(name: str, args: Arguments) -> Lowering:
    vectors, is_full = (
        name == "_linalg_svd" and args.get("compute_uv", True),
        args.get("full_matrices", False),
    )
    return Lowering({**_sides(_tensors(args)[0]), "vectors": vectors, "is_full": is_full})
