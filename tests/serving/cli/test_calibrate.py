"""`sizeup calibrate --serving` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import published_configs
import sizeup
from cli.running import Run
from serving.times.test_bench_files import TRTLLM, VLLM
from sizeup.targets import clear_cache


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    published_configs.make(tmp_path)
    clear_cache()
    return tmp_path / "llama-3.1-70b.json"


def bench(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**VLLM, **changes}))
    return path


def test_times_of_llm_are_corrected_and_the_basis_names_the_file(run: Run, config: Path) -> None:
    before = sizeup.llm(config, target="8xh100/vllm", input=1024, output=256, concurrency=8).times()
    assert before is not None
    estimated = before.points[0]
    file = bench(config.parent / "bench.json", median_tpot_ms=2e3 * estimated.tpot.seconds / 1.9)
    done = run("calibrate", "--serving", file, "--model", config, "--device", "8xh100/vllm")
    assert (done.code, done.err) == (0, "")
    assert "llama-3.1-70b on h100-sxm/vllm, tp8, cache bf16" in done.out
    assert "TPOT x 1.05" in done.out
    assert (config.parent / "settings/sizeup/targets/h100-sxm.toml").is_file()
    load = ("--in", "1024", "--out", "256", "--concurrency", "8")
    shown = run("llm", config, "-d", "8xh100/vllm", *load).out
    assert "corrected by 1 measurement of bench.json" in " ".join(shown.split())
    data = json.loads(run("llm", config, "-d", "8xh100/vllm", *load, "--json").out)
    assert data["times"]["measurements"] == {"count": 1, "files": ["bench.json"]}
    expected = 2 * estimated.tpot.seconds / 1.9
    assert data["times"]["points"][0]["tpot_seconds"]["expected"] == pytest.approx(expected, rel=1e-5)


def test_json_has_measured_and_estimated_seconds(run: Run, config: Path) -> None:
    file = bench(config.parent / "bench.json", max_concurrency=None)
    arguments = ("calibrate", "--serving", file, "--model", config, "--device", "8xh100/vllm", "--json")
    data = json.loads(run(*arguments).out)
    (row,) = data["measurements"]
    assert row["tpot_seconds"]["measured"] == 0.012
    assert row["ttft_seconds"]["measured"] is None
    assert data["ttft_factor"] is None
    assert data["tpot_factor"] == pytest.approx(0.012 / row["tpot_seconds"]["estimated"])
    assert any("inferred" in note for note in data["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs --model config.json and --device TARGET"),
        (("--model", "llama-3.1-70b.json", "--device", "8xl40s/vllm"), "no calibrated times to correct"),
        (
            ("--model", "llama-3.1-70b.json", "--device", "8xh100/vllm", "--csv", "a.csv"),
            "cannot be combined",
        ),
        (("--model", "llama-3.1-405b.json", "--device", "8xh100/vllm"), "at most 0 fit the cache"),
        (("--model", "llama-3.1-8b.json", "--device", "8xh100/vllm", "--layout", "tp3"), "tp3"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    run: Run, config: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run("calibrate", "--serving", bench(config.parent / "bench.json"), *arguments)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not (config.parent / "settings").exists()


def test_a_benchmark_of_another_server_is_refused(run: Run, config: Path) -> None:
    file = bench(config.parent / "bench.json", median_tpot_ms=1e4)
    common = ("--model", config, "--device", "8xh100/vllm")
    assert "more than a factor of 10" in run("calibrate", "--serving", file, *common).err
    (config.parent / "report.json").write_text(json.dumps(TRTLLM))
    done = run("calibrate", "--serving", "report.json", *common)
    assert "write -d NxDEVICE/trtllm" in " ".join(done.err.split())
    done = run("calibrate", "--serving", "report.json", "--model", config, "--device", "8xh100/trtllm")
    assert "measured on 2 GPUs, and 8xh100-sxm has 8" in " ".join(done.err.split())
    done = run("calibrate", "--layout", "tp8")
    assert "needs --serving FILE" in done.err
