"""Results of serving benchmarks: the three formats, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sizeup.errors import SizeupError
from sizeup.serving.times.bench_files import read_runs

VLLM: dict[str, Any] = {
    "backend": "vllm",
    "model_id": "acme/model",
    "num_prompts": 100,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 50.0,
    "completed": 100,
    "failed": 0,
    "total_input_tokens": 102_400,
    "total_output_tokens": 25_600,
    "mean_ttft_ms": 120.0,
    "median_ttft_ms": 100.0,
    "mean_tpot_ms": 12.5,
    "median_tpot_ms": 12.0,
}
SGLANG: dict[str, Any] = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),  # json.dumps writes Infinity
    "max_concurrency": 16,
    "duration": 10.0,
    "completed": 40,
    "total_input_tokens": 40_000,
    "total_output_tokens": 4_000,
    "mean_ttft_ms": 90.0,
    "median_ttft_ms": 80.0,
    "mean_tpot_ms": 9.0,
    "median_tpot_ms": 8.0,
    "concurrency": 15.2,
    "accept_length": None,
}
TRTLLM: dict[str, Any] = {
    "engine": {"model": "acme/model", "version": "1.2.0", "backend": "Pytorch"},
    "world_info": {"tp_size": 2, "pp_size": 1, "ep_size": 1, "world_size": 2},
    "request_info": {
        "num_requests": 640,
        "avg_num_concurrent_requests": 31.6,
        "avg_input_length": 1024.0,
        "avg_output_length": 511.7,
    },
    "streaming_metrics": {
        "avg_ttft_ms": 210.0,
        "avg_tpot_ms": 11.0,
        "tpot_percentiles": {"average": 11.0, "p50": 10.5},
        "ttft_percentiles": {"average": 210.0, "p50": 190.0},
    },
}


def _written(folder: Path, *results: Any) -> Path:
    path = folder / "bench.json"
    path.write_text("\n".join(map(json.dumps, results)))
    return path


def test_a_result_of_vllm_has_medians_and_mean_lengths(tmp_path: Path) -> None:
    (run,) = read_runs(_written(tmp_path, VLLM))
    assert (run.requests, run.input, run.output) == (8, 1024, 256)
    assert (run.tpot, run.ttft) == (0.012, 0.1)
    assert (run.model, run.notes) == ("acme/model", ())


def test_every_line_of_sglang_is_a_run(tmp_path: Path) -> None:
    runs = read_runs(_written(tmp_path, SGLANG, {**SGLANG, "max_concurrency": 32}))
    assert [(run.requests, run.input, run.output, run.tpot) for run in runs] == [
        (16, 1000, 100, 0.008),
        (32, 1000, 100, 0.008),
    ]


def test_a_report_of_trtllm_bench_has_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(TRTLLM, indent=4))
    (run,) = read_runs(path)
    assert (run.requests, run.input, run.output, run.tpot, run.ttft) == (32, 1024, 512, 0.0105, 0.19)
    assert run.divisions == (2, 1, 2)
    assert "on average" in run.notes[0]


def test_concurrency_without_a_limit_is_inferred_and_said_so(tmp_path: Path) -> None:
    # 100 requests of 0.1 + 0.012 * 255 = 3.16 seconds in 50 seconds: 6.32 at once.
    (run,) = read_runs(_written(tmp_path, {**VLLM, "max_concurrency": None, "request_rate": 2.0}))
    assert run.requests == 6
    assert "6 concurrent requests inferred" in run.notes[0]
    assert run.ttft == 0.1


def test_requests_sent_at_once_have_no_ttft(tmp_path: Path) -> None:
    (run,) = read_runs(_written(tmp_path, {**VLLM, "max_concurrency": None}))
    assert run.ttft is None
    assert "started together" in run.notes[-1]


def test_fewer_requests_than_the_limit_bound_the_concurrency(tmp_path: Path) -> None:
    (run,) = read_runs(_written(tmp_path, {**VLLM, "max_concurrency": 1_000}))
    assert (run.requests, run.ttft) == (100, None)  # all start together


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**VLLM, "median_tpot_ms": float("nan")}, "median_tpot_ms is nan, not a number"),
        ({**VLLM, "median_tpot_ms": -1}, "median_tpot_ms is -1, not within"),
        ({**VLLM, "median_ttft_ms": "12"}, "median_ttft_ms is '12', not a number"),
        ({**VLLM, "median_ttft_ms": None, "mean_ttft_ms": None}, "median_ttft_ms is None, not a number"),
        ({**VLLM, "completed": 0}, "completed is 0, not within"),
        ({**VLLM, "completed": True}, "completed is True, not a whole number"),
        ({**VLLM, "total_input_tokens": 10**30}, "total_input_tokens is inf, not a whole number"),
        ({**VLLM, "max_concurrency": 10**9}, "max_concurrency is 1000000000, not within"),
        ({**VLLM, "spec_decode_acceptance_length": 2.4}, "speculative decoding"),
        ({**SGLANG, "accept_length": 3.1}, "speculative decoding"),
        ({**TRTLLM, "decoding_stats": {"mode": "EAGLE"}}, "speculative decoding"),
        ({**TRTLLM, "streaming_metrics": []}, "streaming_metrics is []"),
        ({"request_info": {}}, "run trtllm-bench throughput with --streaming"),
        ({"a": 1}, "not the result of a benchmark; give the JSON file of vllm bench serve"),
        ([1, 2], "not the result of a benchmark"),
    ],
)
def test_other_values_are_refused_by_name(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(SizeupError) as refused:
        read_runs(_written(tmp_path, content))
    assert message in str(refused.value)
    assert "bench.json: line 1" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no result"),
        ("{", "not JSON"),
        ('{"completed": ' + "[" * 100_000, "nested too deeply"),
        ('{"completed": ' + "9" * 100_000 + ', "mean_tpot_ms": 1}', "completed is inf"),
        ("{}\n" * 1_001, "more than 1,000 lines"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(SizeupError, match=message):
        read_runs(tmp_path / "bench.json")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match="no such file"):
        read_runs(tmp_path / "none.json")
    with pytest.raises(SizeupError, match="not a regular file"):
        read_runs(tmp_path)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(SizeupError, match="larger than 16 MiB; leave out --save-detailed"):
        read_runs(tmp_path / "large.json")
