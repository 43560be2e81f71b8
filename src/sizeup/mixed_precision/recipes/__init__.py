"""Mixed-precision assignments as input files for quantizers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.files import write_text
from sizeup.graph import Graph
from sizeup.mixed_precision.recipes import litert, onnx, torch
from sizeup.mixed_precision.recipes.litert import recipe_for_ai_edge_quantizer
from sizeup.mixed_precision.recipes.onnx import nodes_for_onnxruntime
from sizeup.mixed_precision.recipes.recipe import Recipe
from sizeup.mixed_precision.recipes.torch import config_for_torchao

__all__ = [
    "KINDS",
    "QUANTIZERS",
    "Recipe",
    "config_for_torchao",
    "nodes_for_onnxruntime",
    "recipe_for_ai_edge_quantizer",
    "write_recipe",
]

KINDS: dict[str, Callable[[Graph, Mapping[int, DType]], Recipe]] = {
    litert.KIND: recipe_for_ai_edge_quantizer,
    onnx.KIND: nodes_for_onnxruntime,
    torch.KIND: config_for_torchao,
}
QUANTIZERS = {"tflite": litert.KIND, "onnx": onnx.KIND, "torch": torch.KIND, "torch.export": torch.KIND}
"""The usual quantizer of a format, a key of `KINDS`."""


def write_recipe(
    graph: Graph, chosen: Mapping[int, DType], path: str | os.PathLike[str], kind: str
) -> Recipe:
    """Writes an assignment as a JSON file for one of the quantizers; `notes` list what it cannot express."""
    if kind not in KINDS:
        raise SizeupError(f"unknown recipe {kind!r}; known: {', '.join(KINDS)}")
    recipe = KINDS[kind](graph, chosen)
    write_text(path, [json.dumps(recipe.content, indent=2), "\n"])
    return recipe
