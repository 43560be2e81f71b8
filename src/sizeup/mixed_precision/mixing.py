"""Precisions that a user asks for, read from a file or an option and applied to a graph."""

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
from sizeup.files import read_settings
from sizeup.graph import Graph
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.layers import layers, matched

# One precision for all, a mapping of layers to precisions, or a JSON file with one.
Wish: TypeAlias = str | os.PathLike[str] | Mapping[str, str] | None
_MOST_TOLD = 5


def is_mapping(wish: Wish) -> bool:
    """Whether a wish tells layers apart; a text that ends in .json is a file."""
    return isinstance(wish, Mapping | os.PathLike) or (isinstance(wish, str) and wish.endswith(".json"))


def as_wished(graph: Graph, wish: Wish) -> tuple[Graph, DType | None]:
    """The graph with the types of a mapping, or as it is beside the one precision that was asked for."""
    if wish is None:
        return graph, None
    if not is_mapping(wish):
        return graph, dtypes.precision(str(wish))
    mapping = wish if isinstance(wish, Mapping) else read_mapping(Path(wish))
    if not all(isinstance(each, str) for pair in mapping.items() for each in pair):
        raise SizeupError("a mapping is of texts to texts: {'features.*': 'int8'}")
    found = matched(graph, mapping)
    if mapping and not found.chosen:
        raise SizeupError(f"no layer is called what the mapping names: {_told(found.unmatched)}")
    notes = [*graph.notes, f"precisions by layer: {distribution(graph, found.chosen)}"]
    if found.unmatched:
        notes.append(f"names in the mapping that match nothing: {_told(found.unmatched)}")
    return replace(assign(graph, found.chosen), notes=tuple(notes)), None


def distribution(graph: Graph, chosen: Mapping[int, DType]) -> str:
    """How many layers have which type: `12 at int8, 3 as they are`."""
    known = {layer.op for layer in layers(graph)}
    counts = Counter(precision_name(chosen[op]) for op in sorted(known) if op in chosen)
    rest = len(known) - counts.total()
    parts = [f"{count:,} at {name}" for name, count in counts.most_common()]
    others = sum(1 for op in chosen if op not in known)
    parts += [f"{others:,} other operators"] if others else []
    return ", ".join([*parts, f"{rest:,} as they are"] if rest else parts)


def _told(unmatched: Mapping[str, list[str]]) -> str:
    parts = [
        f"{name!r} (nearest: {', '.join(near)})" if near else repr(name)
        for name, near in list(unmatched.items())[:_MOST_TOLD]
    ]
    rest = len(unmatched) - _MOST_TOLD
    return ", ".join(parts) + (f" and {rest:,} more" if rest > 0 else "")


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
