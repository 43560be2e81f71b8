"""Sizes of the models of public measurements, as configurations.

The number of parameters is within 1 % of the published one, other than Falcon's (4 % fewer) and those of
BLOOM and OPT among the fixed batches, whose tied head is counted twice. Multilayer perceptrons without a
gate have 2/3 of the intermediate size, which has the same number of weights; DeciLM has the four key-value
heads that vLLM replicates to. `kin` are models of one shape, which are held out together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.reader import architecture_of


@dataclass(frozen=True)
class Model:
    """A model: kin, then layers, hidden size, query heads, key-value heads, intermediate size, vocabulary."""

    kin: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    positions: int = 131072
    head_size: int = 0
    has_gate: bool = True
    is_tied: bool = False
    experts: int = 0
    experts_per_token: int = 0


def _plain(intermediate: int, layers: int = 32, vocabulary: int = 32000, **others: object) -> Model:
    """A 7B model with as many key-value heads as query heads."""
    return Model("7B plain", layers, 4096, 32, 32, intermediate, vocabulary, **others)  # type: ignore[arg-type]


FIXED_BATCHES = {
    "meta-llama/Llama-2-7b-hf": _plain(11008, positions=4096),
    "huggyllama/llama-7b": _plain(11008, positions=2048),
    "BAAI/Aquila-7B": _plain(11008, vocabulary=100008, positions=2048),
    "Qwen/Qwen1.5-7B": _plain(11008, vocabulary=151936, positions=32768),
    "bigscience/bloom-7b1": _plain(16384, 30, 250880, positions=2048, has_gate=False),
    "EleutherAI/gpt-j-6b": Model("7B plain", 28, 4096, 16, 16, 16384, 50400, 2048, has_gate=False),
    "facebook/opt-6.7b": _plain(16384, vocabulary=50272, positions=2048, has_gate=False),
    "meta-llama/Meta-Llama-3-8B": Model("7B grouped", 32, 4096, 32, 8, 14336, 128256, 8192),
    "mistralai/Mistral-7B-v0.1": Model("7B grouped", 32, 4096, 32, 8, 14336, 32000, 32768),
    "Deci/DeciLM-7B": Model("7B grouped", 32, 4096, 32, 4, 14336, 32000, 8192),
    "Qwen/Qwen2-7B": Model("Qwen2-7B", 28, 3584, 28, 4, 18944, 152064),
    "meta-llama/Llama-2-70b-hf": Model("70B", 80, 8192, 64, 8, 28672, 32000, 4096),
    "meta-llama/Meta-Llama-3-70B": Model("70B", 80, 8192, 64, 8, 28672, 128256, 8192),
    "Qwen/Qwen2-72B": Model("70B", 80, 8192, 64, 8, 29568, 152064, 32768),
    "mistralai/Mixtral-8x7B-v0.1": Model(
        "Mixtral", 32, 4096, 32, 8, 14336, 32000, 32768, experts=8, experts_per_token=2
    ),
}
"""Models of LLM-Inference-Bench."""

_LLAMA_3 = Model("llama3", 32, 4096, 32, 8, 14336, 128256)
_QWEN2 = Model("qwen2", 28, 3584, 28, 4, 18944, 152064)
_MISTRAL = Model("mistral", 32, 4096, 32, 8, 14336, 32000)
_PHI_3 = Model("phi", 32, 3072, 32, 32, 8192, 32064)
_PHI_4 = Model("phi", 40, 5120, 40, 10, 17920, 100352)
_PHI_4_MINI = Model("phi", 32, 3072, 24, 8, 8192, 200064, is_tied=True)
_STABLELM = Model("stablelm", 32, 2560, 32, 32, 6912, 50304)
_QWEN2_SMALL = Model("qwen2", 28, 1536, 12, 2, 8960, 151936, is_tied=True)
ON_LAPTOPS = {
    "baichuan2-7b-chat": Model("baichuan", 32, 4096, 32, 32, 11008, 125696),
    "bloomz-7b1": Model("bloom", 30, 4096, 32, 32, 16384, 250880, has_gate=False, is_tied=True),
    "chatglm3-6b": Model("glm", 28, 4096, 32, 2, 13696, 65024),
    "glm-4-9b-chat-hf": Model("glm", 40, 4096, 32, 2, 13696, 151552),
    "glm-edge-1.5b-chat": Model("glm", 28, 2048, 16, 4, 6144, 59264),
    "glm-edge-4b-chat": Model("glm", 40, 3072, 24, 6, 8192, 59264),
    "codellama-7b": Model("llama2", 32, 4096, 32, 32, 11008, 32000),
    "llama-2-7b-chat-hf": Model("llama2", 32, 4096, 32, 32, 11008, 32000),
    "llama-2-13b-chat-hf": Model("llama2", 40, 5120, 40, 40, 13824, 32000),
    "tiny-llama-1.1b-chat": Model("llama2", 22, 2048, 32, 4, 5632, 32000),
    "llama-3-8b-instruct": _LLAMA_3,
    "llama-3.1-8b-instruct": _LLAMA_3,
    "deepseek-r1-distill-llama-8b": _LLAMA_3,
    "llama-3.2-1b-instruct": Model("llama3", 16, 2048, 32, 8, 8192, 128256, is_tied=True),
    "llama-3.2-3b-instruct": Model("llama3", 28, 3072, 24, 8, 8192, 128256, is_tied=True),
    "deepseek-r1-distill-qwen-1.5b": Model("qwen2", 28, 1536, 12, 2, 8960, 151936),
    "qwen2.5-1.5b-instruct": _QWEN2_SMALL,
    "qwen2.5-coder-1.5b-instruct": _QWEN2_SMALL,
    "deepseek-r1-distill-qwen-7b": _QWEN2,
    "qwen2-7b-instruct": _QWEN2,
    "qwen2.5-7b-instruct": _QWEN2,
    "qwen2.5-7b-instruct-1m": _QWEN2,
    "deepseek-r1-distill-qwen-14b": Model("qwen2", 48, 5120, 40, 8, 13824, 152064),
    "qwen2.5-coder-0.5b-instruct": Model("qwen2", 24, 896, 14, 2, 4864, 151936, is_tied=True),
    "qwen2.5-coder-3b-instruct": Model("qwen2", 36, 2048, 16, 2, 11008, 151936, is_tied=True),
    "qwen1.5-14b-chat": Model("qwen1.5", 40, 5120, 40, 40, 13696, 152064),
    "qwen3-4b": Model("qwen3", 36, 2560, 32, 8, 9728, 151936, head_size=128, is_tied=True),
    "qwen3-8b": Model("qwen3", 36, 4096, 32, 8, 12288, 151936),
    "dolly-v2-12b": Model("neox", 36, 5120, 40, 40, 20480, 50280, has_gate=False),
    "falcon-7b-instruct": Model("falcon", 32, 4544, 71, 1, 18176, 65024, has_gate=False, is_tied=True),
    "gemma-2-9b-it": Model("gemma", 42, 3584, 16, 8, 14336, 256000, head_size=256, is_tied=True),
    "gemma-2b-it": Model("gemma", 18, 2048, 8, 1, 16384, 256000, head_size=256, is_tied=True),
    "gemma-7b-it": Model("gemma", 28, 3072, 16, 16, 24576, 256000, head_size=256, is_tied=True),
    "gemma-3-12b-it": Model("gemma3", 48, 3840, 16, 8, 15360, 262208, head_size=256, is_tied=True),
    "gemma-3-1b-it": Model("gemma3", 26, 1152, 4, 1, 6912, 262144, head_size=256, is_tied=True),
    "gemma-3-270m": Model("gemma3", 18, 640, 4, 1, 2048, 262144, head_size=256, is_tied=True),
    "gemma-3-4b-it": Model("gemma3", 34, 2560, 8, 4, 10240, 262208, head_size=256, is_tied=True),
    "minicpm4-0.5b": Model("minicpm", 24, 1024, 16, 2, 4096, 73448, is_tied=True),
    "minicpm4-8b": Model("minicpm", 32, 4096, 32, 2, 16384, 73448),
    "mistral-7b-instruct-v0.1": _MISTRAL,
    "mistral-7b-instruct-v0.2": _MISTRAL,
    "mistral-7b-instruct-v0.3": _MISTRAL,
    "neural-chat-7b-v3-3": _MISTRAL,
    "zephyr-7b-beta": _MISTRAL,
    "phi-2": Model("phi", 32, 2560, 32, 32, 10240, 51200, has_gate=False),
    "phi-3-mini-128k-instruct": _PHI_3,
    "phi-3-mini-4k-instruct": _PHI_3,
    "phi-3.5-mini-instruct": _PHI_3,
    "phi-4": _PHI_4,
    "phi-4-reasoning": _PHI_4,
    "phi-4-mini-instruct": _PHI_4_MINI,
    "phi-4-mini-reasoning": _PHI_4_MINI,
    "stable-zephyr-3b-dpo": _STABLELM,
    "stablelm-3b-4e1t": _STABLELM,
    "starcoder": Model("starcoder", 40, 6144, 48, 1, 24576, 49152, has_gate=False, is_tied=True),
    "starcoder2-15b": Model("starcoder", 40, 6144, 48, 4, 24576, 49152, has_gate=False),
}
"""Language models of OpenVINO's benchmarks."""

