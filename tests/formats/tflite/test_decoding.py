"""Weights stored as code-books: what the file counts for is what it counted for before."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from formats.tflite.factory import File
from micro_interpreter import measure
from sizeup.formats.tflite.write import tensor_buffers

pytestmark = pytest.mark.extras

NAMES = ("mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_vww96_int8", "mlperf_resnet8_fp32")


@pytest.fixture(scope="module", params=NAMES)
def files(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    source = shared / "models" / f"{request.param}.tflite"
    out = tmp_path_factory.mktemp("packed") / "out.tflite"
    optimization = sizeup.optimize(
        source, out, cluster=16, pack=True, plan=False, reorder=False, verify=False
    )
    assert optimization.packed_weights > 0
    return source, out


def test_macs_and_parameters_are_those_of_the_file_before(files: tuple[Path, Path]) -> None:
    before, after = map(sizeup.analyze, files)
    assert after.totals.macs == before.totals.macs
    assert after.totals.params == before.totals.params
    assert after.coverage == 1.0
    decoders = [op for op in after.graph.ops if op.kind == "decode"]
    looked_up = sum(after.graph.tensors[each].elements or 0 for op in decoders for each in op.outputs)
    assert looked_up > 0
    assert after.totals.elementwise_ops == before.totals.elementwise_ops + looked_up


def test_parameters_are_stored_in_the_bytes_of_codes_and_tables(files: tuple[Path, Path]) -> None:
    """The bytes are counted in the file itself, by what its decoders read and what the others keep."""
    before, after = map(sizeup.load, files)
    stored = [len(data) for _, data in tensor_buffers(files[1].read_bytes())]
    kept = {each for op in after.ops if op.kind == "decode" for each in op.inputs}
    plain = {each for each, tensor in enumerate(after.tensors) if tensor.is_parameter} - kept
    assert sizeup.analyze(after).cost.stored_bytes == sum(stored[each] for each in kept | plain)
    assert sizeup.analyze(after).cost.stored_bytes < sizeup.analyze(before).cost.stored_bytes


def test_codes_are_read_as_stored_and_weights_are_written_in_full(files: tuple[Path, Path]) -> None:
    graph = sizeup.load(files[1])
    stored = [len(data) for _, data in tensor_buffers(files[1].read_bytes())]
    rows = sizeup.analyze(graph).ops
    for op, row in zip(graph.ops, rows, strict=True):
        if op.kind == "decode":
            assert row.read_bytes == sum(stored[each] for each in op.inputs)
            outputs = [graph.tensors[each] for each in op.outputs]
            assert row.written_bytes == sum((each.elements or 0) * each.dtype.bits // 8 for each in outputs)


def test_decoded_weights_are_memory_of_the_run(files: tuple[Path, Path]) -> None:
    report, measurement = sizeup.analyze(files[1]), measure([files[1]])[0]
    assert report.memory.arena is not None
    arena = report.memory.arena
    assert (arena.head_bytes, arena.tail_bytes_64) == (measurement.head, measurement.tail)


def test_a_packed_file_is_not_clustered_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Codes are no numbers that could be moved together."""
    out = tmp_path / "out.tflite"
    sizeup.optimize(files[1], out, cluster=2, plan=False, reorder=False, verify=False)
    before, after = (tensor_buffers(path.read_bytes()) for path in (files[1], out))
    codes = {each for op in sizeup.load(files[1]).ops if op.kind == "decode" for each in op.inputs}
    assert all(bytes(before[each][1]) == bytes(after[each][1]) for each in codes)


def test_an_operator_of_that_name_without_codes_in_the_file_is_reported() -> None:
    file = File()
    data, output = file.main.tensor("given", (1, 4)), file.main.tensor("made", (1, 4))
    file.main.op("TFLM_DECODE", [data], [output])
    file.main.ends([data], [output])
    report = sizeup.analyze(sizeup.load(file.pack()))
    assert report.coverage == 0.0
    assert report.totals.params == 0
