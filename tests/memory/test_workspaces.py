"""Workspaces of PyTorch's CPU kernels, counted by hand; tests/formats/torch/test_peak.py measures them."""

from __future__ import annotations

from typing import Any

import pytest

from memory.memory_graphs import one_op
from sizeup.graph import Graph, Shape
from sizeup.memory import usage


def _conv(data: Shape, weight: Shape, result: Shape, *, groups: int = 1, **options: Any) -> Graph:
    return one_op("conv", "aten.conv2d", result, {"x": data, "w": weight}, groups=groups, **options)


def _transposed(threads: int) -> Graph:
    shapes: dict[str, Shape] = {"x": (2, 16, 4, 4), "w": (16, 32, 2, 2)}
    attrs: dict[str, Any] = {"groups": 1, "stride": (2, 2), "threads": threads}
    return one_op("conv_transpose", "aten.conv_transpose2d", (2, 32, 8, 8), shapes, **attrs)


def _attention(queries: int, keys: int, mask: dict[str, Shape] | None = None, threads: int = 1) -> Graph:
    query, key = (1, 2, queries, 8), (1, 2, keys, 8)
    shapes = {"q": query, "k": key, "v": key, **(mask or {})}
    return one_op("attention", "aten.scaled_dot_product_attention", query, shapes, threads=threads)


def _attention_layer(length: int) -> Graph:
    shape = (2, length, 8)
    return one_op("attention", "aten._native_multi_head_attention", shape, {"x": shape}, heads=4)


