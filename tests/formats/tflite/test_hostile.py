"""Damaged and malicious files: each is either read or refused by a LoadError, soon and in little memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.tflite.factory import File, options, quantized
from sizeup.cost import count
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats import tflite

SEEDS = range(8)
MUTANTS = 60
# Generous: the slowest of these files takes 60 ms undamaged, and the machine may be busy.
SECONDS_EACH = 5.0
BYTES_EACH = 64 * 2**20
REAL = (
    "tflm_hello_int8",
    "tflm_micro_speech",
    "tflm_audio_preproc_int8",
    "pmw_alexa",
    "tflm_mnist_lstm_int8",
)
EXTREMES = (0, 1, 2, 4, 16, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 16, 2**32 - 1)


def _read(content: bytes) -> bool:
    """Whether the file was readable; anything but a graph or a LoadError is a failure."""
    try:
        graph = tflite.load(content)
    except LoadError:
        return False
    count(graph)
    return True


def _synthetic() -> bytes:
    """Control flow, quantization, several subgraphs, a sparse level: tables that few real files have."""
    file = File()
    main = file.main
    flag, data, out = (
        main.tensor("f", (1,), "BOOL"),
        main.tensor("x", (1, 8), "INT8"),
        main.tensor("y", (1, 4)),
    )
    main.op("IF", [flag, data], [out], options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2))
    main.ends([flag, data], [out])
    for name in ("then", "else"):
        graph = file.subgraph(name)
        source, result = (
            graph.tensor("x", (1, 8), "INT8"),
            graph.tensor("net/y", (1, 4), shapeSignature=[-1, 4]),
        )
        weights = graph.tensor("w", (4, 8), "INT4", bytes(16), quantization=quantized([1, 2, 3, 4], [0] * 4))
        graph.op("FULLY_CONNECTED", [source, weights, -1], [result], options("FullyConnectedOptions"))
        graph.ends([source], [result])
    weights = main.tensor("s", (4, 4), data=np.zeros(4, np.float32), sparsity=_sparsity())
    main.op("RELU", [weights], [main.tensor("r", (4, 4))])
    return file.pack()


def _sparsity() -> Any:
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder = [0, 1]
    levels = [schema.DimensionMetadataT(), schema.DimensionMetadataT()]
    levels[0].denseSize, levels[1].format = 4, schema.DimensionType.SPARSE_CSR
    segments, indices = schema.Int32VectorT(), schema.Int32VectorT()
    segments.values, indices.values = [0, 1, 2, 3, 4], [0, 1, 2, 3]
    levels[1].arraySegmentsType = levels[1].arrayIndicesType = schema.SparseIndexVector.Int32Vector
    levels[1].arraySegments, levels[1].arrayIndices = segments, indices
    sparsity.dimMetadata = levels
    return sparsity


def _mutants(content: bytes, seed: int) -> Iterator[bytes]:
    """Cut, flipped, overwritten and shuffled copies, mostly where the tables are: at both ends."""
    chance = random.Random(seed)

    def place() -> int:
        end = chance.choice((min(len(content), 256), len(content)))
        at = chance.randrange(end)
        return at if chance.random() < 0.6 else len(content) - 1 - at

    for number in range(MUTANTS):
        mutant = bytearray(content)
        if number % 4 == 0:
            yield bytes(mutant[: place()])
            continue
        for _ in range(chance.choice((1, 1, 3, 20))):
            at = place()
            if number % 4 == 1:
                mutant[at] ^= 1 << chance.randrange(8)
            elif number % 4 == 2:
                at = min(at & ~3, len(mutant) - 4)
                struct.pack_into("<I", mutant, at, chance.choice(EXTREMES))
            else:
                other, size = place(), chance.choice((4, 8, 64))
                mutant[at : at + size] = mutant[other : other + len(mutant[at : at + size])]
        yield bytes(mutant)


def _torture(content: bytes, seed: int) -> tuple[int, int]:
    """How many mutants were refused and how many read; each within bounds of time and memory."""
    assert _read(content)
    outcomes = [0, 0]
    for mutant in _mutants(content, seed):
        tracemalloc.start()
        start = time.process_time()
        outcomes[_read(mutant)] += 1
        seconds = time.process_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert seconds < SECONDS_EACH
        assert peak < BYTES_EACH
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_synthetic_file_is_read_or_refused(seed: int) -> None:
    refused, read = _torture(_synthetic(), seed)
    assert refused
    assert read


@pytest.mark.parametrize("name", REAL)
def test_damaged_real_file_is_read_or_refused(shared: Path, name: str) -> None:
    refused, _ = _torture((shared / "models" / f"{name}.tflite").read_bytes(), seed=len(name))
    assert refused


def test_every_truncation_of_a_small_file_is_read_or_refused() -> None:
    content = _synthetic()
    outcomes = [_read(content[:length]) for length in range(len(content))]
    assert outcomes.count(False) > len(content) // 2


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_random_bytes_behind_the_magic_are_refused(noise: bytes) -> None:
    assert not _read(noise[:4].ljust(4, b"\0") + b"TFL3" + noise[4:])


# Small files that describe very much, by pointing at the same bytes again and again.


def _vector(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in offsets:
        builder.PrependUOffsetTRelative(offset)
    vector: int = builder.EndVector()
    return vector


def _numbers(builder: Any, numbers: list[int]) -> int:
    builder.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        builder.PrependInt32(number)
    vector: int = builder.EndVector()
    return vector


def _shared_tables(*, name: str, inputs: list[int], tensors: int, operators: int, graphs: int = 1) -> bytes:
    """A file that lists the same tensor, operator and graph many times."""
    builder = flatbuffers.Builder(1024)
    text, ids, nothing = builder.CreateString(name), _numbers(builder, inputs), _numbers(builder, [])
    schema.TensorStart(builder)
    schema.TensorAddName(builder, text)
    tensor = schema.TensorEnd(builder)
    schema.OperatorStart(builder)
    schema.OperatorAddInputs(builder, ids)
    schema.OperatorAddOutputs(builder, nothing)
    operator = schema.OperatorEnd(builder)
    custom = builder.CreateString("NobodyKnows")
    schema.OperatorCodeStart(builder)
    schema.OperatorCodeAddBuiltinCode(builder, schema.BuiltinOperator.CUSTOM)
    schema.OperatorCodeAddCustomCode(builder, custom)
    code = schema.OperatorCodeEnd(builder)
    tables = [_vector(builder, [tensor] * tensors), _vector(builder, [operator] * operators)]
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tables[0])
    schema.SubGraphAddOperators(builder, tables[1])
    graph = schema.SubGraphEnd(builder)
    listed, codes = _vector(builder, [graph] * graphs), _vector(builder, [code])
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, listed)
    schema.ModelAddOperatorCodes(builder, codes)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def test_shared_tables_are_fine_in_moderation() -> None:
    graph = tflite.load(_shared_tables(name="x", inputs=[0, 1], tensors=3, operators=4))
    assert (len(graph.tensors), len(graph.ops)) == (3, 4)


def test_a_long_name_that_every_tensor_shares_is_refused() -> None:
    with pytest.raises(CorruptModel, match="names are longer than the file"):
        tflite.load(_shared_tables(name="x" * 20_000, inputs=[0], tensors=1_000, operators=1))


def test_a_long_list_of_inputs_that_every_operator_shares_is_refused() -> None:
    with pytest.raises(CorruptModel, match="its graphs share tables"):
        tflite.load(_shared_tables(name="x", inputs=[0] * 20_000, tensors=1, operators=20_000))


@pytest.mark.parametrize(("operators", "graphs"), [(2_000, 10), (1, 20_000)])
def test_graphs_that_share_their_tables_count_each_time(operators: int, graphs: int) -> None:
    """As large as ten and 20,000 graphs, which every command would count and plan."""
    once = _shared_tables(name="x", inputs=[0], tensors=1, operators=operators)
    assert len(tflite.load(once + bytes(40 * operators)).ops) == operators
    sharing = _shared_tables(name="x", inputs=[0], tensors=1, operators=operators, graphs=graphs)
    with pytest.raises(CorruptModel, match="its graphs share tables"):
        tflite.load(sharing + bytes(40 * operators))


def test_a_plan_that_many_entries_share_counts_each_time() -> None:
    file = File()
    data = [file.main.tensor(f"t{number}", (1,)) for number in range(2)]
    file.main.op("RELU", data[:1], data[1:])
    file.main.ends(data[:1], data[1:])
    entry = schema.MetadataT()
    entry.name, entry.buffer = "OfflineMemoryAllocation", file.buffer(bytes(50_000))
    file.model.metadata = [entry] * 1_000
    with pytest.raises(CorruptModel, match="more than 2 times as large"):
        file.load()
