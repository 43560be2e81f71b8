"""Calibrations from fixed batches: published times, intervals, and attention with grouped heads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from language_model_configs import CONFIGS, architecture
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.rates import IDEAL, calibration_of, fixed_batches
from sizeup.serving.steps.step import demand, seconds_by_cause, server_of, step_time
from sizeup.targets import device
from sizeup.targets.clusters import cluster

LLAMA_3 = CONFIGS["Llama-3.1-8B"]  # the sizes of Llama-3-8B

# Plots/All_results.csv of https://github.com/argonne-lcf/LLM-Inference-Bench, commit 4211f5d: seconds in
# which vLLM on one A100 answers a batch of prompts of n tokens with n tokens each, Llama-3-8B.
PUBLISHED = {(128, 1): 1.826268, (1024, 1): 14.935715, (128, 64): 3.288690, (1024, 64): 36.162019}


@pytest.mark.parametrize(("length", "batch"), PUBLISHED)
def test_published_times_of_batches_are_near(length: int, batch: int) -> None:
    machines, _ = cluster("a100-40gb-sxm")
    server = server_of(architecture("Llama-3.1-8B"), Layout(), machines, "bf16")
    calibration = calibration_of("vllm", "a100-40gb-sxm")
    assert server is not None
    assert calibration is not None
    server = replace(server, rates=calibration.rates["a100-40gb-sxm"])
    steps = step_time(server, batch, np.arange(length, 2 * length - 1))  # one per token after the first
    total = float(step_time(server, batch, 0, length)) + float(steps.sum())
    assert total == pytest.approx(PUBLISHED[length, batch], rel=0.15)


def served(tmp_path: Path, target: str, **options: Any) -> dict[str, Any]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_3))
    result = sizeup.llm(path, target=target, input=1024, output=256, concurrency=[8], **options)
    times: dict[str, Any] = result.to_dict()["times"]
    return times


def test_first_tokens_that_were_not_measured_have_no_interval(tmp_path: Path) -> None:
    times = served(tmp_path, "a100-40gb/vllm")
    assert times["calibration"]["engine_versions"].startswith("of 2024")
    assert times["calibration"]["ttft_mape"] is None
    (point,) = times["points"]
    assert point["tpot_seconds"]["expected"] > 0
    assert point["tpot_seconds"]["low"] is None  # too wide for rows that were left out: docs/llm-times.md
    assert point["ttft_seconds"]["low"] is None
    assert any("fixed batches" in text for text in times["caveats"])


@pytest.mark.parametrize(
    ("target", "options", "caveat"),
    [
        (
            "a100/vllm",
            {},
            "efficiencies are those of a100-40gb-sxm, which has the same GPU and slower memory",
        ),
        ("gh200/vllm", {"weights": "fp8"}, "weights in fp8 are not among the measurements"),
    ],
)
def test_what_no_batch_has_gets_no_interval(
    tmp_path: Path, target: str, options: dict[str, Any], caveat: str
) -> None:
    times = served(tmp_path, target, **options)
    (reasons,) = (text for text in times["caveats"] if text.startswith("no interval: "))
    assert caveat in reasons.removeprefix("no interval: ").split("; ")
    assert times["points"][0]["tpot_seconds"]["high"] is None


def test_devices_with_the_efficiencies_of_another_have_its_arithmetic_and_faster_memory() -> None:
    """What the caveat says, from the catalog."""
    for calibration in fixed_batches().values():
        for name, other in calibration.measured_on.items():
            mine, measured = (device(each) for each in (name, other))
            assert mine.units[0].macs_per_second == measured.units[0].macs_per_second
            assert mine.bandwidth is not None
            assert measured.bandwidth is not None
            assert mine.bandwidth > measured.bandwidth


def test_servers_under_load_come_before_fixed_batches() -> None:
    known = calibration_of("vllm", "h100-sxm")
    assert known is not None
    assert known.ttft is not None
    assert calibration_of("sglang", "a100-40gb-sxm") is None


def test_grouped_heads_read_the_cache_again() -> None:
    # Llama-3.1-8B has 32 query heads for 8 key-value heads: 4^0.5 = 2.
    machines, _ = cluster("a100-40gb-sxm")
    server = server_of(architecture("Llama-3.1-8B"), Layout(), machines, "bf16")
    assert server is not None
    work = demand(server, 16, 4096)
    once, again = (
        float(seconds_by_cause(work, replace(IDEAL, grouping=exponent))["cache"]) for exponent in (0.0, 0.5)
    )
    assert again == pytest.approx(2 * once)


def test_latent_vectors_are_read_once() -> None:
    machines, _ = cluster("8xh200")
    server = server_of(architecture("DeepSeek-V3"), Layout(8, expert=8), machines, "bf16")
    assert server is not None
    assert float(demand(server, 16, 4096).heads) == 1.0
