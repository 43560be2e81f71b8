"""Matrix products. Inputs: left, right, then an optional bias or addend."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_letters

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, names, op_rule
from sizeup.ops.formulas import bias_additions


@op_rule(
    "matmul",
    family="matmul",
    torch=names(
        "aten.linear aten.addmm aten.mm aten.bmm aten.baddbmm aten.addbmm aten.matmul aten.mv aten.addmv"
        " aten.dot aten.vdot aten.inner aten._scaled_mm aten._int_mm aten.mkldnn_linear"
        " aten._addmm_activation aten._weight_int8pack_mm aten._weight_int4pack_mm"
        " aten._weight_int4pack_mm_for_cpu quantized.linear quantized.linear_relu quantized.linear_leaky_relu"
        " quantized.linear_tanh quantized.linear_dynamic quantized.linear_relu_dynamic"
        " quantized.linear_dynamic_fp16 quantized.linear_relu_dynamic_fp16"
        " quantized.linear_dynamic_fp16_unpacked_weight quantized.matmul"
        " quantized.linear_with_input_q_dq_qweight_dq_output_fp32"
        " quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32"
    ),
    onnx=names(
        "MatMul Gemm MatMulInteger QLinearMatMul com.microsoft::FusedMatMul com.microsoft::FusedGemm"
        " com.microsoft::MatMulNBits com.microsoft::MatMulIntegerToFloat com.microsoft::DynamicQuantizeMatMul"
        " com.microsoft::QGemm com.microsoft::TransposeMatMul com.microsoft::MatMulBnb4"
    ),
    tflite=names("FULLY_CONNECTED BATCH_MATMUL STABLEHLO_DOT_GENERAL"),
    weight=1,
    elementwise=bias_additions(2),
    traits=(
        "activates",
        "blas",
    ),
)
def matmul(call: Call) -> Dim:
    """Output elements x the contracted dimensions of the left operand."""
    left = call.input(0).shape
    axes: tuple[int, ...] = call.attrs["contracted"]
    return call.output.elements * math.prod(left[axis] for axis in axes)


def _sparse_reads(call: Call) -> list[Dim]:
    """Only the stored elements of the sparse operand."""
    rest = [0 if value is None else value.elements for value in call.inputs[1:]]
    return [call.number("stored"), *rest]


@op_rule(
    "sparse_matmul",
    family="matmul",
    torch=names("aten._sparse_addmm aten._sparse_mm aten._sparse_sparse_matmul aten.sspaddmm aten.hspmm"),
    weight=0,
    elementwise=bias_additions(2),
    reads=_sparse_reads,
)
def sparse_matmul(call: Call) -> Dim:
    """Stored elements of the sparse operand x the columns (or rows) of the dense one."""
    return call.number("stored") * call.number("columns")


def _grouped_reads(call: Call) -> list[Dim]:
    """All inputs in full, but of the matrices at most one per row: `matrices_read`."""
    reads = [0 if value is None else value.elements for value in call.inputs]
    if "matrices_read" in call.attrs:
        reads[1] = call.number("matrices_read") * math.prod(call.input(1).shape[1:])
    return reads


@op_rule(
    "grouped_matmul",
    family="matmul",
    torch=names("aten._grouped_mm aten._scaled_grouped_mm transformers.grouped_mm_fallback"),
    weight=1,
    reads=_grouped_reads,
)
def grouped_matmul(call: Call) -> Dim:
    """Every row is multiplied by the matrix of its group: output elements x inner dimension."""
    left, right = call.input(0).shape, call.input(1).shape
    if len(left) == len(right) == 2:
        # The groups partition the inner dimension: together they sum over it once.
        return math.prod(call.output.shape[1:]) * left[-1]
    return call.output.elements * left[-1]


@op_rule(
    "bilinear",
    family="matmul",
    torch=names("aten.bilinear"),
    weight=2,
    elementwise=bias_additions(3),
    traits=("blas",),
)
def bilinear(call: Call) -> Dim:
    """x1^T W x2 per sample and output feature: x1^T W (both inner sizes), then a dot product with x2."""
    rows = math.prod(call.output.shape[:-1])
    return rows * call.input(2).elements + call.output.elements * call.input(1).shape[-1]


def _sum_of_one(call: Call) -> Dim:
    """With a single operand there is no product: one addition per element if an axis is summed."""
    terms: list[str] = call.attrs["terms"]
    summed = len(terms) == 1 and not set(terms[0]) <= set(call.attrs["result"])
    return call.input(0).elements if summed else 0


@op_rule("einsum", family="matmul", torch=names("aten.einsum"), onnx=names("Einsum"), elementwise=_sum_of_one)
def einsum(call: Call) -> Dim:
    """Operands contracted left to right; a pair costs the product of all sizes that it keeps or contracts."""
    operands: list[str] = call.attrs["terms"]
    sizes: dict[str, Dim] = {}
    for index, term in enumerate(operands):
        for letter, size in zip(term, call.input(index).shape, strict=True):
            # A size of 1 broadcasts to the other size.
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    total: Dim = 0
    left = operands[0]
    still_needed = [set(call.attrs["result"])]  # by how many operands are left
    for term in reversed(operands[2:]):
        still_needed.append(still_needed[-1].union(term))
    for right in operands[1:]:
        needed = still_needed.pop()
        # An axis of only one operand that is not needed later is summed before the product.
        shared = set(left) & set(right)
        axes = [letter for letter in dict.fromkeys(left + right) if letter in needed or letter in shared]
        total = total + math.prod(sizes[letter] for letter in axes)
        left = "".join(letter for letter in axes if letter in needed)
    return total


_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?\Z")


def is_equation(text: str) -> bool:
    """Whether a text is an einsum equation: letters, at most one ellipsis per term, one arrow."""
    return _EQUATION.match(text.replace(" ", "")) is not None


def letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Returns the letters of every operand, one letter per dimension, and those of the result."""
    compact = equation.replace(" ", "")
    left, arrow, result = compact.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum {equation!r} names {len(terms)} operands, but there are {len(ranks)}")
    unused = [letter for letter in ascii_letters if letter not in compact]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if any(count < 0 for count in hidden) or max(hidden, default=0) > len(unused):
        raise ValueError(f"einsum {equation!r} does not match operands of ranks {list(ranks)}")
    # Ellipses are aligned at the last dimension, so each is a suffix of the longest one.
    longest = "".join(unused[: max(hidden, default=0)])
    terms = [
        term.replace("...", longest[len(longest) - count :])
        for term, count in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        counts = Counter(letter for letter in left if letter.isalpha())
        result = "..." + "".join(sorted(letter for letter, count in counts.items() if count == 1))
    return terms, result.replace("...", longest)
