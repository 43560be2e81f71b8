"""`sizeup check` of language models: verdicts and exit codes are those of the engine's cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import Run
from sizeup.api.check_llm import LlmCheckOptions, check_language_model, is_cluster

# Llama-3.1-8B: 16.06 GB of bf16 weights, 131,072 bytes of cache per token.
LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
HYBRID = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": 128,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention", "full_attention"] * 16,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), "utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (("-d", "2xh100/vllm", "--concurrency", "8"), 0, "YES:"),
        (("-d", "l4/vllm", "--in", "100k"), 1, "NO:"),  # 16.1 GB of weights and 13.3 GB of cache in 24 GiB
        (("-d", "2xh100", "--in", "64k", "--concurrency", "1:1024"), 1, "NO:"),
        (("-d", "2xl4/vllm", "--in", "64k", "--weights", "fp8", "--kv", "fp8"), 0, "YES:"),
        (("-d", "h100/vllm"), 0, "YES:"),  # one GPU, as the .json file is no other model
        (("-d", "h100"), 0, "YES:"),
    ],
)
def test_the_exit_code_is_the_verdict(
    run: Run, config: Path, arguments: tuple[str, ...], code: int, verdict: str
) -> None:
    ended = run("check", str(config), *arguments)
    assert ended.code == code, ended
    assert ended.out.startswith(verdict)


def test_a_check_is_written_as_any_other(run: Run, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "check.xml"
    ended = run("check", str(config), "-d", "2xh100/sglang", "--layout", "tp2", "--json", "-o", str(out))
    content = json.loads(ended.out)
    assert content["fits"] is True
    assert "2xh100-sxm/sglang" in ended.out
    assert "<testsuite" in out.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--concurrency", "8"), "needs -d TARGET"),
        (("-d", "8xh100", "--latency", "1ms"), "cannot be combined with -d 8xh100"),
        (("-d", "h100", "--in", "4k", "--bind", "n=1"), "cannot be combined with --in"),
        (("-d", "8xh100/vllm", "--in", "many"), "write a number of tokens"),
    ],
)
def test_options_that_contradict_are_refused(
    run: Run, config: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = run("check", str(config), *arguments)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize("model", [LLAMA, HYBRID], ids=["full", "windows"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_the_verdict_is_that_of_the_engine(tmp_path: Path, model: dict[str, object], engine: str) -> None:
    """At every concurrency near the largest one, where a byte decides."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(model), "utf-8")
    target = f"2xl4/{engine}"
    serving = sizeup.llm(path, target=target, input=4000, output=96)
    low, high = serving.sequences_range()
    verdicts = {"yes": True, "no": False, "undetermined": None}
    near = {max(count + shift, 1) for count in (low, high) for shift in range(-3, 4)}
    for concurrency in sorted(near):
        options = LlmCheckOptions(target, 4000, 96, concurrency)
        check = check_language_model(str(path), options)
        assert check.fits is verdicts[serving.fits_at(concurrency)], concurrency


@pytest.mark.parametrize("target", ["8xh100", "2x8xh100/vllm", "dgx-h100", "h100/sglang", "DGX-B200/vllm"])
def test_clusters_are_recognized(target: str) -> None:
    assert is_cluster(target)


@pytest.mark.parametrize("target", [None, "", "stm32f746/tflm", "h100", "a100/vllm", "rpi5/ort", "x.toml"])
def test_other_targets_are_no_clusters(target: str | None) -> None:
    assert not is_cluster(target)
