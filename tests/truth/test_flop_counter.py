"""Products against a second counter: torch's own, on real tensors, where it takes operators apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import sizeup

Shapes = Sequence[tuple[int, ...]]


class Wrapped(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)


CALLS: dict[str, tuple[Callable[..., Tensor], Shapes]] = {
    "conv1d": (functional.conv1d, [(2, 4, 20), (6, 4, 5), (6,)]),
    "conv1d of one sample": (functional.conv1d, [(4, 20), (6, 4, 5)]),
    "conv2d same": (lambda x, w: functional.conv2d(x, w, padding="same"), [(1, 4, 9, 7), (6, 4, 3, 3)]),
    "conv2d strided, dilated, grouped": (
        lambda x, w, b: functional.conv2d(x, w, b, stride=(2, 1), padding=(3, 2), dilation=2, groups=2),
        [(2, 4, 16, 15), (6, 2, 3, 5), (6,)],
    ),
    "conv2d depthwise": (lambda x, w: functional.conv2d(x, w, groups=8), [(1, 8, 9, 9), (16, 1, 3, 3)]),
    "conv3d": (functional.conv3d, [(1, 2, 6, 7, 8), (3, 2, 2, 3, 3), (3,)]),
    "conv_transpose1d": (lambda x, w: functional.conv_transpose1d(x, w, stride=3), [(2, 4, 9), (4, 5, 3)]),
    "conv_transpose2d grouped": (
        lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1, groups=2),
        [(1, 4, 5, 6), (4, 3, 3, 3)],
    ),
    "conv_transpose3d": (functional.conv_transpose3d, [(1, 2, 3, 4, 5), (2, 3, 2, 2, 2)]),
    "linear": (functional.linear, [(3, 5, 8), (7, 8), (7,)]),
    "linear of a vector": (functional.linear, [(8,), (7, 8)]),
    "mm": (torch.mm, [(3, 4), (4, 5)]),
    "bmm": (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    "addmm": (torch.addmm, [(5,), (3, 4), (4, 5)]),
    "baddbmm": (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
    "matmul broadcast": (torch.matmul, [(6, 1, 3, 4), (2, 4, 5)]),
    "matmul of matrix and batch": (torch.matmul, [(3, 4), (2, 4, 5)]),
    "matmul of batch and matrix": (torch.matmul, [(2, 3, 4), (4, 5)]),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), [(3, 4, 5), (4, 5, 6)]),
    "chain": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [(2, 30), (30, 4), (4, 5)]),
    "einsum of a batch": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), [(2, 3, 4), (2, 4, 5)]),
    "einsum of heads": (lambda a, b: torch.einsum("blhd,bmhd->bhlm", a, b), [(2, 3, 4, 5), (2, 6, 4, 5)]),
    "einsum with dots": (lambda a, b: torch.einsum("...ij,jk", a, b), [(2, 6, 3, 4), (4, 5)]),
    "einsum of three": (lambda a, b, c: torch.einsum("ab,bc,cd->ad", a, b, c), [(2, 3), (3, 4), (4, 5)]),
    "einsum with a sum before": (lambda a, b: torch.einsum("ij,jkl->ik", a, b), [(2, 3), (3, 4, 7)]),
    "attention": (functional.scaled_dot_product_attention, [(2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 5)]),
    "attention with a mask": (functional.scaled_dot_product_attention, [(1, 2, 6, 8)] * 3 + [(6, 6)]),
    "grouped attention": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [(1, 8, 6, 4), (1, 2, 9, 4), (1, 2, 9, 4)],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_macs_are_half_the_flops_of_torchs_counter(name: str) -> None:
    function, shapes = CALLS[name]
    tensors = [torch.zeros(shape) for shape in shapes]
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        function(*tensors)
    cost = sizeup.count(Wrapped(function), inputs=tensors)
    assert cost.known.all()
    assert 2 * cost.total_macs == counter.get_total_flops() > 0
