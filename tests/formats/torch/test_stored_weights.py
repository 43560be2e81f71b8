"""Weight bytes of Hugging Face configurations equal those counted by hand for the scheme they declare."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import sizeup
from full_size import FULL
from llm_weights import FAMILIES, weight_bytes
from sizeup.dtypes import dtype
from sizeup.formats.digest import content_digest
from sizeup.formats.torch.huggingface import build_configuration
from sizeup.formats.torch.stored_weights import computes_all_experts
from sizeup.graph import Constant, GraphBuilder

CONFIGS = 51  # of the shared files that the hand formulas cover
IN_CI = 12
SEED = 5
# GiB, as published: model cards of gpt-oss; specification of serving, section 2.
PUBLISHED = {
    "openai--gpt-oss-20b": 12.8,
    "openai--gpt-oss-120b": 60.8,
    "deepseek-ai--DeepSeek-V3": 627,
    "Qwen--Qwen3-32B-FP8": 32,
}


def _configs(shared: Path) -> dict[str, dict[str, Any]]:
    files = sorted((shared / "llm" / "configs").glob("*_config.json"))
    paths = [path for path in files if not path.name.endswith("hf_quant_config.json")]
    configs = {path.name.removesuffix("_config.json"): json.loads(path.read_text("utf-8")) for path in paths}
    return {name: config for name, config in configs.items() if config["model_type"] in FAMILIES}


def _by_hand(shared: Path, name: str, config: dict[str, Any]) -> int:
    quant_file = shared / "llm" / "configs" / f"{name}_hf_quant_config.json"
    return weight_bytes(config, json.loads(quant_file.read_text("utf-8")) if quant_file.exists() else None)


def _stored_bytes(shared: Path, name: str) -> int:
    """The stored bytes of all parameters, without running the model."""
    built = build_configuration(str(shared / "llm" / "configs" / f"{name}_config.json"), {})
    return sum(
        built.stored[label].stored_bytes if label in built.stored else tensor.numel() * tensor.element_size()
        for label, tensor in built.module.named_parameters()
    )


def test_weight_bytes_are_those_by_hand(shared: Path) -> None:
    configs = _configs(shared)
    assert len(configs) == CONFIGS
    names = sorted(configs) if FULL else random.Random(SEED).sample(sorted(configs), IN_CI)
    counted = {name: _stored_bytes(shared, name) for name in {*names, *PUBLISHED}}
    assert counted == {name: _by_hand(shared, name, configs[name]) for name in counted}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_hand_formulas_are_within_1_percent_of_published_sizes(shared: Path, name: str) -> None:
    assert _by_hand(shared, name, _configs(shared)[name]) / 2**30 == pytest.approx(PUBLISHED[name], rel=0.01)


EXPERTS, CHOSEN, WIDTH, INNER = 16, 2, 256, 128
MIXTURE = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "moe_intermediate_size": INNER,
    "num_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
    "vocab_size": 1000,
    "mlp_only_layers": [],
}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def _written(folder: Path, content: dict[str, Any], name: str = "config.json") -> str:
    (folder / name).write_text(json.dumps(content), "utf-8")
    return f"hf:{folder}"


def _tokens(count: int) -> dict[str, Any]:
    return {"input_ids": ((1, count), "int64")}


@pytest.mark.parametrize(("quantization", "expert_bytes"), [
    (None, 3 * WIDTH * INNER * 2),
    (FP8, 3 * (WIDTH * INNER + 2 * 4)),  # each matrix has 2 blocks of 128 x 128
])  # fmt: skip
def test_a_mixture_reads_the_experts_that_tokens_can_choose(
    tmp_path: Path, quantization: Any, expert_bytes: int
) -> None:
    content = {**MIXTURE, "dtype": "bfloat16", "quantization_config": quantization}
    source = _written(tmp_path, content)
    expected_bytes = weight_bytes(content)
    for tokens in (1, 3, 40):
        report = sizeup.analyze(source, inputs=_tokens(tokens))
        assert report.totals.weight_bytes == expected_bytes
        cost = report.cost
        moved = cost.reads.bytes_at() * cost.reads.is_weight
        kinds = [op.kind for op in cost.graph.ops]
        read = [
            size
            for size, kind in zip(cost.reads.by_op(moved), kinds, strict=True)
            if kind == "grouped_matmul"
        ]
        # A report counts gate and up in one product: 2 products per layer.
        assert len(read) == 4
        assert sum(read) == 2 * min(EXPERTS, tokens * CHOSEN) * expert_bytes
        macs = sum(
            count for count, kind in zip(cost.macs.tolist(), kinds, strict=True) if kind == "grouped_matmul"
        )
        assert macs == 2 * tokens * CHOSEN * 3 * WIDTH * INNER


def test_closed_forms_bound_the_experts_read(tmp_path: Path) -> None:
    source = _written(tmp_path, {**MIXTURE, "dtype": "bfloat16", "quantization_config": FP8})
    graph = sizeup.load(source, free=["seq"])
    assert isinstance(graph, sizeup.SymbolicGraph)
    forms = sizeup.SymbolicCost(graph)
    for tokens in (5, 9, 40):
        totals = sizeup.analyze(source, inputs=_tokens(tokens)).totals
        assert forms.at(seq=tokens).read_bytes() == totals.read_bytes


def test_quantization_beside_the_configuration(tmp_path: Path) -> None:
    content = {**MIXTURE, "dtype": "bfloat16"}
    source = _written(tmp_path, content)
    quant_file = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    digest = content_digest(tmp_path / "config.json")
    _written(tmp_path, quant_file, "hf_quant_config.json")
    assert content_digest(tmp_path / "config.json") != digest
    report = sizeup.analyze(source)
    assert report.totals.weight_bytes == weight_bytes(content, quant_file)
    assert any(note.startswith("quantization modelopt: ") for note in report.notes)


def test_a_missing_dtype_is_assumed_and_noted(tmp_path: Path) -> None:
    report = sizeup.analyze(_written(tmp_path, MIXTURE))
    assert report.totals.weight_bytes == weight_bytes(MIXTURE)
    assert any("states no dtype; bf16 is assumed" in note for note in report.notes)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    report = sizeup.analyze(_written(tmp_path, {"model_type": "bert", **sizes}))
    assert report.totals.weight_bytes == 4 * report.totals.params
    assert any("states no dtype; fp32 is assumed" in note for note in report.notes)


def test_an_unknown_method_is_an_upper_bound(tmp_path: Path) -> None:
    source = _written(tmp_path, {**MIXTURE, "quantization_config": {"quant_method": "aqlm"}})
    report = sizeup.analyze(source)
    assert report.totals.weight_bytes == weight_bytes(MIXTURE)
    assert any("quantization method 'aqlm' is not known" in note for note in report.notes)
    check = sizeup.check(source, "rpi5/torch-eager", ram="6 MiB", remedies=False)
    assert check.fits is None


@pytest.mark.parametrize(("kind", "expected"), [("matmul", True), ("grouped_matmul", False)])
def test_models_that_compute_all_experts_are_noted(kind: str, expected: bool) -> None:
    builder = GraphBuilder("experts")
    x = builder.input("x", (EXPERTS, 1, WIDTH), dtype("bfloat16"))
    shape, data = (EXPERTS, WIDTH, INNER), Constant("parameter")
    w = builder.tensor("layers.0.experts.up_proj", shape, dtype("bfloat16"), data)
    y = builder.tensor("y", (EXPERTS, 1, INNER), dtype("bfloat16"))
    builder.op(kind, [x, w], [y], {"contracted": (2,)})
    assert computes_all_experts(builder.freeze()) == expected
