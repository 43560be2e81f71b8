"""Read the architecture of a language model from its config.json, without torch."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.files import is_folder
from sizeup.formats.config_json import declared_quantization, parse_json
from sizeup.formats.digest import content_digest
from sizeup.formats.module_patterns import ModulePatterns
from sizeup.formats.quantization_config import QuantizationConfig
from sizeup.serving.models import families, gguf, hybrids, towers
from sizeup.serving.models.architecture import Architecture, Layer, Part, Weight
from sizeup.serving.models.families import BuildLayer, Family
from sizeup.serving.models.gguf_header import header_digest
from sizeup.serving.models.modules import DTYPE_BYTES, WEIGHT_PRECISIONS, Modules
from sizeup.serving.models.safetensors import headers_digest, stored_bytes, with_stored_bytes
from sizeup.serving.models.settings import MOST_LAYERS, MOST_TOKENS, Settings
from sizeup.units import quoted

MOST_PARAMETERS = 1 << 50
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_PREFIX = "hf:"
_OTHER_TASK = re.compile(r"For(?!CausalLM|ConditionalGeneration)[A-Z]")
_Tower = Callable[[Settings, int, Modules], Part]


@dataclass(frozen=True, slots=True)
class _ModelType:
    """How a model type is read."""

    family: Family
    tower: _Tower | None = None
    tied: bool = False  # whether the head is the embedding if the configuration does not state it
    mtp: str = ""  # setting with the number of MTP layers
    mtp_path: str = "model.layers.{}"
    mtp_projection: str = "eh_proj"


_DEEPSEEK = _ModelType(families.deepseek, mtp="num_nextn_predict_layers")
_QWEN3_VL = _ModelType(families.qwen3, towers.qwen3_vision)
_QWEN3_5 = _ModelType(
    hybrids.qwen3_5, towers.qwen3_vision, mtp="mtp_num_hidden_layers", mtp_path="mtp", mtp_projection="fc"
)
MODEL_TYPES: Mapping[str, _ModelType] = {
    "llama": _ModelType(families.dense),
    "mistral": _ModelType(families.dense),
    "qwen2": _ModelType(families.qwen2),
    "qwen3": _ModelType(families.qwen3),
    "mimo": _ModelType(
        families.qwen2,
        mtp="num_nextn_predict_layers",
        mtp_path="model.mtp_layers.{}",
        mtp_projection="input_proj",
    ),
    "gemma3_text": _ModelType(families.gemma3, tied=True),
    "gemma4": _ModelType(families.gemma4, towers.gemma4_vision, tied=True),
    "gemma4_text": _ModelType(families.gemma4, tied=True),
    "nemotron-nas": _ModelType(hybrids.nemotron_nas),
    "mixtral": _ModelType(families.mixtral),
    "qwen3_moe": _ModelType(families.qwen3_moe),
    "minimax_m2": _ModelType(families.minimax_m2),
    "gpt_oss": _ModelType(families.gpt_oss),
    "llama4": _ModelType(families.llama4),
    "llama4_text": _ModelType(families.llama4),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "kimi_k25": replace(_DEEPSEEK, tower=towers.kimi_vision),
    "mimo_v2_flash": _ModelType(hybrids.mimo_v2),
    "qwen3_next": _ModelType(hybrids.qwen3_next),
    "qwen3_5": _QWEN3_5,
    "qwen3_5_text": replace(_QWEN3_5, tower=None),
    "qwen3_5_moe": _QWEN3_5,
    "qwen3_5_moe_text": replace(_QWEN3_5, tower=None),
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_text": replace(_QWEN3_VL, tower=None),
    "qwen3_vl_moe": replace(_QWEN3_VL, family=families.qwen3_moe),
    "qwen3_vl_moe_text": _ModelType(families.qwen3_moe),
    "nemotron_h": _ModelType(hybrids.nemotron_h),
}
"""The model types that can be read."""


def read(source: str | os.PathLike[str], weights: str | None = None) -> Architecture:
    """Return the architecture that a config.json, or the header of a GGUF file, describes.

    `weights` replaces the precision of the checkpoint: fp8, int4 and others of WEIGHT_PRECISIONS. Raises
    LoadError for a model type, or a setting that may change sizes, that is not known.
    """
    if not isinstance(source, str | os.PathLike):
        raise SizeupError(f"the model is {quoted(source)}; give the path of a config.json or .gguf file")
    path = Path(os.fspath(source).removeprefix(_PREFIX))
    if path.suffix.lower() == gguf.SUFFIX:
        if weights is not None:
            raise SizeupError(f"{path}: the weights of a GGUF file have their precision; leave out --weights")
        return gguf.read(path)
    if is_folder(path):
        path = path / "config.json"
    name = str(path)
    content = parse_json(path, name)
    if not isinstance(content, dict):
        raise CorruptModel(f"{name}: not a Hugging Face configuration")
    quantization = declared_quantization(content, path, name)
    architecture = architecture_of(content, name, quantization, weights)
    # Other file names are not those of a checkpoint: the files next to them may belong to another.
    sizes = stored_bytes(path.parent) if weights is None and path.name == "config.json" else None
    return architecture if sizes is None else with_stored_bytes(architecture, sizes)


def checkpoint_digest(path: Path) -> str:
    """A digest of all that `read` reads of a checkpoint: a config.json or its folder, or a .gguf file.

    Raises LoadError or OSError if a file cannot be read.
    """
    if path.suffix.lower() == gguf.SUFFIX:
        return header_digest(path)
    path = path / "config.json" if is_folder(path) else path
    own = content_digest(path)
    headers = headers_digest(path.parent) if path.name == "config.json" else ""
    return hashlib.sha256(f"{own}\0{headers}".encode()).hexdigest() if headers else own


def architecture_of(
    content: Mapping[str, Any],
    source: str,
    quantization: QuantizationConfig | None = None,
    weights: str | None = None,
) -> Architecture:
    """Return the architecture of a parsed configuration."""
    outer = Settings(content, source)
    model_type = outer.text("model_type")
    entry = MODEL_TYPES.get(model_type)
    if entry is None:
        diffusers = outer.text("_class_name")
        if diffusers:
            raise LoadError(f"{source}: {quoted(diffusers)} is a class of diffusers, not a language model")
        if not model_type:
            raise LoadError(f"{source}: no model_type; give the config.json of a language model")
        raise LoadError(
            f"{source}: model type {quoted(model_type)} is not supported; sizeup llm reads"
            f" {', '.join(sorted(MODEL_TYPES))}"
        )
    _check_task(outer)
    text = outer.nested("text_config")
    settings = outer if text is None else text
    dtype, caveats = dtype_of(outer, settings)
    modules = Modules(dtype, _quantization(quantization, weights, source))
    build = entry.family(settings)
    hidden, vocabulary = settings.size("hidden_size"), settings.size("vocab_size")
    tied = outer.flag("tie_word_embeddings", settings.flag("tie_word_embeddings", entry.tied))
    count = settings.count("num_hidden_layers", default=len(settings.items("layers_block_type") or []))
    layers = _layers(build, count, modules, source)
    parts, notes = _parts(entry, outer, settings, build, modules)
    if quantization is not None:
        outer.skip("expert_dtype")  # read with the quantization
    settings.refuse_unread()
    outer.refuse_unread()
    _check_experts(layers, source)
    architecture = Architecture(
        model_name(source),
        model_type,
        hidden,
        vocabulary,
        tuple(modules.vector("embed_tokens", vocabulary * hidden, "embedding", 0)),
        layers,
        (*modules.vector("norm", hidden), _head(modules, vocabulary, hidden, tied)),
        parts,
        tied,
        _max_context(settings),
        dtype,
        _kv_dtype(quantization),
        (*caveats, *notes),
    )
    if architecture.parameters > MOST_PARAMETERS:
        raise CorruptModel(f"{source}: more than {MOST_PARAMETERS:,} parameters")
    is_declared = weights is None and quantization is not None and quantization.has_schemes
    if is_declared and all(weight.precision in DTYPE_BYTES for weight in architecture.weights()):
        name = quoted("" if quantization is None else quantization.method)
        caveat = f"quantization {name} matches no module: all weights are counted in {dtype}"
        return replace(architecture, caveats=(*architecture.caveats, caveat))
    return architecture


def _check_task(outer: Settings) -> None:
    """Raises LoadError unless the model generates text: others have another head."""
    for name in outer.items("architectures") or ():
        if isinstance(name, str) and _OTHER_TASK.search(name):
            raise outer.unsupported(f"architectures names {quoted(name)}, which is no causal language model")


def _check_experts(layers: tuple[Layer, ...], source: str) -> None:
    for experts in {layer.experts for layer in layers if layer.experts is not None}:
        if experts.per_token > experts.count:
            raise CorruptModel(f"{source}: {experts.per_token:,} experts per token, of {experts.count:,}")


def _max_context(settings: Settings) -> int:
    """Positions of the model, which YaRN multiplies as vLLM does; 0 if not stated."""
    stated = settings.tokens("max_position_embeddings", default=0)
    for name in ("rope_scaling", "rope_parameters"):
        scaling = settings.content.get(name)
        if not isinstance(scaling, dict) or "yarn" not in (scaling.get("rope_type"), scaling.get("type")):
            continue
        factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
        if not isinstance(factor, (int, float)) or not isinstance(original, int):
            continue
        if 1 <= original <= MOST_TOKENS and 1 <= factor * original <= MOST_TOKENS:
            return max(stated, int(factor * original))
    return stated


def _layers(build: BuildLayer, count: int, modules: Modules, source: str) -> tuple[Layer, ...]:
    if not count:
        raise CorruptModel(f"{source}: num_hidden_layers is 0 or missing")
    if count > MOST_LAYERS:
        raise CorruptModel(f"{source}: {count:,} layers; at most {MOST_LAYERS:,} are supported")
    shared: dict[Layer, Layer] = {}
    layers = (build(index, modules.within(f"model.layers.{index}")) for index in range(count))
    return tuple(shared.setdefault(layer, layer) for layer in layers)


def _head(modules: Modules, vocabulary: int, hidden: int, tied: bool) -> Weight:
    head = modules.linear("lm_head", vocabulary, hidden, "head")[0]
    return replace(head, parameters=0, stored_bytes=0) if tied else head


def dtype_of(outer: Settings, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The dtype that a configuration states, and what is assumed if it states none."""
    for part in (settings, outer):
        for key in ("dtype", "torch_dtype"):
            name = part.text(key)
            if name in _DTYPES:
                return _DTYPES[name], ()
            if name:
                raise part.unsupported(f"{key} {quoted(name)} is unknown")
    return "bf16", ("the configuration states no dtype: bf16 assumed for weights that are not quantized",)


