"""Parse the JSON files of a Hugging Face checkpoint: config.json and hf_quant_config.json.

The content is untrusted: files have a size limit, and their values are checked by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizeup import settings
from sizeup.errors import CorruptModel, LoadError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import check_regular
from sizeup.formats.quantization_config import QuantizationConfig, parse_quantization, quantization_file

_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def declared_quantization(content: Mapping[str, Any], path: Path, source: str) -> QuantizationConfig | None:
    """Return the quantization that the file, or hf_quant_config.json in the same folder, declares."""
    text = content.get("text_config")
    declared = [
        part.get(key)
        for part in (content, text if isinstance(text, dict) else {})
        for key in ("quantization_config", "compression_config")
    ]
    neighbor = quantization_file(path)
    other = None if neighbor is None else parse_json(neighbor, f"hf:{neighbor}")
    try:
        return parse_quantization(
            next((part for part in declared if part), None), other, expert_dtype=content.get("expert_dtype")
        )
    except CorruptModel as error:
        raise CorruptModel(f"{source}: {error}") from error


def parse_json(path: Path, source: str) -> Any:
    """Return the content of a JSON file of at most 16 MiB."""
    check_regular(path, source)
    try:
        return settings.parse_json(read_settings(path), object_hook=_decode_float)
    except OSError as error:
        raise LoadError(f"{source}: {read_problem(error)}; give a local config.json") from error
    except ValueError as error:
        raise CorruptModel(f"{source}: not JSON: {error}") from error


def _decode_float(value: dict[str, Any]) -> Any:
    """Decode a non-finite number as transformers writes it: {"__float__": "Infinity"}."""
    return _NOT_FINITE.get(str(value["__float__"]), value) if value.keys() == {"__float__"} else value
