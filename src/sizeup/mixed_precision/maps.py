"""Precision maps as files: {layer: precision}, or what the tensor latency predictor wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.files import read_settings

_EXAMPLE = '{"features.0": "int8", "classifier*": "fp32"}'


def read_mapping(path: Path) -> dict[str, str]:
    """A precision map from a JSON file; of a predictor's results, the precision of every layer."""
    try:
        content = json.loads(read_settings(path))
    except OSError as error:
        raise SizeupError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SizeupError(f"{path}: not a precision map: {error}") from error
    if isinstance(content, dict) and "filtered_precisions" in content:
        raise SizeupError(f"{path}: {_about_options(content['filtered_precisions'])}")
    if isinstance(content, dict) and isinstance(content.get("layer_details"), dict):
        content = {name: _precision(each) for name, each in content["layer_details"].items()}
    if not isinstance(content, dict) or not all(isinstance(each, str) for each in content.values()):
        raise SizeupError(f"{path}: a precision map is a JSON object of texts: {_EXAMPLE}")
    return content


def _precision(details: Any) -> Any:
    """The precision of a layer in latency_analysis_results.json; None if there is none."""
    return details.get("precision") if isinstance(details, dict) else None


def _about_options(options: Any) -> str:
    """How to get from tensor_analysis_results.json, which lists what fits, to one precision per layer."""
    rows = options.items() if isinstance(options, dict) else ()
    widest = {name: kept[0] for name, kept in rows if isinstance(kept, list) and kept}
    first = dict(list(widest.items())[:1])
    shown = f", such as {json.dumps(first)}" if first else ""
    return (
        f"it lists the precisions that fit; a precision map has one per layer{shown}."
        " sizeup precision MODEL --weights SIZE -o map.json chooses them"
    )
