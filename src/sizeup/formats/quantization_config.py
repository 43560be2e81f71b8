"""Read `quantization_config` of a config.json and hf_quant_config.json: how each weight is stored.

The content is untrusted: every value is checked, and no pattern can take exponential time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sizeup.formats.module_patterns import ModulePatterns, canonical
from sizeup.formats.quantization_methods import READERS, kv_cache_dtype, object_of, shorten, text_of
from sizeup.formats.weight_schemes import MXFP4, Matrices, StoredWeight, WeightScheme

# Modules that quantizers leave unquantized unless a configuration names them.
_KEPT = frozenset(
    (
        *("lm_head", "embed_tokens", "embeddings", "word_embeddings", "wte", "wpe", "embed_out"),
        *("gate", "router", "norm", "conv1d"),
    )
)
_EXPERTS = "experts"
_FUSED = "gate_up_proj"  # stored by checkpoints as gate_proj and up_proj


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """How a checkpoint stores its weights, by the names and shapes of its parameters."""

    method: str
    default: WeightScheme | None = None  # of weights that no other rule names; None: kept
    experts: WeightScheme | None = None  # of routed experts, if another
    groups: tuple[tuple[ModulePatterns, WeightScheme | None], ...] = ()  # the first match applies
    layers: Mapping[str, WeightScheme | None] = field(default_factory=dict)  # by canonical module name
    kept: ModulePatterns = field(default_factory=lambda: ModulePatterns(()))
    keeps_head: bool = True  # the default leaves heads, embeddings and routers unquantized
    kv_cache: str | None = None  # dtype of the key-value cache, as declared
    is_known: bool = True
    caveats: tuple[str, ...] = ()

    @property
    def has_schemes(self) -> bool:
        """Whether any weights are declared as quantized."""
        grouped = (scheme for _, scheme in self.groups)
        schemes = (self.default, self.experts, *grouped, *self.layers.values())
        return any(scheme is not None for scheme in schemes)

    def stored(
        self, name: str, shape: Sequence[int], *, transposed: bool = False
    ) -> tuple[StoredWeight, WeightScheme] | None:
        """Return how a parameter is stored; None if at the dtype of the model.

        Only matrices of linear layers and stacked matrices of experts are quantized; the caller leaves out
        other parameters with 2 or 3 dimensions. `transposed`: the last dimension is the output.
        """
        matrices = _matrices(name, shape, transposed)
        scheme = None if matrices is None else self._scheme(_module_names(name))
        if matrices is None or scheme is None or not matrices.elements:
            return None
        return scheme.stored(matrices), scheme

    def _scheme(self, modules: list[str]) -> WeightScheme | None:
        for module in modules:
            scheme = self._of_layer(module)
            if scheme is not None:
                return scheme
        if any(map(self.kept.match, modules)):
            return None
        for patterns, scheme in self.groups:
            if any(map(patterns.match, modules)):
                return scheme
        if self.keeps_head and not _KEPT.isdisjoint(canonical(modules[0]).split(".")[-2:]):
            return None
        if self.experts is not None and _EXPERTS in modules[0].split("."):
            return self.experts
        return self.default

    def _of_layer(self, module: str) -> WeightScheme | None:
        parts = canonical(module).split(".") if self.layers else []
        for end in range(len(parts), 0, -1):
            scheme = self.layers.get(".".join(parts[:end]))
            if scheme is not None:
                return scheme
        return None


def _module_names(name: str) -> list[str]:
    """Return the names that a checkpoint may give to the module of a parameter."""
    module = name.removesuffix(".weight")
    parent, _, last = module.rpartition(".")
    if not name.endswith(".weight") and parent.rpartition(".")[2] == _EXPERTS:
        parts = ("gate_proj", "up_proj", "w1") if last == _FUSED else (last, "w2")
        return [module, *(f"{parent}.0.{part}" for part in parts)]
    if last == _FUSED:
        return [module, f"{parent}.gate_proj", f"{parent}.up_proj"]
    return [module]


def _matrices(name: str, shape: Sequence[int], transposed: bool) -> Matrices | None:
    if len(shape) == 2 and name.endswith(".weight"):
        rows, columns, count = shape[0], shape[1], 1
    elif len(shape) == 3 and name.split(".")[-2:-1] == [_EXPERTS]:
        count, rows, columns = shape
    else:
        return None
    outputs, inputs = (columns, rows) if transposed else (rows, columns)
    if len(shape) == 3 and name.endswith(_FUSED) and outputs % 2 == 0:
        return Matrices(outputs // 2, inputs, 2 * count)
    return Matrices(outputs, inputs, count)


def quantization_file(path: Path) -> Path | None:
    """Return hf_quant_config.json next to a config.json (with the same prefix), or None if there is none."""
    if not path.name.endswith("config.json"):
        return None
    other = path.with_name(f"{path.name.removesuffix('config.json')}hf_quant_config.json")
    return other if os.path.lexists(other) else None


def parse_quantization(
    config: Any, quant_file: Any = None, *, expert_dtype: Any = None
) -> QuantizationConfig | None:
    """Return the quantization that a configuration declares; None if it declares none.

    `config` is `quantization_config` of config.json, `quant_file` the content of hf_quant_config.json. The
    first decides if both are present; the second can add the dtype of the key-value cache.
    """
    main = None if config is None else object_of(config, "quantization_config")
    other = None if quant_file is None else object_of(quant_file, "hf_quant_config.json")
    if other is not None and "quantization" in other:
        other = object_of(other["quantization"], "quantization")
    if not main and not other:
        return None
    settings = main or other or {}
    method = text_of(settings, "quant_method") or ("modelopt" if text_of(settings, "quant_algo") else "")
    if not method and "config_groups" in settings:
        method = "compressed-tensors"
    if not method:
        method = "bitsandbytes" if settings.get("load_in_4bit") or settings.get("load_in_8bit") else "unnamed"
    kv_cache = kv_cache_dtype(settings) or (kv_cache_dtype(other) if other else None)
    reader = READERS.get(method.lower().replace("-", "_"))
    rules = None if reader is None else reader(settings)
    if rules is None:
        return QuantizationConfig(shorten(method), kv_cache=kv_cache, is_known=False)
    experts = rules.experts
    if method == "fp8" and expert_dtype == "fp4" and experts is None:
        experts = MXFP4
    unsupported = [pattern for patterns, _ in rules.groups for pattern in patterns.unsupported]
    unsupported += rules.kept.unsupported
    caveats = tuple(
        f"the pattern {shorten(pattern)!r} of the quantization configuration is not supported, so"
        " that the quantized weights are not known"
        for pattern in unsupported[:3]
    )
    if caveats:
        return QuantizationConfig(shorten(method), kv_cache=kv_cache, is_known=False, caveats=caveats)
    return QuantizationConfig(
        shorten(method), rules.default, experts, rules.groups, rules.layers, rules.kept, rules.keeps_head,
        kv_cache,
    )  # fmt: skip
