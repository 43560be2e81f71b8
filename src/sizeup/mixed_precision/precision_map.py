"""Precision options: one precision, or a precision map, read from a file and applied to a graph."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from sizeup import dtypes
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.graph import Graph
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import layers, match_layers
from sizeup.settings import parse_json
from sizeup.units import plural

# One precision for all layers, a precision map, or the path of a JSON file with one.
# A precision is a name such as fp16, or a dtype of PyTorch or NumPy (see `dtypes.precision`).
PrecisionSpec: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Any | None
_MAX_LISTED = 5


def is_precision_map(precision: PrecisionSpec) -> bool:
    """Whether an option is a precision map; text that ends in .json is a file."""
    return isinstance(precision, Mapping | os.PathLike) or (
        isinstance(precision, str) and precision.endswith(".json")
    )


def apply_precision(graph: Graph, precision: PrecisionSpec) -> tuple[Graph, DType | None]:
    """Applies a precision map to the graph; or returns the graph unchanged, and the one precision."""
    if precision is None:
        return graph, None
    if not is_precision_map(precision):
        return graph, dtypes.precision(precision)
    mapping = precision if isinstance(precision, Mapping) else read_precision_map(Path(precision))
    if not all(isinstance(pattern, str) for pattern in mapping):
        raise SizeupError(f"a precision map has names of layers as keys: {_EXAMPLE}")
    match = match_layers(graph, mapping)
    if mapping and not match.dtypes:
        file = "" if isinstance(precision, Mapping) else f"{precision}: "
        raise SizeupError(
            f"{file}no layer matches the precision map: {_list_unmatched(match.unmatched)};"
            " sizeup analyze MODEL --by op --wide lists the names"
        )
    notes = [*graph.notes, f"precision map: {distribution(graph, match.dtypes)}"]
    if match.unmatched:
        notes.append(f"names in the precision map that match nothing: {_list_unmatched(match.unmatched)}")
    return replace(assign(graph, match.dtypes), notes=tuple(notes)), None


def distribution(graph: Graph, assignment: Mapping[int, DType]) -> str:
    """Returns the number of layers per precision: `12 at int8, 3 unchanged`."""
    layer_ops = {layer.op for layer in layers(graph)}
    counts = Counter(precision_name(assignment[op]) for op in sorted(layer_ops) if op in assignment)
    rest = len(layer_ops) - counts.total()
    parts = [f"{count:,} at {name}" for name, count in counts.most_common()]
    others = sum(1 for op in assignment if op not in layer_ops)
    parts += [plural(others, "other operator")] if others else []
    return ", ".join([*parts, f"{rest:,} unchanged"] if rest else parts)


def _list_unmatched(unmatched: Mapping[str, list[str]]) -> str:
    parts = [
        f"{name!r} (nearest: {', '.join(near)})" if near else repr(name)
        for name, near in list(unmatched.items())[:_MAX_LISTED]
    ]
    rest = len(unmatched) - _MAX_LISTED
    return ", ".join(parts) + (f" and {rest:,} more" if rest > 0 else "")


_EXAMPLE = '{"features.0": "int8", "classifier*": "fp32"}'


def read_precision_map(path: Path) -> dict[str, str]:
    """Reads a precision map from a JSON file, or the precisions in a latency predictor's results."""
    try:
        content = parse_json(read_settings(path))
    except OSError as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        raise SizeupError(f"{path}: not a precision map: {error}") from error
    if isinstance(content, dict) and "filtered_precisions" in content:
        raise SizeupError(f"{path}: {_about_options(content['filtered_precisions'])}")
    if isinstance(content, dict) and isinstance(content.get("layer_details"), dict):
        content = {name: _precision(details) for name, details in content["layer_details"].items()}
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise SizeupError(f"{path}: a precision map is a JSON object of strings: {_EXAMPLE}")
    return content


def _precision(details: Any) -> Any:
    """Returns the precision of a layer in latency_analysis_results.json; None if there is none."""
    return details.get("precision") if isinstance(details, dict) else None


def _about_options(options: Any) -> str:
    """Explains how to get from tensor_analysis_results.json, with all precisions that fit, to a map."""
    rows = options.items() if isinstance(options, dict) else ()
    widest = {name: names[0] for name, names in rows if isinstance(names, list) and names}
    first = dict(list(widest.items())[:1])
    example = f", such as {json.dumps(first)}" if first else ""
    return (
        f"it lists all precisions that fit; a precision map has one per layer{example}."
        " sizeup precision MODEL --weights SIZE -o map.json chooses them"
    )
