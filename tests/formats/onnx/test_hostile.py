"""Corrupt and hostile files: a clear error, never a crash or an exception of a library."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.onnx.making import BOOL, INT64, graph, model, node, numbers, value, weight
from sizeup import cost
from sizeup.cli import main
from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.formats.onnx import load


def varied() -> bytes:
    """A small model with a bit of everything."""
    body = graph(
        [node("MatMul", "state w2", "next"), node("Identity", "cond", "go")],
        [value("i", (), INT64), value("cond", (), BOOL), value("state")],
        "go next",
    )
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p shape", "f"),
        node("QuantizeLinear", "f scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("Loop", "trips - d", "l", body=body),
        node("Einsum", "l w2", "e", equation="...d,de->...e"),
        node("com.microsoft::SkipLayerNormalization", "e l g h", "s"),
        node("Split", "s", "y z", num_outputs=2, axis=1),
    ]
    constants = [
        weight("w", 4, 3, 3, 3),
        weight("b", 4),
        weight("w2", 16, 16),
        weight("g", 16),
        weight("h", 16),
    ]
    constants += [numbers("shape", [1, -1, 16]), numbers("trips", 3)]
    constants += [numbers("scale", 0.1, np.float32), numbers("zero", 0, np.uint8)]
    return bytes(model(nodes, [value("x", (1, 3, 8, 8))], "y z", constants).SerializeToString())


VARIED = varied()


def attempt(content: bytes) -> None:
    with contextlib.suppress(SizeupError):
        cost.count(load(content))


def test_the_varied_model_itself_is_sound() -> None:
    counted = cost.count(load(VARIED))
    assert counted.known.all(), counted.reasons
    # 16 positions x 4 filters x 27; three rounds of one row times 16 x 16, then once more.
    assert counted.total_macs == 16 * 4 * 27 + 4 * 256


def test_file_that_is_cut_short_is_no_crash() -> None:
    for cut in range(0, len(VARIED), 7):
        attempt(VARIED[:cut])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(VARIED) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_file_with_bytes_changed_is_no_crash(changes: list[tuple[int, int]]) -> None:
    broken = bytearray(VARIED)
    for place, byte in changes:
        broken[place] = byte
    attempt(bytes(broken))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_no_crash(content: bytes) -> None:
    with contextlib.suppress(SizeupError):
        load(content)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**16), st.integers(0, 255), st.integers(0, 2**21 - 1))
def test_large_file_with_a_byte_changed_is_no_crash(
    tmp_path: Path, place: int, byte: int, length: int
) -> None:
    """Large files are walked before they are parsed: lengths that lie must not lead the walk astray."""
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 512))], "y", [weight("w", 512, 1024)])
    content = bytearray(made.SerializeToString())
    content[place % 400] = byte
    (tmp_path / "m.onnx").write_bytes(content[: max(length, 2**20 + 1)])
    with contextlib.suppress(SizeupError):
        cost.count(load(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"PK\x03\x04" + b"\0" * 50, "zip archive"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"\x00" * 100, "not an ONNX model, or cut short"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "no ONNX graph"),
        (b"\x20\x01", "no ONNX graph"),
    ],
)
def test_file_of_another_kind_is_told_with_what_to_do(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match=message) as caught:
        load(path)
    assert "net.onnx" in str(caught.value)


def test_large_file_of_another_kind_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x00" * (2**20 + 100))
    with pytest.raises(CorruptModel, match="not an ONNX model"):
        load(path)


def test_missing_file_and_folder_are_told(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.onnx", "no such file"), (tmp_path, "cannot be read")):
        with pytest.raises(LoadError, match=message):
            load(path)


def test_text_that_is_no_text_is_a_corrupt_model() -> None:
    made = model([node("Relu", "x", "y", name="A" * 8)], [value("x", (2,))]).SerializeToString()
    with pytest.raises(CorruptModel):
        load(made.replace(b"A" * 8, b"\xff" * 8))


def test_model_that_onnx_cannot_infer_is_a_corrupt_model() -> None:
    with pytest.raises(CorruptModel, match=r"are inconsistent.*check_model"):
        load(model([node("Einsum", "x x", "", equation="ij,jk->ik")], [value("x", (2, 2))], "x"))


def test_einsum_that_does_not_fit_its_operands_is_a_corrupt_model() -> None:
    with pytest.raises(CorruptModel, match="Einsum operator 'y'"):
        load(model([node("Einsum", "x x", "y", equation="ij")], [value("x", (2, 3))]))


def test_attributes_that_lie_are_no_crash() -> None:
    """Sizes that would take the machine's memory, or divide by zero."""
    x = [value("x", (1, 4, 8, 8))]
    for made in (
        node("Conv", "x w", "y", strides=[0, 0]),
        node("Conv", "x w", "y", group=0),
        node("Split", "x", "y", num_outputs=2**40),
        node("DepthToSpace", "x", "y", blocksize=0),
        node("com.microsoft::GroupQueryAttention", "x", "y", num_heads=0, kv_num_heads=0),
        node("com.microsoft::MultiHeadAttention", "x x x", "y", num_heads=0),
        node("com.microsoft::GatherBlockQuantized", "w x x", "y", bits=0),
        node("Tile", "x big", "y"),
        node("Expand", "x big", "y"),
        node("ConstantOfShape", "big", "y"),
        node("Range", "zero many one", "y"),
        node("Transpose", "x", "y", perm=[9, 9, 9, 9]),
        node("Gather", "x zero", "y", axis=2**40),
    ):
        constants = [weight("w", 4, 4, 3, 3), numbers("big", [2**40] * 4), numbers("zero", 0)]
        constants += [numbers("many", 2**60), numbers("one", 1)]
        attempt(model([made], x, "y", constants).SerializeToString())


