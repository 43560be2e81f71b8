"""Recipes carried out for real: what ai-edge-quantizer writes is what was chosen, and what was predicted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precision.carrying_out import Array, from_the_page, mixture, relative_error
from sizeup import load
from sizeup.cost import count
from sizeup.dtypes import precision, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.memory import usage
from sizeup.mixed_precision import layers
from sizeup.mixed_precision.recipes import (
    Recipe,
    nodes_for_onnxruntime,
    recipe_for_ai_edge_quantizer,
    write_recipe,
)
from sizeup.runtimes import random_samples, run

pytestmark = [
    pytest.mark.extras,
    # The quantizer calibrates with an interpreter that keeps all tensors.
    pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`:UserWarning"),
    # And saturates the biases of channels whose weights are all nought, in mlperf_vww96.
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),
]
# What a layer's weights and its result are in the file, by what was chosen.
IN_THE_FILE = {
    "fp32": ("float32", "float32"),
    "fp16": ("float16", "float32"),
    "int8": ("int8", "int8"),
    "int4": ("int4", "int8"),
    "int2": ("int2", "float32"),
}


@dataclass(frozen=True)
class Quantized:
    path: Path
    graph: Graph
    recipe: Recipe
    written: Path
    read: Graph

    def outputs(self, float_model: Path) -> tuple[Array, Array]:
        """A float model's results and the quantized one's, on half of the inputs that ranges were found with.

        On others activations leave their ranges: a matter of the data, and not of the recipe.
        """
        samples = random_samples(self.graph, 8)
        (end,) = self.read.inputs
        narrow = [[_stored(self.read, end, sample[0])] for sample in samples]
        exact = [each[0] for each in run("litert", float_model, samples).outputs]
        outputs = [each[0] for each in run("litert", self.written, narrow).outputs]
        return np.array(exact), np.array([_real(self.read, self.read.outputs[0], each) for each in outputs])

    def with_rounded_weights(self, path: Path) -> Path:
        """The float model with the weights of the quantized one: what remains is what activations lose."""
        from ai_edge_litert.tools import flatbuffer_utils as files

        model = files.read_model(str(self.path))
        rounded = {each.name: index for index, each in enumerate(self.read.tensors) if each.is_parameter}
        for tensor in model.subgraphs[0].tensors:
            index = rounded.get(tensor.name.decode(), 0)
            data = self.read.tensors[index].data
            if len(self.read.tensors[index].shape or ()) > 1 and data is not None and data.read is not None:
                numbers = _real(self.read, index, data.read()).astype(np.float32)
                model.buffers[tensor.buffer].data = np.frombuffer(numbers.tobytes(), np.uint8)
        files.write_model(model, str(path))
        return path


def _stored(graph: Graph, identity: int, numbers: Array) -> Array:
    quant = graph.tensors[identity].quant
    if quant is None:
        return numbers
    return np.asarray(np.clip(np.rint(numbers / quant.scale + quant.zero_point), -128, 127), np.int8)


def _real(graph: Graph, identity: int, numbers: Array) -> Array:
    quant = graph.tensors[identity].quant
    if quant is None:
        return numbers
    along = [-1 if axis == quant.axis else 1 for axis in range(numbers.ndim)]
    return np.asarray((numbers - quant.zero_point.reshape(along).astype(float)) * quant.scale.reshape(along))


def quantized(path: Path, folder: Path, choose: Any) -> Quantized:
    page = from_the_page("quantize")
    ready, written = folder / "ready.tflite", folder / "quantized.tflite"
    page["prepare"](str(path), str(ready))
    graph = load(ready)
    recipe = write_recipe(graph, choose(graph), folder / "recipe.json", "ai-edge-quantizer")
    data = [{"in_0": sample[0]} for sample in random_samples(graph, 16)]
    page["quantize"](str(ready), str(folder / "recipe.json"), str(written), data)
    return Quantized(ready, graph, recipe, written, load(written))


def conversions(graph: Graph) -> Counter[str]:
    """Operators that change types while the network runs; weights are unpacked before."""
    return Counter(
        op.kind
        for op in graph.ops
        if op.kind in ("quantize", "dequantize", "cast") and graph.tensors[op.outputs[0]].data is None
    )


def bytes_in_buffers(path: Path) -> int:
    """All constants of a file, read by LiteRT's own tool."""
    from ai_edge_litert.tools import flatbuffer_utils as files

    model = files.read_model(str(path))
    used = {tensor.buffer for tensor in model.subgraphs[0].tensors}
    return sum(len(model.buffers[each].data) for each in used if model.buffers[each].data is not None)


