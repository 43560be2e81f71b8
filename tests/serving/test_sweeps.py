"""Sweeps of language models: rows equal `llm`, in every engine; digests, restarts and refusals."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import gguf_files
import sizeup
from cli.running import run_command
from published_configs import CONFIGS
from sizeup.errors import SizeupError
from sizeup.serving.checks.check import ServingCheck
from sizeup.sweeps import read_spec
from sweeps.tables import rows_of

pytest.importorskip("pyarrow", reason="sweeps store Parquet")

RACK = """
[cluster]
name = "two nodes"
[[node]]
count = 2
devices = { name = "l4", count = 4 }
"""
TARGETS = ["2xh100/vllm", "dgx-b200/sglang", "rack.toml/trtllm", "1xl4/llamacpp"]
SPEC: dict[str, Any] = {
    "models": ["configs/*.json"],
    "targets": TARGETS,
    "weights": ["stored", "fp8", "int4"],
    "kv": ["stored", "fp8"],
    "concurrency": [1, 100],
}
FITS = {"yes": True, "no": False, "undetermined": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configurations of several kinds of attention, and one that is refused, in the current folder."""
    configs = tmp_path / "configs"
    configs.mkdir()
    for name in ("Llama-3.1-8B", "gpt-oss-20b", "DeepSeek-V3"):
        (configs / f"{name.lower()}.json").write_text(json.dumps(CONFIGS[name]), "utf-8")
    (configs / "unknown.json").write_text('{"model_type": "unheard_of"}', "utf-8")
    (tmp_path / "rack.toml").write_text(RACK, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def by_point(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    names = ("model", "target", "precision", "requested_kv", "concurrency")
    return {tuple(row[name] for name in names): row for row in rows}


def test_rows_are_those_of_llm_and_check(folder: Path) -> None:
    result = sizeup.sweep(SPEC, "out", in_process=True)
    rows = by_point(rows_of("out"))
    models = sorted(path.name for path in (folder / "configs").iterdir())
    assert len(rows) == result.rows == len(models) * 4 * 3 * 2 * 2
    assert result.errors == result.rows // len(models)
    names = ["2xh100-sxm/vllm", "dgx-b200/sglang", "two nodes/trtllm", "l4/llamacpp"]
    points = itertools.product(
        models, zip(TARGETS, names, strict=True), SPEC["weights"], SPEC["kv"], (1, 100)
    )
    for model, (target, name), weights, kv, concurrency in points:
        row = rows[f"configs/{model}", name, weights, kv, concurrency]
        options: dict[str, Any] = {
            "weights": None if weights == "stored" else weights,
            "kv": None if kv == "stored" else kv,
            "concurrency": concurrency,
        }
        path = f"configs/{model}"
        if model == "unknown.json":
            with pytest.raises(SizeupError) as refusal:
                sizeup.llm(path, target=target, **options)
            assert row["status"] == "error"
            assert row["error"].startswith("configs/unknown.json: model type 'unheard_of' is not supported")
            assert str(refusal.value).startswith(row["error"])  # which has a longest length
            assert row["fits"] is row["max_context"] is row["weight_bytes"] is None
            continue
        assert row["status"] == "ok", row["error"]
        serving = sizeup.llm(path, target=target, **options)
        (at,) = serving.points()
        assert (row["layout"], row["kv"]) == (str(serving.layout), serving.kv)
        assert row["weight_bytes"] == serving.architecture.stored_bytes
        assert row["params"] == serving.architecture.parameters
        assert row["gpu_weight_bytes"] == serving.memory.weights_bytes + serving.memory.tower_bytes
        assert (row["fits"], row["max_context"]) == (FITS[at.fits], at.max_context)
        assert row["max_sequences"] == serving.max_sequences()
        assert (row["max_sequences_low"], row["max_sequences_high"]) == serving.sequences_range()
        check = ServingCheck(str(path), target, **options)
        (limit,) = check.limits
        assert (row["ram_need_bytes"], row["ram_bytes"]) == (limit.need, limit.maximum)
        assert row["free_bytes"] == limit.headroom
        assert (row["fits_reason"] is None) == (row["fits"] is True)
        assert_times(row, serving)


def assert_times(row: dict[str, Any], serving: sizeup.Serving) -> None:
    """Times of a row are those of `llm`; without a calibration they are lower bounds, without an interval."""
    times = serving.times()
    if row["fits"] is False:
        assert row["tpot_ms"] is row["tpot_low_ms"] is row["ttft_high_ms"] is None
        assert row["times_missing"] == "the model and its sequences do not fit"
        return
    assert times is not None
    (point,) = times.points
    for name, duration in (("tpot", point.tpot), ("ttft", point.ttft)):
        bounds = [None if each is None else 1e3 * each for each in (duration.low, duration.high)]
        expected = [1e3 * duration.seconds, *bounds]
        if times.calibration is None:
            expected = [None, 1e3 * duration.seconds, None]
        assert [row[f"{name}_ms"], row[f"{name}_low_ms"], row[f"{name}_high_ms"]] == expected
    is_calibrated = times.calibration is not None
    assert row["user_tokens_per_second"] == (point.user_tokens_per_second if is_calibrated else None)
    assert row["gpu_tokens_per_second"] == (point.gpu_tokens_per_second if is_calibrated else None)
    assert (row["times_missing"] is None) == (is_calibrated and not times.caveats)


def test_bytes_of_the_cache_are_those_by_hand(folder: Path) -> None:
    sizeup.sweep({**SPEC, "models": ["configs/l*.json"], "input": 1000, "output": 24}, "out", in_process=True)
    # Llama-3.1-8B: 32 layers x 2 x 8 heads x 128 elements of 2 bytes, and of one byte.
    for row in rows_of("out"):
        each = 131_072 if row["kv"] == "bf16" else 65_536
        assert (row["kv_token_bytes"], row["sequence_bytes"]) == (each, 1024 * each)


def test_workers_write_the_same_rows_and_a_restart_writes_none(folder: Path) -> None:
    sizeup.sweep(SPEC, "here", in_process=True)
    spec = {**SPEC, "models": ["configs/l*.json", "configs/u*.json"]}
    result = sizeup.sweep(spec, "workers", workers=1)
    names = ("configs/llama-3.1-8b.json", "configs/unknown.json")
    assert sorted(rows_of("workers"), key=_key) == sorted(
        (row for row in rows_of("here") if row["model"] in names), key=_key
    )
    again = sizeup.sweep(spec, "workers", in_process=True)
    assert (again.rows, again.existing) == (0, result.models)
    more = sizeup.sweep({**spec, "layouts": ["default", "tp1"]}, "workers", in_process=True)
    assert more.rows == result.rows


def _key(row: dict[str, Any]) -> str:
    return str(row["key"])


def test_what_a_checkpoint_or_a_cluster_consists_of_is_part_of_the_key(folder: Path) -> None:
    checkpoint = folder / "llama"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text(json.dumps(CONFIGS["Llama-3.1-8B"]), "utf-8")
    spec = {"models": ["llama"], "targets": ["rack.toml"], "layouts": ["tp4"]}

    def written() -> int:
        return sizeup.sweep(spec, "out", in_process=True).rows

    assert (written(), written()) == (1, 0)
    header = b'{"model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}}'
    (checkpoint / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert (written(), written()) == (1, 0)
    quantization = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (checkpoint / "hf_quant_config.json").write_text(json.dumps(quantization), "utf-8")
    assert (written(), written()) == (1, 0)
    (folder / "rack.toml").write_text(RACK.replace("count = 2", "count = 3"), "utf-8")
    assert (written(), written()) == (1, 0)
    current = sizeup.query("out", "SELECT kv, layout, gpu_weight_bytes FROM points").rows
    assert len(current) == 1
    assert current[0][:2] == ("fp8", "tp4,dp3")


def test_folders_and_gguf_files_are_models_and_other_files_rows_with_the_reason(folder: Path) -> None:
    (folder / "checkpoints" / "llama").mkdir(parents=True)
    (folder / "checkpoints" / "empty").mkdir()
    (folder / "checkpoints" / "llama" / "config.json").write_text(
        json.dumps(CONFIGS["Llama-3.1-8B"]), "utf-8"
    )
    (folder / "checkpoints" / "hf_quant_config.json").write_text("{}", "utf-8")
    (folder / "checkpoints" / "small.gguf").write_bytes(gguf_files.gguf(*gguf_files.llama()))
    (folder / "checkpoints" / "net.onnx").write_bytes(b"not a configuration")
    spec = {
        "models": ["checkpoints/*"],
        "targets": ["1xl4/llamacpp"],
        "weights": ["stored", "fp8"],
        "input": 64,
    }
    sizeup.sweep(spec, "out", in_process=True)
    states = {(row["model"], row["precision"]): row["error"] or "ok" for row in rows_of("out")}
    assert {model for model, _ in states} == {
        f"checkpoints/{name}" for name in ("llama", "small.gguf", "net.onnx")
    }
    assert states["checkpoints/llama", "fp8"] == states["checkpoints/small.gguf", "stored"] == "ok"
    assert "leave out --weights" in states["checkpoints/small.gguf", "fp8"]
    assert "checkpoints/net.onnx: not JSON" in states["checkpoints/net.onnx", "stored"]


def test_single_points_and_the_view_of_language_models(folder: Path) -> None:
    point = {"target": "2xh100", "weights": "fp8", "kv": "fp8", "layout": "tp2", "concurrency": 8}
    spec = {"models": ["configs/l*.json"], "points": [{**point, "input": 100, "output": 10}]}
    sizeup.sweep(spec, "out", in_process=True)
    result = sizeup.query("out", view="serving")
    (row,) = (dict(zip(result.columns, values, strict=True)) for values in result.rows)
    expected = {"target": "2xh100-sxm/vllm", "weights": "fp8", "kv": "fp8", "layout": "tp2", "fits": True}
    assert {name: row[name] for name in expected} == expected
    assert (row["concurrency"], row["input_tokens"], row["output_tokens"]) == (8, 100, 10)
    (stored,) = rows_of("out")
    times = [name for name in stored if name.startswith(("tpot", "ttft")) or name.endswith("_per_second")]
    assert len(times) == 8
    assert {name: row[name] for name in times} == {name: stored[name] for name in times}
    assert row["tpot_low_ms"] < row["tpot_ms"] < row["tpot_high_ms"]
    assert sizeup.query("out", "SELECT timed, median_ms FROM summary").rows == ((1, None),)
    assert sizeup.query("out", view="unknown").rows == ()
    assert [len(sizeup.query("out", view=view).rows) for view in ("summary", "fits", "misfits")] == [1, 1, 0]


@pytest.mark.parametrize(
    "target", ["core-ultra-7-258v", "core-ultra-7-258v/openvino", "core-ultra-7-258v/openvino-gpu"]
)
def test_laptops_are_refused_before_a_sweep(folder: Path, target: str) -> None:
    spec = {"models": ["configs/llama-3.1-8b.json"], "targets": [target], "input": 512}
    message = "core-ultra-7-258v/openvino-gpu runs one sequence .* sweeps and grids do not"
    with pytest.raises(SizeupError, match=message):
        sizeup.sweep(spec, "out", in_process=True)
    with pytest.raises(SizeupError, match=message):
        sizeup.llm_grid("configs/llama-3.1-8b.json", targets=[target], contexts=[1], sequences=[1])


def test_fits_has_the_times_of_language_models(folder: Path) -> None:
    spec = {"models": ["configs/llama-3.1-8b.json"], "targets": ["h100/vllm"], "concurrency": [1, 64]}
    sizeup.sweep(spec, "out", in_process=True)
    result = sizeup.query("out", view="fits")
    rows = [dict(zip(result.columns, values, strict=True)) for values in result.rows]
    assert [row["ms"] for row in rows] == [None, None]
    assert 0 < rows[0]["tpot_ms"] < rows[1]["tpot_ms"]
    shown = run_command("query", "out", "--view", "fits").stdout
    titles = next(line for line in shown.splitlines() if "concurrency" in line).split()
    assert {"tpot_ms", "ttft_ms"} <= set(titles)
    assert "ms" not in titles


def test_rows_of_fits_and_misfits_differ_in_what_was_swept(folder: Path) -> None:
    spec = {
        "models": ["configs/l*.json"], "targets": ["1xh100"], "concurrency": [1, 2, 4000, 5000],
        "kv": ["stored", "fp8"], "input": [1024, 2048],
    }  # fmt: skip
    sizeup.sweep(spec, "out", in_process=True)
    names = ("concurrency", "kv", "layout", "input_tokens", "output_tokens")
    for view, counts in (("fits", (1, 2)), ("misfits", (4000, 5000))):
        result = sizeup.query("out", view=view)
        points = [tuple(row[result.columns.index(name)] for name in names) for row in result.rows]
        assert sorted(points) == sorted(
            itertools.product(counts, ("bf16", "fp8"), ("tp1",), (1024, 2048), (512,))
        )
        shown = run_command("query", "out", "--view", view).stdout
        assert "layout tp1, output_tokens 512" in shown  # once above the table
        titles = next(line for line in shown.splitlines() if "concurrency" in line and "model" in line)
        assert {"kv", "input_tokens"} < set(titles.split())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": [1]}, "batch does not apply to language models on clusters; set concurrency"),
        ({"precisions": ["int8"]}, "set weights and kv"),
        ({"weights": ["int3"]}, "weights: precision 'int3' is unknown; use one of stored, bf16"),
        ({"kv": "bf8"}, "kv: precision 'bf8' is unknown"),
        ({"input": 0}, "input is 0, not an integer from 1"),
        ({"concurrency": [1, True]}, "not an integer from 1"),
        ({"targets": ["rpi5/ort"]}, "serving engine 'ort' is unknown"),
        ({"targets": ["spec.toml"]}, "not a cluster file: [cluster] is missing"),
        ({"targets": []}, "weights without targets"),
        ({"points": [{"target": "2xh100", "kv": ["fp8"]}]}, "kv is a list"),
        ({"targets": ["rack.toml", "other.toml"]}, "two different clusters are named 'two nodes'"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    (folder / "spec.toml").write_text("models = []\n", "utf-8")
    (folder / "other.toml").write_text(RACK.replace("count = 4", "count = 8"), "utf-8")
    with pytest.raises(SizeupError) as refusal:
        read_spec({**SPEC, **change})
    assert message in str(refusal.value)


def test_a_device_is_one_gpu_if_all_models_are_configurations(folder: Path) -> None:
    spec = {"models": ["configs/llama-3.1-8b.json"], "targets": ["h100/vllm"]}
    assert sizeup.sweep(spec, "out", in_process=True).errors == 0
    (row,) = rows_of("out")
    assert (row["target"], row["layout"], row["fits"]) == ("h100-sxm/vllm", "tp1", True)
    point = {**spec, "targets": [], "points": [{"target": "h100/vllm"}]}
    assert sizeup.sweep(point, "out", in_process=True).rows == 0


def test_measurements_of_the_user_are_part_of_the_key(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    spec = {"models": ["configs/llama-3.1-8b.json"], "targets": ["h100/vllm"], "input": 1024, "output": 256}

    def written() -> int:
        return sizeup.sweep(spec, "out", in_process=True).rows

    assert (written(), written()) == (1, 0)
    bench = {"completed": 10, "max_concurrency": 1, "total_input_tokens": 10_240, "duration": 9}
    bench |= {"total_output_tokens": 2_560, "median_tpot_ms": 9, "median_ttft_ms": 50}
    Path("bench.json").write_text(json.dumps(bench), "utf-8")
    sizeup.calibrate_serving("bench.json", model="configs/llama-3.1-8b.json", target="h100/vllm")
    assert (written(), written()) == (1, 0)
    assert 9.0 in [row["tpot_ms"] for row in rows_of("out")]
