"""Opening files: names, signatures, scopes, and error messages."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from formats.tflite.factory import File, Subgraph
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats import load as load_any
from sizeup.formats import tflite
from sizeup.formats.tflite.model import scope_of
from sizeup.graph import ABSENT


def _chain(graph: Subgraph, *names: str | None) -> None:
    """ReLU after ReLU, each output under the next name."""
    identities = [graph.tensor(name, (4,)) for name in names]
    for source, target in itertools.pairwise(identities):
        graph.op("RELU", [source], [target])
    graph.ends([identities[0]], [identities[-1]])


def test_path_text_and_content_give_the_same_graph(tmp_path: Path) -> None:
    file = File()
    _chain(file.main, "x", "y")
    path = tmp_path / "tiny.tflite"
    path.write_bytes(file.pack())
    graphs = [tflite.load(path), tflite.load(str(path)), load_any(path), load_any(file.pack())]
    assert all(graph.ops == graphs[0].ops and graph.tensors == graphs[0].tensors for graph in graphs)
    assert (graphs[0].name, graphs[0].format) == ("tiny", "tflite")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"TFL3", "not a TFLite file"), (b"\x1c\0\0\0ONNXabcdefgh", "not a TFLite file")],
)
def test_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match=words):
        tflite.load(path)


def test_missing_file_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such file"):
        tflite.load(tmp_path / "nothing.tflite")


def test_truncated_file_is_reported_with_the_byte_that_is_missing() -> None:
    file = File()
    _chain(file.main, "x", "y")
    content = file.pack()
    message = r"^model: truncated or damaged file: reads past its end at byte \d+$"
    with pytest.raises(CorruptModel, match=message) as caught:
        tflite.load(content[: len(content) // 2])
    assert int(str(caught.value).rpartition(" ")[2]) >= len(content) // 2 - 8  # a number of up to 8 bytes


def test_input_without_a_name_is_refused_with_the_names() -> None:
    file = File()
    _chain(file.main, "x", "y")
    with pytest.raises(LoadError, match=r"by name: --input NAME:1x3x224x224, .*; inputs: 'x'$"):
        load_any(file.pack(), inputs=((4,),))


def test_other_schema_version_is_refused() -> None:
    file = File()
    _chain(file.main, "x", "y")
    file.model.version = 2
    with pytest.raises(CorruptModel, match="schema version 2"):
        file.load()


def test_file_without_a_graph_is_refused() -> None:
    file = File()
    file.model.subgraphs = []
    with pytest.raises(CorruptModel, match="subgraph 0 of 0"):
        file.load()


def test_missing_library_names_the_line_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['ai_edge_litert'] = None\n"
        "from sizeup.formats import tflite\nfrom sizeup.errors import MissingLibrary\n"
        "try:\n    tflite.load(b'')\nexcept MissingLibrary as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "reading TFLite needs ai-edge-litert: pip install 'sizeup[tflite]'\n"


def test_importing_the_door_loads_no_library() -> None:
    code = (
        "import sys, sizeup.formats.tflite\n"
        "print('ai_edge_litert' in sys.modules, 'flatbuffers' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


# Names


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("model/block_1/conv/Conv2D;model/block_1/bn/FusedBatchNormV3", "model/block_1/conv"),
        ("StatefulPartitionedCall/model/dense/BiasAdd", "model/dense"),
        ("StatefulPartitionedCall:0", ""),
        ("Identity", ""),
        ("dense", ""),
        ("", ""),
        ("/model//a/Relu", "model/a"),
        ("/", ""),
        ("a;b/c", ""),
    ],
)
def test_scope_is_the_path_in_front_of_the_name(name: str, scope: str) -> None:
    assert scope_of(name) == scope


def test_operators_are_called_after_what_they_make() -> None:
    file = File()
    _chain(file.main, "x", "net/a/Relu", None, "z")
    graph = file.load()
    assert [(op.name, op.scope) for op in graph.ops] == [("net/a/Relu", "net/a"), ("1", ""), ("z", "")]


def test_names_in_any_bytes_are_read() -> None:
    file = File()
    _chain(file.main, "x", "y")
    content = file.pack()
    assert content.count(b"\x01\0\0\0x\0") == 1
    graph = tflite.load(content.replace(b"\x01\0\0\0x\0", b"\x01\0\0\0\xff\0"))
    assert graph.tensors[0].name == "\ufffd"


def _sign(file: File, key: str, subgraph: int, inputs: dict[str, int], outputs: dict[str, int]) -> None:
    def entries(names: dict[str, int]) -> list[Any]:
        maps = [schema.TensorMapT() for _ in names]
        for entry, (name, tensor) in zip(maps, names.items(), strict=True):
            entry.name, entry.tensorIndex = name, tensor
        return maps

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = key, subgraph
    signature.inputs, signature.outputs = entries(inputs), entries(outputs)
    file.model.signatureDefs = [*(file.model.signatureDefs or []), signature]


def test_inputs_and_outputs_are_called_as_in_the_signature() -> None:
    file = File()
    _chain(file.main, "serving_default_image:0", "inner", "StatefulPartitionedCall:0")
    _sign(file, "serving_default", 0, {"image": 0}, {"scores": 2})
    graph = file.load()
    assert [tensor.name for tensor in graph.tensors] == ["image", "inner", "scores"]
    assert graph.notes == ()
    for name in ("image", "serving_default_image:0"):
        assert tflite.load(file.pack(), inputs={name: (4,)}).ops == graph.ops


def test_other_entries_of_a_file_are_named_and_left_out() -> None:
    file = File()
    _chain(file.main, "x", "y")
    _chain(file.subgraph("second"), "u", "v", "w")
    _chain(file.subgraph("third"), "u", "v", "w")
    _sign(file, "decode", 1, {"c": 0}, {"d": 2})
    _sign(file, "encode", 0, {"a": 0}, {"b": 1})
    graph = file.load()
    assert (len(graph.ops), graph.tensors[0].name) == (1, "a")
    assert graph.notes == (
        "only the main graph is counted; the file has other entries: 'decode', subgraph 2",
    )


# Wiring


def test_absent_inputs_and_several_outputs_are_kept() -> None:
    file = File()
    data, left, right = (file.main.tensor(name, (4,)) for name in "xlr")
    file.main.op("NobodyKnows", [-1, data, -1], [left, right])
    file.main.ends([data], [left, right])
    graph = file.load()
    assert (graph.ops[0].inputs, graph.ops[0].outputs) == ((ABSENT, data, ABSENT), (left, right))


def test_resource_variables_are_read_and_written() -> None:
    file = File()
    data, read, handle = (
        file.main.tensor("x", (4,)),
        file.main.tensor("v", (4,)),
        file.main.tensor("h", (), "RESOURCE"),
    )
    file.main.op("VAR_HANDLE", [], [handle])
    file.main.op("READ_VARIABLE", [handle], [read])
    file.main.op("ASSIGN_VARIABLE", [handle, data], [])
    file.main.ends([data], [read])
    graph = file.load()
    assert [op.kind for op in graph.ops] == ["variable", "read_variable", "assign_variable"]
    assert [op.name for op in graph.ops] == ["h", "v", "2"]
    assert graph.tensors[handle].dtype.name == "resource"


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([9], [1], "refers to tensor 9 of 2"),
        ([-2], [1], "refers to tensor -2 of 2"),
        ([0], [2], "refers to tensor 2 of 2"),
        ([0], [0], "produces 'x', which already exists"),
    ],
)
def test_operator_that_names_no_tensor_is_corrupt(inputs: list[int], outputs: list[int], words: str) -> None:
    file = File()
    _chain(file.main, "x", "y")
    file.main.table.operators[0].inputs, file.main.table.operators[0].outputs = inputs, outputs
    with pytest.raises(CorruptModel, match=words):
        file.load()


def test_operator_that_reads_what_comes_later_is_corrupt() -> None:
    file = File()
    _chain(file.main, "x", "y", "z")
    file.main.table.operators.reverse()
    with pytest.raises(CorruptModel, match="before it is produced"):
        file.load()


@pytest.mark.parametrize(("field", "value"), [("inputs", [5]), ("outputs", [-1])])
def test_ends_of_the_graph_that_name_no_tensor_are_corrupt(field: str, value: list[int]) -> None:
    file = File()
    _chain(file.main, "x", "y")
    setattr(file.main.table, field, value)
    with pytest.raises(CorruptModel, match=f"list of {field} refers to tensor"):
        file.load()


def test_operator_code_that_is_not_listed_is_corrupt() -> None:
    file = File()
    _chain(file.main, "x", "y")
    file.main.table.operators[0].opcodeIndex = 3
    with pytest.raises(CorruptModel, match="code 3 of 1"):
        file.load()


@pytest.mark.parametrize("shape", [(-4, 2), (2**31 - 1,) * 3, (1,) * 65])
def test_impossible_shape_is_corrupt(shape: tuple[int, ...]) -> None:
    file = File()
    _chain(file.main, "x", "y")
    file.main.table.tensors[1].shape = list(shape)
    with pytest.raises(CorruptModel, match="tensor 'y'"):
        file.load()


def test_number_type_of_the_future_is_refused() -> None:
    file = File()
    _chain(file.main, "x", "y")
    file.main.table.tensors[1].type = 99
    with pytest.raises(CorruptModel, match="unknown dtype code 99"):
        file.load()


def test_buffer_that_is_not_listed_is_corrupt() -> None:
    file = File()
    _chain(file.main, "x", "y")
    constant = file.main.tensor("c", (4,), data=np.zeros(4, np.float32))
    file.main.table.tensors[constant].buffer = 7
    with pytest.raises(CorruptModel, match="buffer 7 of 2"):
        file.load()
