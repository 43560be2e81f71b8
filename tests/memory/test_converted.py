"""Graphs as converters write them: layers folded by hand, and what the interpreter of such a file needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.memory import folded, in_integers, usage

FLOAT, INT8 = dtype("float32"), dtype("int8")
SHAPE = (1, 4, 8, 8)  # 256 numbers
TARGET = "stm32h747/tflm"


def constant(builder: GraphBuilder, shape: tuple[int, ...], value: float | None = None) -> int:
    read = None if value is None else lambda: np.array(value, np.float32)
    return builder.tensor(f"c{len(builder.tensors)}", shape, FLOAT, Constant("parameter", read))


def network(*kinds: str, second_reader: bool = False, limits: tuple[float, ...] = (0.0, 6.0)) -> Graph:
    """A convolution, then operators of one input each."""
    builder = GraphBuilder("by hand", "onnx")
    last = builder.input("x", SHAPE, FLOAT)
    for kind in ("conv", *kinds):
        out = builder.tensor(f"{kind}{len(builder.tensors)}", SHAPE, FLOAT)
        inputs = {
            "conv": lambda: [constant(builder, (4, 4, 1, 1))],
            "batch_norm": lambda: [constant(builder, (4,)) for _ in range(4)],
            "add": lambda: [constant(builder, (4, 1, 1))],
            "clamp": lambda: [constant(builder, (), limit) for limit in limits],
        }.get(kind, list)()
        builder.op(kind, [last, *inputs], [out], {"kernel": (1, 1)} if kind == "conv" else {})
        last = out
    if second_reader:
        builder.op("tanh", [builder.ops[0].outputs[0]], [out := builder.tensor("tanh", SHAPE, FLOAT)])
        builder.outputs.append(out)
    builder.outputs.append(last)
    return builder.freeze()


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        (("batch_norm", "relu"), ["conv"]),
        (("add", "batch_norm", "relu6", "tanh"), ["conv", "tanh"]),
        (("relu", "batch_norm"), ["conv", "batch_norm"]),
        (("clamp",), ["conv"]),
        (("sigmoid",), ["conv", "sigmoid"]),
    ],
)
def test_what_converters_fold_into_a_layer(kinds: tuple[str, ...], kept: list[str]) -> None:
    graph = network(*kinds)
    after = folded(graph)
    assert [op.kind for op in after.ops] == kept
    assert after.outputs == graph.outputs
    # Three tensors of 1 KiB at a time become two; two stay two.
    assert usage(after).peak_bytes == 2 * 1024


def test_a_tensor_that_others_read_is_not_folded_away() -> None:
    graph = network("relu", second_reader=True)
    assert folded(graph) is graph
    assert folded(network("clamp", limits=(-2.0, 3.0))).ops[1].kind == "clamp"


def quantized(*, float_reader: bool = False) -> Graph:
    """x -> Q -> DQ -> conv -> relu -> Q -> DQ -> y, with int8 weights behind a DQ."""
    builder = GraphBuilder("qdq", "onnx")
    x = builder.input("x", SHAPE, FLOAT)
    names = ("xq", "xd", "conv", "relu", "yq", "y")
    xq, xd, conv, relu, yq, y = (
        builder.tensor(name, SHAPE, INT8 if name.endswith("q") else FLOAT) for name in names
    )
    stored = builder.tensor("w", (4, 4, 1, 1), INT8, Constant("parameter"))
    weights = builder.tensor("wd", (4, 4, 1, 1), FLOAT)
    builder.op("quantize", [x], [xq])
    builder.op("dequantize", [xq], [xd])
    builder.op("dequantize", [stored], [weights])
    builder.op("conv", [xd, weights], [conv], {"kernel": (1, 1)})
    builder.op("relu", [conv], [relu])
    builder.op("quantize", [relu], [yq])
    builder.op("dequantize", [yq], [y])
    if float_reader:
        builder.op("tanh", [relu], [out := builder.tensor("tanh", SHAPE, FLOAT)])
        builder.outputs.append(out)
    builder.outputs.append(y)
    return builder.freeze()


def test_operators_between_dequantization_and_quantization_are_in_integers() -> None:
    graph = folded(quantized())
    after = in_integers(graph)
    assert [op.kind for op in after.ops] == ["quantize", "conv", "dequantize"]
    convolution = after.ops[1]
    assert {after.tensors[each].dtype for each in (*convolution.inputs, *convolution.outputs)} == {INT8}
    # The float input next to its integers, 1 KiB + 256 B, instead of two float tensors and float weights.
    assert (usage(after).peak_bytes, usage(graph).peak_bytes) == (1024 + 256, 2 * 1024 + 64)


def test_both_ends_of_a_quantized_onnx_file_are_explained() -> None:
    for target in (TARGET, "stm32h747/stedgeai"):
        check = sizeup.check(quantized(), target, ram=1280 + 600, remedies=False)
        assert check.fits is None, target
        assert any("keeps floats between DequantizeLinear" in caveat for caveat in check.caveats)


def test_an_operator_with_a_reader_in_floats_stays_in_floats() -> None:
    graph = folded(quantized(float_reader=True))
    assert in_integers(graph) is graph


def test_control_flow_has_no_upper_end(tmp_path: Path) -> None:
    """Both branches tile 256 B to 256 KiB, which no plan of the outer graph contains."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    value = helper.make_tensor_value_info

    def branch(name: str) -> Any:
        nodes = [
            helper.make_node("Tile", ["x", "repeats"], [f"{name}1"]),
            helper.make_node("ReduceSum", [f"{name}1", "axes"], [f"{name}2"], keepdims=1),
        ]
        constants = [
            onnx.numpy_helper.from_array(np.array([1024, 1]), "repeats"),
            onnx.numpy_helper.from_array(np.array([0]), "axes"),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}2", kinds.FLOAT, [1, 64])], constants)

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))
    inputs = [value("c", kinds.BOOL, [1]), value("x", kinds.FLOAT, [1, 64])]
    graph = helper.make_graph([node], "if", inputs, [value("y", kinds.FLOAT, [1, 64])])
    path = tmp_path / "if.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    for target in (TARGET, "stm32h747/stedgeai", "rpi5/ort"):
        check = sizeup.check(path, target, ram=100 << 10, remedies=False)
        assert check.fits is None, target
        assert "the internal memory of if is not known" in "; ".join(check.limits[0].unknown) + repr(
            check.limits[0].parts
        )
    assert sizeup.check(path, arena=100 << 10, remedies=False).fits is None