def _quantization(
    declared: QuantizationConfig | None, weights: str | None, source: str
) -> QuantizationConfig | None:
    if weights is None:
        if declared is not None and not declared.is_known:
            raise LoadError(
                f"{source}: quantization {quoted(declared.method)} is not supported;"
                " --weights PRECISION replaces it"
            )
        return declared
    return assumed_quantization(weights)


def assumed_quantization(weights: str | None) -> QuantizationConfig | None:
    """A quantization of all linear layers to a precision; None for 16 bits. Raises SizeupError if unknown."""
    if weights is None:
        return None
    if weights not in WEIGHT_PRECISIONS:
        known = ", ".join(WEIGHT_PRECISIONS)
        raise SizeupError(f"weight precision {quoted(weights)} is unknown; use one of {known}")
    scheme = WEIGHT_PRECISIONS[weights]
    # Towers stay at the dtype of the model, as quantizers leave them.
    kept = ModulePatterns(("visual", "vision_tower", "embed_vision", "mm_projector"))
    return None if scheme is None else QuantizationConfig(weights, scheme, kept=kept)


def _kv_dtype(quantization: QuantizationConfig | None) -> str | None:
    declared = (quantization.kv_cache or "").lower() if quantization else ""
    return "fp8" if "fp8" in declared or "float8" in declared else None


