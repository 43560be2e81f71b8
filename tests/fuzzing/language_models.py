"""Language models: configurations, quantization files, GGUF headers and cluster files, and their runners."""

from __future__ import annotations

import copy
import json
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import gguf_files
from fuzzing import hf_configs
from fuzzing.texts import Settings, toml
from fuzzing.values import INTEGERS, changed_bytes, integer
from published_configs import BENCHMARK, DIFFUSION
from serving.times.test_bench_files import TRTLLM
from sizeup.serving.api.llm import llm
from sizeup.serving.memory.layout_costs import evaluate
from sizeup.serving.memory.layouts import enumerate_layouts
from sizeup.serving.models import gguf, reader
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.times.bench_files import read_runs
from sizeup.targets.clusters import read_cluster

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 1 << 17,
    "torch_dtype": "bfloat16",
}
_FP8 = {
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head", "router"],
}
_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
_WINDOWS = {"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2}
_LATENT = {
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
}
_LINEAR = {
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1}
_MODELS: tuple[dict[str, Any], ...] = (
    {"model_type": "llama", **_SIZES},
    {"model_type": "llama", **_SIZES, "quantization_config": _AWQ},
    {"model_type": "qwen2", **_SIZES, "tie_word_embeddings": True},
    {"model_type": "qwen3", **_SIZES, "head_dim": 16, "quantization_config": _FP8},
    {"model_type": "gemma3_text", **_SIZES, **_WINDOWS, "head_dim": 16},
    {"model_type": "mixtral", **_SIZES, "num_local_experts": 8, "num_experts_per_tok": 2},
    {"model_type": "qwen3_moe", **_SIZES, **_EXPERTS, "head_dim": 16, "mlp_only_layers": [0]},
    {
        "model_type": "llama4_text",
        **_SIZES,
        "intermediate_size_mlp": 256,
        "num_local_experts": 8,
        "num_experts_per_tok": 1,
        "moe_layers": [1, 3],
    },
    {
        "model_type": "gpt_oss",
        **_SIZES,
        **_WINDOWS,
        "head_dim": 16,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn"],
        },
    },
    {"model_type": "deepseek_v3", **_SIZES, **_LATENT, "quantization_config": _FP8},
    {
        "model_type": "deepseek_v32",
        **_SIZES,
        **_LATENT,
        "index_head_dim": 16,
        "index_n_heads": 4,
        "index_topk": 256,
    },
    {
        "model_type": "qwen3_next",
        **_SIZES,
        **_EXPERTS,
        **_LINEAR,
        "head_dim": 16,
        "shared_expert_intermediate_size": 32,
    },
)
_QUANTIZATION = {
    "producer": {"name": "modelopt", "version": "0.29.0"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.0*"],
    },
}
_CLUSTER = """\
[cluster]
name = "two DGX H100"
title = "Two"
price = "2.50 USD/h"
source = "https://example.org"
recorded = "2026-01-02"
note = "a note"
[[node]]
count = 2
devices = { name = "h100-sxm", count = 8 }
link = "fast"
[[network]]
joins = "nodes"
link = "ndr400"
[links.fast]
bandwidth = "450 GB/s"
reach = { all_reduce = { 2 = "281 GB/s", 8 = "365 GB/s" }, all_to_all = "265 GB/s" }
latency = { all_reduce = { 2 = "4.3 us" }, send = "8.7 us" }
source = "fitted"
note = "a note"
"""
_SMALL = {"model_type": "llama", **_SIZES}
_TYPES = (
    "llama",
    "mistral",
    "qwen3",
    "mixtral",
    "gpt_oss",
    "gemma4",
    "nemotron_h",
    "llama4",
    "qwen3_5",
    "kimi_k2",
)


@dataclass(frozen=True)
class _Json:
    """A mutator of configurations, which knows what settings mean."""

    models: tuple[dict[str, Any], ...]

    def seeds(self, folder: Path) -> list[bytes]:
        return [json.dumps(model).encode() for model in self.models]

    def mutate(self, content: bytes, random: Random) -> bytes:
        config = json.loads(content)
        chance = random.random()
        if chance < 0.6:
            for _ in range(random.choice((1, 1, 2, 3))):
                _change_a_size(config, random)
        elif chance < 0.7 and "model_type" in config:
            config["model_type"] = random.choice(_TYPES)
        mutant = config if chance < 0.7 else hf_configs.mutate(config, random)
        return (mutant if isinstance(mutant, str) else json.dumps(mutant)).encode("utf-8", "surrogatepass")


