"""Recipes are carried out for real: what a quantiser writes is what was chosen, and what was predicted."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sizeup import load
from sizeup.cost import count
from sizeup.dtypes import DType, precision
from sizeup.errors import SizeupError
from sizeup.graph import Graph, Tensor
from sizeup.memory import usage
from sizeup.precision import layers
from sizeup.precision.recipes import Recipe, recipe_for_ai_edge_quantizer, write_recipe
from sizeup.runtimes import random_samples, run

pytestmark = [
    pytest.mark.extras,
    # Of the quantiser's own calibration.
    pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`:UserWarning"),
]
Choice = dict[int, DType]
# What a layer's weights and its result are in the file, by what was chosen.
LITERT = {
    "fp32": ("float32", "float32"),
    "fp16": ("float16", "float32"),
    "int8": ("int8", "int8"),
    "int4": ("int4", "int8"),
    "int2": ("int2", "float32"),
}


def prepared(path: Path, folder: Path) -> Path:
    """The file with a signature, which calibration asks for, and operator codes where the quantiser looks."""
    from ai_edge_litert.tools import flatbuffer_utils as files

    model = files.read_model(str(path))
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    signature = files.schema_fb.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "serving_default", 0
    signature.inputs, signature.outputs = (
        [_entry(files.schema_fb.TensorMapT(), f"{word}_{place}", tensor) for place, tensor in enumerate(ends)]
        for word, ends in (("in", model.subgraphs[0].inputs), ("out", model.subgraphs[0].outputs))
    )
    model.signatureDefs = [signature]
    made = folder / path.name
    files.write_model(model, str(made))
    return made


def _entry(made: Any, name: str, tensor: int) -> Any:
    made.name, made.tensorIndex = name, tensor
    return made


@dataclass(frozen=True)
class Quantised:
    """A model, the recipe, and the file that the quantiser wrote."""

    path: Path
    graph: Graph
    recipe: Recipe
    written: Path
    read: Graph


def through_ai_edge_quantizer(path: Path, folder: Path, choose: Any) -> Quantised:
    from ai_edge_quantizer.quantizer import Quantizer

    path = prepared(path, folder)
    graph = load(path)
    recipe = write_recipe(graph, choose(graph), folder / "recipe.json", "ai-edge-quantizer")
    tool = Quantizer(str(path), str(folder / "recipe.json"))
    samples = [{"in_0": sample[0]} for sample in random_samples(graph, 8)]
    statistics = tool.calibrate({"serving_default": samples}) if tool.need_calibration else None
    written = folder / "quantised.tflite"
    tool.quantize(statistics).export_model(str(written))
    return Quantised(path, graph, recipe, written, load(written))


def mixed(seed: int, *names: str) -> Any:
    """A choice at random among the types that LiteRT has kernels for."""

    def choose(graph: Graph) -> Choice:
        generator = random.Random(seed)
        found = {}
        for layer in layers(graph):
            source = graph.ops[layer.op].source
            able = {"CONV_2D": names, "FULLY_CONNECTED": names}.get(source, ("fp32", "int8"))
            able = tuple(each for each in able if each != "int2" or source == "FULLY_CONNECTED")
            found[layer.op] = precision(generator.choice(able))
        return found

    return choose


def chosen_names(recipe: Recipe, graph: Graph, choose: Any) -> dict[int, str]:
    return {op: next(n for n in LITERT if precision(n) is each) for op, each in choose(graph).items()}


CASES = [
    ("mlperf_resnet8_fp32", mixed(1, "fp32", "int8"), 0.15),
    ("mlperf_vww96_fp32", mixed(0, "fp32", "int8"), 0.15),
    ("mlperf_resnet8_fp32", mixed(2, "fp32", "fp16", "int8", "int4"), 0.6),
    ("mlperf_ad01_fp32", mixed(3, "fp32", "fp16", "int8", "int4", "int2"), None),
]


@pytest.mark.parametrize(("name", "choose", "tolerance"), CASES)
def test_ai_edge_quantizer_writes_what_was_chosen(
    shared: Path, tmp_path: Path, name: str, choose: Any, tolerance: float | None
) -> None:
    found = through_ai_edge_quantizer(shared / "models" / f"{name}.tflite", tmp_path, choose)
    print(found.recipe.notes)