@pytest.mark.extras
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_interpreter_needs_what_the_bounds_of_the_exported_network_say(
    tmp_path: Path, precision: str
) -> None:
    """Two convolutions with batch norm and ReLU and a linear layer: as ONNX, and as a .tflite file."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("tflite_micro")
    from micro_interpreter import measure
    from sizeup.calibration.network_spec import NetworkBuilder
    from sizeup.calibration.write_tflite import tflite_file

    builder = NetworkBuilder("same", "x", (64, 64, 1), precision)
    builder.conv(16)
    builder.conv(8, stride=2)
    builder.linear(4)
    file = tmp_path / "same.tflite"
    file.write_bytes(tflite_file(builder.build()))
    (measured,) = measure([file])

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.Conv2d(16, 8, 3, 2, 1)
            self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(16), torch.nn.BatchNorm2d(8)])
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.norms[0](self.first(x)))
            return self.linear(torch.relu(self.norms[1](self.second(x))).permute(0, 2, 3, 1))

    check = sizeup.check(Network().eval(), TARGET, inputs=(1, 1, 64, 64), precision=precision, remedies=False)
    (ram,) = (limit for limit in check.limits if limit.name == "ram")
    (planned,) = (part for part in ram.parts if part.name == "arena")
    assert planned.low_bytes == measured.head
    # A converter may write the padding of the second convolution as an operator.
    assert planned.high_bytes == (16 * 64 * 64 + 16 * 66 * 66) * (4 if precision == "fp32" else 1)
    assert ram.need_high is not None
    assert measured.head + measured.tail <= ram.need_high  # the tail on 64 bits is the larger one