def _change_a_size(config: dict[str, Any], random: Random) -> None:
    """Change a number at any depth, or the elements of a list."""
    tables = [config, *(value for value in config.values() if isinstance(value, dict) and value)]
    table = random.choice(tables)
    key = random.choice(list(table))
    if isinstance(table[key], list) and table[key]:
        table[key] = random.choice((table[key] * 2, table[key][1:], [None], [integer(random)] * 4))
    else:
        near = random.choice((1, 2, 3, 4, 6, 8, 12, 16, 64, 96, 128, 256, 1000, 4096, 10_000, 2**20, 2**24))
        table[key] = random.choice(
            (near, near, integer(random), random.choice(INTEGERS), copy.deepcopy(table))
        )


class _Gguf:
    """A mutator of GGUF headers: metadata, shapes, types, counts and lengths; or raw bytes."""

    def seeds(self, folder: Path) -> list[bytes]:
        models = (gguf_files.llama(), gguf_files.gpt_oss(), gguf_files.deepseek())
        return [gguf_files.gguf(*model) for model in models]

    def mutate(self, content: bytes, random: Random) -> bytes:
        if random.random() < 0.4:
            return changed_bytes(content, random)
        metadata, tensors = random.choice((gguf_files.llama, gguf_files.gpt_oss, gguf_files.deepseek))()
        for _ in range(random.choice((1, 1, 2))):
            _change_header(metadata, tensors, random)
        mutant = bytearray(gguf_files.gguf(metadata, tensors, random.choice((3, 3, 3, 2, 1))))
        if random.random() < 0.2:
            struct.pack_into("<Q", mutant, random.choice((8, 16)), integer(random) & (2**64 - 1))
        return bytes(mutant)


def _change_header(metadata: dict[str, Any], tensors: list[gguf_files.Tensor], random: Random) -> None:
    choice = random.randrange(6)
    key, at = random.choice(list(metadata)), random.randrange(len(tensors))
    name, shape, kind = tensors[at]
    if choice <= 1:
        small = random.choice((0, 1, 2, 3, 7, 64, 2**16, 2**24, 2**31, 2**32 - 1))
        metadata[key] = random.choice((small, small, True, 1.5, "text", [1, 2], [""], [small % 2**31] * 2))
    elif choice == 2:
        del metadata[key]
    elif choice == 3:
        axis = random.randrange(len(shape))
        size = random.choice((0, 1, shape[axis] * 2, shape[axis] + 1, 2**31, 2**40, 2**63))
        tensors[at] = (name, (*shape[:axis], size, *shape[axis + 1 :]), kind)
    elif choice == 4:
        tensors[at] = (name, random.choice((shape, shape[:1], (*shape, 1, 1, 1))), random.randrange(45))
    else:
        other = random.choice((name + "s", "blk.0." + name, "blk.99999.x", tensors[0][0], "\x1b[31m"))
        tensors[at] = (other, shape, kind)


class _Safetensors:
    """A mutator of safetensors headers: names, types, offsets and lengths; or raw bytes."""

    def seeds(self, folder: Path) -> list[bytes]:
        return [_safetensors(_tensors())]

    def mutate(self, content: bytes, random: Random) -> bytes:
        if random.random() < 0.3:
            return changed_bytes(content, random)
        tensors = _tensors()
        name = random.choice(list(tensors))
        wrong: tuple[Any, ...] = (
            None,
            [],
            [1],
            [-1, 4],
            [8, 4],
            [0, 2**63],
            [0, True],
            [0.5, 1],
            "x",
            {"a": 1},
            [0, 10**400],
        )
        choice = random.randrange(4)
        if choice == 0:
            tensors[name]["data_offsets"] = random.choice(wrong)
        elif choice == 1:
            tensors[random.choice((name + ".x", "a", "", "model.layers.99999.q", "\x1b[31m"))] = tensors.pop(
                name
            )
        elif choice == 2:
            tensors[name] = random.choice(wrong)
        else:
            tensors[name]["data_offsets"] = [0, abs(integer(random))]
        mutant = bytearray(_safetensors(tensors))
        if random.random() < 0.2:
            struct.pack_into("<Q", mutant, 0, integer(random) & (2**64 - 1))
        return bytes(mutant)