@pytest.mark.parametrize(
    "equation", ["...d;de->...e", "...d...,de->...e", "...\xe9,de->...e", "d,de->e->d", "1d,de->e"]
)
def test_einsum_that_onnx_would_never_finish_is_refused(equation: str) -> None:
    made = node("Einsum", "x w", "y")
    made.attribute.add(name="equation", s=equation.encode("latin-1"), type=onnx.AttributeProto.STRING)
    content = model([made], [value("x", (4, 8))], "y", [weight("w", 8, 8)]).SerializeToString()
    with pytest.raises(CorruptModel, match="not an einsum equation"):
        load(content)


def nested(depth: int) -> onnx.ModelProto:
    """Loops within loops, each with a state that grows, so that each wants to be followed twice."""
    body: onnx.GraphProto | None = None
    for level in range(depth):
        inner: list[onnx.NodeProto] = (
            [] if body is None else [node("Loop", "trips - x", f"m{level}", body=body)]
        )
        grown = node("Concat", f"s{level} s{level}", f"n{level}", axis=0)
        takes = [value(f"i{level}", (), INT64), value(f"c{level}", (), BOOL), value(f"s{level}")]
        gives = [value(f"go{level}", (), BOOL), value(f"n{level}")]
        body = graph([node("Identity", f"c{level}", f"go{level}"), *inner, grown], takes, gives)
    outer = node("Loop", "trips - x", "y", body=body)
    return model([outer], [value("x", (4, 4))], "y", [numbers("trips", 2**62)])


def test_loops_within_loops_do_not_multiply_the_time_of_reading() -> None:
    """Without a limit 28 of them would be followed 2^28 times."""
    started = time.process_time()
    found = load(nested(28))
    assert time.process_time() - started < 20
    assert next(each for each in found.tensors if each.name == "y").shape is None


def external(**place: object) -> onnx.ModelProto:
    """A model whose weights lie in another file."""
    held = weight("w", 4, 4)
    held.ClearField("raw_data")
    held.data_location = onnx.TensorProto.EXTERNAL
    for key, entry in place.items():
        held.external_data.add(key=key, value=str(entry))
    return model([node("MatMul", "x w", "y")], [value("x", (2, 4))], "y", [held])


def shaped(*sides: int) -> onnx.ModelProto:
    """A model whose weights declare this shape."""
    held = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=sides, raw_data=bytes(16))
    return model([node("MatMul", "x w", "y")], [value("x", (2, 4))], "y", [held])


def bomb(op: str, *constants: Any, **attributes: Any) -> onnx.ModelProto:
    """One operator whose constants or attributes ask for more than there is, or make no sense."""
    held = [numbers(f"k{place}", content) for place, content in enumerate(constants)]
    made = node(op, " ".join(["x", *(each.name for each in held)]), "y", **attributes)
    return model([made], [value("x", (1, 1, 4, 4))], "y", held)


HOSTILE = {
    "a path upwards": (external(location="../../etc/passwd"), "points outside"),
    "a path from the root": (external(location="/etc/passwd"), "points outside"),
    "a place before the file": (
        external(location="w.bin", offset=-5),
        "without a valid file, offset and length",
    ),
    "a negative side": (shaped(-1, 4), "invalid shape"),
    "sides without measure": (shaped(2**62, 2**62), "invalid shape"),
    "a cycle": (
        model([node("Add", "x b", "a"), node("Relu", "a", "b")], [value("x", (2,))], "b"),
        "cycle",
    ),
    "a name made twice": (
        model([node("Relu", "x", "y"), node("Exp", "x", "y")], [value("x", (2,))]),
        "already",
    ),
    "an input given twice": (model([node("Relu", "x", "y")], [value("x", (2,)), value("x", (3,))]), "twice"),
    "a loop without end": (nested(1), None),
    "copies without measure": (bomb("Tile", [1, 1, 2**40, 2**40]), "takes more than 64 PiB"),
    "borders without measure": (bomb("Pad", [2**61] * 8), "takes more than 64 PiB"),
    "a window that does not move": (bomb("MaxPool", kernel_shape=[2, 2], strides=[0, 0]), None),
    "a window of less than nothing": (bomb("MaxPool", kernel_shape=[-2, 2], pads=[-9, 0, 0, 0]), None),
    "a window without steps": (bomb("MaxPool", kernel_shape=[2, 2], strides=[1], pads=[0]), None),
    "a slice that stands still": (bomb("Slice", [0], [4], [3], [0]), None),
    "a slice of an axis that is not there": (bomb("Slice", [0], [4], [9], [-1]), None),
    "places of less than nothing": (
        bomb("MaxUnpool", np.zeros((1, 1, 4, 4)), [-1, 2**62, 2**62, 5], kernel_shape=[2, 2]),
        None,
    ),
    "a list that is no shape": (
        model([node("Add", "x x", "y")], [value("x", (2**50,))]),
        None,
    ),
    "an empty graph": (model([], [], ""), None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_command_line_tells_a_hostile_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    made, complaint = HOSTILE[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(SystemExit) as stopped:
        main(["analyze", str(path)])
    status, told = stopped.value.code, capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    if complaint is None:
        assert status in (0, 2)
    else:
        assert status == 2
        assert complaint in " ".join(told.err.split())
