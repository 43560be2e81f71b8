"""Node lists carried out for real: what ONNX Runtime writes is what was chosen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from precision.carrying_out import Array, from_the_page, mixture, network, relative_error
from sizeup import load
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.mixed_precision import layers
from sizeup.mixed_precision.recipes import Recipe, nodes_for_onnxruntime, write_recipe
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That network as torch writes it."""
    import torch

    path = tmp_path_factory.mktemp("exported") / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter warns of parts of torch
        sample = torch.zeros(1, 3, 16, 16)
        torch.onnx.export(network(), (sample,), path, dynamo=True, external_data=False, verbose=False)
    return path


class Reader:
    """Calibration data, as ONNX Runtime asks for it."""

    def __init__(self, graph: Graph) -> None:
        name = graph.tensors[graph.inputs[0]].name
        self._left = iter([{name: sample[0]} for sample in random_samples(graph, 16)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def listed(path: Path, folder: Path, chosen: dict[int, DType]) -> tuple[Recipe, Path]:
    from onnxruntime.quantization import quantize_static

    graph = load(path)
    recipe = write_recipe(graph, chosen, folder / "nodes.json", "onnxruntime")
    written = folder / "quantized.onnx"
    arguments = from_the_page("arguments")["arguments"](folder / "nodes.json")
    quantize_static(str(path), str(written), Reader(graph), **arguments)
    return recipe, written


class Around(NamedTuple):
    weights: str  # what they are stored in
    read: str  # what its first input was rounded to
    made: str  # what its result is rounded to


def types_around(path: Path) -> dict[str, Around]:
    """Of every operator the types around it, as onnx has them."""
    import onnx

    model = onnx.load(path)
    kinds = {each.name: onnx.TensorProto.DataType.Name(each.data_type) for each in model.graph.initializer}
    made_by = {name: node for node in model.graph.node for name in node.output}
    zero_points = {
        node.input[0]: kinds[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"
    }
    types = {}
    for node in model.graph.node:
        weights = ""
        if node.op_type in ("Conv", "Gemm"):
            unpacking = made_by.get(node.input[1])
            weights = kinds[node.input[1] if unpacking is None else unpacking.input[0]]
        fed = made_by.get(node.input[0])
        read = kinds[fed.input[2]] if fed is not None and fed.op_type == "DequantizeLinear" else "FLOAT"
        types[node.name] = Around(weights, read, zero_points.get(node.output[0], "FLOAT"))
    return types


@pytest.mark.parametrize(
    ("seed", "names"),
    [
        (0, ("fp32", "int8")),
        (3, ("fp32", "int8", "int4")),
        (4, ("int8", "int16")),
        (6, ("fp32", "int8", "int16")),
    ],
)
def test_onnx_runtime_writes_what_was_chosen(
    exported: Path, tmp_path: Path, seed: int, names: Sequence[str]
) -> None:
    graph = load(exported)
    chosen = mixture(graph, seed, names)
    assert {precision_name(each) for each in chosen.values()} == set(names)
    recipe, written = listed(exported, tmp_path, chosen)
    predicted, types = recipe.applied(graph), types_around(written)
    words = {"fp32": "FLOAT", "int16": "INT16", "int8": "INT8", "int4": "INT4"}
    for index, dtype in chosen.items():
        assert types[graph.ops[index].name].weights == words[precision_name(dtype)]
    readers = {identity for op in graph.ops for identity in op.inputs}
    for op in graph.ops:
        written_dtype = predicted.tensors[op.outputs[0]].dtype
        if written_dtype.family == "int" or op.outputs[0] not in readers:
            assert types[op.name].made == words[precision_name(written_dtype)], op.name
        if written_dtype.family == "int":
            assert types[op.name].read == words[precision_name(written_dtype)], op.name
    # What sizeup reads: weights and biases as predicted, and a scale and zero point for each.
    stored = {each.name.removesuffix("_quantized"): each for each in load(written).tensors}
    for tensor in predicted.tensors:
        if tensor.is_parameter:
            assert stored[tensor.name].dtype.bits == tensor.dtype.bits, tensor.name
    samples = random_samples(graph, 8)
    exact, rounded = (
        np.array([each[0] for each in run("ort", each, samples).outputs]) for each in (exported, written)
    )
    assert relative_error(exact, rounded) <= 0.02


def test_without_a_layer_to_quantize_onnx_runtime_quantizes_none(exported: Path, tmp_path: Path) -> None:
    chosen = {layer.op: precision("fp32") for layer in layers(load(exported))}
    _, written = listed(exported, tmp_path, chosen)
    assert {kind for types in types_around(written).values() for kind in types} == {"", "FLOAT"}


@pytest.mark.parametrize("asked", ["fp16", "int2", "fp8"])
def test_what_onnx_runtime_cannot_quantize_to_is_refused(exported: Path, asked: str) -> None:
    graph = load(exported)
    with pytest.raises(
        SizeupError, match=f"layer 'node_conv2d' .* at {asked}; choose fp32, int16, int8 or int4"
    ):
        nodes_for_onnxruntime(graph, {0: precision(asked)})


def test_float_layers_between_quantized_values_stay_float_only_without_an_optimizer(tmp_path: Path) -> None:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(8, 8, 1, 1)).astype(np.float32)
    constants = {"w": weights, "s": np.float32(0.1), "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["d", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 16, 16]) for name in "xy"]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "between", ends[:1], ends[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def operators(disabled: list[str]) -> set[str]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        content = model.SerializeToString()
        onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"], disabled_optimizers=disabled)
        return {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}

    assert "QLinearConv" in operators([])
    assert "Conv" in operators(["WeightBiasQuantization"])
