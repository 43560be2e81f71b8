"""Small configurations of real model families, and mutations of them that know what settings mean."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TEXT = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
_SPEECH = {**_TEXT, "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2]}
_STAGES = {"depths": [1, 1], "image_size": 32, "num_channels": 3}
_ENCODER_DECODER = {
    "vocab_size": 96,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
}

# model_type, architecture, and sizes that make it small.
_FAMILIES: list[tuple[str, str | None, dict[str, Any]]] = [
    ("bert", "BertForSequenceClassification", _TEXT),
    ("roberta", "RobertaForMaskedLM", _TEXT),
    ("albert", "AlbertModel", {**_TEXT, "embedding_size": 16}),
    (
        "distilbert",
        "DistilBertModel",
        {"vocab_size": 96, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    (
        "gpt2",
        "GPT2LMHeadModel",
        {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
    (
        "gpt_neo",
        None,
        {**_TEXT, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    ),
    ("opt", "OPTForCausalLM", {**_TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    ("llama", "LlamaForCausalLM", {**_GROUPED, "rope_theta": 10000.0}),
    ("qwen2", "Qwen2ForCausalLM", {**_GROUPED, "sliding_window": 32, "max_window_layers": 1}),
    ("mixtral", "MixtralForCausalLM", {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    (
        "mamba",
        "MambaForCausalLM",
        {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 8},
    ),
    (
        "t5",
        "T5ForConditionalGeneration",
        {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2},
    ),
    ("bart", "BartForConditionalGeneration", {**_ENCODER_DECODER, "max_position_embeddings": 64}),
    ("marian", "MarianMTModel", {**_ENCODER_DECODER, "max_position_embeddings": 64}),
    (
        "whisper",
        "WhisperForConditionalGeneration",
        {**_ENCODER_DECODER, "max_source_positions": 32, "num_mel_bins": 8},
    ),
    ("vit", "ViTForImageClassification", {**_IMAGE, "num_labels": 5}),
    ("beit", "BeitModel", _IMAGE),
    ("dinov2", "Dinov2Model", _IMAGE),
    (
        "swin",
        "SwinModel",
        {**_STAGES, "embed_dim": 16, "num_heads": [2, 4], "window_size": 4, "patch_size": 4},
    ),
    ("convnext", "ConvNextForImageClassification", {**_STAGES, "hidden_sizes": [16, 32], "num_stages": 2}),
    (
        "resnet",
        "ResNetModel",
        {**_STAGES, "hidden_sizes": [16, 32], "embedding_size": 16, "layer_type": "basic"},
    ),
    ("segformer", None, {**_STAGES, "hidden_sizes": [16, 32], "num_encoder_blocks": 2, "sr_ratios": [2, 1]}),
    ("detr", "DetrForObjectDetection", {**_ENCODER_DECODER, "backbone": "resnet18", "num_queries": 4}),
    ("timm_wrapper", "TimmWrapperForImageClassification", {"architecture": "resnet18", "num_labels": 5}),
    ("clip", "CLIPModel", {"projection_dim": 16, "text_config": _TEXT, "vision_config": _IMAGE}),
    ("wav2vec2", "Wav2Vec2ForCTC", {**_SPEECH, "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8}),
]

# Numbers that no size has, types that no size has, and text that a careless reader would follow.
_NUMBERS = (-1, 0, 10**5 + 1, 10**7, 10**9, 10**12, -(10**9), 2**31, 2**63, 10**30, 1.5, -0.5, 1e308)
_NOT_NUMBERS: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "12",
    "None",
    [],
    {},
    [1, 2],
    [10**9] * 3,
    {"a": 1},
    float("nan"),
    float("inf"),
)
NAMES = (
    "os",
    "os.system",
    "antigravity",
    "__class__",
    "load",
    "onnx",
    "sizeup_named_module",
    "kernels-community/flash-attn",
    "org/name@main:attack",
    "hf-hub:org/name",
    "hf_hub:org/name",
    "local-dir:/tmp",
    "/etc/passwd",
    "../../../etc/passwd",
    "https://example.com/config.json",
    "file:///etc/passwd",
    "flash_attention_2",
    "${HOME}",
    "a" * 10_000,
    "\x1b[31m\x00",
)
# Settings that name code, files, repositories or attributes, wherever they are put.
_DANGEROUS = (
    "auto_map",
    "trust_remote_code",
    "custom_pipelines",
    "_name_or_path",
    "_attn_implementation",
    "attn_implementation",
    "experts_implementation",
    "quantization_config",
    "dtype",
    "torch_dtype",
    "backbone",
    "backbone_config",
    "backbone_kwargs",
    "use_timm_backbone",
    "use_pretrained_backbone",
    "architecture",
    "architectures",
    "model_args",
    "timm_kwargs",
    "model_type",
    "hidden_act",
    "activation_function",
    "layer_types",
    "per_layer_config",
    "rope_scaling",
    "rope_parameters",
    "id2label",
    "num_labels",
    "task_specific_params",
    "text_config",
    "vision_config",
    "attribute_map",
    "__class__",
    "__dict__",
    "to_dict",
)
_CODE = {
    "AutoModel": "sizeup_named_module--module.Class",
    "AutoBackbone": "module.Class",
    "AutoConfig": "org/name--configuration.Config",
}


def seeds() -> list[dict[str, Any]]:
    """One small configuration per family, with every setting that transformers writes for it."""
    return [_seed(*each) for each in _FAMILIES]


def _seed(model_type: str, architecture: str | None, sizes: dict[str, Any]) -> dict[str, Any]:
    from sizeup.formats.torch.zoo import import_torchvision

    import_torchvision()  # transformers imports it, which may need help
    from transformers import CONFIG_MAPPING

    written = json.loads(CONFIG_MAPPING[model_type](**copy.deepcopy(sizes)).to_json_string(use_diff=False))
    # The usual five labels or two as a number, since that is what files have as well.
    settings = {key: value for key, value in written.items() if key not in ("id2label", "label2id")}
    named = {"architectures": [architecture]} if architecture else {}
    return {**settings, "model_type": model_type, **named}


def mutate(config: dict[str, Any], random: random.Random) -> dict[str, Any] | str:
    """A configuration with one to three things wrong with it, or the text of a file that is not JSON."""
    mutant = copy.deepcopy(config)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        changed = random.choice(_MUTATIONS)(mutant, random)
        if isinstance(changed, str):
            return changed
    return mutant


def _settings(mutant: dict[str, Any], random: random.Random) -> dict[str, Any]:
    """The configuration itself, or now and then one inside it."""
    inner = [value for value in mutant.values() if isinstance(value, dict) and value]
    return random.choice(inner) if inner and random.random() < 0.3 else mutant


def _change_a_number(mutant: dict[str, Any], random: random.Random) -> None:
    settings = _settings(mutant, random)
    numbers = [key for key, value in settings.items() if isinstance(value, int | float | list)]
    if numbers:
        key = random.choice(numbers)
        value = random.choice(_NUMBERS)
        length = len(settings[key]) if isinstance(settings[key], list) else 0
        settings[key] = [value] * length if length and random.random() < 0.7 else value


def _change_a_type(mutant: dict[str, Any], random: random.Random) -> None:
    settings = _settings(mutant, random)
    if settings:
        settings[random.choice(list(settings))] = copy.deepcopy(random.choice(_NOT_NUMBERS))


def _change_a_name(mutant: dict[str, Any], random: random.Random) -> None:
    settings = _settings(mutant, random)
    texts = [key for key, value in settings.items() if isinstance(value, str)]
    if texts:
        settings[random.choice(texts)] = random.choice(NAMES)


def _add_a_dangerous_setting(mutant: dict[str, Any], random: random.Random) -> None:
    key = random.choice(_DANGEROUS)
    name = random.choice(NAMES)
    values: tuple[Any, ...] = (
        name,
        name,
        [name],
        {"": name},
        _CODE,
        True,
        {"model_type": "timm_backbone", "backbone": name},
    )
    _settings(mutant, random)[key] = copy.deepcopy(random.choice(values))


def _delete(mutant: dict[str, Any], random: random.Random) -> None:
    settings = _settings(mutant, random)
    for key in random.sample(list(settings), min(len(settings), random.randint(1, 3))):
        del settings[key]


def _swap(mutant: dict[str, Any], random: random.Random) -> None:
    """The values of two settings, each where the other belongs."""
    settings = _settings(mutant, random)
    if len(settings) > 1:
        one, other = random.sample(list(settings), 2)
        settings[one], settings[other] = settings[other], settings[one]


def _change_the_family(mutant: dict[str, Any], random: random.Random) -> None:
    model_type, architecture, _ = random.choice(_FAMILIES)
    mutant[random.choice(("model_type", "architectures"))] = random.choice(
        (model_type, [architecture], [5], None)
    )


def _nest(mutant: dict[str, Any], random: random.Random) -> str | None:
    key = random.choice(list(mutant) or ["text_config"])
    if random.random() < 0.5:
        depth = random.choice((40, 5_000, 100_000))
        opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
        rest = {each: value for each, value in mutant.items() if each != key}
        return f'{json.dumps(rest)[:-1]}, "{key}": {opening * depth}1{closing * depth}}}'
    mutant[key] = {**copy.deepcopy(mutant), key: copy.deepcopy(mutant)}
    return None


def _damage_the_text(mutant: dict[str, Any], random: random.Random) -> str:
    text = json.dumps(mutant)
    place = random.randrange(len(text))
    damage = (
        text[:place],
        text[:place] + text[place + 1 :],
        text[:place] + random.choice('{}[],:"\\0-eN\u2028') + text[place:],
        text[:-1] + ", " + text[1:],  # every setting twice
        text.replace("32", "3" * 5_000, 1),
        "\ufeff" + text,
    )
    return random.choice(damage)


_MUTATIONS: tuple[Callable[[dict[str, Any], random.Random], str | None], ...] = (
    _change_a_number,
    _change_a_number,
    _change_a_number,
    _change_a_number,
    _change_a_type,
    _change_a_type,
    _change_a_name,
    _add_a_dangerous_setting,
    _add_a_dangerous_setting,
    _delete,
    _swap,
    _change_the_family,
    _nest,
    _damage_the_text,
)


class _Files:
    """The same as contents of files, for the rounds that `targets` lists."""

    def seeds(self, folder: Path) -> list[bytes]:
        return [json.dumps(each).encode() for each in seeds()]

    def mutate(self, content: bytes, random: random.Random) -> bytes:
        mutant = mutate(json.loads(content), random)
        return (mutant if isinstance(mutant, str) else json.dumps(mutant)).encode("utf-8", "surrogatepass")


FILES = _Files()
