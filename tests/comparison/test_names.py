"""The names of one network in three formats mean the same."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("onnx", reason="the door of ONNX reads its names")

from comparison.edited import FLOAT
from sizeup.comparison.facts import own_names, paths
from sizeup.formats.onnx.blocks import scope_from_name
from sizeup.formats.tflite.model import scope_of
from sizeup.graph import Graph, GraphBuilder


def graph_of(format: str, *names: tuple[str, str]) -> Graph:
    """Ops with a module and a name."""
    builder = GraphBuilder("names", format)
    x = builder.input("x", (1, 4), FLOAT)
    for scope, name in names:
        output = builder.tensor(name, (1, 4), FLOAT)
        builder.op("relu", [x], [output], source="Relu", name=name if format != "tflite" else "", scope=scope)
        x = output
    builder.outputs.append(x)
    return builder.freeze()


# LiteRT's converter (litert_torch/backend/debuginfo) writes class_name of every module around an operator.
LITERT = (
    "torchvision.models.mobilenetv2.MobileNetV2/torch.nn.modules.container.Sequential_features/"
    "torchvision.ops.misc.Conv2dNormActivation_0/torch.nn.modules.conv.Conv2d_0;1"
)


@pytest.mark.parametrize(
    ("format", "scope", "name"),
    [
        ("torch", "features.0.0", "conv2d_7"),
        (
            "onnx",
            scope_from_name("/features/features.0/features.0.0/Conv"),
            "/features/features.0/features.0.0/Conv",
        ),
        ("onnx", "features.0.0", "node_conv2d"),
        ("tflite", scope_of("features/0/0/Conv2D"), "features/0/0/Conv2D"),
        ("tflite", scope_of(LITERT), LITERT),
    ],
)
def test_path_of_modules_is_the_same_in_every_format(format: str, scope: str, name: str) -> None:
    graph = graph_of(format, (scope, name), ("other", "x"))
    assert paths(graph)[0] == ("features", "0", "0")


def test_a_module_around_all_others_does_not_count() -> None:
    graph = graph_of("tflite", ("model/block_1/conv", "a"), ("model/block_2/conv", "b"), ("", "c"))
    assert paths(graph) == [("block_1", "conv"), ("block_2", "conv"), ()]


@pytest.mark.parametrize(
    ("name", "own"), [("Relu_12", ""), ("relu", ""), ("node_relu_3", ""), ("n4", ""), ("gate_3", "gate_3")]
)
def test_kind_and_counter_are_no_name(name: str, own: str) -> None:
    assert own_names(graph_of("onnx", ("", name))) == [own]


@pytest.mark.parametrize(
    "name", ["a.A" + "_" * 60_000 + "!", "1" * 60_000 + "!", "a.A_" * 20_000, "/" * 60_000]
)
def test_no_name_takes_long(name: str) -> None:
    graph, began = graph_of("onnx", (name, name)), time.process_time()
    paths(graph)
    own_names(graph)
    assert time.process_time() - began < 1
