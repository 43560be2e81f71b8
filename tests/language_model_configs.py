"""Architectures of published models, from minimal configurations."""

from __future__ import annotations

from published_configs import CONFIGS as CONFIGS
from sizeup.formats.quantization_config import parse_quantization
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.reader import architecture_of


def architecture(name: str, weights: str | None = None) -> Architecture:
    """The architecture of one of these configurations."""
    config = CONFIGS[name]
    quantization = parse_quantization(config.get("quantization_config"))
    return architecture_of(config, name, quantization, weights)
