"""Two branches that widen and narrow: the smallest network whose order matters, in both file formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import sizeup
from cli.running import run_command
from formats.onnx.making import branches as onnx_branches
from formats.tflite.factory import File, options, quantized
from sizeup.errors import LoadError, MissingLibrary, WriteError
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

SIZES = {"input": 100, "a": 1000, "b": 1000, "a2": 10, "b2": 10, "out": 10}


def branches() -> bytes:
    """int8: input 100 B, a and b 1,000 B each, a2, b2 and out 10 B; run as a, b, a2, b2, add."""
    file = File()
    generator = np.random.default_rng(0)
    scale = quantized([0.05])
    tensor = {
        name: file.main.tensor(name, (1, size), "INT8", quantization=scale) for name, size in SIZES.items()
    }
    for output, read in (("a", "input"), ("b", "input"), ("a2", "a"), ("b2", "b")):
        shape = (SIZES[output], SIZES[read])
        numbers = generator.integers(-60, 61, shape).astype(np.int8)
        weights = file.main.tensor(
            f"{output} weights", shape, "INT8", numbers, quantization=quantized([0.002])
        )
        file.main.op(
            "FULLY_CONNECTED", [tensor[read], weights, -1], [tensor[output]], options("FullyConnectedOptions")
        )
    file.main.op("ADD", [tensor["a2"], tensor["b2"]], [tensor["out"]], options("AddOptions"))
    file.main.ends([tensor["input"]], [tensor["out"]])
    return file.pack()


def test_the_narrow_order_is_found_written_and_runs(tmp_path: Path) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(branches())
    result = sizeup.optimize(source, out)
    assert (result.before.peak_bytes, result.after.peak_bytes) == (2_100, 1_110)
    assert result.schedule_status == "optimal"
    assert result.moved_ops == 2
    assert result.verification is not None
    assert result.verification.distinct_outputs == result.verification.samples
    again = sizeup.load(out)
    assert [again.tensors[op.outputs[0]].name for op in again.ops] in (
        ["a", "a2", "b", "b2", "out"],
        ["b", "b2", "a", "a2", "out"],
    )
    samples = random_samples(again, 5, seed=3)
    for runtime in ("litert", "tflm"):
        before, after = (run(runtime, path, samples) for path in (source, out))
        assert before.distinct_outputs == 5
        assert is_equal(before, after)


def test_optimizing_again_finds_nothing_more(tmp_path: Path) -> None:
    source, once, twice = (tmp_path / f"{name}.tflite" for name in ("in", "once", "twice"))
    source.write_bytes(branches())
    sizeup.optimize(source, once)
    result = sizeup.optimize(once, twice)
    assert not result.changed
    assert twice.read_bytes() == once.read_bytes()


def test_an_onnx_file_is_reordered_and_runs(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx_branches(), source)
    result = sizeup.optimize(source, out)
    # x 100 B, a and b 1,000 B each; then b, x and a2 (20 B).
    assert (result.before.peak_bytes, result.after.peak_bytes) == (2_100, 1_120)
    assert result.verification is not None
    assert result.verification.runtime == "ONNX Runtime"
    assert result.verification.distinct_outputs == result.verification.samples
    assert result.verification.deviation is None
    samples = random_samples(sizeup.load(out), 5, seed=3)
    assert is_equal(*(run("ort", path, samples) for path in (source, out)))


def test_weights_in_other_files_go_along_to_another_folder(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "other" / "out.onnx"
    out.parent.mkdir()
    onnx.save(onnx_branches(), source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    result = sizeup.optimize(source, out)
    assert result.changed
    assert (out.parent / "weights.bin").read_bytes() == (tmp_path / "weights.bin").read_bytes()
    assert any("weights.bin" in note for note in result.notes)
    samples = random_samples(sizeup.load(out), 3, seed=3)
    assert is_equal(*(run("ort", path, samples) for path in (source, out)))
    (out.parent / "weights.bin").write_bytes(b"something else")
    with pytest.raises(WriteError, match="a different file exists"):
        sizeup.optimize(source, out)


def test_a_copy_is_written_where_nothing_is_gained(tmp_path: Path) -> None:
    source, once, twice = (tmp_path / f"{name}.onnx" for name in ("in", "once", "twice"))
    onnx.save(onnx_branches(), source)
    sizeup.optimize(source, once)
    result = sizeup.optimize(once, twice)
    assert not result.changed
    assert result.schedule_status == "optimal"
    assert twice.read_bytes() == once.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "once.onnx", "twice.onnx"]


def test_targets_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    source.write_bytes(branches())
    with pytest.raises(WriteError, match="is the input model, which is not overwritten"):
        sizeup.optimize(source, source)
    with pytest.raises(WriteError, match=r"use the suffix \.tflite"):
        sizeup.optimize(source, tmp_path / "out.onnx")
    with pytest.raises(WriteError, match="no such folder"):
        sizeup.optimize(source, tmp_path / "nowhere" / "out.tflite")
    with pytest.raises(LoadError, match="no such file"):
        sizeup.optimize(tmp_path / "other.tflite", tmp_path / "out.tflite")
    (tmp_path / "in.pt2").write_bytes(b"")
    with pytest.raises(WriteError, match=r"only \.tflite and \.onnx"):
        sizeup.optimize(tmp_path / "in.pt2", tmp_path / "out.pt2")
    assert source.read_bytes() == branches()


def test_clustering_onnx_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    onnx.save(onnx_branches(), source)
    with pytest.raises(WriteError, match=r"--cluster and --pack support \.tflite files only"):
        sizeup.optimize(source, tmp_path / "out.onnx", cluster=16)


def test_without_a_runtime_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx_branches(), source)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingLibrary, match=r"sizeup\[measure\]"):
        sizeup.optimize(source, out)
    assert not out.exists()
    result = sizeup.optimize(source, out, verify=False)
    assert result.changed
    assert result.verification is None


def test_a_plan_that_is_there_already_is_known_without_running_it(shared: Path, tmp_path: Path) -> None:
    source, once, twice = (
        shared / "models/mlperf_vww96_int8.tflite",
        tmp_path / "1.tflite",
        tmp_path / "2.tflite",
    )
    sizeup.optimize(source, once, verify=False)
    result = sizeup.optimize(once, twice, verify=False)
    assert not result.changed
    assert result.before.used is not None
    assert result.before.used.total_bytes == 85_248


def test_sizes_that_depend_on_data_leave_the_peak_unknown(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    node = onnx.helper.make_node("NonZero", ["x"], ["y"])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [2, None])
    graph = onnx.helper.make_graph([node], "pick", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), source)
    done = sizeup.optimize(source, out)
    assert (done.before.peak_bytes, done.after.peak_bytes, done.schedule_status) == (None, None, None)
    assert "the schedule was not changed: the size of 1 tensor depends on data" in done.notes
    assert out.read_bytes() == source.read_bytes()
    text = run_command("optimize", source, "-o", out).stdout
    assert "peak" not in text
    assert "proven" not in text
