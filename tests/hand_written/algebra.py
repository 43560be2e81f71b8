"""Products of tensors, solvers, sparse and complex numbers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hand_written.case import Function, case, weight


def of(function: Any) -> Any:
    """A constructor of a module that is a plain function of its inputs."""
    return lambda: Function(lambda m, *inputs: function(*inputs))


def flow(m: Any, x: Tensor) -> Any:
    """A linear flow: the transformed sample and its log-determinant."""
    return x @ m.weight, torch.linalg.slogdet(m.weight + x.mean())[1]


def gaussian_process(a: Tensor, y: Tensor) -> Any:
    """The mean of a process: K = L L^T, then two solves."""
    return torch.cholesky_solve(y, torch.linalg.cholesky(a @ a.T))


def chunked_delta(attention: Tensor, values: Tensor) -> Any:
    """Qwen3-Next: (I + A)^-1 V for chunks of 4 tokens by a triangular solve with a diagonal of 1."""
    return torch.linalg.solve_triangular(attention.tril(), values, upper=False, unitriangular=True)


def fourier_convolution(m: Any, x: Tensor) -> Any:
    return torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(m.kernel, n=16), n=16)


def complex_attention(m: Any, q: Tensor, k: Tensor) -> Any:
    return torch.einsum("qd,kd->qk", q, k.conj()).real.softmax(-1)


ADJACENCY = torch.eye(5).to_sparse()  # 5 stored elements
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the layout is in beta
    COMPRESSED = torch.tensor([[0.0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]]).to_sparse_csr()

CASES = [
    case("matrix times vector", of(torch.mv), (5, 7), (7,), macs=35),
    case("dot product", of(torch.dot), (9,), (9,), macs=9),
    case("broadcast on both sides", of(torch.matmul), (2, 1, 3, 4), (5, 4, 6), macs=2 * 5 * 3 * 6 * 4),
    case("batch times one matrix", of(torch.matmul), (7, 3, 4), (4, 2), macs=7 * 3 * 2 * 4),
    case("product with an addend", of(torch.baddbmm), (2, 3, 5), (2, 3, 4), (2, 4, 5), macs=2 * 15 * 4),
    case("outer product", of(torch.outer), (3,), (5,), macs=0),
    case("outer product added to a matrix", of(torch.addr), (3, 5), (3,), (5,), macs=0),
    case("Kronecker product", of(torch.kron), (2, 3), (4, 5), macs=0),
    case("inner product over the last axis", of(torch.inner), (2, 3, 4), (5, 4), macs=2 * 3 * 5 * 4),
    case(
        "tensordot over two axes",
        of(lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1]))),
        (2, 3, 4),
        (3, 4, 5),
        macs=2 * 5 * 12,
    ),
    case(
        "einsum over a batch",
        of(lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
        (3, 2, 4),
        (3, 4, 5),
        macs=3 * 40,
    ),
    case(
        "einsum of three operands, left to right",
        of(lambda a, b, c: torch.einsum("ab,bc,cd->ad", a, b, c)),
        (2, 3),
        (3, 4),
        (4, 5),
        macs=2 * 3 * 4 + 2 * 4 * 5,
    ),
    case(
        "einsum as a diagonal product",
        of(lambda a, b: torch.einsum("ij,ij->i", a, b)),
        (4, 6),
        (4, 6),
        macs=24,
    ),
    case("einsum as an outer product", of(lambda a, b: torch.einsum("i,j->ij", a, b)), (4,), (6,), macs=24),
    case("einsum as a trace", of(lambda a: torch.einsum("ii->", a)), (5, 5), macs=0),
    case(
        "bilinear with bias",
        lambda: nn.Bilinear(3, 4, 5),
        (2, 3),
        (2, 4),
        macs=2 * 5 * (3 * 4 + 4),
        params=60 + 5,
    ),
    case("elementwise product and sum", of(lambda a, b: (a * b).sum(-1)), (6, 7), (6, 7), macs=0),
    case("distances of pairs", of(torch.cdist), (4, 3), (5, 3), macs=0),
    case(
        "distances by a product",
        of(lambda a, b: a.square().sum(1)[:, None] - 2 * a @ b.T),
        (4, 3),
        (5, 3),
        macs=60,
    ),
    case(
        "fifth power of a matrix", of(lambda a: torch.linalg.matrix_power(a, 5)), (4, 4), macs=3 * 64
    ),  # 2, 4, 5
    case("Gram matrix of features", of(lambda x: x.flatten(2) @ x.flatten(2).mT), (1, 3, 4, 4), macs=9 * 16),
    case("complex product", of(torch.matmul), ((2, 3), "complex64"), ((3, 4), "complex64"), macs=4 * 24),
    case("complex product of doubles", of(torch.bmm), *[((2, 3, 3), "complex128")] * 2, macs=4 * 54),
    case(
        "complex scores",
        lambda: Function(complex_attention),
        ((3, 4), "complex64"),
        ((5, 4), "complex64"),
        macs=4 * 3 * 5 * 4,
    ),
    case("complex elementwise product", of(torch.mul), *[((4, 5), "complex64")] * 2, macs=0),
    case(
        "convolution by Fourier transforms",
        lambda: Function(fourier_convolution, kernel=weight(3, 8)),
        (2, 3, 8),
        macs=0,  # the transforms are unknown, the product of spectra is elementwise
        params=24,
        unknown="aten._fft_r2c aten._fft_c2r",
    ),
    # Row i of a system with diagonal 1 subtracts i products per column: 0 + 1 + 2 + 3.
    case("chunks of a delta rule", of(chunked_delta), (2, 3, 4, 4), (2, 3, 4, 5), macs=6 * 5 * 6),
    case(
        "triangular solve from the right",
        of(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False)),
        (3, 3),
        (7, 3),
        macs=7 * 3,
    ),
    case("linear system", of(torch.linalg.solve), (3, 3), (3, 2), macs=(4 + 1) + 2 * (3 + 3)),
    case("inverse", of(torch.linalg.inv), (2, 4, 4), macs=2 * 4 * 9),  # n (n - 1)^2
    case(
        "Gaussian process",
        of(gaussian_process),
        (4, 4),
        (4, 2),
        # The kernel matrix, its factor (3 + 4 + 3), and per column 2 x (1 + 2 + 3).
        macs=64 + 10 + 2 * 12,
    ),
    case("linear flow", lambda: Function(flow, weight=weight(3, 3)), (5, 3), macs=45 + 5, params=9),
    case("determinants", of(torch.linalg.det), (6, 2, 2), macs=6),
    # 9 n^3 flops for vectors, 4 n^3 / 3 without.
    case("symmetric eigenvectors", of(lambda a: torch.linalg.eigh(a)[1]), (6, 6), macs=9 * 216 // 2),
    case("symmetric eigenvalues", of(torch.linalg.eigvalsh), (6, 6), macs=2 * 216 // 3),
    case(
        "whitening by an SVD",  # 14 m n^2 + 8 n^3 flops, then 8x3 times 3x3
        of(lambda x: x @ torch.linalg.svd(x, full_matrices=False)[2]),
        (8, 3),
        macs=7 * 8 * 9 + 4 * 27 + 8 * 9,
    ),
    case(
        "graph layer with a sparse adjacency",
        lambda: Function(
            lambda m, x: torch.sparse.mm(ADJACENCY, m.layer(x)), layer=nn.Linear(3, 4, bias=False)
        ),
        (5, 3),
        macs=5 * 12 + 5 * 4,
        params=12,
    ),
    case("sparse input", of(lambda a, x: a @ x), ADJACENCY, torch.zeros(5, 6), macs=5 * 6),
    case("compressed rows", of(lambda x: COMPRESSED @ x), (4, 7), macs=4 * 7),
    case("sparse times vector", of(lambda x: COMPRESSED @ x), (4,), macs=4),
    case(
        "sparse product with an addend",
        of(lambda c, x: torch.addmm(c, ADJACENCY, x)),
        (5, 2),
        (5, 2),
        macs=10,
    ),
    case("test of all elements", of(lambda x: torch._is_all_true(x > 0)), (3, 4), macs=0),
    case("test of any element", of(lambda x: torch._is_any_true(x > 0)), (3, 4), macs=0),
    case("cosine similarity", of(functional.cosine_similarity), (4, 8), (4, 8), macs=0),
]
