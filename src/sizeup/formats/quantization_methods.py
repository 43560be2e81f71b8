"""How each quantization method of Hugging Face checkpoints stores weights, read from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sizeup.dtypes import DTYPES
from sizeup.errors import CorruptModel
from sizeup.formats.module_patterns import ModulePatterns, canonical
from sizeup.formats.weight_schemes import (
    MXFP4,
    MXFP8,
    WeightScheme,
    bitsandbytes_4bit,
    fp8_blocks,
    fp8_per_tensor,
    grouped_integers,
    nvfp4,
    per_channel,
)

Settings: TypeAlias = Mapping[str, Any]

_MOST_GROUP = 1 << 20
_MOST_PATTERNS = 100_000
_MOST_LETTERS = 40  # of a method's name in a message


@dataclass(frozen=True, slots=True)
class Rules:
    """Which scheme applies to which modules."""

    default: WeightScheme | None
    kept: ModulePatterns
    groups: tuple[tuple[ModulePatterns, WeightScheme | None], ...] = ()
    layers: Mapping[str, WeightScheme | None] = field(default_factory=dict)
    experts: WeightScheme | None = None
    keeps_head: bool = True


def _fp8(settings: Settings) -> Rules:
    block = settings.get("weight_block_size")
    if block is None:
        default = fp8_per_tensor(static=settings.get("activation_scheme") == "static")
    else:
        if not isinstance(block, list) or len(block) != 2:
            raise CorruptModel("weight_block_size of the quantization configuration is not a pair of sizes")
        default = fp8_blocks(*(_size(number, "weight_block_size") for number in block))
    # An fp8 checkpoint whose experts were quantized again: `ignore` is about these only.
    layers = _layers(settings) if "quantized_layers" in settings else {}
    kept = _patterns(settings, "modules_to_not_convert", "ignored_layers")
    if not layers and not kept:
        kept = _patterns(settings, "ignore", "exclude_modules")
    return Rules(default, kept, layers=layers)


def _fbgemm(settings: Settings) -> Rules:
    return Rules(per_channel(DTYPES["float8_e4m3fn"], 32), _patterns(settings, "modules_to_not_convert"))


def _gptq(settings: Settings) -> Rules:
    bits, group = _bits(settings, "bits", 4), _group(settings)
    scheme = grouped_integers(bits, group, zero_points=True, indices=True)
    kept = _patterns(settings, "modules_to_not_convert")
    return Rules(scheme, kept, keeps_head=settings.get("lm_head") is not True)


def _awq(settings: Settings) -> Rules:
    bits = _bits(settings, "bits", _bits(settings, "w_bit", 4))
    group = _group(settings, "group_size", "q_group_size")
    scheme = grouped_integers(bits, group, zero_points=settings.get("zero_point") is not False)
    return Rules(scheme, _patterns(settings, "modules_to_not_convert"))


def _mxfp4(settings: Settings) -> Rules:
    # transformers converts the experts only.
    kept = _patterns(settings, "modules_to_not_convert")
    return Rules(None, kept, experts=MXFP4)


def _bitsandbytes(settings: Settings) -> Rules:
    kept = _patterns(settings, "llm_int8_skip_modules", "modules_to_not_convert")
    if settings.get("load_in_4bit") is True or settings.get("_load_in_4bit") is True:
        dtype = DTYPES["uint4" if settings.get("bnb_4bit_quant_type") == "nf4" else "float4_e2m1fn"]
        double = settings.get("bnb_4bit_use_double_quant") is True
        return Rules(bitsandbytes_4bit(dtype, double=double), kept)
    return Rules(per_channel(DTYPES["int8"], 32), kept)


def _quanto(settings: Settings) -> Rules | None:
    scheme = {
        "int8": per_channel(DTYPES["int8"]),
        "float8": per_channel(DTYPES["float8_e4m3fn"]),
        "int4": grouped_integers(4, 128, zero_points=True, packing=8, zero_bits=16),
        "int2": grouped_integers(2, 128, zero_points=True, packing=8, zero_bits=16),
    }.get(text_of(settings, "weights"))
    return None if scheme is None else Rules(scheme, _patterns(settings, "modules_to_not_convert"))


def _hqq(settings: Settings) -> Rules:
    nested = object_of(settings.get("quant_config") or {}, "quant_config")
    options = object_of(nested.get("weight_quant_params") or nested, "weight_quant_params")
    bits, group = _bits(options, "nbits", 4), _group(options) or 64
    scheme = grouped_integers(bits, group, zero_points=True, packing=8, zero_bits=16)
    return Rules(scheme, _patterns(settings, "skip_modules"))


def _torchao(settings: Settings) -> Rules | None:
    quant_type = settings.get("quant_type")
    options: Settings = {}
    if isinstance(quant_type, dict):
        options = object_of(quant_type.get("default") or {}, "quant_type")
        quant_type = options.get("_type")
        options = object_of(options.get("_data") or {}, "_data")
    name = quant_type.lower().replace("_", "") if isinstance(quant_type, str) else ""
    scheme: WeightScheme | None = None
    if "int4weight" in name:
        group = _group(options) or 128
        scheme = grouped_integers(4, group, zero_points=True, packing=8, zero_bits=16)
    elif "int8" in name:
        scheme = per_channel(DTYPES["int8"])
    elif "float8" in name:
        scheme = per_channel(DTYPES["float8_e4m3fn"], 32)
    return None if scheme is None else Rules(scheme, _patterns(settings, "modules_to_not_convert"))


def _compressed_tensors(settings: Settings) -> Rules | None:
    groups: list[tuple[ModulePatterns, WeightScheme | None]] = []
    default: WeightScheme | None = None
    whole_format = text_of(settings, "format")
    for group in object_of(settings.get("config_groups") or {}, "config_groups").values():
        options = object_of(group, "config_groups")
        weights = options.get("weights")
        if weights is None:
            continue  # only activations
        packed = text_of(options, "format") or whole_format
        scheme = _compressed_group(object_of(weights, "weights"), packed, options.get("input_activations"))
        if scheme is None:
            return None
        targets = _strings(options, "targets")
        # A name with a capital and without a dot is a class: Linear.
        names = [name for name in targets if "." in name or name.startswith("re:") or name.islower()]
        if len(names) < len(targets) or not targets:
            default = default or scheme
        if names:
            groups.append((ModulePatterns(names), scheme))
    if default is None and not groups:
        return None
    return Rules(default, _patterns(settings, "ignore"), tuple(groups), keeps_head=False)


def _compressed_group(weights: Settings, packed: str, activations: Any) -> WeightScheme | None:
    bits, is_float = _bits(weights, "num_bits", 8), weights.get("type") == "float"
    strategy, group = text_of(weights, "strategy"), _group(weights)
    static = isinstance(activations, dict) and activations.get("dynamic") is not True
    if is_float and bits == 4:
        is_mx = "mxfp4" in packed or (group == 32 and "nvfp4" not in packed)
        return MXFP4 if is_mx else nvfp4(static=static, group=group or 16)
    if is_float and bits == 8:
        block = weights.get("block_structure")
        if strategy == "block" or block is not None:
            return _fp8({"weight_block_size": block if block is not None else [128, 128]}).default
        if strategy == "group" and group:
            return MXFP8
        dtype = DTYPES["float8_e4m3fn"]
        return per_channel(dtype) if strategy == "channel" else fp8_per_tensor(static=static)
    if is_float:
        return None
    asymmetric = weights.get("symmetric") is False
    if bits == 8 and "pack" not in packed:
        return per_channel(DTYPES["int8"], zero_bits=8 * asymmetric)
    return grouped_integers(
        bits,
        group if strategy in ("", "group") else 0,
        zero_points=asymmetric,
        indices=weights.get("actorder") in ("group", True),
        matrix_bytes=16,  # the shape, as two 64-bit integers
    )


def _modelopt(settings: Settings) -> Rules | None:
    kept = _patterns(settings, "ignore", "exclude_modules")
    algorithm = text_of(settings, "quant_algo")
    if not algorithm:
        return _compressed_tensors(settings)
    if algorithm.upper() == "MIXED_PRECISION":
        return Rules(None, kept, layers=_layers(settings))
    scheme = _algorithm(algorithm, settings)
    return None if scheme is None else Rules(scheme, kept)


def _layers(settings: Settings) -> dict[str, WeightScheme | None]:
    layers = object_of(settings.get("quantized_layers"), "quantized_layers")
    schemes: dict[str, WeightScheme | None] = {}
    known: dict[tuple[str, Any], WeightScheme | None] = {}
    for name, options in layers.items():
        if not isinstance(options, dict):
            continue
        algorithm = text_of(options, "quant_algo")
        key = (algorithm, str(options.get("group_size"))[:_MOST_LETTERS])
        if key not in known:
            known[key] = _algorithm(algorithm, options)
            if known[key] is None:
                raise CorruptModel(f"quantized_layers has the unknown algorithm {shorten(algorithm)!r}")
        schemes[canonical(name)] = known[key]
    return schemes


def _algorithm(name: str, settings: Settings) -> WeightScheme | None:
    group, name = _group(settings), name.upper()
    if name in _NVFP4:
        return nvfp4(static=name != "W4A16_NVFP4", group=group or 16)
    if name in _INT4:
        return grouped_integers(4, group or 128, zero_points=False, packing=8)
    return _ALGORITHMS.get(name)


# Names of NVIDIA Model Optimizer.
_NVFP4 = ("NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8", "W4A16_NVFP4")
_INT4 = ("W4A16_AWQ", "INT4_AWQ", "W4A8_AWQ")
_ALGORITHMS: dict[str, WeightScheme] = {
    "FP8": fp8_per_tensor(static=True),
    "FP8_PER_CHANNEL_PER_TOKEN": per_channel(DTYPES["float8_e4m3fn"], 32),
    "FP8_PB_WO": fp8_blocks(128, 128),
    "FP8_PB_REAL": fp8_blocks(128, 128),
    "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4,
    "MXFP8": MXFP8,
    "W8A16": per_channel(DTYPES["int8"]),
    "W8A8_SQ_PER_CHANNEL": per_channel(DTYPES["int8"], 32),
}

READERS: dict[str, Callable[[Settings], Rules | None]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto_round": _gptq,
    "intel/auto_round": _gptq,
    "awq": _awq,
    "awq_marlin": _awq,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "quanto": _quanto,
    "hqq": _hqq,
    "torchao": _torchao,
    "compressed_tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
}


def kv_cache_dtype(settings: Settings) -> str | None:
    """Return the declared dtype of the key-value cache, such as fp8; None if none is declared."""
    value = settings.get("kv_cache_quant_algo") or settings.get("kv_cache_scheme")
    if isinstance(value, dict):
        bits = value.get("num_bits")
        kind = "fp" if value.get("type") == "float" else "int"
        return f"{kind}{bits}" if type(bits) is int and 0 < bits <= 16 else None
    return shorten(value.lower()) if isinstance(value, str) and value.isascii() and value.isalnum() else None


def object_of(value: Any, label: str) -> Settings:
    """Return a JSON object; raises CorruptModel if it is something else."""
    if not isinstance(value, dict):
        raise CorruptModel(f"{label} is not an object")
    return value


def text_of(settings: Settings, name: str) -> str:
    """Return a setting that is a text; empty if absent."""
    value = settings.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CorruptModel(f"{name} of the quantization configuration is not a text")
    return value


def _strings(settings: Settings, name: str) -> list[str]:
    values = settings.get(name)
    if values is None:
        return []
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list) or len(values) > _MOST_PATTERNS:
        raise CorruptModel(f"{name} of the quantization configuration is not a list of module names")
    if not all(isinstance(value, str) for value in values):
        raise CorruptModel(f"{name} of the quantization configuration has a value that is not a text")
    return values


def _patterns(settings: Settings, *names: str) -> ModulePatterns:
    return ModulePatterns(pattern for name in names for pattern in _strings(settings, name))


def _size(value: Any, name: str) -> int:
    if type(value) is not int or not 0 < value <= _MOST_GROUP:
        raise CorruptModel(f"{name} of the quantization configuration is not a size")
    return value


def _group(settings: Settings, *names: str) -> int:
    """Return the group size; 0 if a group spans all inputs, or none is given."""
    for name in names or ("group_size",):
        value = settings.get(name)
        if value is not None and not (type(value) is int and value == -1):
            return _size(value, name)
    return 0


def _bits(settings: Settings, name: str, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    if type(value) is not int or not 2 <= value <= 8:
        raise CorruptModel(f"{name} of the quantization configuration is not between 2 and 8")
    return value


def shorten(text: str) -> str:
    """Return a text for a message: printable, and not long."""
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."
