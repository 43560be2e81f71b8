"""Weights: read on demand only, and each with its role."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from formats.onnx.making import (
    BOOL,
    FLOAT,
    count,
    graph,
    model,
    node,
    numbers,
    roles,
    shapes,
    tensor,
    value,
    weight,
)
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.onnx import load
from sizeup.formats.onnx.read import read
from sizeup.graph import Graph


def content(found: Graph, name: str) -> np.ndarray[Any, Any]:
    data = tensor(found, name).data
    assert data is not None
    assert data.read is not None
    return data.read()


def external(name: str, shape: tuple[int, ...], element: int = FLOAT, **place: Any) -> TensorProto:
    made = TensorProto(name=name, dims=shape, data_type=element, data_location=TensorProto.EXTERNAL)
    for key, each in place.items():
        made.external_data.add(key=key, value=str(each))
    return made


def linear(constant: TensorProto, width: int = 64) -> onnx.ModelProto:
    return model([node("MatMul", "x w", "y")], [value("x", (2, width))], "y", [constant])


RANDOM = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)


def test_content_is_the_same_from_message_bytes_and_file(tmp_path: Path) -> None:
    made = linear(numpy_helper.from_array(RANDOM, "w"))
    onnx.save(made, tmp_path / "m.onnx")
    for source in (made, made.SerializeToString(), tmp_path / "m.onnx"):
        assert np.array_equal(content(load(source), "w"), RANDOM)


def test_content_in_typed_fields_is_read() -> None:
    made = linear(helper.make_tensor("w", FLOAT, (64, 64), RANDOM.reshape(-1).tolist()))
    assert np.array_equal(content(load(made), "w"), RANDOM)


def test_weights_within_a_large_file_stay_on_disk_and_are_read_from_there(tmp_path: Path) -> None:
    big = np.random.default_rng(1).normal(size=(1024, 1024)).astype(np.float32)
    nodes = [node("MatMul", "x w", "h"), node("Reshape", "h s", "y")]
    constants = [numpy_helper.from_array(big, "w"), numbers("s", [4, -1])]
    made = model(nodes, [value("x", (2, 1024))], "y", constants)
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    found = load(path)
    assert shapes(found)["y"] == (4, 512)
    assert np.array_equal(content(found, "w"), big)
    assert np.array_equal(content(found, "s"), [4, -1])
    path.unlink()
    with pytest.raises(LoadError, match="is missing"):
        content(found, "w")


def test_external_data_is_read_from_its_place(tmp_path: Path) -> None:
    onnx.save(
        linear(numpy_helper.from_array(RANDOM, "w")),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    found = load(tmp_path / "m.onnx")
    assert np.array_equal(content(found, "w"), RANDOM)
    (tmp_path / "weights.bin").unlink()
    assert count(tmp_path / "m.onnx").total_params == 64 * 64  # counting needs no weights
    with pytest.raises(LoadError, match=r"weights\.bin.*is missing"):
        content(load(tmp_path / "m.onnx"), "w")


def test_offset_and_length_are_honoured(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\xff" * 100 + RANDOM.tobytes() + b"\xff" * 7)
    for place in ({"offset": 100, "length": RANDOM.nbytes}, {"offset": 100}):
        onnx.save(linear(external("w", (64, 64), location="w.bin", **place)), tmp_path / "m.onnx")
        assert np.array_equal(content(load(tmp_path / "m.onnx"), "w"), RANDOM)


def test_shapes_kept_outside_still_decide_shapes(tmp_path: Path) -> None:
    (tmp_path / "s.bin").write_bytes(np.array([3, 2], np.int64).tobytes())
    constant = external("s", (2,), TensorProto.INT64, location="s.bin", offset=0, length=16)
    onnx.save(
        model([node("Reshape", "x s", "y")], [value("x", (2, 3))], "y", [constant]), tmp_path / "m.onnx"
    )
    assert shapes(load(tmp_path / "m.onnx"))["y"] == (3, 2)
    (tmp_path / "s.bin").unlink()
    assert shapes(load(tmp_path / "m.onnx"))["y"] is None


@pytest.mark.parametrize(
    "location", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", "C:\\secret", "\\\\host\\share"]
)
def test_place_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    onnx.save(linear(external("w", (64, 64), location=location)), tmp_path / "m.onnx")
    with pytest.raises(CorruptModel, match="outside the model's folder"):
        load(tmp_path / "m.onnx")


def test_link_out_of_the_folder_is_refused_when_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(RANDOM.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    onnx.save(linear(external("w", (64, 64), location="w.bin")), folder / "m.onnx")
    with pytest.raises(CorruptModel, match="leads outside"):
        content(load(folder / "m.onnx"), "w")


def test_cache_of_links_is_read(tmp_path: Path) -> None:
    """A download cache keeps contents in one folder and names them by links in another."""
    blobs, names = tmp_path / "blobs", tmp_path / "names"
    blobs.mkdir()
    names.mkdir()
    (blobs / "1a").write_bytes(RANDOM.tobytes())
    onnx.save(linear(external("w", (64, 64), location="w.bin")), blobs / "2b")
    (names / "w.bin").symlink_to(blobs / "1a")
    (names / "m.onnx").symlink_to(blobs / "2b")
    assert np.array_equal(content(load(names / "m.onnx"), "w"), RANDOM)


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"location": "w.bin", "offset": "x"},
        {"location": "w.bin", "offset": -4},
        {"location": "w.bin", "length": -4},
    ],
)
def test_place_that_makes_no_sense_is_a_corrupt_model(place: dict[str, Any]) -> None:
    with pytest.raises(CorruptModel, match="constant 'w'"):
        load(linear(external("w", (64, 64), **place)))


def test_file_that_is_too_short_is_told(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 10)
    onnx.save(linear(external("w", (64, 64), location="w.bin")), tmp_path / "m.onnx")
    with pytest.raises(CorruptModel, match=r"'w\.bin' has 10 bytes; a constant of 16,384 bytes starts at 0"):
        load(tmp_path / "m.onnx")


def test_file_that_becomes_too_short_is_told_when_read(tmp_path: Path) -> None:
    onnx.save(linear(external("w", (64, 64), location="w.bin")), tmp_path / "m.onnx")
    found = load(tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(b"\0" * 10)
    with pytest.raises(CorruptModel, match="too short for constant 'w'"):
        content(found, "w")


def test_external_data_of_a_model_without_a_folder_asks_for_the_path() -> None:
    found = load(linear(external("w", (64, 64), location="w.bin")))
    with pytest.raises(LoadError, match="load the model by its path"):
        content(found, "w")


@pytest.mark.parametrize(
    "element", ["INT4", "UINT4", "FLOAT4E2M1", "FLOAT8E4M3FN", "BFLOAT16", "FLOAT16", "DOUBLE"]
)
def test_narrow_and_wide_types_are_read_from_message_and_file(tmp_path: Path, element: str) -> None:
    code = TensorProto.DataType.Value(element)
    plain = np.arange(6).reshape(2, 3).astype(helper.tensor_dtype_to_np_dtype(code))
    made = numpy_helper.from_array(plain, "w")
    inside = model([node("Identity", "w", "y")], [], "y", [made])
    assert np.array_equal(content(load(inside), "w"), plain)
    (tmp_path / "w.bin").write_bytes(made.raw_data)
    outside = external("w", (2, 3), code, location="w.bin", offset=0, length=len(made.raw_data))
    onnx.save(model([node("Identity", "w", "y")], [], "y", [outside]), tmp_path / "m.onnx")
    assert np.array_equal(content(load(tmp_path / "m.onnx"), "w"), plain)


@pytest.mark.parametrize(
    ("dtype", "name", "bits"),
    [
        (np.float64, "float64", 64),
        (np.float16, "float16", 16),
        (ml_dtypes.bfloat16, "bfloat16", 16),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3fn", 8),
        (ml_dtypes.float8_e5m2, "float8_e5m2", 8),
        (ml_dtypes.float8_e4m3fnuz, "float8_e4m3fnuz", 8),
        (ml_dtypes.float8_e5m2fnuz, "float8_e5m2fnuz", 8),
        (ml_dtypes.float4_e2m1fn, "float4_e2m1fn", 4),
        (ml_dtypes.int4, "int4", 4),
        (ml_dtypes.uint4, "uint4", 4),
        (np.complex64, "complex64", 64),
        (np.bool_, "bool", 8),
        (np.uint16, "uint16", 16),
    ],
)
def test_number_types_have_their_width(dtype: Any, name: str, bits: int) -> None:
    found = load(model([node("Identity", "w", "y")], [], "y", [weight("w", 3, 5, dtype=dtype)]))
    assert (tensor(found, "w").dtype.name, tensor(found, "w").dtype.bits) == (name, bits)


def test_weights_of_four_bits_take_half_a_byte() -> None:
    made = [node("DequantizeLinear", "w s", "f", axis=0), node("MatMul", "x f", "y")]
    constants = [weight("w", 64, 10, dtype=ml_dtypes.int4), weight("s", 64)]
    cost = count(model(made, [value("x", (2, 64))], "y", constants))
    assert (cost.total_params, cost.bytes_at().weights) == (640, 320)


def test_sparse_constant_is_dense_in_shape_and_sparse_in_bytes() -> None:
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 100))], "y")
    values = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    places = numpy_helper.from_array(np.array([[0, 1], [5, 5], [99, 49]], np.int64), "w_places")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [100, 50]))
    found = load(made)
    held = tensor(found, "w")
    assert held.shape == (100, 50)
    assert held.data is not None
    assert (held.data.role, held.data.stored_bytes) == ("parameter", 3 * 4 + 6 * 8)
    dense = content(found, "w")
    assert (dense[0, 1], dense[5, 5], dense[99, 49], dense.sum()) == (1, 2, 3, 6)
    cost = count(made)
    assert (cost.total_macs, cost.total_params) == (2 * 100 * 50, 5000)


def test_strings_are_constants() -> None:
    words = numpy_helper.from_array(np.array(["a", "b"], dtype=object), "s")
    made = model([node("Identity", "s", "y")], [], "y", [words])
    assert roles(load(made))["s"] == "constant"
    assert content(load(made), "s").tolist() == ["a", "b"]


def test_constant_operators_become_constants() -> None:
    made = [
        helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(RANDOM)),
        helper.make_node("Constant", [], ["b"], value_float=2.5),
        helper.make_node("Constant", [], ["c"], value_ints=[64, 2]),
        node("MatMul", "x a", "h"),
        node("Mul", "h b", "i"),
        node("Reshape", "i c", "y"),
    ]
    found = load(model(made, [value("x", (2, 64))]))
    assert [op.source for op in found.ops] == ["MatMul", "Mul", "Reshape"]
    assert shapes(found)["y"] == (64, 2)
    assert {name: roles(found)[name] for name in "abc"} == {
        "a": "parameter",
        "b": "constant",
        "c": "constant",
    }
    assert content(found, "b") == np.float32(2.5)
    assert content(found, "c").tolist() == [64, 2]
    assert np.array_equal(content(found, "a"), RANDOM)


def test_roles_follow_use() -> None:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c scale shift mean variance", "n"),
        node("Clip", "n low high", "l"),
        node("Pad", "l pads filling", "p"),
        node("Resize", "p roi scales", "r", mode="linear"),
        node("Mul", "r factor", "m"),
        node("Add", "m layer_scale", "a"),
        node("Reshape", "a shape", "f"),
        node("Gather", "f index", "y", axis=1),
    ]
    constants = [weight("w", 4, 3, 3, 3), weight("b", 4)]
    constants += [weight(name, 4) for name in ("scale", "shift", "mean", "variance")]
    constants += [numbers("low", 0, np.float32), numbers("high", 6, np.float32)]
    constants += [numbers("pads", [0, 0, 1, 1, 0, 0, 1, 1]), numbers("filling", 0, np.float32)]
    constants += [weight("roi", 0), numbers("scales", [1, 1, 2, 2], np.float32)]
    constants += [numbers("factor", 2, np.float32), weight("layer_scale", 1, 4, 1, 1)]
    constants += [numbers("shape", [1, -1]), numbers("index", [0, 1])]
    found = load(model(nodes, [value("x", (1, 3, 8, 8))], "y", constants))
    told = roles(found)
    assert {name for name, role in told.items() if role == "parameter"} == {
        "w",
        "b",
        "scale",
        "shift",
        "layer_scale",
    }
    assert {name for name, role in told.items() if role == "buffer"} == {"mean", "variance"}
    assert shapes(found)["y"] == (1, 2)


def test_exporter_that_says_what_is_trained_is_believed() -> None:
    made = model(
        [node("Add", "x a", "h"), node("Mul", "h b", "i"), node("Mul", "i c", "j"), node("Add", "j d", "y")],
        [value("x", (2, 3))],
        "y",
        [weight("a", 2, 3), weight("b"), weight("c", 1), weight("d", 2, 3)],
    )
    for each in made.graph.node:
        each.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'add']")
    for name, kind in (("a", "BUFFER"), ("b", "PARAMETER")):
        told = made.graph.value_info.add(name=name)
        told.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    # b is one trained number, c one number that the exporter folded; d it had to rewrite.
    assert dict(roles(load(made))) == {"a": "buffer", "b": "parameter", "c": "constant", "d": "parameter"}


def test_one_constant_used_often_is_one_tensor() -> None:
    nodes = [node("MatMul", "x w", "h"), node("MatMul", "h w", "y")]
    cost = count(model(nodes, [value("x", (2, 64))], "y", [weight("w", 64, 64), weight("spare", 10)]))
    assert cost.graph.ops[0].inputs[1] == cost.graph.ops[1].inputs[1]
    assert cost.total_params == 64 * 64 + 10


def test_equal_constants_of_two_names_are_two() -> None:
    nodes = [node("MatMul", "x a", "h"), node("MatMul", "h b", "y")]
    assert (
        count(
            model(nodes, [value("x", (2, 64))], "y", [weight("a", 64, 64), weight("b", 64, 64)])
        ).total_params
        == 8192
    )


def test_what_is_made_of_constants_alone_is_derived() -> None:
    nodes = [
        node("DequantizeLinear", "q s z", "w"),
        node("Transpose", "w", "t"),
        node("MatMul", "x t", "y"),
        node("RandomNormalLike", "w", "noise"),
    ]
    constants = [weight("q", 4, 3, dtype=np.int8), numbers("s", 0.5, np.float32), numbers("z", 0, np.int8)]
    found = load(model(nodes, [value("x", (2, 3))], "y noise", constants))
    assert dict(roles(found)) == {
        "q": "parameter",
        "s": "constant",
        "z": "constant",
        "w": "derived",
        "t": "derived",
    }
    cost = count(model(nodes, [value("x", (2, 3))], "y noise", constants))
    assert (cost.total_params, cost.total_macs, cost.bytes_at().weights) == (12, 24, 12)


def test_quantized_values_carry_scale_and_zero_point() -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("MaxPool", "q", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("QLinearConv", "p s z w ws wz s z b", "c"),
        node("DequantizeLinear", "c s z", "y"),
    ]
    constants = [
        numbers("s", 0.5, np.float32),
        numbers("z", 128, np.uint8),
        weight("w", 4, 3, 1, 1, dtype=np.int8),
        numbers("ws", [0.1, 0.2, 0.3, 0.4], np.float32),
        weight("wz", 4, dtype=np.int8),
        weight("b", 4, dtype=np.int32),
    ]
    made = model(nodes, [value("x", (1, 3, 4, 4))], "y", constants)
    found = load(made)
    for name in "qpc":
        quant = tensor(found, name).quant
        assert quant is not None
        assert (quant.scale.tolist(), quant.zero_point.tolist(), quant.axis) == ([0.5], [128], None)
    filters = tensor(found, "w").quant
    assert filters is not None
    assert (filters.axis, filters.scale.size) == (0, 4)
    assert {name for name, role in roles(found).items() if role == "parameter"} == {"w", "b"}
    assert tensor(found, "x").quant is None
    assert tensor(found, "y").quant is None
    # 2 x 2 positions of 4 filters over 3 channels.
    assert count(made).total_macs == 48


def test_impossible_shape_of_a_constant_is_a_corrupt_model() -> None:
    for dims in ((-1, 3), (2**40, 2**40)):
        with pytest.raises(CorruptModel, match="invalid shape"):
            load(
                model(
                    [node("Identity", "w", "y")], [], "y", [TensorProto(name="w", dims=dims, data_type=FLOAT)]
                )
            )


@pytest.mark.parametrize("length", [12, 64 * 64 * 4 + 1])
def test_content_that_does_not_fit_its_shape_is_told(length: int) -> None:
    broken = TensorProto(name="w", dims=(64, 64), data_type=FLOAT, raw_data=bytes(length))
    with pytest.raises(CorruptModel, match=f"'w' of shape .* needs 16,384 bytes; it has {length:,}"):
        load(linear(broken))


def test_numbers_that_do_not_fit_their_shape_are_told_when_read() -> None:
    broken = TensorProto(name="w", dims=(64, 64), data_type=FLOAT, float_data=[1.0] * 3)
    found = load(linear(broken))
    with pytest.raises(CorruptModel, match="'w' cannot be read"):
        content(found, "w")


LOAD_AND_MEASURE = """
import resource, sys, time
import onnx, sizeup.formats.onnx as door, sizeup.cost
sizeup.cost.count(door.load(sys.argv[2]))  # what is loaded once does not count
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
cost = sizeup.cost.count(door.load(sys.argv[1]))
seconds = time.perf_counter() - start
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(seconds, grown, cost.total_params, cost.total_macs)
"""


def measured(path: Path, warm_up: Path) -> tuple[float, int, int, int]:
    command = [sys.executable, "-c", LOAD_AND_MEASURE, str(path), str(warm_up)]
    seconds, kibibytes, params, macs = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.split()
    return float(seconds), int(kibibytes), int(params), int(macs)


def test_ten_gigabytes_beside_the_model_are_not_read(tmp_path: Path) -> None:
    layers, width = 40, 8192  # 40 x 8192^2 floats are 10.7 GB
    step = width * width * 4
    with (tmp_path / "w.bin").open("wb") as file:
        os.truncate(file.fileno(), layers * step)
    nodes = [node("MatMul", f"h{index} w{index}", f"h{index + 1}") for index in range(layers)]
    constants = [
        external(f"w{index}", (width, width), location="w.bin", offset=index * step, length=step)
        for index in range(layers)
    ]
    made = model(nodes, [value("h0", (1, width))], f"h{layers}", constants)
    onnx.save(made, tmp_path / "m.onnx")
    onnx.save(linear(weight("w", 64, 64)), tmp_path / "small.onnx")
    seconds, kibibytes, params, macs = measured(tmp_path / "m.onnx", tmp_path / "small.onnx")
    assert params == macs == layers * width * width
    assert seconds < 2
    assert kibibytes < 64 * 1024
    assert content(load(tmp_path / "m.onnx"), "w39")[-1, -1] == 0


def field(number: int, length: int) -> bytes:
    """The start of a protobuf field of that many bytes: its tag, then its length as a varint."""
    digits = []
    while length >= 128:
        digits.append(length % 128 + 128)
        length //= 128
    return bytes([number * 8 + 2, *digits, length])


def test_three_gigabytes_within_the_model_are_not_read(tmp_path: Path) -> None:
    """Longer than any protobuf library parses: the file is written by hand, its zeros never take a disk."""
    rows, columns = 3 * 2**18, 1024  # 3 GiB of floats
    length = rows * columns * 4
    made = model([node("MatMul", "x w", "y")], [value("x", (1, rows))])
    head = TensorProto(name="w", dims=(rows, columns), data_type=FLOAT).SerializeToString()
    head += field(9, length)
    inner = made.graph.SerializeToString() + field(5, len(head) + length) + head
    made.ClearField("graph")
    outer = made.SerializeToString() + field(7, len(inner) + length) + inner
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(outer)
        os.truncate(file.fileno(), len(outer) + length)
    onnx.save(linear(weight("w", 64, 64)), tmp_path / "small.onnx")
    seconds, kibibytes, params, macs = measured(path, tmp_path / "small.onnx")
    assert params == macs == rows * columns
    assert seconds < 2
    assert kibibytes < 64 * 1024


def test_weights_given_in_memory_are_not_copied() -> None:
    made = linear(weight("w", 8192, 4096), 8192)  # 128 MiB
    light = read(made)
    assert len(light.proto.SerializeToString()) < 2000
    assert shapes(load(made))["y"] == (2, 4096)


def test_weights_in_operators_and_branches_are_not_copied_either() -> None:
    constant = helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(RANDOM))
    then = graph([node("MatMul", "x inner", "t")], outputs="t", constants=[weight("inner", 64, 64)])
    other = graph([node("Identity", "x", "t")], outputs="t")
    branch = node("If", "c", "b", then_branch=then, else_branch=other)
    made = model([constant, branch, node("MatMul", "b a", "y")], [value("x", (2, 64)), value("c", (), BOOL)])
    assert len(read(made).proto.SerializeToString()) < 2000
    found = load(made)
    assert np.array_equal(content(found, "a"), RANDOM)
    assert content(found.ops[0].bodies[0].graph, "inner").shape == (64, 64)