@pytest.mark.parametrize(
    ("name", "seed", "names"),
    [
        ("mlperf_resnet8_fp32", 1, ("fp32", "int8")),
        ("mlperf_resnet8_fp32", 2, ("fp32", "int8")),
        ("mlperf_vww96_fp32", 0, ("fp32", "int8")),
        ("mlperf_resnet8_fp32", 3, ("fp32", "fp16", "int8", "int4")),
        ("mlperf_ad01_fp32", 5, ("fp32", "fp16", "int8", "int4", "int2")),
    ],
)
def test_ai_edge_quantizer_writes_what_was_chosen_and_predicted(
    shared: Path, tmp_path: Path, name: str, seed: int, names: Sequence[str]
) -> None:
    quantization = quantized(
        shared / f"models/{name}.tflite", tmp_path, lambda each: mixture(each, seed, names)
    )
    graph, read = quantization.graph, quantization.read
    chosen = mixture(graph, seed, names)
    assert {precision_name(each) for each in chosen.values()} == set(names)
    by_name = {op.name: op for op in read.ops}
    types = {each.name: each.dtype.name for each in read.tensors}
    for index, dtype in chosen.items():
        weights = graph.tensors[graph.ops[index].inputs[1]].name
        dtype_name = read.tensors[by_name[graph.ops[index].name].outputs[0]].dtype.name
        assert (types[weights], dtype_name) == IN_THE_FILE[precision_name(dtype)]
    # All else follows as predicted: every value's type, the conversions, the bytes.
    predicted = quantization.recipe.applied(graph)
    for op in graph.ops:
        dtype = predicted.tensors[op.outputs[0]].dtype
        assert read.tensors[by_name[op.name].outputs[0]].dtype is dtype, op.name
    assert conversions(read) == conversions(predicted)
    assert count(predicted).stored_bytes == count(read).stored_bytes
    assert usage(predicted).peak_bytes == usage(read).peak_bytes
    # The constants of the file hold two or three numbers more: the shape that a reshape makes.
    assert 0 <= bytes_in_buffers(quantization.written) - count(predicted).stored_bytes <= 16
    exact, rounded = quantization.outputs(quantization.with_rounded_weights(tmp_path / "rounded.tflite"))
    # The two numbers of a small network at 8 bits may be equal by chance.
    assert len({each.tobytes() for each in rounded}) > len(rounded) / 2
    assert relative_error(exact, rounded) <= 0.1
    if "int4" not in names:
        assert relative_error(*quantization.outputs(quantization.path)) <= 0.1


def test_one_precision_for_all_makes_a_file_of_integers(shared: Path, tmp_path: Path) -> None:
    quantization = quantized(
        shared / "models/mlperf_resnet8_fp32.tflite",
        tmp_path,
        lambda graph: {layer.op: precision("int8") for layer in layers(graph)},
    )
    assert quantization.recipe.notes == ()
    assert not conversions(quantization.read)
    ends = (*quantization.read.inputs, *quantization.read.outputs)
    assert {quantization.read.tensors[each].dtype.name for each in ends} == {"int8"}
    # The same network as its authors quantized it: all constants, except scales that round otherwise.
    theirs = load(shared / "models/mlperf_resnet8_int8.tflite")
    assert count(quantization.read).stored_bytes == count(theirs).stored_bytes


def test_a_rule_matches_one_operator_whatever_its_name(tmp_path: Path) -> None:
    from formats.tflite.factory import File

    names = ["a", "a;b", "a.b", "aXb", "(a|b)*", "a+;$"]
    file = File()
    last = first = file.main.tensor("x", (1, 4))
    for place, name in enumerate(names):
        weights = file.main.tensor(f"w{place}", (4, 4), data=np.eye(4, dtype=np.float32))
        output = file.main.tensor(name, (1, 4))
        file.main.op("FULLY_CONNECTED", [last, weights, -1], [output])
        last = output
    file.main.ends([first], [last])
    graph = file.load()
    recipe = recipe_for_ai_edge_quantizer(graph, {each: precision("int8") for each in range(len(names))})
    scopes = [f"{name};" for name in names]
    rules = [each["regex"] for each in recipe.content if each["operation"] == "FULLY_CONNECTED"]
    assert [[each for each in scopes if re.search(rule, each)] for rule in rules] == [
        [each] for each in scopes
    ]


