"""Benchmarks on other sources: the regression of next tokens, and what the peer is given."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.mark.extras
def test_rates_of_tokens_are_recovered_from_times_they_made(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy", reason="the regression needs scipy")
    tokens = benchmark("serving_tokens", monkeypatch)
    models = list(tokens.ON_LAPTOPS.values())
    columns = np.stack([
        tokens._columns(model, precision, context)
        for model in models for precision in tokens.BYTES for context in (32, 1024)
    ])  # fmt: skip
    # 4, 8 and 16 bits at 90, 100 and 110 GB/s, the cache at 60 GB/s, 0.1 ms per layer, 1 ms
    numbers = np.array([1 / 90e9, 1 / 100e9, 1 / 110e9, 1 / 60e9, 1e-4, 1e-3])
    kin = np.repeat([model.kin for model in models], 6)
    input = np.tile([32, 1024], len(columns) // 2)
    device, weights = np.full(len(columns), "laptop"), columns[:, :3].sum(axis=1)
    tokens_of_rates = tokens.Tokens(device, kin, columns, columns @ numbers, input, weights)
    assert tokens.fitted(tokens_of_rates) == pytest.approx(numbers, rel=1e-3)
    assert tokens.held_out(tokens_of_rates) == pytest.approx(tokens_of_rates.truth, rel=1e-3)


def test_a_token_of_llama_reads_its_weights_and_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy", reason="the regression needs scipy")
    tokens = benchmark("serving_tokens", monkeypatch)
    columns = tokens._columns(tokens.ON_LAPTOPS["llama-3.1-8b-instruct"], "FP16", 1024)
    # 8,030,261,248 parameters without the embedding of 128,256 x 4,096 and 65 norms; 131,072 B per token
    assert columns[2] == 2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
    assert columns[3] == 131_072 * 1024


def test_the_peer_is_given_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peer = benchmark("serving_peer", monkeypatch)
    seen: list[dict[str, str]] = []

    class Summary:
        def get_result_dict(self) -> dict[str, float]:
            return {"tpot": 10.0, "ttft": 100.0}

        def check_oom(self) -> bool:
            return seen[-1]["id"] == "large"

    def summary(row: dict[str, str], has_stated_modes: bool) -> Summary:
        if row["id"] == "unknown":
            raise KeyError("tables")
        seen.append(row)
        return Summary()

    monkeypatch.setattr(peer, "_summary", summary)
    rows, output = tmp_path / "rows.csv", tmp_path / "peer.csv"
    names = (*peer.MEASURED, "id", "system", "backend", "precision_fixed")
    with rows.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(("1", "2", id, "h100_sxm", "vllm", "fp8") for id in ("small", "large", "unknown"))
    peer.write_predictions(rows, "all", output)
    assert not any(name in row for row in seen for name in peer.MEASURED)
    with output.open(newline="", encoding="utf-8") as file:
        results = {row["id"]: row for row in csv.DictReader(file)}
    assert results["small"] == {"id": "small", "tpot_ms": "10", "ttft_ms": "100", "status": "answered"}
    assert results["large"]["tpot_ms"] == ""
    assert results["large"]["status"] == "out of memory"
    assert results["unknown"]["status"].startswith("refused: KeyError")
    assert "1 answered" in capsys.readouterr().out
    assert "aiconfigurator" not in sys.modules
