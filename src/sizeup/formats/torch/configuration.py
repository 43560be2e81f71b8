"""Validate a Hugging Face config.json before it is passed to transformers.

transformers turns some settings into imports, file reads, Hub requests and attribute lookups, and builds
models of any size. Settings that are common in real files and do not affect the size of the model are
dropped. Any other setting that names code, a file or a repository is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.config_json import declared_quantization, parse_json
from sizeup.formats.quantization_config import QuantizationConfig

_MOST_DEPTH = 32  # transformers' own configurations nest 6 levels
_MOST_ITEMS = 100_000
_MOST_SIZE = 1 << 40
_MOST_LABELS = 1_000_000
_MOST_REPEATS = 20_000  # the deepest published networks have 1,200 layers; Doge has 16,384 experts

# Sources of code and weights, weight storage (read separately), and pipeline post-processing.
_DROPPED = frozenset(
    (
        *("auto_map", "custom_pipelines", "trust_remote_code", "code_revision", "revision", "_commit_hash"),
        *("_name_or_path", "name_or_path", "transformers_weights", "checkpoint_path", "cache_dir"),
        *("use_pretrained_backbone", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay"),
        *("quantization_config", "compression_config", "task_specific_params"),
        *(
            "_attn_implementation_internal",
            "_attn_implementation_autoset",
            "_experts_implementation_internal",
        ),
    )
)
# Implemented by PyTorch. Others need a package, or kernels downloaded from a repository.
_IMPLEMENTATIONS = {"attn": ("eager", "sdpa"), "experts": ("eager", "batched_mm", "grouped_mm")}
_IMPLEMENTATION = re.compile(r"_?(attn|experts)_implementation")
# Fused attention of other packages: the same operator as PyTorch's default.
_FUSED = re.compile(r"(paged\|)?(flash_attention_[234]|flex_attention|sdpa)")
# Looked up as attributes of the torch module by transformers.
_DTYPES = ("dtype", "torch_dtype", "router_dtype", "inference_state_dtype", "autocast_kernel_dtype")
_TIMM_NAMES = ("backbone", "architecture")
_TIMM_NAME = re.compile(r"[\w.\-]+")

# Numbers whose name matches _SIZE (a size, an id or a constant) may be large. All others, and those that
# match _REPEATED, may be the number of modules to build.
_SIZE = re.compile(
    r"(^|_)(sizes?|dims?|d|dff|ffn?|n_inner|width|height|embd|embeds?|embeddings?|positions?|vocab|tokens?|ids?"
    r"|index|length|len|ctx|context|window|base|theta|temperature|period|timescale|rate|scale|factor|channels"
    r"|filters|buckets|objects|points|samples?|frames|bins|pixels|area|chunk|chunksize|params|parameters|steps?"
    r"|seed|max|min|limit|capacity|offset|frequency)(_|$)"
)
_REPEATED = re.compile(
    r"(^|_)(layers?|depths?|blocks?|stages?|repeats?|heads?|experts?|groups?|levels?|indices|types|block_sizes)$"
)
_LABELS = re.compile(r"(labels|classes)$")
_TABLE = re.compile(r"(2id|_to_id|2label|_map|mapping)$")  # their keys are not setting names
# In other settings -1 commonly means "all", "none" or "the last".
_NEVER_NEGATIVE = re.compile(
    r"^(num|n)_\w*(layers?|heads|experts|blocks|stages|labels|channels)$|^(en|de)coder_layers$|^depths$"
    r"|(hidden|intermediate|vocab|embedding|patch|image)_size$|_dim$|^d_model$"
)


def read(path: Path) -> tuple[dict[str, Any], QuantizationConfig | None]:
    """Return the settings of a file that are safe to pass to transformers, and how it stores weights."""
    source = f"hf:{path}"
    content = parse_json(path, source)
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise CorruptModel(f"{source}: not a Hugging Face configuration: model_type is missing")
    quantization = declared_quantization(content, path, source)
    for name, settings in _nested_dicts(content, source):
        if not _TABLE.search(name):
            _sanitize(settings, source)
    _check_architectures(content, source)
    return content, quantization


def _nested_dicts(content: dict[str, Any], source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every dictionary with the setting it belongs to, outermost first.

    Entries that the caller removes are not visited.
    """
    pending: list[tuple[str, Any, int]] = [("", content, 0)]
    while pending:
        name, value, depth = pending.pop()
        if depth > _MOST_DEPTH:
            raise CorruptModel(f"{source}: nested more than {_MOST_DEPTH} levels")
        if len(value) > _MOST_ITEMS:
            raise CorruptModel(f"{source}: a list or object has more than {_MOST_ITEMS:,} values")
        if isinstance(value, dict):
            yield name, value
        inner = value.items() if isinstance(value, dict) else ((name, item) for item in value)
        pending.extend((key, item, depth + 1) for key, item in inner if isinstance(item, dict | list))


