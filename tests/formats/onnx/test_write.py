"""Written ONNX files against the protobuf library: another order, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from formats.onnx.making import branches, model, node, numbers, value
from formats.onnx.making import graph as made_graph
from sizeup.errors import WriteError
from sizeup.formats.onnx import load
from sizeup.formats.onnx.write import external_files, write

ORDER = [0, 2, 1, 3, 4, 5]  # a, a2, b, b2, a3, y; the constant and the copy are no operators of the graph


def test_operators_are_exchanged_and_nothing_else(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(branches(), source)
    graph = load(source)
    assert [op.outputs and graph.tensors[op.outputs[0]].name for op in graph.ops] == [
        "a",
        "b",
        "a2",
        "b2",
        "a3",
        "y",
    ]
    write(source, out, graph, ORDER)
    old, new = onnx.load(source), onnx.load(out)
    assert [each.output[0] for each in new.graph.node] == ["k", "va2", "a", "a2", "b", "b2", "a3", "y"]
    assert sorted(each.SerializeToString() for each in new.graph.node) == sorted(
        each.SerializeToString() for each in old.graph.node
    )
    for each in (old, new):
        del each.graph.node[:]
    assert new == old
    assert out.stat().st_size == source.stat().st_size
    onnx.checker.check_model(out, full_check=True)


def test_without_an_order_the_file_is_copied(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(branches(), source)
    write(source, out, load(source), None)
    assert out.read_bytes() == source.read_bytes()


def test_files_with_weights_are_found_wherever_they_are_referred_to(tmp_path: Path) -> None:
    inner = made_graph([node("Identity", "inner", "z")], outputs=[value("z", (1, 5))])
    inner.initializer.append(numbers("inner", np.ones((1, 5)), np.float32))
    whole = branches()
    whole.graph.node.append(onnx.helper.make_node("If", ["c"], ["t"], then_branch=inner, else_branch=inner))
    whole.graph.input.append(value("c", (), onnx.TensorProto.BOOL))
    source = tmp_path / "in.onnx"
    onnx.save(whole, source)
    assert external_files(source) == []
    for place, tensor in enumerate((whole.graph.initializer[0], inner.initializer[0])):
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
        tensor.external_data.add(key="location", value=f"folder/{place}.bin")
    whole.graph.node[-1].attribute[0].g.CopyFrom(inner)
    onnx.save(whole, source)
    assert external_files(source) == ["folder/0.bin", "folder/1.bin"]


def test_functions_are_not_reordered(tmp_path: Path) -> None:
    function = onnx.helper.make_function(
        "own", "twice", ["p"], ["q"], [node("Add", "p p", "r"), node("Relu", "r", "q")],
        [onnx.helper.make_opsetid("", 21)],
    )  # fmt: skip
    whole = model(
        [node("own::twice", "x", "s"), node("Relu", "s", "y")],
        [value("x", (1, 5))], [value("y", (1, 5))], functions=[function],
    )  # fmt: skip
    source = tmp_path / "in.onnx"
    onnx.save(whole, source)
    graph = load(source)
    assert len(graph.ops) == 3
    with pytest.raises(WriteError, match="do not match the nodes of the file"):
        write(source, tmp_path / "out.onnx", graph, [0, 1, 2])