def test_what_has_no_kernel_for_integers_stays_float_with_all_that_follows(tmp_path: Path) -> None:
    from formats.tflite.factory import File, options

    file = File()
    x, made, leaky, more, last = (
        file.main.tensor(name, shape)
        for name, shape in (
            ("x", (1, 4)),
            ("y", (1, 4)),
            ("leaky", (1, 4)),
            ("more", (1, 1, 4)),
            ("z", (1, 1, 4)),
        )
    )
    weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    inner, outer = (file.main.tensor(name, (4, 4), data=weights) for name in ("w", "v"))
    axis = file.main.tensor("axis", (1,), "INT32", data=np.array([0], np.int32))
    file.main.op("FULLY_CONNECTED", [x, inner, -1], [made], options("FullyConnectedOptions"))
    file.main.op("LEAKY_RELU", [made], [leaky], options("LeakyReluOptions", alpha=0.1))
    file.main.op("EXPAND_DIMS", [leaky, axis], [more], options("ExpandDimsOptions"))
    file.main.op(
        "FULLY_CONNECTED", [more, outer, -1], [last], options("FullyConnectedOptions", keepNumDims=True)
    )
    file.main.ends([x], [last])
    (tmp_path / "leaky.tflite").write_bytes(file.pack())
    int8 = precision("int8")
    quantization = quantized(tmp_path / "leaky.tflite", tmp_path, lambda _: {0: int8, 3: int8})
    assert quantization.recipe.notes == ("stays float: no int8 kernel: 'leaky', 'more'",)
    predicted = quantization.recipe.applied(quantization.graph)
    sources = ["FULLY_CONNECTED", "DEQUANTIZE", "LEAKY_RELU", "EXPAND_DIMS", "QUANTIZE", "FULLY_CONNECTED"]
    assert [op.source for op in quantization.read.ops] == sources
    assert [op.kind for op in predicted.ops] == [op.kind for op in quantization.read.ops]


@pytest.mark.parametrize(
    ("model", "kind", "asked", "words"),
    [
        ("mlperf_vww96_fp32", "DEPTHWISE_CONV_2D", "int4", "at int4; choose fp32, fp16 or int8"),
        ("mlperf_vww96_fp32", "CONV_2D", "int2", "at int2; choose fp32, fp16, int8 or int4"),
        ("mlperf_vww96_fp32", "CONV_2D", "int16", "at int16; choose fp32"),
        ("mlperf_vww96_fp32", "CONV_2D", "bf16", "at bf16; choose fp32"),
        # A file with weights of 8 bits, for all its name.
        ("mlperf_kws_fp32", "CONV_2D", "int8", "at int8; the file stores it at another dtype already"),
        ("mlperf_kws_int8", "CONV_2D", "int4", "at int4; the file stores it at another dtype already"),
        # Weights of 16 bits, unpacked before the first run.
        ("mp_selfie_segmentation", "CONV_2D", "int8", "at int8; the file stores it at another dtype already"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    shared: Path, model: str, kind: str, asked: str, words: str
) -> None:
    graph = load(shared / f"models/{model}.tflite")
    index, op = next((index, op) for index, op in enumerate(graph.ops) if op.source == kind)
    with pytest.raises(SizeupError, match=re.escape(words)) as error:
        recipe_for_ai_edge_quantizer(graph, {index: precision(asked)})
    assert f"layer {op.name!r} (#{index}, {kind})" in str(error.value)


def test_a_recipe_is_for_one_format_and_one_of_three(shared: Path, tmp_path: Path) -> None:
    graph = load(shared / "models/mlperf_ad01_fp32.tflite")
    with pytest.raises(SizeupError, match="onnxruntime quantizes onnx models; this one is tflite"):
        nodes_for_onnxruntime(graph, {})
    with pytest.raises(SizeupError, match="known: ai-edge-quantizer, onnxruntime, torchao"):
        write_recipe(graph, {}, tmp_path / "x.json", "tensorrt")
    with pytest.raises(SizeupError, match="cannot be written"):
        write_recipe(graph, {}, tmp_path / "nowhere" / "x.json", "ai-edge-quantizer")
