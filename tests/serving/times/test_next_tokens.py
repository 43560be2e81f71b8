"""Times on laptops and phones: published ones through `sizeup.llm`, and what has no interval."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sizeup
from cli.running import run_command as run
from serving.laptops import LLAMA, SMALL, written
from sizeup.serving.steps.rates import next_tokens
from sizeup.serving.times import estimate
from sizeup.targets import device as device_of

# MAPE in percent with families held out, that a laptop may have at most.
BARS = {
    "Intel Core Ultra 5-330": 5,
    "Intel Core Ultra 7-255H": 14,
    "Intel Core Ultra 7-258V": 8,
    "Intel Core Ultra 7-368H": 7,
}
PRECISIONS = {"INT4-MIXED": "int4", "INT8-CW": "int8", "FP16": "fp16"}


@pytest.mark.parametrize(
    ("changes", "target", "weights", "reason"),
    [
        (
            {},
            "snapdragon-8-elite",
            None,
            "weights in bf16 are not among the measurements; give --weights int4",
        ),
        ({}, "core-ultra-7-258v", "fp8", "weights in fp8 are not"),
        (
            {"torch_dtype": "float32"},
            "core-ultra-7-258v",
            None,
            "weights in fp32 are not among the measurements; give --weights int4, int8 or fp16",
        ),
        ({}, "core-ultra-9-288v", "int4", "no language model was measured on core-ultra-9-288v"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
            "core-ultra-7-258v",
            "int4",
            "mixtures of experts are not",
        ),
    ],
)
def test_times_of_what_was_not_measured_are_not_known(
    tmp_path: Path, changes: dict[str, Any], target: str, weights: str | None, reason: str
) -> None:
    path = written(tmp_path / "config.json", SMALL | changes)
    serving = sizeup.llm(path, target=target, weights=weights, ram="16GiB")
    assert serving.times() is None
    assert serving.no_times.startswith(reason)
    arguments = ("-d", target, "--ram", "16GiB", "--tpot", "30ms")
    ended = run("llm", str(path), *arguments, *(() if weights is None else ("--weights", weights)))
    assert ended.returncode == 3, ended
    assert reason in " ".join(ended.stdout.split())


# Measured are prompts of 32 to 1,025 tokens on the laptop, contexts of up to 4,096 on the phone, and models
# of 0.2 to 8.2 GiB and of 0.7 to 4.0 GiB per token.
@pytest.mark.parametrize(
    ("target", "options", "caveat"),
    [
        ("core-ultra-7-258v", {"input": 32, "output": 128}, ""),
        ("core-ultra-7-258v", {"input": 1024, "output": 512}, ""),
        ("core-ultra-7-258v", {"input": 31}, "no interval: prompts of less than 32 tokens are not"),
        ("core-ultra-7-258v", {"input": 1026}, "no interval: prompts of more than 1,025 tokens are not"),
        (
            "core-ultra-7-258v",
            {"input": 1024, "output": 4096},
            "no interval for next tokens: contexts of more than 1,025 tokens are not among the measurements",
        ),
        (
            "core-ultra-7-258v",
            {"input": 512, "kv": "int8"},
            "no interval for next tokens: caches in int8 are",
        ),
        (
            "core-ultra-7-258v",
            {"input": 512, "weights": "fp16"},
            "more than 8.18 GiB of weights per token are",
        ),
        ("snapdragon-8-elite-gen-5/qnn", {"input": 1, "output": 4095}, ""),
        ("snapdragon-8-elite-gen-5/qnn", {"input": 4096, "output": 1}, "contexts of more than 4,096 tokens"),
        ("snapdragon-x2-elite/qnn", {"input": 512}, "3 families of models, not 4"),
    ],
)
def test_what_exceeds_the_measurements_has_no_interval(
    tmp_path: Path, target: str, options: dict[str, Any], caveat: str
) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    times = sizeup.llm(path, target=target, ram="32GiB", **{"weights": "int4", **options}).times()
    assert times is not None
    (point,) = times.points
    assert caveat in "; ".join(times.caveats)
    assert (point.tpot.low is None) == bool(caveat)
    assert (point.ttft.low is None) == (bool(caveat) and "next tokens" not in times.caveats[0])


# Published rows and the user's path.


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("scipy", reason="the regression needs scipy")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module(name)


@pytest.mark.parametrize("laptop", BARS)
def test_published_next_tokens_are_within_the_bar(
    laptop: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are predicted by rates that were fitted without their family; `sizeup.llm` predicts the same."""
    tokens = benchmark("serving_tokens", monkeypatch)
    models = tokens.ON_LAPTOPS
    rows = _published(shared, laptop, models)
    table = tokens.laptops()
    table = table.part(table.device == laptop)
    times = tokens.held_out(table)
    name, shipped = device_of(laptop).name, next_tokens()["openvino-gpu"]
    assert len(rows) == len(times) == shipped.counts[name]
    mape = np.mean(np.abs(times / np.array([float(row[3]) / 1e3 for row in rows]) - 1))
    assert 100 * mape <= BARS[laptop]
    assert mape == pytest.approx(shipped.mape[name][0], abs=0.001)
    sizes = [row[2] for row in rows]
    rates = shipped.tokens[name]
    assert (rates.least_tokens, rates.most_tokens) == (min(sizes), max(sizes))
    for kin in sorted(set(table.kin)):
        numbers = dict(zip(table.names, tokens.fitted(table.part(table.kin != kin)), strict=True))
        rates = replace(shipped.tokens[name], next=numbers)
        changed = {"openvino-gpu": replace(shipped, tokens={name: rates})}
        monkeypatch.setattr(estimate, "next_tokens", lambda changed=changed: changed)
        row = int(np.flatnonzero(table.kin == kin)[-1])
        topology, precision, size, _ = rows[row]
        config = importlib.import_module("serving_models").config_of(models[topology])
        served = sizeup.llm(
            written(tmp_path / "config.json", config),
            target=f"{name}/openvino-gpu", input=size, output=1, weights=precision, ram="64GiB",
        ).times()  # fmt: skip
        assert served is not None
        assert served.points[0].tpot.seconds == pytest.approx(times[row], rel=1e-6)