def _sanitize(settings: dict[str, Any], source: str) -> None:
    for key in [name for name in settings if name in _DROPPED]:
        del settings[key]
    for key, value in settings.items():
        if key.startswith("__"):
            raise CorruptModel(f"{source}: {key!r} is not the name of a setting")
        if isinstance(value, str):
            _check_text(key, value, source)
        for number in _numbers(value):
            _check_number(key, number, source)
    for key in [name for name in settings if _IMPLEMENTATION.fullmatch(name)]:
        settings[key] = _implementation(key, settings[key], source)
    _set_timm_backbone(settings)


def _check_text(key: str, value: str, source: str) -> None:
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise CorruptModel(f"{source}: {key} is not valid Unicode")
    if key in _DTYPES and not (value.isidentifier() and isinstance(vars(torch).get(value), torch.dtype)):
        raise CorruptModel(f"{source}: {key} {value!r} is not a PyTorch dtype, such as bfloat16")
    if key in _TIMM_NAMES and not _TIMM_NAME.fullmatch(value):
        raise LoadError(
            f"{source}: {key} {value!r} is not a timm model name; repositories, folders and URLs are not"
            " supported; put the backbone's configuration under backbone_config"
        )


def _numbers(value: Any) -> Iterator[Any]:
    """Yield the numbers of a setting: the value itself, or those in its lists."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, int | float):
            yield item


def _check_number(key: str, value: bool | float, source: str) -> None:
    if isinstance(value, bool):
        if key.startswith(("num_", "n_")) or key.endswith("_size"):
            raise CorruptModel(f"{source}: {key} is {json.dumps(value)}, not a number")
    elif isinstance(value, int):  # transformers checks floats
        most = _upper_limit(key)
        if abs(value) > most:
            raise CorruptModel(f"{source}: {key} is out of range (at most {most:,})")
        if value < 0 and _NEVER_NEGATIVE.search(key):
            raise CorruptModel(f"{source}: {key} is {value}; it cannot be negative")


def _upper_limit(key: str) -> int:
    if _LABELS.search(key):
        return _MOST_LABELS
    return _MOST_SIZE if _SIZE.search(key) and not _REPEATED.search(key) else _MOST_REPEATS


def _implementation(key: str, value: Any, source: str) -> Any:
    """Return the name of a PyTorch implementation, or None for the default of transformers."""
    if isinstance(value, dict):  # one per part of the model
        return {part: _implementation(key, name, source) for part, name in value.items()}
    known = _IMPLEMENTATIONS["attn" if "attn" in key else "experts"]
    if value is None or value in known:
        return value
    if isinstance(value, str) and "attn" in key and _FUSED.fullmatch(value):
        return None
    raise LoadError(
        f"{source}: {key} {value!r} is not supported because it may load code;"
        f" use {', '.join(known[:-1])} or {known[-1]}"
    )


def _set_timm_backbone(settings: dict[str, Any]) -> None:
    """Mark a backbone as timm's; otherwise transformers requests a repository of that name from the Hub."""
    if settings.get("model_type") == "timm_backbone" or not isinstance(settings.get("backbone"), str):
        return
    options = settings.get("backbone_kwargs")
    # DETR configures this case itself, without a request.
    knows_timm = settings.get("use_timm_backbone") is True and not options
    if settings.get("backbone_config") is None and not knows_timm:
        name = settings.pop("backbone")
        settings["backbone_config"] = {
            **(options if isinstance(options, dict) else {}),
            "model_type": "timm_backbone",
            "backbone": name,
        }
        settings.pop("backbone_kwargs", None)


def _check_architectures(content: dict[str, Any], source: str) -> None:
    names = content.get("architectures")
    if names is None:
        return
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name.isidentifier() for name in names
    ):
        raise CorruptModel(f"{source}: architectures is not a list of class names")
