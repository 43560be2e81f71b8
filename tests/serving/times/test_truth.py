"""The benchmark on measured servers: what it reads, what it writes, and how near the shipped rates are."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from sizeup.serving.steps.rates import calibrations

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "serving_truth.py"
MEASURED = ("silicon_ttft_ms", "silicon_tpot_ms")


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, str]]:
    path = shared / "llm" / "silicon.csv"
    if not path.exists():
        pytest.skip("llm/silicon.csv is not in the folder 'shared'")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))[::5]


def predictions(rows: list[dict[str, str]], folder: Path) -> tuple[list[dict[str, str]], str]:
    source, target = folder / "rows.csv", folder / "predictions.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--rows", str(source), "-o", str(target)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    with target.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file)), done.stdout


def test_every_supported_row_is_predicted_without_its_measurement(
    rows: list[dict[str, str]], tmp_path: Path
) -> None:
    blind = [{**row, **dict.fromkeys(MEASURED, "")} for row in rows]
    blind[0]["model_path"] = "nobody/unknown-1B"
    results, output = predictions(blind, tmp_path)
    assert [row["id"] for row in results] == [row["id"] for row in rows]
    assert set(results[0].values()) == {results[0]["id"], ""}
    assert f"{len(rows) - 1:,} of {len(rows):,} rows predicted" in output
    ratios = [
        float(row["tpot_ms"]) / float(truth["silicon_tpot_ms"])
        for row, truth in zip(results[1:], rows[1:], strict=True)
    ]
    near = sum(abs(ratio - 1) <= 0.2 for ratio in ratios) / len(ratios)
    assert near > 0.8  # in sample; models held out: docs/llm-times.md
    for row, truth in zip(results[1:], rows[1:], strict=True):
        for name in ("tpot", "ttft"):
            low, value, high = (row[f"{name}{part}_ms"] for part in ("_low", "", "_high"))
            if calibrations()[truth["backend"]].tpot.low is None:  # its interval did not hold
                assert (low, high) == ("", "")
            else:
                assert 0 < float(low) < float(value) < float(high)


def test_the_frozen_split_does_not_move(rows: list[dict[str, str]]) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from serving_split import is_frozen  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(SCRIPT.parent))
    curves: dict[tuple[str, ...], set[bool]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("model", "system", "backend", "precision_fixed", "isl", "osl"))
        key += tuple(row[name] for name in ("tp_fixed", "attn_dp_fixed", "moe_tp_fixed", "moe_ep_fixed"))
        curves.setdefault(key, set()).add(is_frozen(row))
    assert all(len(parts) == 1 for parts in curves.values())
    share = sum(is_frozen(row) for row in rows) / len(rows)
    assert 0.1 < share < 0.25


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (0.1, 8192, 0)),
        # 70b_fp8_h200_trt_slurm.sh: batch_wait_timeout_iters 20 below TP 8, --max_num_tokens 16384.
        ({"backend": "trtllm", "tp_fixed": "4"}, (0.1, 16384, 20)),
        ({"backend": "trtllm"}, (0.1, 16384, 0)),
        # dsr1_fp8_b200.sh: --scheduler-recv-interval 30 from 16 clients, --chunked-prefill-size 32768.
        (
            {"backend": "sglang", "model": "DeepSeek-R1", "system": "b200_sxm", "concurrency": "16"},
            (0.1, 32768, 15),
        ),
        ({"backend": "sglang", "harness": "gap_grid"}, (1, 8192, 0)),  # all requests in step
    ],
)
def test_requests_are_sent_as_the_scripts_of_the_benchmark_send_them(
    changes: dict[str, str], expected: tuple[float, float, float]
) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from serving_flags import benchmark_of  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(SCRIPT.parent))
    row = {
        "harness": "inferencemax", "backend": "vllm", "model": "Llama-3.1-70B", "system": "h200_sxm",
        "precision_fixed": "fp8", "isl": "1024", "osl": "1024", "concurrency": "4", "tp_fixed": "8",
        "attn_dp_fixed": "1", "measured": "2025-10-29",
    }  # fmt: skip
    result = benchmark_of({**row, **changes})
    assert (result.wave_share, result.batch_tokens, result.held_steps) == expected
