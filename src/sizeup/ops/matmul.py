"""Matrix products. Inputs: left, right, then a bias or an addend where there is one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_letters

from sizeup.graph import Dim
from sizeup.ops.formulas import bias_additions
from sizeup.ops.rule import Call, names, op_rule


@op_rule(
    "matmul",
    family="matmul",
    torch=names(
        "aten.linear aten.addmm aten.mm aten.bmm aten.baddbmm aten.addbmm aten.matmul aten.mv aten.addmv"
        " aten.dot aten.vdot aten.inner aten._scaled_mm aten._int_mm aten.mkldnn_linear"
        " aten._addmm_activation"
    ),
    onnx=names(
        "MatMul Gemm MatMulInteger QLinearMatMul com.microsoft::FusedMatMul com.microsoft::FusedGemm"
        " com.microsoft::MatMulNBits com.microsoft::MatMulIntegerToFloat com.microsoft::DynamicQuantizeMatMul"
        " com.microsoft::QGemm com.microsoft::TransposeMatMul com.microsoft::MatMulBnb4"
    ),
    tflite=names("FULLY_CONNECTED BATCH_MATMUL STABLEHLO_DOT_GENERAL"),
    weight=1,
    elementwise=bias_additions(2),
)
def matmul(call: Call) -> Dim:
    """Each output number sums over the axes that the left operand gives up."""
    left = call.input(0).shape
    axes: tuple[int, ...] = call.attrs["contracted"]
    return call.output.elements * math.prod(left[axis] for axis in axes)


@op_rule("outer", family="matmul", torch=names("aten.outer aten.ger aten.addr"))
def outer(call: Call) -> Dim:
    """Each output number is one product."""
    return call.output.elements


@op_rule(
    "grouped_matmul",
    family="matmul",
    torch=names("aten._grouped_mm aten._scaled_grouped_mm transformers.grouped_mm_fallback"),
    weight=1,
)
def grouped_matmul(call: Call) -> Dim:
    """Every row meets one group's matrix: output numbers x the shared inner dimension."""
    left, right = call.input(0).shape, call.input(1).shape
    if len(left) == len(right) == 2:
        # The groups share out the inner dimension: together they sum over it once.
        return math.prod(call.output.shape[1:]) * left[-1]
    return call.output.elements * left[-1]


@op_rule("bilinear", family="matmul", torch=names("aten.bilinear"), weight=2, elementwise=bias_additions(3))
def bilinear(call: Call) -> Dim:
    """For each sample and output feature x1^T W x2: first x1^T W (both inner sizes), then a dot with x2."""
    rows = math.prod(call.output.shape[:-1])
    return rows * call.input(2).elements + call.output.elements * call.input(1).shape[-1]


def _sum_of_one(call: Call) -> Dim:
    """With a single operand there is no product: one addition for each number where an axis is summed."""
    terms: list[str] = call.attrs["terms"]
    summed = len(terms) == 1 and not set(terms[0]) <= set(call.attrs["result"])
    return call.input(0).elements if summed else 0


@op_rule("einsum", family="matmul", torch=names("aten.einsum"), onnx=names("Einsum"), elementwise=_sum_of_one)
def einsum(call: Call) -> Dim:
    """Operands contracted left to right; each pair costs the product of all sizes that it keeps or shares."""
    operands: list[str] = call.attrs["terms"]
    sizes: dict[str, Dim] = {}
    for index, term in enumerate(operands):
        for letter, size in zip(term, call.input(index).shape, strict=True):
            # A size of one broadcasts; keep the other.
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    total: Dim = 0
    left = operands[0]
    for index, right in enumerate(operands[1:], start=2):
        wanted = set(call.attrs["result"]).union(*operands[index:])
        # An axis of one operand that nobody wants is summed before the product.
        shared = set(left) & set(right)
        touched = [each for each in dict.fromkeys(left + right) if each in wanted or each in shared]
        total = total + math.prod(sizes[letter] for letter in touched)
        left = "".join(letter for letter in touched if letter in wanted)
    return total


_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?\Z")


def is_equation(text: str) -> bool:
    """Whether a text has the form of an equation: letters, at most one ellipsis a term, one arrow."""
    return _EQUATION.match(text.replace(" ", "")) is not None


def letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand, one a dimension, and those of the result."""
    compact = equation.replace(" ", "")
    left, arrow, result = compact.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum {equation!r} names {len(terms)} operands, {len(ranks)} are given")
    spare = [each for each in ascii_letters if each not in compact]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if any(each < 0 for each in hidden) or max(hidden, default=0) > len(spare):
        raise ValueError(f"einsum {equation!r} does not match operands of ranks {list(ranks)}")
    # Ellipses align at their last dimension, so each takes the end of one common run.
    widest = "".join(spare[: max(hidden, default=0)])
    terms = [
        term.replace("...", widest[len(widest) - each :]) for term, each in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        seen = Counter(each for each in left if each.isalpha())
        result = "..." + "".join(sorted(each for each, times in seen.items() if times == 1))
    return terms, result.replace("...", widest)
