"""Alignments that need more than names or order: branches, repeated blocks, operators merged or split."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain as joined
from itertools import pairwise

import pytest

from comparison.edited import FLOAT, SIDE, Layer, append, chain, check_complete, differences
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder

BLOCK = ("conv", "batch_norm", "relu", "conv", "tanh")


def blocks(count: int) -> list[Layer]:
    """A block of five layers, repeated `count` times."""
    return [Layer(place, kind) for place, kind in enumerate(BLOCK * count)]


def branching(order: list[int], *, names: bool) -> Graph:
    """Four branches of different depth from one value into one sum, run in the given order."""
    builder = GraphBuilder("branches", "onnx")
    x = builder.input("x", (1, 4, SIDE, SIDE), FLOAT)
    ends = {}
    for branch in order:
        y = x
        for depth in range(branch + 1):
            layer = Layer(0, "conv" if depth % 2 == 0 else "relu", kernel=3)
            y = append(builder, layer, y, f"branch{branch}.{depth}" if names else "")
        ends[branch] = y
    total = builder.tensor("sum", (1, 4, SIDE, SIDE), FLOAT)
    builder.op("sum_n", [ends[branch] for branch in range(len(order))], [total])
    builder.outputs.append(total)
    return builder.freeze()


@pytest.mark.parametrize("names", [True, False])
def test_branches_in_another_order_are_the_same(names: bool) -> None:
    differs = differences(branching([0, 1, 2, 3], names=names), branching([2, 0, 3, 1], names=names))
    check_complete(differs)
    assert {row.status for row in differs.rows} == {"same"}
    # Branch by branch they start at 0, 1, 3 and 6 in A; at 3, 8, 0 and 4 in B.
    where = {row.a[0]: row.b[0] for row in differs.rows}
    assert [where[start] for start in (0, 1, 3, 6)] == [3, 8, 0, 4]


def test_removed_block_of_many_is_the_one_that_its_name_says() -> None:
    layers = blocks(32)
    gone = range(5 * 7, 5 * 8)
    differs = differences(chain(layers), chain(each for each in layers if each.identity not in gone))
    check_complete(differs)
    assert [row.a for row in differs.rows if row.status == "removed"] == [(place,) for place in gone]
    assert sum(row.status == "same" for row in differs.rows) == 5 * 31


def test_removed_block_of_many_without_names_is_one_block() -> None:
    differs = differences(chain(blocks(32), names=False), chain(blocks(31), names=False))
    check_complete(differs)
    gone = [row for row in differs.rows if row.status != "same"]
    assert [row.status for row in gone] == ["removed"] * 5
    assert sorted(joined.from_iterable(row.a_op_kinds for row in gone)) == sorted(BLOCK)


def test_operators_inserted_into_blocks_without_names_are_found_in_their_place() -> None:
    layers = blocks(32)
    now = list(layers)
    for place in (5 * 20 + 2, 5 * 3 + 2):
        now.insert(place, Layer(1000, "sigmoid"))
    differs = differences(chain(layers, names=False), chain(now, names=False))
    check_complete(differs)
    assert [row.b for row in differs.rows if row.status == "added"] == [(5 * 3 + 2,), (5 * 20 + 3,)]
    assert {row.status for row in differs.rows} == {"same", "added"}


def test_names_that_were_all_shifted_do_not_mislead() -> None:
    """A new layer in a sequence gives every later one the name of its neighbor."""
    sizes = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    layers = [Layer(i, "conv", one, other) for i, (one, other) in enumerate(pairwise(sizes))]
    new = Layer(0, "conv", 6, 6, 3)
    now = [replace(each, identity=i) for i, each in enumerate([*layers[:2], new, *layers[2:]])]
    differs = differences(chain(layers), chain(now))
    check_complete(differs)
    assert [row.b for row in differs.rows if row.status == "added"] == [(2,)]
    assert sum(row.status == "same" for row in differs.rows) == len(layers)


def test_wider_network_has_changed_layers_and_no_others() -> None:
    narrow = [Layer(0, "conv", 4, 8, 3), Layer(1, "relu", 8, 8), Layer(2, "conv", 8, 16)]
    wide = [Layer(0, "conv", 4, 12, 3), Layer(1, "relu", 12, 12), Layer(2, "conv", 12, 16)]
    differs = differences(chain(narrow, names=False), chain(wide, names=False))
    check_complete(differs)
    assert [(row.status, row.a, row.b) for row in differs.rows] == [("changed", (i,), (i,)) for i in range(3)]
    # 64 places x 4 more channels x 36 taps, and 64 places x 16 channels x 4 more inputs.
    assert [row.macs for row in differs.rows] == [64 * 4 * 36, 0, 64 * 16 * 4]
    columns = [{change.column for change in row.changes} for row in differs.rows]
    assert columns == [
        {"output", "input", "out_channels", "params", "macs"},
        {"output", "input"},
        {"input", "params", "macs"},
    ]


NORMED = [Layer(0, "conv"), Layer(1, "batch_norm"), Layer(2, "relu"), Layer(3, "conv"), Layer(4, "relu")]


def test_norm_and_activation_are_fused_where_the_other_format_has_them_inside() -> None:
    merged = [Layer(0, "conv", activation="relu"), Layer(3, "conv", activation="relu")]
    differs = differences(chain(NORMED), chain(merged, format="tflite"))
    check_complete(differs)
    assert [(row.status, row.a, row.b) for row in differs.rows] == [
        ("fused", (0, 1, 2), (0,)),
        ("fused", (3, 4), (1,)),
    ]
    assert differs.rows[0].reason == "batch_norm folded into the weights, relu fused as activation"
    assert differs.rows[0].params == -8  # scale and shift of four channels
    back = differences(chain(merged, format="tflite"), chain(NORMED))
    check_complete(back)
    assert [(row.status, row.a, row.b) for row in back.rows] == [
        ("split", (0,), (0, 1, 2)),
        ("split", (1,), (3, 4)),
    ]


def test_norm_after_a_product_of_another_size_is_gone_and_not_folded() -> None:
    before = [Layer(0, "conv", 4, 8, 3), Layer(1, "batch_norm", 8, 8)]
    after = [Layer(0, "conv", 4, 12, 3)]
    differs = differences(chain(before), chain(after, format="tflite"))
    check_complete(differs)
    assert not [row.reason for row in differs.rows if "folded" in row.reason]
    assert [row.a_op_kinds for row in differs.rows if row.status == "removed"] == [("batch_norm",)]


def test_norm_is_not_folded_into_a_product_with_a_norm_of_its_own() -> None:
    twice = [Layer(0, "conv"), Layer(1, "batch_norm"), Layer(2, "batch_norm"), Layer(3, "relu")]
    once = [Layer(0, "conv"), Layer(1, "batch_norm"), Layer(3, "relu")]
    differs = differences(chain(twice), chain(once, format="tflite"))
    check_complete(differs)
    assert not [row.reason for row in differs.rows if "folded" in row.reason]
    assert [row.a for row in differs.rows if row.status == "removed"] == [(2,)]


def test_activation_in_one_model_only_is_removed_and_not_fused() -> None:
    bare = [Layer(0, "conv"), Layer(3, "conv")]
    differs = differences(chain(NORMED), chain(bare))
    check_complete(differs)
    assert [row.a for row in differs.rows if row.status == "removed"] == [(1,), (2,), (4,)]
    assert sum(row.status == "same" for row in differs.rows) == 2


GELU = ("div", "erf", "add", "mul", "mul")


def gelu(parts: tuple[str, ...]) -> Graph:
    """An activation between two convolutions, whole or in its primitive operators."""
    layers = [Layer(0, "conv"), *(Layer(i + 1, kind) for i, kind in enumerate(parts)), Layer(9, "conv")]
    return chain(layers, names=False, format="onnx")


def test_an_operator_taken_apart_is_one_row() -> None:
    differs = differences(gelu(("gelu",)), gelu(GELU))
    check_complete(differs)
    assert [(row.status, row.a, row.b) for row in differs.rows] == [
        ("same", (0,), (0,)),
        ("split", (1,), (1, 2, 3, 4, 5)),
        ("same", (2,), (6,)),
    ]
    back = differences(gelu(GELU), gelu(("gelu",)))
    check_complete(back)
    assert [row.status for row in back.rows] == ["same", "fused", "same"]


def test_another_operator_in_the_same_place_is_changed() -> None:
    differs = differences(gelu(("relu",)), gelu(("hardswish",)))
    check_complete(differs)
    (row,) = (row for row in differs.rows if row.status != "same")
    assert (row.status, row.a, row.b) == ("changed", (1,), (1,))
    assert [(each.column, each.before, each.after) for each in row.changes] == [("kind", "relu", "hardswish")]


def convolution(format: str, *, channels_last: bool = False, padded: bool = False) -> Graph:
    """A convolution of 3x3 from 4 to 6 channels, which pads by itself or after an operator that does."""
    builder = GraphBuilder("convolution", format)

    def shape(channels: int, side: int) -> tuple[int, ...]:
        return (1, side, side, channels) if channels_last else (1, channels, side, side)

    x = builder.input("x", shape(4, SIDE), FLOAT)
    if padded:
        larger = builder.tensor("padded", shape(4, SIDE + 2), FLOAT)
        builder.op("pad", [x], [larger])
        x = larger
    weight = builder.tensor(
        "w", (6, 3, 3, 4) if channels_last else (6, 4, 3, 3), FLOAT, Constant("parameter")
    )
    output = builder.tensor("y", shape(6, SIDE), FLOAT)
    builder.op("conv", [x, weight], [output], {"out_channels": 6, "groups": 1, "kernel": (3, 3)})
    builder.outputs.append(output)
    return builder.freeze()


def test_order_of_axes_is_no_difference_between_formats() -> None:
    differs = differences(convolution("torch"), convolution("tflite", channels_last=True))
    check_complete(differs)
    assert [row.status for row in differs.rows] == ["same"]
    assert differs.a.cost.total_macs == 64 * 6 * 36


def test_order_of_axes_is_a_difference_within_a_format() -> None:
    differs = differences(convolution("onnx"), convolution("onnx", channels_last=True))
    assert [row.status for row in differs.rows] == ["changed"]


def test_padding_is_said_to_be_within_the_other_operator_only_where_it_is() -> None:
    differs = differences(convolution("torch"), convolution("tflite", channels_last=True, padded=True))
    check_complete(differs)
    assert {row.b_op_kinds: (row.status, bool(row.reason)) for row in differs.rows} == {
        ("pad",): ("added", True),
        ("conv",): ("same", False),
    }
    layers = [Layer(0, "relu"), Layer(1, "relu")]
    more = differences(chain(layers), chain([layers[0], Layer(2, "pad"), layers[1]]))
    (added,) = (row for row in more.rows if row.status == "added")
    assert (added.b_op_kinds, added.reason) == (("pad",), "")


def test_unknown_operators_are_said_to_be_uncounted() -> None:
    strange = [Layer(0, "conv"), Layer(1, "mylib.fancy"), Layer(2, "conv")]
    differs = differences(chain(strange), chain([strange[0], strange[2]]))
    check_complete(differs)
    assert [(row.status, row.known) for row in differs.rows] == [
        ("same", True),
        ("removed", False),
        ("same", True),
    ]


def attention(format: str, past: int) -> Graph:
    """Attention over 4 new steps and some past ones, which only an attribute gives."""
    builder = GraphBuilder("attention", format)
    values = [builder.input(name, (1, 2, 4, 8), FLOAT) for name in "qkv"]
    output = builder.tensor("out", (1, 2, 4, 8), FLOAT)
    builder.op("attention", values, [output], {"past": past})
    builder.outputs.append(output)
    return builder.freeze()


def test_difference_without_a_cause_is_left_unexplained() -> None:
    """What formats write differently is not compared between them, so nothing is left to explain it."""
    differs = differences(attention("torch", 0), attention("onnx", 3))
    # Two products of 2 heads, 4 steps, 3 more steps and 8 numbers.
    assert differs.macs == differs.unexplained_macs == 2 * 2 * 4 * 3 * 8
    assert len(differs.unexplained_rows) == 1
    within = differences(attention("onnx", 0), attention("onnx", 3))
    assert (within.unexplained_macs, within.explained_macs["changed"]) == (0, 2 * 2 * 4 * 3 * 8)


def test_number_types_are_compared() -> None:
    builder = GraphBuilder("int8", "torch")
    x = builder.input("x", (1, 4, SIDE, SIDE), dtype("int8"))
    output = builder.tensor("y", (1, 4, SIDE, SIDE), dtype("int8"))
    builder.op("relu", [x], [output], scope="layer0")
    builder.outputs.append(output)
    differs = differences(chain([Layer(0, "relu")]), builder.freeze())
    (row,) = differs.rows
    assert [(each.column, each.before, each.after) for each in row.changes] == [("precision", "fp32", "int8")]
    assert row.traffic_bytes == -2 * 3 * 4 * SIDE * SIDE
