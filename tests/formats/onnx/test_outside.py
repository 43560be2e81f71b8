"""The external data files of a model, found without the onnx library, against the library."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import ExternalDataInfo, set_external_data, uses_external_data

from formats.onnx.making import branches
from sizeup.formats.digest import content_digest, sha256_of
from sizeup.formats.onnx.external_data import external_files
from sizeup.formats.onnx.wire import message


def kept_in(name: str, file: str) -> TensorProto:
    """A constant of four numbers whose numbers are in another file."""
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.float32), name)
    set_external_data(tensor, file, 0, 16)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def everywhere() -> onnx.ModelProto:
    """Constants in separate files: of the graph, of a node, of a branch, of a function, sparse."""
    made = branches()
    made.graph.initializer.append(kept_in("a", "of graph.bin"))
    made.graph.initializer.append(kept_in("again", "of graph.bin"))
    made.graph.initializer.append(numpy_helper.from_array(np.zeros(999, np.float32), "location"))
    made.graph.node.append(helper.make_node("Constant", [], ["c"], value=kept_in("v", "folder/of-node.bin")))
    branch = helper.make_graph([], "branch", [], [], [kept_in("b", "of branch.bin")])
    made.graph.node.append(helper.make_node("If", ["c"], ["d"], then_branch=branch, else_branch=branch))
    inner = helper.make_node("Constant", [], ["f"], value=kept_in("w", "größe.bin"))
    made.functions.append(helper.make_function("own", "F", [], ["f"], [inner], made.opset_import))
    values, indices = kept_in("s", "sparse.bin"), numpy_helper.from_array(np.arange(4), "places")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [9]))
    return made


def tensors(place: object) -> Iterator[TensorProto]:
    """All constants in a message, found through its fields as the library names them."""
    if isinstance(place, TensorProto):
        yield place
    for _, value in getattr(place, "ListFields", list)():
        for each in value if hasattr(value, "__len__") else [value]:
            yield from tensors(each)


def test_every_place_of_a_constant_is_seen(tmp_path: Path) -> None:
    made = everywhere()
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    told = {ExternalDataInfo(each).location for each in tensors(made) if uses_external_data(each)}
    assert len(told) == 5
    assert sorted(external_files(path)) == sorted(told)


@pytest.mark.parametrize("length", [0, 1, 100, 10_000])
def test_what_is_no_model_names_no_file(tmp_path: Path, length: int) -> None:
    path = tmp_path / "no.onnx"
    path.write_bytes((b"location is no model " * 500)[:length])
    assert external_files(path) == []
    path.write_bytes(everywhere().SerializeToString()[:-1])
    assert external_files(path) == []
    assert content_digest(path) == sha256_of(path)


def test_messages_within_messages_without_end_take_no_time(tmp_path: Path) -> None:
    content = b"location"
    for _ in range(20_000):  # an operator's attribute holds a graph holds an operator
        for number in (6, 5, 1):
            content = b"".join(message(number, content))
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"".join(message(7, content)))
    start = time.process_time()
    assert external_files(path) == []
    assert time.process_time() - start < 1


def test_the_digest_changes_with_any_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(everywhere().SerializeToString())
    names = external_files(path)
    seen = [content_digest(path)]
    for name in names:  # one after the other is put there
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(16))
        seen.append(content_digest(path))
    for name in names:  # and changed in its last byte
        (tmp_path / name).write_bytes(bytes(15) + b"\1")
        seen.append(content_digest(path))
    assert len(set(seen)) == 11
    (tmp_path / "another.bin").write_bytes(b"not spoken of")
    assert content_digest(path) == seen[-1]
    assert content_digest(path) != sha256_of(path)


def test_a_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    """As the reader refuses it: neither by a path nor by a link."""
    home = tmp_path / "home"
    home.mkdir()
    secret = tmp_path / "secret"
    (home / "link.bin").symlink_to(secret)
    made = everywhere()
    made.graph.initializer.append(kept_in("x", "../secret"))
    made.graph.initializer.append(kept_in("y", str(secret)))
    made.graph.initializer.append(kept_in("z", "link.bin"))
    (home / "model.onnx").write_bytes(made.SerializeToString())
    secret.write_bytes(bytes(16))
    before = content_digest(home / "model.onnx")
    secret.write_bytes(bytes(15) + b"\1")
    assert content_digest(home / "model.onnx") == before


def test_a_file_without_others_has_the_digest_of_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(branches().SerializeToString())
    assert content_digest(path) == sha256_of(path)
