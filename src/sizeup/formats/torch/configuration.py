"""Reading a Hugging Face config.json as plain data, before transformers sees it.

transformers turns some settings into imports, file reads, Hub requests and attribute lookups, and builds
whatever the numbers ask for. So a file is checked whole first. A setting that real files carry and that has
no influence on the size of the model is dropped; anything else that names code, a file or a repository is
refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.names import check_regular

_MOST_BYTES = 16 << 20  # 22,000 labels take 2 MB
_MOST_DEPTH = 32  # transformers' own configurations nest 6 deep
_MOST_ITEMS = 100_000
_MOST_SIZE = 1 << 40
_MOST_LABELS = 1_000_000
_MOST_REPEATS = 20_000  # the deepest published networks have 1,200 layers; Doge has 16,384 experts

# Where code and weights come from, how weights are stored, and what a pipeline does with the outputs.
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
# What PyTorch itself computes. Others are a package, or a repository whose kernels would be downloaded.
_IMPLEMENTATIONS = {"attn": ("eager", "sdpa"), "experts": ("eager", "batched_mm", "grouped_mm")}
_IMPLEMENTATION = re.compile(r"_?(attn|experts)_implementation")
# Fused attention of other packages, the same operator as PyTorch's own, which transformers then chooses.
_FUSED = re.compile(r"(paged\|)?(flash_attention_[234]|flex_attention|sdpa)")
# Settings that transformers looks up in the torch module.
_DTYPES = ("dtype", "torch_dtype", "router_dtype", "inference_state_dtype", "autocast_kernel_dtype")
_TIMM_NAMES = ("backbone", "architecture")
_TIMM_NAME = re.compile(r"[\w.\-]+")
_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

# A number may be large if its name says that it is a size, an id or a constant. Any other may be the number
# of times that something is built, as may these, whatever else is in their names.
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
_TABLE = re.compile(r"(2id|_to_id|2label|_map|mapping)$")  # their keys are not names of settings
# Elsewhere -1 is a usual way to say "all", "none" or "the last".
_NEVER_NEGATIVE = re.compile(
    r"^(num|n)_\w*(layers?|heads|experts|blocks|stages|labels|channels)$|^(en|de)coder_layers$|^depths$"
    r"|(hidden|intermediate|vocab|embedding|patch|image)_size$|_dim$|^d_model$"
)


def read(path: Path) -> dict[str, Any]:
    """The settings of a file, each of which is safe to hand to transformers."""
    where = f"hf:{path}"
    content = _parse(path, where)
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise CorruptModel(f"{where}: a Hugging Face configuration names its model_type; this file does not")
    for name, settings in _dictionaries(content, where):
        if not _TABLE.search(name):
            _clean(settings, where)
    _check_architectures(content, where)
    return content


def _parse(path: Path, where: str) -> Any:
    check_regular(path, where)
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise LoadError(f"{where}: cannot be read: {error.strerror}; give a local config.json") from error
    if len(text) > _MOST_BYTES:
        raise CorruptModel(f"{where}: larger than {_MOST_BYTES >> 20} MiB, so not a configuration")
    try:
        return json.loads(text.decode("utf-8"), object_hook=_decoded)
    except RecursionError as error:
        raise CorruptModel(f"{where}: nested too deeply") from error
    except ValueError as error:
        raise CorruptModel(f"{where}: not JSON: {error}") from error


def _decoded(value: dict[str, Any]) -> Any:
    """A number that is not finite, as transformers writes it: {"__float__": "Infinity"}."""
    return _NOT_FINITE.get(str(value["__float__"]), value) if value.keys() == {"__float__"} else value


def _dictionaries(content: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every dictionary of the file with the setting it belongs to, outermost first.

    What the caller removes from one is not visited.
    """
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            raise CorruptModel(f"{where}: nested more than {_MOST_DEPTH} deep")
        if len(value) > _MOST_ITEMS:
            raise CorruptModel(f"{where}: a list or object of more than {_MOST_ITEMS:,} values")
        if isinstance(value, dict):
            yield name, value
        inner = value.items() if isinstance(value, dict) else ((name, each) for each in value)
        waiting.extend((key, each, depth + 1) for key, each in inner if isinstance(each, dict | list))


