"""What constants hold, where their bytes are, and which of them are parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from formats.tflite.factory import File, options, quantized
from sizeup.cost import count
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats import tflite
from sizeup.graph import Graph, Tensor


def _added(shape: tuple[int, ...] | None, kind: str, data: Any, **fields: Any) -> File:
    """A file that adds one constant to its input."""
    file = File()
    constant = file.main.tensor("c", shape, kind, data, **fields)
    data_in, out = file.main.tensor("x", shape or (1,)), file.main.tensor("y", shape or (1,))
    file.main.op("ADD", [data_in, constant], [out])
    file.main.ends([data_in], [out])
    return file


def _constant(graph: Graph) -> Tensor:
    return next(tensor for tensor in graph.tensors if tensor.name == "c")


def _numbers(tensor: Tensor) -> Any:
    assert tensor.data is not None
    assert tensor.data.read is not None
    return tensor.data.read()


PLAIN = [
    ("FLOAT32", np.float32), ("FLOAT16", np.float16), ("FLOAT64", np.float64),
    ("INT8", np.int8), ("INT16", np.int16), ("INT32", np.int32), ("INT64", np.int64),
    ("UINT8", np.uint8), ("UINT16", np.uint16), ("UINT32", np.uint32), ("UINT64", np.uint64),
    ("BOOL", np.bool_), ("COMPLEX64", np.complex64), ("COMPLEX128", np.complex128),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "numpy_type"), PLAIN, ids=[kind for kind, _ in PLAIN])
def test_plain_numbers_are_read_as_they_were_written(kind: str, numpy_type: Any) -> None:
    written = np.array([[0, 1, 2], [1, 0, 3]]).astype(numpy_type)
    tensor = _constant(_added((2, 3), kind, written).load())
    assert tensor.dtype.name == kind.lower()
    assert _numbers(tensor).dtype == numpy_type
    assert np.array_equal(_numbers(tensor), written)


# By hand. Two to a byte, the first in the low half: 0x21 0x8f 0x07 -> 1, 2, -1 (f), -8, 7.
# int2, four to a byte: 0b11100100 -> 0, 1, 2, 3, of which 2 and 3 are -2 and -1 with a sign.
# bfloat16 is the upper half of a float32: 0x3fc0 = 1.5, 0xc000 = -2. float8: e5m2 is the upper half of a
# float16: 0x3c = 1, 0xc0 = -2, 0x01 = 2^-16; e4m3fn: 0x38 = 1, 0xb8 = -1, 0x7e = 448, 0x01 = 2^-9.
NARROW = [
    ("INT4", bytes([0x21, 0x8F, 0x07]), [1, 2, -1, -8, 7], 3),
    ("UINT4", bytes([0x21, 0x8F, 0x07]), [1, 2, 15, 8, 7], 3),
    ("INT2", bytes([0b11100100, 0b01]), [0, 1, -2, -1, 1], 2),
    ("BFLOAT16", bytes([0xC0, 0x3F, 0x00, 0xC0, 0x00, 0x00]), [1.5, -2.0, 0.0], 6),
    ("FLOAT8_E5M2", bytes([0x3C, 0xC0, 0x01]), [1.0, -2.0, 2.0**-16], 3),
    ("FLOAT8_E4M3FN", bytes([0x38, 0xB8, 0x7E, 0x01]), [1.0, -1.0, 448.0, 2.0**-9], 4),
]


@pytest.mark.parametrize(("kind", "raw", "numbers", "held"), NARROW, ids=[case[0] for case in NARROW])
def test_narrow_numbers_are_unpacked(kind: str, raw: bytes, numbers: list[float], held: int) -> None:
    quantization = quantized([0.5]) if "INT" in kind else None
    graph = _added((len(numbers),), kind, raw, quantization=quantization).load()
    assert _numbers(_constant(graph)).tolist() == numbers
    assert count(graph).total_params == len(numbers)
    assert count(graph).bytes_at().weights == held


def test_float8_has_no_infinity_but_a_nan() -> None:
    graph = _added((2,), "FLOAT8_E4M3FN", bytes([0x7F, 0xFF])).load()
    assert np.isnan(_numbers(_constant(graph))).all()


def test_reading_weights_copies_nothing() -> None:
    content = _added((1024,), "FLOAT32", np.arange(1024, dtype=np.float32)).pack()
    numbers = _numbers(_constant(tflite.load(content)))
    assert np.shares_memory(numbers, np.frombuffer(content, np.uint8))


def test_strings_are_constants_that_are_not_numbers() -> None:
    tensor = _constant(_added((1,), "STRING", b"\x01\0\0\0\x0c\0\0\0\x0e\0\0\0ab").load())
    assert tensor.data is not None
    assert (tensor.data.role, tensor.data.read, tensor.data.stored_bytes) == ("constant", None, 14)


# Places


def test_buffer_behind_the_tables_is_found_by_offset_and_size() -> None:
    written = np.arange(6, dtype=np.float32)
    file = _added((6,), "FLOAT32", None)
    file.model.buffers.append(schema.BufferT())
    file.model.subgraphs[0].tensors[0].buffer = 1
    # The tables contain the offset of the data after them: pack once to learn their length.
    file.model.buffers[1].offset, file.model.buffers[1].size = 2**40, 24
    start = len(file.pack())
    file.model.buffers[1].offset = start
    graph = tflite.load(file.pack() + written.tobytes())
    assert _numbers(_constant(graph)).tolist() == written.tolist()
    assert count(graph).total_params == 6


def test_buffer_beyond_the_file_is_corrupt() -> None:
    file = _added((6,), "FLOAT32", None)
    file.model.buffers.append(schema.BufferT())
    file.model.subgraphs[0].tensors[0].buffer = 1
    file.model.buffers[1].offset, file.model.buffers[1].size = 2**40, 24
    with pytest.raises(CorruptModel, match="outside the file"):
        file.load()


def test_buffer_that_is_too_short_is_corrupt() -> None:
    with pytest.raises(CorruptModel, match="needs 24 bytes, its buffer has 20"):
        _added((6,), "FLOAT32", bytes(20)).load()


def _with_weights_elsewhere(name: str, length: int = 24) -> File:
    file = _added((6,), "FLOAT32", None, externalBuffer=2**31)
    group, place = schema.ExternalBufferGroupT(), schema.ExternalBufferT()
    group.name, place.id, place.group, place.offset, place.length = name, 2**31, 0, 8, length
    file.model.externalBufferGroups, file.model.externalBuffers = [group], [place]
    return file


def test_weights_in_another_file_are_counted_and_read_on_demand(tmp_path: Path) -> None:
    written = np.arange(6, dtype=np.float32)
    (tmp_path / "model.tflite").write_bytes(_with_weights_elsewhere("weights.bin").pack())
    graph = tflite.load(tmp_path / "model.tflite")
    assert count(graph).total_params == 6
    assert any("weights.bin" in note for note in graph.notes)
    with pytest.raises(LoadError, match="is missing"):
        _numbers(_constant(graph))
    (tmp_path / "weights.bin").write_bytes(bytes(8) + written.tobytes())
    assert _numbers(_constant(graph)).tolist() == written.tolist()


def test_weights_in_another_file_need_the_folder() -> None:
    with pytest.raises(LoadError, match="load the model by its path"):
        _numbers(_constant(_with_weights_elsewhere("weights.bin").load()))


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname"])
def test_weights_outside_the_models_folder_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.tflite").write_bytes(_with_weights_elsewhere(name).pack())
    with pytest.raises(CorruptModel, match="outside the model's folder"):
        _numbers(_constant(tflite.load(tmp_path / "model.tflite")))


# Sparse weights


def _sparse() -> Any:
    """A 4x4 matrix in 2x1 blocks; stored are those of rows 0-1, column 2, and rows 2-3, columns 0 and 3."""
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap = [0, 1, 2], [0]
    levels = [schema.DimensionMetadataT() for _ in range(3)]
    levels[0].denseSize, levels[2].denseSize = 2, 2
    levels[1].format = schema.DimensionType.SPARSE_CSR
    segments, indices = schema.Int32VectorT(), schema.Uint8VectorT()
    segments.values, indices.values = [0, 1, 3], [2, 0, 3]
    levels[1].arraySegmentsType, levels[1].arraySegments = schema.SparseIndexVector.Int32Vector, segments
    levels[1].arrayIndicesType, levels[1].arrayIndices = schema.SparseIndexVector.Uint8Vector, indices
    sparsity.dimMetadata = levels
    return sparsity


def test_sparse_weights_count_densely_and_report_the_stored_bytes() -> None:
    graph = _added((4, 4), "FLOAT32", np.arange(1, 7, dtype=np.float32), sparsity=_sparse()).load()
    tensor = _constant(graph)
    assert _numbers(tensor).tolist() == [[0, 0, 1, 0], [0, 0, 2, 0], [3, 0, 0, 5], [4, 0, 0, 6]]
    assert count(graph).total_params == 16
    assert tensor.data is not None
    # 6 floats, 3 segments of 4 bytes, 3 indices of 1
    assert tensor.data.stored_bytes == 24 + 12 + 3


def test_sparse_coordinates_beyond_the_shape_are_corrupt() -> None:
    sparsity = _sparse()
    sparsity.dimMetadata[1].arrayIndices.values = [2, 0, 9]
    graph = _added((4, 4), "FLOAT32", np.arange(1, 7, dtype=np.float32), sparsity=sparsity).load()
    with pytest.raises(CorruptModel, match="do not fit"):
        _numbers(_constant(graph))


# Roles


def _role(tensor: Tensor) -> str:
    assert tensor.data is not None
    return tensor.data.role


@pytest.mark.parametrize(
    ("shape", "kind", "raw", "fields", "role"),
    [
        ((2,), "FLOAT32", bytes(8), {}, "parameter"),
        ((2,), "INT8", bytes(2), {"quantization": quantized([0.5])}, "parameter"),
        ((2,), "INT32", bytes(8), {}, "constant"),
        ((2,), "INT32", bytes(8), {"quantization": quantized([])}, "constant"),
        ((), "FLOAT32", bytes(4), {}, "constant"),
        (None, "FLOAT32", bytes(4), {}, "constant"),
        ((2,), "BOOL", bytes(2), {}, "constant"),
    ],
)
def test_parameters_are_floats_and_quantized_numbers_with_dimensions(
    shape: Any, kind: str, raw: bytes, fields: Any, role: str
) -> None:
    tensor = _constant(_added(shape, kind, raw, **fields).load())
    assert (_role(tensor), tensor.shape) == (role, shape or ())


def test_integer_weights_without_a_scale_are_parameters_where_a_filter_belongs() -> None:
    file = File()
    data, out = file.main.tensor("x", (1, 4)), file.main.tensor("y", (1, 3))
    weights = file.main.tensor("w", (3, 4), "INT8", bytes(12))
    bias = file.main.tensor("b", (3,), "INT32", bytes(12))
    file.main.op("FULLY_CONNECTED", [data, weights, bias], [out])
    file.main.ends([data], [out])
    graph = file.load()
    assert count(graph).total_params == 15


def test_tensors_that_share_a_buffer_count_once() -> None:
    file = _added((6,), "FLOAT32", np.ones(6, np.float32))
    second = file.main.tensor("d", (2, 3), buffer=1)
    out = file.main.tensor("z", (2, 3))
    file.main.op("RELU", [second], [out])
    graph = file.load()
    assert graph.tensors[0].data is graph.tensors[second].data
    assert count(graph).total_params == 6


def test_the_same_bytes_in_two_buffers_are_two_parameters() -> None:
    file = _added((6,), "FLOAT32", np.ones(6, np.float32))
    second, out = file.main.tensor("d", (6,), data=np.ones(6, np.float32)), file.main.tensor("z", (6,))
    file.main.op("RELU", [second], [out])
    assert count(file.load()).total_params == 12


def test_half_precision_weights_behind_dequantize_are_no_activations() -> None:
    file = File()
    stored = file.main.tensor("w16", (3, 4), "FLOAT16", bytes(24))
    weights = file.main.tensor("w", (3, 4))
    data, out = file.main.tensor("x", (1, 4)), file.main.tensor("y", (1, 3))
    file.main.op("DEQUANTIZE", [stored], [weights])
    file.main.op("FULLY_CONNECTED", [data, weights], [out])
    file.main.ends([data], [out])
    graph = file.load()
    cost = count(graph)
    assert (_role(graph.tensors[stored]), _role(graph.tensors[weights])) == ("parameter", "derived")
    assert graph.tensors[out].data is None
    assert (cost.total_params, cost.bytes_at().weights, cost.total_macs) == (12, 24, 12)
    assert cost.elementwise.tolist() == [0, 0]


def test_what_is_computed_from_derived_constants_is_derived() -> None:
    file = File()
    stored = file.main.tensor("w", (3, 4), "FLOAT16", bytes(24))
    wide, turned = file.main.tensor("wide", (3, 4)), file.main.tensor("turned", (4, 3))
    order = file.main.tensor("order", (2,), "INT32", np.array([1, 0], np.int32))
    file.main.op("DEQUANTIZE", [stored], [wide])
    file.main.op("TRANSPOSE", [wide, order], [turned])
    file.main.ends([], [turned])
    assert _role(file.load().tensors[turned]) == "derived"


def test_random_numbers_are_not_derived_from_their_constant_shape() -> None:
    file = File()
    shape = file.main.tensor("shape", (1,), "INT32", np.array([8], np.int32))
    out = file.main.tensor("y", (8,))
    file.main.op("RANDOM_UNIFORM", [shape], [out])
    file.main.ends([], [out])
    assert file.load().tensors[out].data is None


def test_variable_tensor_is_memory_and_no_parameter() -> None:
    file = _added((6,), "FLOAT32", None, isVariable=True)
    graph = file.load()
    tensor = _constant(graph)
    assert tensor.data is not None
    assert (tensor.data.role, tensor.data.read, tensor.data.stored_bytes) == ("buffer", None, 0)
    assert count(graph).total_params == 0
    assert graph.tensors[graph.outputs[0]].data is None


def _with_a_variable(*, written: bool) -> File:
    """A variable that starts from 4 numbers and that the main graph reads, and writes or not."""
    file = File()
    handle, data = file.main.tensor("h", (), "RESOURCE"), file.main.tensor("x", (4,))
    read, out = file.main.tensor("v", (4,)), file.main.tensor("y", (4,))
    name = options("VarHandleOptions", sharedName="state")
    file.main.op("CALL_ONCE", [], [], options("CallOnceOptions", initSubgraphIndex=1))
    file.main.op("VAR_HANDLE", [], [handle], name)
    file.main.op("READ_VARIABLE", [handle], [read])
    file.main.op("ADD", [data, read], [out])
    if written:
        file.main.op("ASSIGN_VARIABLE", [handle, out], [])
    file.main.ends([data], [out])
    first = file.subgraph("init")
    handle, start = first.tensor("h", (), "RESOURCE"), first.tensor("c", (4,), data=np.ones(4, np.float32))
    first.op("VAR_HANDLE", [], [handle], name)
    first.op("ASSIGN_VARIABLE", [handle, start], [])
    return file


@pytest.mark.parametrize(("written", "role", "parameters"), [(True, "buffer", 0), (False, "parameter", 4)])
def test_variable_that_a_run_writes_is_a_state_and_one_that_it_reads_a_weight(
    written: bool, role: str, parameters: int
) -> None:
    graph = _with_a_variable(written=written).load()
    start = _constant(graph.ops[0].bodies[0].graph)
    assert (_role(start), count(graph).total_params) == (role, parameters)
    assert _numbers(start).tolist() == [1, 1, 1, 1]


# Quantization


def test_scales_of_channels_keep_their_axis() -> None:
    graph = _added((2, 3), "INT8", bytes(6), quantization=quantized([1, 2, 3], [0, 0, 5], 1)).load()
    quant = _constant(graph).quant
    assert quant is not None
    assert (quant.scale.tolist(), quant.zero_point.tolist(), quant.axis) == ([1, 2, 3], [0, 0, 5], 1)


def test_one_scale_has_no_axis() -> None:
    quant = _constant(_added((2, 3), "INT8", bytes(6), quantization=quantized([0.5], [3])).load()).quant
    assert quant is not None
    assert (quant.scale.tolist(), quant.zero_point.tolist(), quant.axis) == ([0.5], [3], None)


def test_axis_that_the_tensor_does_not_have_is_the_one_that_fits() -> None:
    # Old converters give a bias the axis of its filter.
    quant = _constant(
        _added((3,), "INT32", bytes(12), quantization=quantized([1, 2, 3], [0], 3)).load()
    ).quant
    assert quant is not None
    assert quant.axis == 0


def _with_scales_of_blocks(details: str, scales: int, **fields: Any) -> File:
    """4x8 weights of 4 bits, a scale in half precision for every 4 of a row, stored in a separate tensor."""
    file = File()
    weights = file.main.tensor("c", (4, 8), "INT4", bytes(16))
    file.main.tensor("scales", (4, 2), "FLOAT16", np.arange(8, dtype=np.float16))
    data, out = file.main.tensor("x", (1, 8)), file.main.tensor("y", (1, 4))
    parameters = schema.QuantizationParametersT()
    parameters.detailsType = getattr(schema.QuantizationDetails, details)
    parameters.details = options(details, scales=scales, zeroPoints=-1, blockSize=4, **fields)
    file.main.table.tensors[weights].quantization = parameters
    file.main.op("FULLY_CONNECTED", [data, weights], [out])
    file.main.ends([data], [out])
    return file


@pytest.mark.parametrize(
    ("details", "fields"),
    [("BlockwiseQuantization", {}), ("MultiAxisQuantization", {"quantizedDimensions": [0, 1]})],
)
def test_scales_of_blocks_come_from_their_tensor(details: str, fields: Any) -> None:
    graph = _with_scales_of_blocks(details, 1, **fields).load()
    quant = _constant(graph).quant
    assert quant is not None
    assert quant.scale.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert quant.zero_point.tolist() == [0]
    # 32 weights of half a byte; the scales do not count as weights
    assert (count(graph).total_params, count(graph).bytes_at().weights, count(graph).total_macs) == (
        32,
        16,
        32,
    )
    assert _role(graph.tensors[1]) == "constant"


@pytest.mark.parametrize("scales", [-1, 2, 99])
def test_scales_in_a_tensor_that_has_none_are_corrupt(scales: int) -> None:
    with pytest.raises(CorruptModel, match="scale tensor"):
        _with_scales_of_blocks("BlockwiseQuantization", scales).load()