def _published(shared: Path, laptop: str, models: Mapping[str, Any]) -> list[tuple[str, str, int, str]]:
    """Model, precision, tokens of the prompt and milliseconds of the rows of a laptop."""
    with (shared / "truth" / "openvino_llm.csv").open(newline="", encoding="utf-8") as file:
        return [
            (row["Topology"], PRECISIONS[row["Precision"]], int(row["Input Size"]), row["2nd latency (ms)"])
            for row in csv.DictReader(file)
            if row["device"] == laptop and row["Topology"] in models and row["Input Size"].isdigit()
            and row["Precision"] in PRECISIONS and row["2nd latency (ms)"]
        ]  # fmt: skip


@pytest.mark.parametrize("is_first", [False, True])
def test_shipped_numbers_and_intervals_are_those_of_the_tables(
    is_first: bool, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = benchmark("serving_tokens", monkeypatch)
    for source in tokens.SOURCES:
        table = source.tokens(is_first=is_first)
        ratios = table.truth / tokens.held_out(table)
        for device in dict.fromkeys(table.device):
            here, rates = table.device == device, next_tokens()[source.engine].tokens[device_of(device).name]
            fit = dict(zip(table.names, tokens.fitted(table.part(here)), strict=True))
            numbers = {name: value for names, value in fit.items() for name in names.split()}
            shipped, errors = (rates.first, rates.ttft) if is_first else (rates.next, rates.tpot)
            assert shipped == pytest.approx(numbers, rel=1e-3)
            assert np.mean(np.abs(1 / ratios[here] - 1)) == pytest.approx(errors.mape, abs=0.001)
            assert (errors.low is None) == (len(set(table.kin[here])) < 4)
            if errors.low is not None and errors.high is not None:
                held = (ratios[here] >= errors.low) & (ratios[here] <= errors.high)
                assert held.mean() >= 0.9


# qai_hub_models/models/llama_v3_1_8b_instruct/perf.yaml of https://github.com/qualcomm/ai-hub-models, commit
# b61a009: tokens per second at a context of 4,096, and seconds of the first 128 and of 4,096 tokens.
AI_HUB = {
    "snapdragon-8-elite": (14.14, 0.142777, 4.568864),
    "snapdragon-x2-elite": (21.0, 0.129952, 4.158464),
}


@pytest.mark.parametrize("phone", AI_HUB)
def test_published_times_of_a_phone_are_near(tmp_path: Path, phone: str) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    speed, step, whole = AI_HUB[phone]
    for input, first in ((128, step), (4095, whole)):
        serving = sizeup.llm(
            path, target=f"{phone}/qnn", input=input, output=4096 - input, weights="int4", ram="16GiB"
        )
        times = serving.times()
        assert times is not None
        (point,) = times.points
        assert point.user_tokens_per_second == pytest.approx(speed, rel=0.25)
        assert point.ttft.seconds == pytest.approx(first, rel=0.25)


def test_the_largest_model_on_a_phone_is_counted_by_hand() -> None:
    """Llama 3.1 8B: 4 bits in groups of 128 with 16-bit scales, and a head of 8 bits."""
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    rates = next_tokens()["qnn"].tokens["snapdragon-8-elite-gen-5"]
    assert rates.most_bytes == layers // 2 + layers // 128 * 2 + 128256 * 4096