def _clean(settings: dict[str, Any], where: str) -> None:
    for key in [each for each in settings if each in _DROPPED]:
        del settings[key]
    for key, value in settings.items():
        if key.startswith("__"):
            raise CorruptModel(f"{where}: {key!r} is not the name of a setting")
        if isinstance(value, str):
            _check_text(key, value, where)
        for number in _numbers(value):
            _check_number(key, number, where)
    for key in [each for each in settings if _IMPLEMENTATION.fullmatch(each)]:
        settings[key] = _implementation(key, settings[key], where)
    _name_backbone(settings)


def _check_text(key: str, value: str, where: str) -> None:
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise CorruptModel(f"{where}: {key} is not valid Unicode")
    if key in _DTYPES and not (value.isidentifier() and isinstance(vars(torch).get(value), torch.dtype)):
        raise CorruptModel(f"{where}: {key} {value!r} is not a dtype of PyTorch, such as bfloat16")
    if key in _TIMM_NAMES and not _TIMM_NAME.fullmatch(value):
        raise LoadError(
            f"{where}: {key} {value!r} is not the name of a timm model; repositories, folders and URLs are"
            " not followed; write the backbone's configuration under backbone_config"
        )


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers of a setting: the value itself, or those in its lists."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, int | float):
            yield each


def _check_number(key: str, value: bool | float, where: str) -> None:
    if isinstance(value, bool):
        if key.startswith(("num_", "n_")) or key.endswith("_size"):
            raise CorruptModel(f"{where}: {key} is {json.dumps(value)}, not a number")
    elif isinstance(value, int):  # transformers checks which settings may have fractions
        most = _most(key)
        if abs(value) > most:
            raise CorruptModel(f"{where}: {key} is out of range (at most {most:,})")
        if value < 0 and _NEVER_NEGATIVE.search(key):
            raise CorruptModel(f"{where}: {key} is {value}; it cannot be negative")


def _most(key: str) -> int:
    if _LABELS.search(key):
        return _MOST_LABELS
    return _MOST_SIZE if _SIZE.search(key) and not _REPEATED.search(key) else _MOST_REPEATS


def _implementation(key: str, value: Any, where: str) -> Any:
    """One of PyTorch's own implementations by name, or None for the one that transformers prefers."""
    if isinstance(value, dict):  # one per part of the model
        return {part: _implementation(key, name, where) for part, name in value.items()}
    known = _IMPLEMENTATIONS["attn" if "attn" in key else "experts"]
    if value is None or value in known:
        return value
    if isinstance(value, str) and "attn" in key and _FUSED.fullmatch(value):
        return None
    raise LoadError(
        f"{where}: {key} {value!r} is not supported, because it may load code;"
        f" write {', '.join(known[:-1])} or {known[-1]}"
    )


def _name_backbone(settings: dict[str, Any]) -> None:
    """Say that a backbone is timm's, or transformers would ask the Hub for a repository of that name."""
    if settings.get("model_type") == "timm_backbone" or not isinstance(settings.get("backbone"), str):
        return
    options = settings.get("backbone_kwargs")
    # DETR then sets it up itself, without asking.
    knows_timm = settings.get("use_timm_backbone") is True and not options
    if settings.get("backbone_config") is None and not knows_timm:
        name = settings.pop("backbone")
        settings["backbone_config"] = {
            **(options if isinstance(options, dict) else {}),
            "model_type": "timm_backbone",
            "backbone": name,
        }
        settings.pop("backbone_kwargs", None)


def _check_architectures(content: dict[str, Any], where: str) -> None:
    names = content.get("architectures")
    if names is None:
        return
    if not isinstance(names, list) or not all(
        isinstance(each, str) and each.isidentifier() for each in names
    ):
        raise CorruptModel(f"{where}: architectures is not a list of class names")