_LLAMA_3_8B = Model("Llama-3-8B", 32, 4096, 32, 8, 14336, 128256)
ON_PHONES = {
    "baichuan2_7b": Model("Baichuan2-7B", 32, 4096, 32, 32, 11008, 125696),
    "falcon_v3_7b_instruct": Model("Falcon3-7B", 28, 3072, 12, 4, 23040, 131072, head_size=256),
    "ibm_granite_v3_1_8b_instruct": Model("Granite-3.1-8B", 40, 4096, 32, 8, 12800, 49155, is_tied=True),
    "llama_v2_7b_chat": Model("Llama-2-7B", 32, 4096, 32, 32, 11008, 32000),
    "llama_v3_8b_instruct": _LLAMA_3_8B,
    "llama_v3_1_8b_instruct": _LLAMA_3_8B,
    "llama_v3_1_sea_lion_3_5_8b_r": _LLAMA_3_8B,
    "llama_v3_elyza_jp_8b": _LLAMA_3_8B,
    "llama_v3_taide_8b_chat": _LLAMA_3_8B,
    "llama_v3_2_1b_instruct": Model("Llama-3.2-1B", 16, 2048, 32, 8, 8192, 128256, is_tied=True),
    "llama_v3_2_3b_instruct": Model("Llama-3.2-3B", 28, 3072, 24, 8, 8192, 128256, is_tied=True),
    "mistral_7b_instruct_v0_3": Model("Mistral-7B", 32, 4096, 32, 8, 14336, 32768),
    "phi_3_5_mini_instruct": Model("Phi-3.5-mini", 32, 3072, 32, 32, 8192, 32064),
    "qwen2_7b_instruct": Model("Qwen2-7B", 28, 3584, 28, 4, 18944, 152064),
    "qwen2_5_7b_instruct": Model("Qwen2-7B", 28, 3584, 28, 4, 18944, 152064),
}
"""Language models of Qualcomm AI Hub whose sizes are published."""


@cache
def architecture(model: Model, weights: str | None = None) -> Architecture:
    """The architecture of a model with 16-bit weights, or at another precision."""
    return architecture_of(config_of(model), model.kin, weights=weights)


def config_of(model: Model) -> dict[str, object]:
    """The configuration of a model, as a config.json."""
    config: dict[str, object] = {
        "model_type": "mixtral" if model.experts else "llama",
        "num_hidden_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_size or model.hidden // model.heads,
        "intermediate_size": model.intermediate if model.has_gate else round(model.intermediate * 2 / 3),
        "vocab_size": model.vocabulary,
        "max_position_embeddings": model.positions,
        "tie_word_embeddings": model.is_tied,
        "torch_dtype": "bfloat16",
    }
    if model.experts:
        config |= {"num_local_experts": model.experts, "num_experts_per_tok": model.experts_per_token}
    return config
