"""Kernels as columns, against numbers worked out by hand from the shapes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from networks import looping, tied_embedding, with_unknown
from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder, Shape
from sizeup.latency import CLASSES, Work, from_columns, stack, work_of
from sizeup.latency.work import product_of

FLOAT = dtype("float32")


def convolution(channels: int, result: int, kernel: int, groups: int = 1, pixels: int = 8) -> Graph:
    builder = GraphBuilder("convolution")
    x = builder.input("x", (1, channels, pixels, pixels), FLOAT)
    shape = (result, channels // groups, kernel, kernel)
    weight = builder.tensor("w", shape, FLOAT, Constant("parameter"))
    y = builder.tensor("y", (1, result, pixels, pixels), FLOAT)
    attrs = {"out_channels": result, "groups": groups, "kernel": (kernel, kernel)}
    builder.op("conv", [x, weight], [y], attrs, source="Conv")
    builder.outputs.append(y)
    return builder.freeze()


def plain(kind: str, source: str, shape: Shape = (2, 6), **attrs: object) -> Graph:
    builder = GraphBuilder(kind)
    x = builder.input("x", shape, FLOAT)
    y = builder.tensor("y", shape, FLOAT)
    builder.op(kind, [x], [y], attrs, source=source)
    builder.outputs.append(y)
    return builder.freeze()


def only(graph: Graph) -> str:
    work = work_of(count(graph))
    return work.names[int(work.class_index[0])]


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        (convolution(4, 32, 3), "conv_stem"),
        (convolution(5, 32, 3), "conv"),
        (convolution(16, 32, 1), "conv_1x1"),
        (convolution(3, 32, 1), "conv_1x1"),
        (convolution(16, 32, 3, groups=4), "conv_grouped"),
        (convolution(16, 16, 3, groups=16), "depthwise_3"),
        (convolution(2, 2, 3, groups=2), "depthwise_3"),
        (convolution(16, 16, 5, groups=16), "depthwise_5"),
        (convolution(16, 16, 7, groups=16), "depthwise_7"),
        (convolution(16, 32, 3, groups=16), "conv_grouped"),
        (plain("relu", "Relu"), "activation"),
        (plain("add", "Add"), "elementwise"),
        (plain("layer_norm", "aten.native_layer_norm"), "layer_norm"),
        (plain("layer_norm", "aten.native_group_norm"), "group_norm"),
        (plain("softmax", "Softmax"), "softmax"),
        (plain("mean", "ReduceMean"), "reduce"),
        (plain("transpose", "Transpose"), "copy"),
        (plain("concat", "Concat"), "concat"),
        (plain("resize", "Resize", taps=4), "resize"),
        (plain("cast", "Cast"), "quantize"),
        (plain("mylib.fancy", "mylib.fancy"), "other"),
        (looping(3), "control"),
    ],
)
def test_an_operator_belongs_to_a_class(graph: Graph, name: str) -> None:
    assert only(graph) == name
    assert name in CLASSES


def test_every_class_of_the_vocabulary_is_listed_once() -> None:
    assert len(set(CLASSES)) == len(CLASSES)


def test_a_convolution_has_the_bytes_and_the_shape_of_its_product() -> None:
    work = work_of(count(convolution(16, 32, 3)))
    assert work.macs.tolist() == [64 * 32 * 16 * 9]
    assert work.read.tolist() == [4 * 16 * 64]
    assert work.written.tolist() == [4 * 32 * 64]
    assert work.weights.tolist() == [4 * 32 * 16 * 9]
    assert (work.length[0], work.columns[0], work.rows[0]) == (144, 32, 64)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_transposed_convolution_is_the_product_of_its_input(channels: int) -> None:
    """Each of 4 x 4 positions has one product per result channel and tap of its 2 x 2 window."""
    builder = GraphBuilder("transposed")
    x = builder.input("x", (1, channels, 4, 4), FLOAT)
    weight = builder.tensor("w", (channels, 8, 2, 2), FLOAT, Constant("parameter"))
    y = builder.tensor("y", (1, 8, 8, 8), FLOAT)
    attrs = {"in_channels": channels, "groups": 1, "kernel": (2, 2)}
    builder.op("conv_transpose", [x, weight], [y], attrs, source="ConvTranspose")
    builder.outputs.append(y)
    work = work_of(count(builder.freeze()))
    assert (work.length[0], work.columns[0], work.rows[0]) == (channels, 8 * 4, 16)


def test_a_convolution_to_one_channel_has_one_column() -> None:
    work = work_of(count(convolution(16, 1, 3)))
    assert (work.length[0], work.columns[0], work.rows[0]) == (144, 1, 64)


@pytest.mark.parametrize("unknown", ["x", "w", "y"])
def test_without_all_three_shapes_no_product_is_known(unknown: str) -> None:
    graph = convolution(16, 32, 3)
    tensors = [replace(each, shape=None) if each.name == unknown else each for each in graph.tensors]
    assert product_of(replace(graph, tensors=tuple(tensors)), graph.ops[0]) == (0, 0, 0)


def test_a_precision_changes_bytes_and_nothing_else() -> None:
    cost = count(convolution(16, 32, 3))
    full, eighth = work_of(cost), work_of(cost, precision("int8"))
    assert eighth.traffic.tolist() == (full.traffic / 4).tolist()
    assert eighth.macs.tolist() == full.macs.tolist()


def test_a_product_with_a_constant_is_a_linear_layer_and_one_of_two_activations_is_not() -> None:
    embedding, head = work_of(count(tied_embedding())).class_index.tolist()
    work = work_of(count(tied_embedding()))
    assert (work.names[embedding], work.names[head]) == ("index", "linear")
    assert (work.length[1], work.columns[1], work.rows[1]) == (256, 1000, 128)
    builder = GraphBuilder("product")
    left = builder.input("left", (2, 4, 8), FLOAT)
    right = builder.input("right", (2, 8, 3), FLOAT)
    result = builder.tensor("made", (2, 4, 3), FLOAT)
    builder.op("matmul", [left, right], [result], {"contracted": (2,)}, source="MatMul")
    builder.outputs.append(result)
    assert only(builder.freeze()) == "matmul"


def test_a_mask_makes_attention_a_class_of_its_own() -> None:
    classes, products = [], []
    for masked in (False, True):
        builder = GraphBuilder("attention")
        inputs = [builder.input(name, (1, 4, 10, 16), FLOAT) for name in "qkv"]
        inputs += [builder.input("mask", (1, 1, 10, 10), FLOAT)] * masked
        result = builder.tensor("made", (1, 4, 10, 16), FLOAT)
        builder.op("attention", inputs, [result], source="Attention")
        builder.outputs.append(result)
        graph = builder.freeze()
        classes.append(only(graph))
        work = work_of(count(graph))
        products.append((work.length[0], work.columns[0], work.rows[0]))
    assert classes == ["attention", "attention_masked"]
    assert products == [(16, 10, 4 * 10)] * 2  # 10 keys of 16 numbers, and 10 queries of each head


@pytest.mark.parametrize(
    ("shapes", "attrs", "product"),
    [
        # One new token of 4 heads of 16 numbers, after 9 cached ones: (batch, length, heads x size).
        (["1x1x64", "1x1x64", "1x1x64", "", "1x4x9x16"], {"heads": 4, "cached": 4}, (16, 10, 4)),
        # Keys and values in one input: (batch, length, heads, 2, size).
        (["1x10x64", "1x12x4x2x16"], {"sizes": (40, 12, 16, 16)}, (16, 12, 40)),
        # 10 queries of 4 heads in sequences of 4 and 6 tokens: 4 (4 x 4 + 6 x 6) scores.
        (["10x4x16", "10x4x16", "10x4x16"], {"sizes": (208, 1, 16, 16)}, (16, 5.2, 40)),
        # Without values, or with an unknown number of cached keys, nothing is known.
        (["1x4x10x16", "1x4x10x16"], {}, (0, 0, 0)),
        (["1x1x64", "1x1x64", "1x1x64", "", "?"], {"heads": 4, "cached": 4}, (0, 0, 0)),
    ],
)
def test_each_query_of_attention_is_multiplied_by_all_of_its_keys(
    shapes: list[str], attrs: dict[str, object], product: tuple[float, float, float]
) -> None:
    builder = GraphBuilder("attention")
    inputs = []
    for index, text in enumerate(shapes):
        shape = None if text == "?" else tuple(int(size) for size in text.split("x") if size)
        inputs.append(builder.input(f"in{index}", shape, FLOAT) if text else ABSENT)
    result = builder.tensor("y", builder.tensors[inputs[0]].shape, FLOAT)
    builder.op("attention", inputs, [result], attrs, source="Attention")
    builder.outputs.append(result)
    work = work_of(count(builder.freeze()))
    assert (work.length[0], work.columns[0], work.rows[0]) == pytest.approx(product)


def test_what_moves_and_computes_nothing_runs_no_kernel() -> None:
    work = work_of(count(plain("reshape", "Reshape")))
    assert work.count.tolist() == [0]


def test_an_unknown_operator_still_runs() -> None:
    work = work_of(count(with_unknown()))
    assert work.count.tolist() == [1, 1, 1]


def three() -> Work:
    return from_columns(["a", "b", "a"], 2, [0, 0, 1], macs=[1.0, 2.0, 4.0], rows=[1, 1, 1], count=[1, 3, 1])


def test_sums_go_by_network_and_by_class() -> None:
    work = three()
    assert work.totals(work.macs).tolist() == [7, 4]
    assert work.by_class(work.macs).tolist() == [[1, 6], [4, 0]]


def test_networks_can_be_picked_in_any_order_and_more_than_once() -> None:
    picked = three().select([1, 0, 1])
    assert picked.totals(picked.macs).tolist() == [4, 7, 4]
    assert picked.networks == 3


def test_columns_are_floats_unless_they_hold_expressions() -> None:
    macs: Any = np.array([Fraction(2, 3), 1], object)
    work = from_columns(["a", "b"], 1, [0, 0], macs=macs, read=[1, 2])
    assert work.macs.tolist() == [Fraction(2, 3), 1]
    assert [column.dtype.name for column in (work.macs, work.read)] == ["object", "float64"]


def test_stacked_networks_share_one_vocabulary() -> None:
    other = from_columns(["c", "b"], 1, [0, 0], macs=[8.0, 16.0])
    both = stack([three(), other])
    assert both.names == ("a", "b", "c")
    assert both.by_class(both.macs).tolist() == [[1, 6, 0], [4, 0, 0], [0, 16, 8]]


def test_a_batch_multiplies_all_but_weights_and_launches() -> None:
    once = work_of(count(convolution(16, 32, 3)))
    eight = once.at_batch(8)
    assert np.allclose(eight.macs, 8 * once.macs)
    assert np.allclose(eight.read + eight.written, 8 * (once.read + once.written))
    assert (eight.weights.tolist(), eight.count.tolist()) == (once.weights.tolist(), once.count.tolist())
    assert eight.rows.tolist() == [8 * 64]


def test_a_product_of_weights_alone_runs_once_for_a_whole_batch() -> None:
    """Two weights of 2 x 3 and 3 x 4 numbers are multiplied, and a kernel without any bytes is of samples."""
    work = from_columns(["linear", "other"], 1, [0, 0], macs=[24, 5], weights=[4 * 26, 0], rows=[2, 1])
    assert work.at_batch(8).macs.tolist() == [24, 8 * 5]
    assert work.at_batch(8).rows.tolist() == [2, 8]
