"""Solvers and decompositions. Inputs: the matrix (..., m, n), then the right-hand side.

Operation counts of direct methods are those of LAPACK Working Note 41 (Blackford and Dongarra, "Installation
Guide for LAPACK", appendix on operation counts): its additions are our MACs, because each follows a
multiplication, and its remaining multiplications, divisions and roots are elementwise. Eigenvalues and
singular values come from iterations, whose number depends on data; their counts are half the flops that Golub
and Van Loan ("Matrix Computations", 4th edition) give for typical matrices.
"""

from __future__ import annotations

import math

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, names, op_rule


def _batch(call: Call) -> Dim:
    """The number of matrices."""
    return math.prod(call.input(0).shape[:-2])


def _order(call: Call) -> Dim:
    """The number of columns of a square matrix."""
    return call.input(0).shape[-1]


def _sides(call: Call) -> tuple[Dim, Dim]:
    """The shorter and the longer side of a matrix."""
    return call.number("shorter"), call.number("longer")


def _lu_macs(shorter: Dim, longer: Dim) -> Dim:
    # GETRF: the sum of (m - j)(n - j) over the steps j.
    return shorter * (shorter - 1) * (3 * longer - shorter - 1) // 6


def _lu_divisions(shorter: Dim, longer: Dim) -> Dim:
    return shorter * (2 * longer - shorter + 1) // 2


def _square_lu_divisions(call: Call) -> Dim:
    return _batch(call) * _lu_divisions(_order(call), _order(call))


@op_rule(
    "triangular_solve",
    family="linalg",
    torch=names("aten.linalg_solve_triangular aten.triangular_solve"),
    elementwise=lambda call: 0 if call.attrs["unit_diagonal"] else call.output.elements,
)
def triangular_solve(call: Call) -> Dim:
    """(n - 1) / 2 MACs per element of the solution, 1 division each unless the diagonal is 1 (TRSM)."""
    return call.output.elements * (_order(call) - 1) // 2


@op_rule(
    "lu",
    family="linalg",
    torch=names("aten.linalg_lu aten.linalg_lu_factor_ex aten._lu_with_info"),
    elementwise=lambda call: _batch(call) * _lu_divisions(*_sides(call)),
)
def lu(call: Call) -> Dim:
    """LU factorization, k = min(m, n), l = max(m, n): k (k - 1) (3 l - k - 1) / 6 MACs (GETRF)."""
    return _batch(call) * _lu_macs(*_sides(call))


@op_rule(
    "lu_solve",
    family="linalg",
    torch=names("aten.linalg_lu_solve aten.lu_solve"),
    elementwise=lambda call: call.output.elements,
)
def lu_solve(call: Call) -> Dim:
    """Two triangular solves, one with a diagonal of 1: n - 1 MACs per element of the solution (GETRS)."""
    return call.output.elements * (_order(call) - 1)


@op_rule(
    "solve",
    family="linalg",
    torch=names("aten._linalg_solve_ex"),
    elementwise=lambda call: _square_lu_divisions(call) + call.output.elements,
)
def solve(call: Call) -> Dim:
    """LU factorization, then n - 1 MACs per element of the solution (GESV)."""
    order = _order(call)
    return _batch(call) * _lu_macs(order, order) + call.output.elements * (order - 1)


@op_rule(
    "inverse",
    family="linalg",
    torch=names("aten.linalg_inv_ex"),
    elementwise=lambda call: _square_lu_divisions(call) + 2 * call.input(0).elements,
)
def inverse(call: Call) -> Dim:
    """Inverse of a square matrix through its LU factorization: n (n - 1)^2 MACs (GETRF and GETRI)."""
    order = _order(call)
    return _batch(call) * order * (order - 1) ** 2


@op_rule(
    "determinant",
    family="linalg",
    torch=names("aten._linalg_det aten._linalg_slogdet"),
    onnx=names("Det"),
    elementwise=lambda call: _square_lu_divisions(call) + _batch(call) * _order(call),
)
def determinant(call: Call) -> Dim:
    """LU factorization, then the product (or sum of logarithms) of the diagonal."""
    order = _order(call)
    return _batch(call) * _lu_macs(order, order)


@op_rule(
    "cholesky",
    family="linalg",
    torch=names("aten.linalg_cholesky_ex aten.cholesky"),
    elementwise=lambda call: _batch(call) * _order(call) * (_order(call) + 1) // 2,
)
def cholesky(call: Call) -> Dim:
    """Cholesky factorization: (n - 1) n (n + 1) / 6 MACs (POTRF)."""
    order = _order(call)
    return _batch(call) * (order - 1) * order * (order + 1) // 6


@op_rule(
    "cholesky_solve",
    family="linalg",
    torch=names("aten.cholesky_solve"),
    elementwise=lambda call: 2 * call.output.elements,
)
def cholesky_solve(call: Call) -> Dim:
    """Two triangular solves: n - 1 MACs per element of the solution (POTRS)."""
    return call.output.elements * (_order(call) - 1)


