"""Dimensions that a file leaves open: what is counted as recorded, and what only data decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.tflite.factory import File, quantized
from sizeup.cost import count
from sizeup.errors import LoadError
from sizeup.formats import tflite
from sizeup.graph import Graph


def _shapes(graph: Graph) -> dict[str, Any]:
    return {tensor.name: tensor.shape for tensor in graph.tensors if tensor.data is None}


def _open_batch() -> File:
    file = File()
    data = file.main.tensor("x", (1, 8), shapeSignature=[-1, 8])
    out = file.main.tensor("y", (1, 4), shapeSignature=[-1, 4])
    weights = file.main.tensor("w", (4, 8), data=np.zeros((4, 8), np.float32))
    file.main.op("FULLY_CONNECTED", [data, weights], [out])
    file.main.ends([data], [out])
    return file


def test_open_batch_is_counted_at_the_recorded_shape_and_noted() -> None:
    graph = _open_batch().load()
    assert _shapes(graph) == {"x": (1, 8), "y": (1, 4)}
    assert count(graph).total_macs == 32
    assert graph.notes == (
        "input 'x' has a dynamic dimension (?x8); counted at the shape stored in the file, 1x8",
    )


def test_a_conversion_without_a_signature_passes_the_open_batch_on() -> None:
    """Quantizers write QUANTIZE and DEQUANTIZE so, in the middle of a network with an open batch."""
    file = _open_batch()
    narrow = file.main.tensor("narrow", (1, 4), "INT8", quantization=quantized([0.1]))
    wide = file.main.tensor("wide", (1, 4))
    last = file.main.tensor("z", (1, 4), shapeSignature=[-1, 4])
    file.main.op("QUANTIZE", [1], [narrow])
    file.main.op("DEQUANTIZE", [narrow], [wide])
    file.main.op("RELU", [wide], [last])
    file.main.ends([0], [last])
    assert set(_shapes(file.load()).values()) == {(1, 8), (1, 4)}


def test_what_was_recorded_may_be_said_again() -> None:
    content = _open_batch().pack()
    graph = tflite.load(content, inputs={"x": (1, 8)}, bind={"batch": 1})
    assert _shapes(graph)["x"] == (1, 8)
    assert tflite.load(content, inputs={"x": np.zeros((1, 8))}).ops == graph.ops


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bind": {"batch": 8}}, "batch=8 differs from the recorded batch \\(1\\); .* not supported yet"),
        ({"bind": {"length": 1}}, "no named dimension 'length'"),
        ({"inputs": {"x": (8, 8)}}, "recorded shape 1x8, not 8x8; .* not supported yet"),
        ({"inputs": {"z": (1, 8)}}, "no input is named 'z'; inputs: 'x'"),
    ],
)
def test_other_shapes_are_refused_with_a_reason(settings: Any, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        tflite.load(_open_batch().pack(), **settings)


def test_number_of_hits_depends_on_data() -> None:
    file = File()
    data = file.main.tensor("x", (1, 8), "BOOL", shapeSignature=[-1, 8])
    hits = file.main.tensor("hits", (1, 2), "INT64", shapeSignature=[-1, 2])
    doubled = file.main.tensor("doubled", (1, 2), "INT64", shapeSignature=[-1, 2])
    summed = file.main.tensor("summed", (2,), "INT64")
    axis = file.main.tensor("axis", (1,), "INT32", np.zeros(1, np.int32))
    file.main.op("WHERE", [data], [hits])
    file.main.op("ADD", [hits, hits], [doubled])
    file.main.op("SUM", [doubled, axis], [summed])
    file.main.ends([data], [summed])
    graph = file.load()
    assert _shapes(graph) == {"x": (1, 8), "hits": None, "doubled": None, "summed": (2,)}
    assert not count(graph).known.any()


def test_size_computed_from_numbers_depends_on_data() -> None:
    file = File()
    length = file.main.tensor("length", (1,), "INT32")
    output = file.main.tensor("made", (1,), shapeSignature=[-1])
    value = file.main.tensor("value", (), data=np.zeros(1, np.float32))
    file.main.op("FILL", [length, value], [output])
    file.main.ends([length], [output])
    assert _shapes(file.load())["made"] is None


def test_size_computed_from_shapes_holds_as_recorded() -> None:
    # What Keras makes of a recurrent layer's first state: zeros of the input's batch.
    file = File()
    data = file.main.tensor("x", (1, 8), shapeSignature=[-1, 8])
    shape = file.main.tensor("shape", (2,), "INT32")
    batch = file.main.tensor("batch", (1,), "INT32")
    begin = file.main.tensor("begin", (1,), "INT32", np.zeros(1, np.int32))
    state = file.main.tensor("state", (1,), shapeSignature=[-1])
    value = file.main.tensor("value", (), data=np.zeros(1, np.float32))
    file.main.op("SHAPE", [data], [shape])
    file.main.op("STRIDED_SLICE", [shape, begin, begin, begin], [batch])
    file.main.op("FILL", [batch, value], [state])
    file.main.ends([data], [state])
    graph = file.load()
    assert _shapes(graph)["state"] == (1,)
    assert count(graph).known.all()


def test_empty_shape_is_a_scalar_where_ranks_are_not_marked() -> None:
    file = File()
    data, out = file.main.tensor("x", None), file.main.tensor("y", None)
    file.main.op("RELU", [data], [out])
    file.main.ends([data], [out])
    assert _shapes(file.load()) == {"x": (), "y": ()}


def test_empty_shape_is_unknown_where_only_the_others_have_a_marked_rank() -> None:
    file = File()
    data, scalar = file.main.tensor("x", (3,), hasRank=True), file.main.tensor("s", None, hasRank=True)
    out = file.main.tensor("y", None)
    file.main.op("NobodyKnows", [data], [scalar])
    file.main.op("NobodyKnows", [scalar], [out])
    file.main.ends([data], [out])
    assert _shapes(file.load()) == {"x": (3,), "s": (), "y": None}
