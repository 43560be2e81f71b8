"""Bounds of activation memory for unpublished planners: by hand, and against a walk over the definition."""

from __future__ import annotations

import random

import pytest

from memory.memory_graphs import BYTE, branches
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.memory import activation_bounds, usage


def test_bounds_of_two_branches_are_those_of_a_hand_count() -> None:
    # x 100 B; a, b 1,000 B; a2, b2, out 10 B. Between the second and third op, a and b exist, and x does not.
    bounds = activation_bounds(branches())
    assert bounds.low_bytes == 2000
    # While b is computed, x exists too: 2,100 B. No op has weights, so no kernel copies.
    assert bounds.high_bytes == 2100


def _convolution(padding: str) -> Graph:
    """8 x 8 x 3 to 8 x 8 x 4 by 3 x 3 windows, in int8."""
    builder = GraphBuilder("convolution", format="tflite")
    x = builder.input("x", (1, 8, 8, 3), BYTE)
    weights = builder.tensor("w", (4, 3, 3, 3), BYTE, Constant("parameter"))
    side = 8 if padding == "same" else 6
    y = builder.tensor("y", (1, side, side, 4), BYTE)
    attrs = {"kernel": (3, 3), "stride": (1, 1), "padding": padding, "groups": 1, "out_channels": 4}
    builder.op("conv", [x, weights], [y], attrs)
    builder.outputs.append(y)
    return builder.freeze()


def test_a_kernel_may_copy_its_padded_input_and_its_weights_in_16_bits() -> None:
    # Input 192 B, output 256 B, padded input 10 x 10 x 3 = 300 B, 108 weights of 2 B.
    bounds = activation_bounds(_convolution("same"))
    assert bounds.low_bytes == 256
    assert bounds.high_bytes in (192 + 256 + 300 + 216, 192 + 256 + 301 + 216)


def test_without_padding_the_input_is_not_copied() -> None:
    assert activation_bounds(_convolution("valid")) == (192, 192 + 144 + 216)


def _with_pool(stride: int) -> Graph:
    """A convolution to 8 x 8 x 4 that only a pool with 2 x 2 windows reads."""
    builder = GraphBuilder("pooled", format="tflite")
    x = builder.input("x", (1, 8, 8, 1), BYTE)
    weights = builder.tensor("w", (4, 1, 1, 1), BYTE, Constant("parameter"))
    y = builder.tensor("y", (1, 8, 8, 4), BYTE)
    side = 8 // stride if stride > 1 else 7
    pooled = builder.tensor("p", (1, side, side, 4), BYTE)
    attrs = {"kernel": (1, 1), "stride": (1, 1), "padding": "valid", "groups": 1, "out_channels": 4}
    builder.op("conv", [x, weights], [y], attrs)
    builder.op("pool", [y], [pooled], {"kernel": (2, 2), "stride": (stride, stride), "padding": "valid"})
    builder.outputs.append(pooled)
    return builder.freeze()


def test_only_windows_that_do_not_overlap_may_be_merged_with_the_convolution() -> None:
    # Merged, the 256 B between both do not exist: input and result have 64 B each.
    assert activation_bounds(_with_pool(2)).low_bytes == 64
    assert activation_bounds(_with_pool(1)).low_bytes == 256


def _random_graph(seed: int) -> Graph:
    draw = random.Random(seed)
    builder = GraphBuilder("random")
    tensors = [builder.input("x", (draw.randrange(1, 50),), BYTE)]
    for index in range(draw.randrange(1, 15)):
        inputs = draw.sample(tensors, min(len(tensors), draw.randrange(1, 4)))
        tensors.append(builder.tensor(f"t{index}", (draw.randrange(50),), BYTE))
        builder.op("sum_n", inputs, [tensors[-1]])
    builder.outputs += draw.sample(tensors[1:], draw.randrange(1, len(tensors)))
    return builder.freeze()


@pytest.mark.parametrize("seed", range(30))
def test_the_lower_bound_is_what_later_ops_and_the_caller_need_at_some_point(seed: int) -> None:
    graph = _random_graph(seed)
    most = sum(graph.tensors[tensor].elements or 0 for tensor in graph.inputs)
    for done in range(len(graph.ops) + 1):
        made = {*graph.inputs, *(tensor for op in graph.ops[:done] for tensor in op.outputs)}
        wanted = {*graph.outputs, *(tensor for op in graph.ops[done:] for tensor in op.inputs)}
        most = max(most, sum(graph.tensors[tensor].elements or 0 for tensor in made & wanted))
    low, high = activation_bounds(graph)
    assert low == most
    assert low <= usage(graph).peak_bytes
    assert high == usage(graph).peak_bytes  # no op has weights


def test_a_precision_scales_both_bounds() -> None:
    builder = GraphBuilder("chain")
    x = builder.input("x", (100,), dtype("float32"))
    y = builder.tensor("y", (50,), dtype("float32"))
    builder.op("max", [x], [y])
    builder.outputs.append(y)
    graph = builder.freeze()
    assert activation_bounds(graph) == (400, 600)
    assert activation_bounds(graph, dtype("int8")) == (100, 150)
