"""Real runtimes in workers: their outputs, messages and failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from formats.onnx import making
from sizeup import load
from sizeup.dtypes import dtype
from sizeup.errors import MissingLibrary, RunFailed
from sizeup.graph import GraphBuilder
from sizeup.runtimes import Arena, random_samples, run

pytestmark = pytest.mark.extras


def test_the_arena_is_what_the_interpreter_reports(shared: Path) -> None:
    result = run("tflm", shared / "models/mlperf_vww96_int8.tflite")
    assert result.arena == Arena(73_728, 29_952)
    assert result.arena is not None
    assert result.arena.total_bytes == 103_680
    assert result.outputs == ()


@pytest.mark.parametrize("name", ["mlperf_kws_int8", "mlperf_resnet8_fp32"])
def test_two_runtimes_agree_on_a_model(shared: Path, name: str) -> None:
    path = shared / "models" / f"{name}.tflite"
    samples = random_samples(load(path), 4)
    small, large = (run(runtime, path, samples) for runtime in ("tflm", "litert"))
    assert small.distinct_outputs == large.distinct_outputs == 4
    for ours, theirs in zip(small.outputs, large.outputs, strict=True):
        # Kernels may round otherwise in the last place.
        step = 2 if ours[0].dtype == np.int8 else 1e-4
        assert np.abs(ours[0].astype(float) - theirs[0].astype(float)).max() <= step


def test_onnx_runtime_reports_nothing_to_its_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):  # where it keeps an identifier of the machine
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("CI", "GITHUB_ACTIONS"):  # which also turn it off
        monkeypatch.delenv(name, raising=False)
    relu = making.model([making.node("Relu", "x", "y")], [making.value("x", (1,))], [making.value("y", (1,))])
    run("ort", relu.SerializeToString(), [[np.ones(1, np.float32)]])
    assert [*tmp_path.rglob("*")] == []


def test_onnx_runtime_computes() -> None:
    weight = making.numbers("w", [[1, 2], [3, 4]], np.float32)
    model = making.model(
        [making.node("MatMul", "x w", "y")],
        [making.value("x", (1, 2))],
        [making.value("y", (1, 2))],
        [weight],
    )
    result = run("ort", model.SerializeToString(), [[np.array([[1, 1]], np.float32)]])
    assert result.outputs[0][0].tolist() == [[4, 6]]
    assert result.title == "ONNX Runtime"


def test_a_crash_is_news_and_not_the_end(shared: Path) -> None:
    path = shared / "models/tflm_keyword_scrambled_8bit.tflite"
    with pytest.raises(RunFailed, match=r"LiteRT crashed \(SIG"):
        run("litert", path, random_samples(load(path), 1))


def test_a_refusal_says_why(shared: Path) -> None:
    with pytest.raises(RunFailed, match=r"TFLite Micro cannot run it: .*'DENSIFY'"):
        run("tflm", shared / "models/mp_face_detection_full_range_sparse.tflite")
    with pytest.raises(RunFailed, match=r"LiteRT cannot run it: .*custom op: ethos-u"):
        run("litert", shared / "models/tflm_person_detect_vela.tflite")
    with pytest.raises(RunFailed, match="ONNX Runtime cannot run it"):
        run("ort", b"nothing")


def test_a_run_that_takes_too_long_is_ended(shared: Path) -> None:
    with pytest.raises(RunFailed, match=r"took longer than 0\.01 s"):
        run("tflm", shared / "models/tflm_hello_int8.tflite", timeout=0.01)


def test_a_runtime_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tflite_micro", None)
    with pytest.raises(MissingLibrary, match=r"pip install 'sizeup\[measure\]'"):
        run("tflm", b"")


def test_samples_are_the_same_for_the_same_seed_and_differ_otherwise(shared: Path) -> None:
    graph = load(shared / "models/mlperf_kws_int8.tflite")
    first, again, other = (random_samples(graph, 3, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, again, strict=True))
    assert not any(np.array_equal(a[0], b[0]) for a, b in zip(first, other, strict=True))
    assert first[0][0].dtype == np.int8
    assert first[0][0].min() < -120
    assert first[0][0].max() > 120


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "int64", "float16", "float32", "bool"])
def test_samples_exist_for_every_plain_type(kind: str) -> None:
    builder = GraphBuilder()
    builder.input("data", (5, 7), dtype(kind))
    (noise,), (waves,) = random_samples(builder.freeze(), 2)
    assert noise.dtype == waves.dtype == np.dtype(kind)
    assert noise.shape == (5, 7)
    assert len(np.unique(noise)) > 1
    if kind in ("int32", "int64"):
        assert 0 <= noise.min() <= noise.max() < 8


def test_texts_have_no_random_samples() -> None:
    builder = GraphBuilder()
    builder.input("words", (5,), dtype("string"))
    with pytest.raises(RunFailed, match="no random inputs for 'words'"):
        random_samples(builder.freeze(), 1)


def limited_run(runtime: str, most_bytes: int) -> str:
    """The error of a run in a process with a limit on file sizes."""
    code = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes}))\n"
        "from sizeup.errors import RunFailed\n"
        "from sizeup.runtimes import run\n"
        "try:\n"
        f"    run({runtime!r}, bytes(100_000))\n"
        "except RunFailed as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit on the size of files")
def test_a_model_that_cannot_be_written_for_the_worker_is_a_run_that_failed() -> None:
    message = limited_run("ort", 50_000)
    assert "cannot be written for the runtime (File too large)" in message
    assert "TMPDIR" in message


@pytest.mark.skipif(sys.platform == "win32", reason="has other temporary folders")
def test_a_temporary_folder_that_cannot_be_used_is_a_run_that_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(RunFailed, match=r"cannot be written for the runtime \(No such file or directory\)"):
        run("ort", b"model")