def _tensors() -> dict[str, Any]:
    """The header of a checkpoint of the small configuration."""
    architecture = reader.architecture_of(_SMALL, "small")
    sizes = {"model.embed_tokens.weight": 96 * 64 * 2, "lm_head.weight": 96 * 64 * 2}
    for index, layer in enumerate(architecture.layers):
        sizes |= {
            f"model.layers.{index}.{weight.name}.weight": weight.stored_bytes for weight in layer.weights
        }
    return {
        name: {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}
        for name, size in sizes.items()
    }


def _safetensors(tensors: Mapping[str, Any]) -> bytes:
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header


CONFIGURATIONS = _Json(_MODELS)
DIFFUSION_MODELS = _Json(tuple(DIFFUSION.values()))
BENCHMARKS = _Json((BENCHMARK, TRTLLM))
SAFETENSORS = _Safetensors()
QUANTIZATIONS = _Json((_QUANTIZATION,))
GGUF = _Gguf()
CLUSTERS = Settings((_CLUSTER,), tomllib.loads, toml)


def configuration(path: Path) -> Any:
    """Memory, capacity and layouts of a configuration on a node."""
    return _served(path)


def diffusion_model(path: Path) -> Any:
    """Weights, MACs and times of a diffusion transformer."""
    return llm(path, target="h100", steps=28).to_dict()


def quantization(path: Path) -> Any:
    """The same of a valid configuration with a mutated hf_quant_config.json next to it."""
    folder = path.parent / "checkpoint"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_SMALL), "utf-8")
    (folder / "hf_quant_config.json").write_bytes(path.read_bytes())
    return _served(folder / "config.json")


def safetensors(path: Path) -> Any:
    """The same of a valid configuration with a mutated safetensors file next to it."""
    folder = path.parent / "weights"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_SMALL), "utf-8")
    (folder / "model.safetensors").write_bytes(path.read_bytes())
    return _served(folder / "config.json")


def gguf_file(path: Path) -> Any:
    """The architecture of a GGUF header, and what it needs."""
    return {**_numbers(gguf.read(path)), **_served(path)}


def benchmark(path: Path) -> Any:
    """The runs of a serving benchmark."""
    return [{"load": (run.requests, run.input, run.output), "tpot": run.tpot} for run in read_runs(path)]


def cluster(path: Path) -> Any:
    """A cluster file, and layouts of a small model on it."""
    machines = read_cluster(path)
    model = llm_architecture()
    layouts = enumerate_layouts(model, machines)
    costs = evaluate(model, machines, layouts, sequences=(1, 64), context=1000)
    costs.order("communication")
    return {
        "devices": machines.devices,
        "price": None if machines.price is None else machines.price.amount,
        "layouts": len(layouts),
        "memory_bytes": costs.memory_bytes.max(initial=0).item(),
        "network_bytes": costs.network_bytes.max(initial=0).item(),
    }


def llm_architecture() -> Architecture:
    """The architecture of a small valid file."""
    from sizeup.serving.models.gguf_header import Header, TensorInfo

    metadata, tensors = gguf_files.gpt_oss()
    infos = tuple(TensorInfo(name, shape, "f16", 64, 128) for name, shape, _ in tensors)
    return gguf.architecture_of(Header(metadata, infos), "small.gguf")


def _served(path: Path) -> dict[str, Any]:
    serving = llm(path, target="8xh100/vllm", input=100, output=10, concurrency=(1, 64))
    figures: Mapping[str, Callable[[], Any]] = {
        "fits": lambda: serving.fits,
        "max_sequences": serving.max_sequences,
        "max_context": serving.max_context,
        "sequence_bytes": lambda: serving.sequence_bytes,
        "prefill_macs": lambda: serving.prefill_macs,
        "points": lambda: [(point.cache_bytes, point.max_context) for point in serving.points()],
        "layouts": lambda: [
            (row.weights_bytes, row.cache_bytes, row.link_bytes, row.max_sequences)
            for by in ("memory", "communication")
            for row in serving.layouts(by=by)
        ],
    }
    return {**_numbers(serving.architecture), **{name: figure() for name, figure in figures.items()}}


def _numbers(architecture: Architecture) -> dict[str, Any]:
    return {
        "parameters": architecture.parameters,
        "stored_bytes": architecture.stored_bytes,
        "layers": len(architecture.layers),
        "notes": list(architecture.caveats),
    }
