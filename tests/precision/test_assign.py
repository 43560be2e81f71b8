"""Graphs with other dtypes: equal to one precision for all, and exact where dtypes meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sizeup
from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import Constant, Graph, GraphBuilder, Quant
from sizeup.memory import usage
from sizeup.mixed_precision import assign, layers, match_layers

FLOAT, INDEX = dtype("float32"), dtype("int64")
SHAPE = (1, 8, 4, 4)  # 128 numbers, 512 bytes
FP16, INT8, FP32 = precision("fp16"), precision("int8"), precision("fp32")


def block() -> Graph:
    """Two convolutions one after the other, and the sum of both results."""
    builder = GraphBuilder("block")
    x = builder.input("x", SHAPE, FLOAT)
    values = [x]
    for name in ("one", "two"):
        w = builder.tensor(f"{name}.weight", (8, 8, 1, 1), FLOAT, Constant("parameter"))
        bias = builder.tensor(f"{name}.bias", (8,), FLOAT, Constant("parameter"))
        values.append(builder.tensor(f"{name}.out", SHAPE, FLOAT))
        attrs = {"out_channels": 8, "kernel": (1, 1)}
        builder.op("conv", [values[-2], w, bias], [values[-1]], attrs, name=f"{name}.conv", scope=name)
    total = builder.tensor("sum", SHAPE, FLOAT)
    builder.op("add", [values[1], values[2]], [total], name="add")
    builder.outputs.append(total)
    return builder.freeze()


def types(graph: Graph) -> dict[str, str]:
    return {each.name: each.dtype.name for each in graph.tensors}


def test_one_type_for_all_needs_no_conversion() -> None:
    assigned = assign(block(), {0: INT8, 1: INT8})
    assert [op.kind for op in assigned.ops] == ["conv", "conv", "add"]
    assert types(assigned) == {
        "x": "int8", "one.weight": "int8", "one.bias": "int32", "one.out": "int8",
        "two.weight": "int8", "two.bias": "int32", "two.out": "int8", "sum": "int8",
    }  # fmt: skip


def test_where_types_meet_a_conversion_stands() -> None:
    assigned = assign(block(), {0: INT8})
    # Two reads one.out as float32, and so does the sum, which follows the wider of its inputs.
    assert [op.kind for op in assigned.ops] == ["conv", "dequantize", "conv", "add"]
    assert types(assigned)["one.out as fp32"] == "float32"
    assert types(assigned)["sum"] == "float32"
    converted = assigned.ops[1].outputs[0]
    assert converted in assigned.ops[2].inputs
    assert converted in assigned.ops[3].inputs


def test_every_change_of_type_has_its_word() -> None:
    assert [op.kind for op in assign(block(), {0: FP16, 1: FP32}).ops] == ["conv", "cast", "conv", "add"]
    # The sum takes the wider type, so the second result is converted back.
    kinds = [op.kind for op in assign(block(), {0: FP32, 1: INT8}).ops]
    assert kinds == ["conv", "quantize", "conv", "dequantize", "add"]
    narrower = assign(block(), {0: INT8, 1: precision("int4")})
    assert [op.kind for op in narrower.ops] == ["conv", "quantize", "conv", "quantize", "add"]


def test_a_mixture_counts_its_bytes() -> None:
    cost = count(assign(block(), {0: INT8}))
    # Filter and bias: 64 + 8 x 4 bytes at int8, 256 + 32 at float32.
    assert cost.stored_bytes == 96 + 288
    moved = cost.bytes_at()
    assert moved.read.tolist() == [128 + 96, 128, 512 + 288, 1024]
    assert moved.written.tolist() == [128, 512, 512, 512]


def test_weights_may_be_narrower_than_what_they_are_multiplied_with() -> None:
    assigned = assign(block(), {0: INT8}, {0: precision("int4"), 1: FP16})
    assert [op.kind for op in assigned.ops] == ["conv", "dequantize", "conv", "add"]
    assert types(assigned) == types(assign(block(), {0: INT8})) | {
        "one.weight": "int4",
        "two.weight": "float16",
    }
    # Filters of 64 numbers at 4 and 16 bits, biases of 8 numbers at 32.
    assert count(assigned).stored_bytes == (32 + 32) + (128 + 32)


def with_narrow_weights() -> Graph:
    """Two products of floats with weights of 8 bits, as dynamic quantization leaves them."""
    builder = GraphBuilder("narrow")
    x = builder.input("x", (1, 64), FLOAT)
    for name in ("one", "two"):
        scale = Quant(np.ones(1), np.zeros(1))
        w = builder.tensor(f"{name}.weight", (64, 64), dtype("int8"), Constant("parameter"), scale)
        y = builder.tensor(f"{name}.out", (1, 64), FLOAT)
        builder.op("matmul", [x, w], [y], {"contracted": (1,)}, name=name)
        x = y
    builder.outputs.append(x)
    return builder.freeze()


def test_a_layer_without_a_choice_keeps_its_narrow_weights() -> None:
    graph = with_narrow_weights()
    assert count(assign(graph, {})).bytes_at().weights == 2 * 64 * 64
    assert count(assign(graph, {0: FP16})).bytes_at().weights == 2 * 64 * 64 + 64 * 64


def test_biases_stay_wide_beside_sixteen_bits() -> None:
    dtypes = types(assign(block(), {0: precision("int16"), 1: FP16}))
    assert (dtypes["one.weight"], dtypes["one.bias"], dtypes["one.out"]) == ("int16", "int32", "int16")
    assert (dtypes["two.weight"], dtypes["two.bias"]) == ("float16", "float16")


def test_a_type_chosen_for_a_view_counts() -> None:
    builder = GraphBuilder("flat")
    x = builder.input("x", (4, 4), FLOAT)
    y, flat = builder.tensor("y", (4, 4), FLOAT), builder.tensor("flat", (16,), FLOAT)
    w = builder.tensor("w", (4, 4), FLOAT, Constant("parameter"))
    builder.op("matmul", [x, w], [y], {"contracted": (1,)})
    builder.op("reshape", [y], [flat])
    builder.outputs.append(flat)
    graph = builder.freeze()
    assert types(assign(graph, {0: INT8}))["flat"] == "int8"
    assigned = assign(graph, {0: INT8, 1: FP32})
    assert [op.kind for op in assigned.ops] == ["matmul", "dequantize", "reshape"]
    assert types(assigned)["flat"] == "float32"


def test_memory_holds_the_converted_numbers_too() -> None:
    # As it is 1,536 bytes in the sum; with the first at int8: out as float32, two.out, sum.
    assert int(usage(block()).live_bytes.max()) == 1536
    live = usage(assign(block(), {0: INT8})).live_bytes.tolist()
    assert live == [128 + 128, 128 + 512, 512 + 512, 3 * 512]


def test_weights_that_are_shared_are_stored_once_a_type() -> None:
    builder = GraphBuilder("shared")
    x = builder.input("x", (1, 8), FLOAT)
    w = builder.tensor("w", (8, 8), FLOAT, Constant("parameter"))
    a, b = builder.tensor("a", (1, 8), FLOAT), builder.tensor("b", (1, 8), FLOAT)
    builder.op("matmul", [x, w], [a], {"contracted": (1,)})
    builder.op("matmul", [a, w], [b], {"contracted": (1,)})
    builder.outputs.append(b)
    graph = builder.freeze()
    assert count(assign(graph, {0: INT8, 1: INT8})).stored_bytes == 64
    assert count(assign(graph, {0: INT8})).stored_bytes == 64 + 256
    assert count(assign(graph, {1: INT8})).stored_bytes == 64 + 256


def test_indices_keep_their_type() -> None:
    builder = GraphBuilder("table")
    ids = builder.input("ids", (1, 4), INDEX)
    table = builder.tensor("table", (10, 8), FLOAT, Constant("parameter"))
    out = builder.tensor("out", (1, 4, 8), FLOAT)
    builder.op("embedding", [table, ids], [out], source="aten.embedding")
    builder.outputs.append(out)
    assigned = assign(builder.freeze(), {0: INT8})
    assert types(assigned) == {"ids": "int64", "table": "int8", "out": "int8"}


@pytest.mark.extras
@pytest.mark.parametrize("dtype_name", ["fp16", "int8", "int4"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "vit_b_16", "shufflenet_v2_x0_5"])
def test_all_operators_at_one_type_are_that_precision(name: str, dtype_name: str) -> None:
    graph = sizeup.load(f"torchvision:{name}")
    cost = count(assign(graph, dict.fromkeys(range(len(graph.ops)), precision(dtype_name))))
    uniform = count(graph).bytes_at(precision(dtype_name))
    assert len(cost.graph.ops) == len(graph.ops)
    assert cost.stored_bytes == uniform.weights
    assert cost.bytes_at().read.tolist() == uniform.read.tolist()
    assert cost.bytes_at().written.tolist() == uniform.written.tolist()
    live = usage(graph, precision=precision(dtype_name)).live_bytes
    assert usage(cost.graph).live_bytes.tolist() == live.tolist()


@pytest.mark.extras
def test_real_files_take_any_choice_of_layers(shared: Path) -> None:
    for path in sorted((shared / "models").glob("*.tflite")):
        graph = sizeup.load(path)
        chosen = {layer.op: (FP16, INT8, FP32)[place % 3] for place, layer in enumerate(layers(graph))}
        cost = count(assign(graph, chosen))
        assert cost.total_macs == count(graph).total_macs, path.name
        assert cost.known.all() == count(graph).known.all(), path.name


def test_a_mapping_names_modules_operators_kinds_and_patterns() -> None:
    graph = block()
    assert match_layers(graph, {"one": "int8"}).dtypes == {0: INT8}
    assert match_layers(graph, {"conv": "fp16", "two.conv": "int8"}).dtypes == {0: FP16, 1: INT8}
    assert match_layers(graph, {"t*": "int8"}).dtypes == {1: INT8}
    assert match_layers(graph, {"*": "int8"}).dtypes == {0: INT8, 1: INT8}
    assert match_layers(graph, {"add": "fp16", "#0": "int8"}).dtypes == {2: FP16, 0: INT8}


def test_names_that_match_nothing_are_told_with_the_nearest() -> None:
    match = match_layers(block(), {"tow.conv": "int8", "#7": "int8"})
    assert match.dtypes == {}
    assert "two.conv" in match.unmatched["tow.conv"]
    assert match.unmatched["#7"] == []
