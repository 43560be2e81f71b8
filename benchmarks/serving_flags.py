"""How the benchmarks behind the rows sent requests, and scheduler options of their servers.

InferenceMAX: scripts under `benchmarks/` of https://github.com/SemiAnalysisAI/InferenceX (Apache-2.0), read
at the dates of the measurements, October 2025 to April 2026. It sends 10 prompts per client, all clients
start at once, and every mean includes these first prompts. Two options delay a prompt by decode steps:

    SGLang        --scheduler-recv-interval N: new requests are looked for every N steps
    TensorRT-LLM  batch_wait_timeout_iters N: prompts are held for N steps
                  attention_dp_config.enable_balance: for at most 50 or 60 steps, until ranks have equal work

The other measurements state no options. Their lengths are fixed: SGLang prefills before it decodes, so all
its requests begin to decode, end and return at the same time, again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

from sizeup.serving.times.closed_form import Benchmark

REQUESTS_PER_CLIENT = 10  # of InferenceMAX; assumed for the others
DEFAULT_TOKENS = 8192


def benchmark_of(row: Mapping[str, str]) -> Benchmark:
    """How the requests of a row were sent."""
    engine, share = row["backend"], 1 / REQUESTS_PER_CLIENT
    if row["harness"] != "inferencemax":
        return Benchmark(1.0 if engine == "sglang" else share, DEFAULT_TOKENS)
    steps = {"sglang": _sglang_steps, "trtllm": _trtllm_steps}.get(engine, lambda _: 0.0)
    return Benchmark(share, _tokens(row), steps(row))


def _sglang_steps(row: Mapping[str, str]) -> float:
    """Half of the interval."""
    if row["system"].startswith("h200"):
        return 0.0
    is_short = float(row["concurrency"]) < 16 or (
        row["model"].startswith("Qwen3.5") and (row["precision_fixed"], row["system"]) == ("fp8", "b300_sxm")
    )
    return 5.0 if is_short else 15.0


def _trtllm_steps(row: Mapping[str, str]) -> float:
    model, lengths = row["model"], (row["isl"], row["osl"])
    if float(row["attn_dp_fixed"]) > 1:
        return 30.0  # half of the most
    if lengths == ("1024", "1024") and model == "Llama-3.1-70B" and float(row["tp_fixed"]) < 8:
        return 20.0
    is_updated = row["system"].startswith("b200") and row["measured"] >= "2026-01-29"
    if lengths == ("1024", "1024") and (model, row["precision_fixed"]) == ("DeepSeek-R1", "fp8"):
        return 40.0 if is_updated and float(row["concurrency"]) >= 64 else 0.0
    return 0.0


def _tokens(row: Mapping[str, str]) -> float:
    """Tokens of a step."""
    engine, model, prompt = row["backend"], row["model"], float(row["isl"])
    is_blackwell = row["system"].startswith("b")
    if engine == "vllm":
        return 2 * prompt if model.startswith("MiniMax") and is_blackwell else DEFAULT_TOKENS
    if engine == "sglang":
        is_small = (model, row["precision_fixed"]) == ("DeepSeek-R1", "fp4") or (
            model.startswith("Qwen3.5") and _sglang_steps(row) < 15 and float(row["concurrency"]) >= 16
        )
        return 16384 if is_small else 32768
    if model.startswith("gpt-oss"):
        return 20000
    return 16384 if model.startswith("Llama") else max(prompt + float(row["concurrency"]), DEFAULT_TOKENS)
