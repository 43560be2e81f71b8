"""Language models from a configuration alone: no weights, little memory, exact counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sizeup

pytestmark = pytest.mark.extras


def _llama(width: int, hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128_256,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": _llama(4096, 14_336, 32, 32),
    "llama-3.1-70b": _llama(8192, 28_672, 80, 64),
    "llama-3.1-405b": _llama(16_384, 53_248, 126, 128),
    "mixtral-8x7b": {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "vocab_size": 32_000,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "torch_dtype": "bfloat16",
    },
    # transformers' default values are those of DeepSeek-V3.
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "torch_dtype": "bfloat16",
    },
}
# billions of parameters, GMACs at batch 1 and 128 tokens, and the digits that were published
KNOWN = {
    "llama-3.1-8b": (8.03, 964.9, 1),
    "llama-3.1-70b": (70.55, 8917.694, 3),
    "llama-3.1-405b": (405.85, 51_747.377, 3),
    "mixtral-8x7b": (46.70, 1636.1, 1),
    "deepseek-v3": (671.03, 4728.9, 1),
}
# GMACs of the two products of attention, whose share most tools leave out
ATTENTION = {"llama-3.1-70b": 21.475, "llama-3.1-405b": 67.646}


def _write(folder: Path, name: str) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(CONFIGURATIONS[name]))
    return f"hf:{path}"


@pytest.mark.parametrize("name", KNOWN)
def test_a_configuration_counts_exactly(name: str, tmp_path: Path) -> None:
    params, gmacs, digits = KNOWN[name]
    report = sizeup.analyze(_write(tmp_path, name))
    assert round(report.totals.params / 1e9, 2) == params
    assert round(report.totals.macs / 1e9, digits) == gmacs
    assert report.coverage == 1
    if name in ATTENTION:
        products = sum(row.macs or 0 for row in report.ops if row.op_kind == "attention")
        assert round(products / 1e9, 3) == ATTENTION[name]


def test_llama_is_the_closed_form_to_the_last_digit(tmp_path: Path) -> None:
    tokens, width, hidden, layers, heads, kv_heads, vocabulary = 128, 4096, 14_336, 32, 32, 8, 128_256
    kv = width * kv_heads // heads
    layer = 2 * width * width + 2 * width * kv + 3 * width * hidden
    macs = tokens * (layers * layer + width * vocabulary) + layers * 2 * tokens**2 * width
    norms = (2 * layers + 1) * width
    cost = sizeup.count(_write(tmp_path, "llama-3.1-8b"))
    assert cost.total_macs == macs
    assert cost.total_params == layers * layer + 2 * width * vocabulary + norms


def test_experts_of_mixtral_are_counted_for_the_tokens_that_reach_them(tmp_path: Path) -> None:
    report = sizeup.analyze(_write(tmp_path, "mixtral-8x7b"))
    experts = sum(row.macs or 0 for row in report.ops if row.op_kind == "grouped_matmul")
    # 128 tokens x 2 experts x three matrices of 4096 x 14336, in 32 layers
    assert experts == 32 * 128 * 2 * 3 * 4096 * 14_336


@pytest.mark.parametrize("name", ["llama-3.1-405b", "deepseek-v3"])
def test_the_largest_need_less_than_one_and_a_half_gigabytes(name: str, tmp_path: Path) -> None:
    # Not getrusage: its peak is inherited from the process that starts this one.
    code = (
        "import sys, sizeup; sizeup.analyze(sys.argv[1]);"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, _write(tmp_path, name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) * 1024 < 1.5e9


# transformers' other published figures: GMACs from a configuration alone
OTHERS: dict[str, tuple[dict[str, Any], dict[str, int], float]] = {
    "vit": ({"architectures": ["ViTForImageClassification"]}, {}, 17.563),
    "resnet": ({"architectures": ["ResNetForImageClassification"], "num_labels": 1000}, {}, 4.089),
    "mobilenet_v2": ({"architectures": ["MobileNetV2ForImageClassification"], "num_labels": 1000}, {}, 0.301),
    "bert": ({}, {"seq": 128}, 11.174),
    "swin": ({}, {}, 4.490),
    "clip": ({}, {}, 7.389),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_architectures_agree_to_the_digits_given(kind: str, tmp_path: Path) -> None:
    settings, bind, gmacs = OTHERS[kind]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **settings}))
    assert round(sizeup.count(f"hf:{path}", bind=bind).total_macs / 1e9, 3) == gmacs


def test_bert_is_its_closed_form(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert"}))
    for batch, length in ((1, 128), (3, 77), (2, 512)):
        macs = sizeup.count(f"hf:{path}", bind={"batch": batch, "seq": length}).total_macs
        assert macs == batch * (18_432 * length**2 + 84_934_656 * length + 589_824)