def _parts(
    entry: _ModelType, outer: Settings, settings: Settings, build: BuildLayer, modules: Modules
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    parts, notes = [], []
    hidden = settings.size("hidden_size")
    vision = outer.nested("vision_config")
    if vision is not None:
        if entry.tower is None:
            raise outer.unsupported("vision_config has an unknown vision tower")
        parts.append(entry.tower(vision, hidden, modules))
    elif outer is not settings:
        notes.append("the configuration describes no vision tower: none is counted")
    if outer.nested("audio_config") is not None:
        raise outer.unsupported("audio_config has an unknown audio tower")
    count = settings.count(entry.mtp, default=0) if entry.mtp else 0
    settings.skip("num_nextn_predict_layers")
    if count > MOST_LAYERS:
        raise settings.error(f"{entry.mtp} is {count:,}; at most {MOST_LAYERS:,} MTP layers are supported")
    if count:
        first = settings.count("num_hidden_layers")
        parts.append(
            towers.prediction_layers(
                build, first, count, hidden, modules, entry.mtp_path, entry.mtp_projection
            )
        )
    elif any(settings.content.get(key) for key in ("num_nextn_predict_layers", "num_mtp_modules")):
        notes.append("MTP layers are not counted: their weights are not described")
    return tuple(parts), tuple(notes)


def model_name(source: str) -> str:
    """The name of a model: that of its file, or of its folder."""
    path = Path(source.removeprefix(_PREFIX))
    stem = path.name.removesuffix("config.json").removesuffix(".json").rstrip("_-.")
    return stem or path.absolute().parent.name