@op_rule(
    "cholesky_inverse",
    family="linalg",
    torch=names("aten.cholesky_inverse"),
    elementwise=lambda call: _batch(call) * _order(call) * (3 * _order(call) + 1) // 2,
)
def cholesky_inverse(call: Call) -> Dim:
    """Inverse from a Cholesky factor: n (n - 1) (2 n - 1) / 6 MACs (POTRI)."""
    order = _order(call)
    return _batch(call) * order * (order - 1) * (2 * order - 1) // 6


def _form_q(rows: Dim, columns: Dim, reflectors: Dim) -> Dim:
    # ORGQR: k (2 m n + n - m + 1/3 + k (2 k / 3 - m - n)).
    inner = 6 * rows * columns + 3 * columns - 3 * rows + 1
    return reflectors * (inner + reflectors * (2 * reflectors - 3 * rows - 3 * columns)) // 3


def _form_q_elementwise(rows: Dim, columns: Dim, reflectors: Dim) -> Dim:
    return reflectors * (rows + columns - reflectors - 2)


def _qr_elementwise(call: Call) -> Dim:
    rows = call.input(0).shape[-2]
    rank, longer = _sides(call)
    total = rank * (longer + 3)
    if call.attrs["forms_q"]:
        total = total + _form_q_elementwise(rows, call.output.shape[-1], rank)
    return _batch(call) * total


@op_rule("qr", family="linalg", torch=names("aten.linalg_qr aten.geqrf"), elementwise=_qr_elementwise)
def qr(call: Call) -> Dim:
    """QR factorization by Householder reflections (GEQRF), and their product if Q is returned (ORGQR)."""
    rank, longer = _sides(call)
    if call.attrs["is_wide"]:
        total = rank * (rank * (6 * longer - 3 - 2 * rank) + 6 * longer + 5) // 6
    else:
        total = rank * (rank * (6 * longer + 3 - 2 * rank) + 5) // 6
    if call.attrs["forms_q"]:
        total = total + _form_q(call.input(0).shape[-2], call.output.shape[-1], rank)
    return _batch(call) * total


def _reflections(call: Call) -> tuple[Dim, Dim, Dim]:
    rows, columns = call.input(0).shape[-2:]
    return rows, columns, call.input(1).shape[-1]


@op_rule(
    "householder_product",
    family="linalg",
    torch=names("aten.linalg_householder_product"),
    elementwise=lambda call: _batch(call) * _form_q_elementwise(*_reflections(call)),
)
def householder_product(call: Call) -> Dim:
    """The product of Householder reflections as a matrix (ORGQR)."""
    return _batch(call) * _form_q(*_reflections(call))


@op_rule("symmetric_eigen", family="linalg", torch=names("aten._linalg_eigh aten.linalg_eigvalsh"))
def symmetric_eigen(call: Call) -> Dim:
    """Symmetric QR, estimated: 9 n^3 / 2 MACs, or 2 n^3 / 3 without vectors (Golub and Van Loan 8.3)."""
    cube = _order(call) ** 3
    return _batch(call) * (9 * cube // 2 if call.attrs["vectors"] else 2 * cube // 3)


@op_rule("eigen", family="linalg", torch=names("aten.linalg_eig aten._linalg_eigvals aten.linalg_eigvals"))
def eigen(call: Call) -> Dim:
    """Unsymmetric QR, estimated: 25 n^3 / 2 MACs, or 5 n^3 without vectors (Golub and Van Loan 7.5)."""
    cube = _order(call) ** 3
    return _batch(call) * (25 * cube // 2 if call.attrs["vectors"] else 5 * cube)


def _thin_svd(shorter: Dim, longer: Dim) -> Dim:
    return 7 * longer * shorter**2 + 4 * shorter**3


@op_rule("svd", family="linalg", torch=names("aten._linalg_svd aten.linalg_svdvals"))
def svd(call: Call) -> Dim:
    """SVD, k = min(m, n), l = max(m, n), estimated: 7 l k^2 + 4 k^3 MACs (Golub and Van Loan 8.6).

    With all l vectors of the longer side: (4 l^2 k + 8 l k^2 + 9 k^3) / 2 MACs; singular values only:
    2 l k^2 - 2 k^3 / 3.
    """
    shorter, longer = _sides(call)
    if not call.attrs["vectors"]:
        return _batch(call) * ((6 * longer * shorter**2 - 2 * shorter**3) // 3)
    if call.attrs["is_full"]:
        return _batch(call) * ((4 * longer**2 * shorter + 8 * longer * shorter**2 + 9 * shorter**3) // 2)
    return _batch(call) * _thin_svd(shorter, longer)


@op_rule("pseudo_inverse", family="linalg", torch=names("aten.linalg_pinv"))
def pseudo_inverse(call: Call) -> Dim:
    """SVD with vectors, estimated, then the product of the factors: k MACs per output element."""
    shorter, longer = _sides(call)
    return _batch(call) * _thin_svd(shorter, longer) + call.output.elements * shorter