# Blocks of queries and keys as in torch's aten/src/ATen/native/cpu/FlashAttentionKernel.cpp: each thread has
# a block of scores, and per query two sums and a result of 8 numbers; all share one sum per query.
ATTENTION = [
    (_attention(20, 30), 2 * 20 + 20 * (30 + 2 + 8)),
    (_attention(191, 600), 2 * 191 + 32 * (512 + 2 + 8)),
    (_attention(192, 100), 2 * 192 + 64 * (100 + 2 + 8)),
    (_attention(767, 100), 2 * 767 + 64 * (100 + 2 + 8)),
    (_attention(768, 100), 2 * 768 + 256 * (100 + 2 + 8)),
    (_attention(20, 30, threads=3), 2 * 20 + 3 * 20 * (30 + 2 + 8)),
    (_attention(20, 30, {"mask": (20, 30)}), 2 * 20 + 20 * (30 + 2 + 8) + 20 * 30),
    # Queries, keys and values of 2 x 5 x 8 numbers twice; one of the six later holds the result.
    (_attention_layer(5), 5 * 2 * 5 * 8),
    # The scores of 4 heads are larger than the second three.
    (_attention_layer(16), 2 * 2 * 16 * 8 + 2 * 4 * 16 * 16),
]
NORMS = [
    # The normalized values before scaling, and the root of 3 rows of 5 x 16 numbers.
    (one_op("rms_norm", "aten.rms_norm", (3, 5, 16), {"x": (3, 5, 16), "w": (5, 16)}), 3 * 5 * 16 + 3),
    (one_op("rms_norm", "aten.rms_norm", (3, 5, 16), {"x": (3, 5, 16)}), 0),
    (one_op("layer_norm", "aten.layer_norm", (3, 5, 16), {"x": (3, 5, 16)}), 0),
    (one_op("layer_norm", "aten.layer_norm", (3, 16), {"x": (3, 16)}, layouts={0: "other"}), 3 * 16),
]
CONVOLUTIONS = [
    # Too small for oneDNN: a matrix with one column per position of the window.
    (_conv((1, 4, 8, 8), (6, 4, 3, 3), (1, 6, 6, 6)), 4 * 9 * 36),
    (_conv((2, 4, 8, 8), (6, 4, 3, 3), (2, 6, 6, 6), simd_lanes=0), 2 * 4 * 9 * 36),
    # Without oneDNN, the results of groups are concatenated at the end.
    (_conv((1, 4, 8, 8), (6, 2, 3, 3), (1, 6, 6, 6), groups=2, simd_lanes=0), 6 * 36),
    # One thread multiplies matrices of a kernel of 1 x 1 directly, up to 15 images.
    (_conv((15, 16, 8, 8), (16, 16, 1, 1), (15, 16, 8, 8)), 0),
    # oneDNN, for 16 images or two threads: copies of data and filter in blocks of 16 channels, then of the
    # result. The output takes the place of the copies.
    (_conv((16, 16, 8, 8), (16, 16, 1, 1), (16, 16, 8, 8)), 16 * 16 * 64 + 16 * 16),
    (_conv((2, 16, 8, 8), (16, 16, 1, 1), (2, 16, 8, 8), threads=2), 2 * 16 * 64 + 16 * 16),
    # One image of more than 20,480 numbers goes to oneDNN, too, which copies the result.
    (_conv((1, 1, 2, 10_240), (16, 1, 2, 3), (1, 16, 1, 10_238)), 2 * 3 * 10_238),
    (_conv((1, 1, 3, 6_827), (16, 1, 3, 3), (1, 16, 1, 6_825)), 16 * 6_825),
    # 20 channels are padded to 32, unless there are several groups of several channels.
    (_conv((2, 20, 8, 8), (20, 20, 3, 3), (2, 20, 6, 6)),
     2 * 32 * 36 + (2 * 32 * 64 + 32 * 32 * 9 - 2 * 20 * 36)),
    (_conv((2, 20, 8, 8), (20, 10, 3, 3), (2, 20, 6, 6), groups=2), 2 * 20 * 64 + 20 * 10 * 9),
    (_conv((2, 20, 8, 8), (20, 1, 3, 3), (2, 20, 6, 6), groups=20),
     2 * 32 * 36 + (2 * 32 * 64 + 32 * 9 - 2 * 20 * 36)),
    # Data with fewer channels than lanes is not copied; with 8 lanes, that holds for 1 or 3 channels. If the
    # filter is smaller than the result, the copy of the result counts.
    (_conv((2, 15, 8, 8), (16, 15, 3, 3), (2, 16, 6, 6)), 16 * 15 * 9),
    (_conv((2, 16, 8, 8), (16, 16, 3, 3), (2, 16, 6, 6)), 2 * 16 * 64 + 16 * 16 * 9),
    (_conv((2, 3, 8, 8), (8, 3, 3, 3), (2, 8, 6, 6), simd_lanes=8), 2 * 8 * 36),
    (_conv((2, 4, 8, 8), (8, 4, 3, 3), (2, 8, 6, 6), simd_lanes=8), 2 * 8 * 64 + 8 * 8 * 9),
    # Each thread gathers what a kernel of 1 x 1 with a stride reads, if the stride divides the sides.
    (_conv((2, 32, 8, 8), (16, 32, 1, 1), (2, 16, 4, 4), stride=(2, 2), threads=3),
     2 * 32 * 64 + 16 * 32 + 3 * 32 * 16),
    (_conv((2, 16, 7, 8), (16, 16, 1, 1), (2, 16, 4, 4), stride=(2, 2)), 2 * 16 * 56 + 16 * 16),
    # One dimension.
    (_conv((2, 16, 10), (16, 16, 3), (2, 16, 8), stride=(1,)), 2 * 16 * 10 + 16 * 16 * 3),
    # A transposed convolution copies its result twice.
    (_transposed(threads=1), 2 * 2 * 32 * 64),
    (_transposed(threads=2), 2 * 2 * 32 * 64),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "numbers"), ATTENTION + NORMS + CONVOLUTIONS)
def test_a_kernel_has_the_workspace_of_its_algorithm(graph: Graph, numbers: int) -> None:
    memory = usage(graph, use_recorded_run=True)
    listed = [each.bytes or 0 for each in memory.peak_tensors if each.name.startswith("workspace of ")]
    assert sum(listed) == 4 * numbers
    assert memory.unmodeled == ()


@pytest.mark.parametrize(
    ("kind", "source", "is_modeled"),
    [("relu", "aten.relu", True), ("pool", "aten.max_pool2d", True), ("rms_norm", "aten.rms_norm", False)],
)
def test_other_dtypes_than_float32_are_unmodeled_if_their_kernels_differ(
    kind: str, source: str, is_modeled: bool
) -> None:
    """Most kernels have no workspace in any dtype, and the indices of a pool do not depend on it."""
    graph = one_op(kind, source, (1, 3, 4, 4), {"x": (1, 3, 4, 4)}, "float64")
    assert usage(graph, use_recorded_run=True).unmodeled == (() if is_modeled else (source,))


def test_transposed_convolutions_of_many_threads_are_unmodeled() -> None:
    memory = usage(_transposed(threads=3), use_recorded_run=True)
    assert memory.unmodeled == ("aten.conv_transpose2d",)
    assert [each.name for each in memory.peak_tensors] == ["y", "w", "x"]  # no workspace
