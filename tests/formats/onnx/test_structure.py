"""Order, names, functions, and the other ways in which files differ."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from formats.onnx.making import count, model, node, numbers, roles, shapes, value, weight
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.onnx import load
from sizeup.formats.onnx.blocks import scope_from_name
from sizeup.graph import ABSENT


def chain(length: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"v{index}" for index in range(length - 1)), "y"]
    return [node("Relu", names[index], names[index + 1]) for index in range(length)]


def test_operators_out_of_order_are_sorted_and_shapes_are_still_found() -> None:
    nodes = chain(50)
    random.Random(0).shuffle(nodes)
    found = load(model(nodes, [value("x", (2, 3))]))
    order = [found.tensors[op.outputs[0]].name for op in found.ops]
    assert order == [*(f"v{index}" for index in range(49)), "y"]
    assert set(shapes(found).values()) == {(2, 3)}


def test_order_of_the_file_is_kept_where_it_can_run() -> None:
    nodes = [node("Relu", "x", "b"), node("Tanh", "x", "a"), node("Abs", "a", "c"), node("Add", "b c", "y")]
    assert [op.source for op in load(model(nodes, [value("x", (2,))])).ops] == ["Relu", "Tanh", "Abs", "Add"]


def test_cycle_is_a_corrupt_model() -> None:
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]
    with pytest.raises(CorruptModel, match="cycle"):
        load(model(nodes, [value("x", (2,))]))


def test_value_that_nothing_makes_is_a_corrupt_model() -> None:
    with pytest.raises(CorruptModel, match="'ghost', which is not defined"):
        load(model([node("Add", "x ghost", "y")], [value("x", (2,))]))


def test_value_made_twice_is_a_corrupt_model() -> None:
    with pytest.raises(CorruptModel, match="'y', which another operator already produces"):
        load(model([node("Relu", "x", "y"), node("Tanh", "x", "y")], [value("x", (2,))]))


def test_output_that_nothing_makes_is_a_corrupt_model() -> None:
    with pytest.raises(CorruptModel, match="'nowhere'"):
        load(model([node("Relu", "x", "y")], [value("x", (2,))], "nowhere"))


def test_operators_may_share_a_name() -> None:
    nodes = [node("Relu", "x", "a", name="same"), node("Relu", "a", "y", name="same")]
    assert [op.name for op in load(model(nodes, [value("x", (2,))])).ops] == ["same", "same"]


def test_absent_optional_input_and_output_leave_their_place() -> None:
    made = node("Resize", "x - s", "y")
    found = load(model([made], [value("x", (1, 1, 4, 4))], "y", [numbers("s", [1, 1, 2, 2], np.float32)]))
    assert found.ops[0].inputs[1] == ABSENT
    assert shapes(found)["y"] == (1, 1, 8, 8)
    made = node("LSTM", "x w r", "- h", hidden_size=4)
    found = load(model([made], [value("x", (5, 1, 3))], "h", [weight("w", 1, 16, 3), weight("r", 1, 16, 4)]))
    assert [found.tensors[each].name for each in found.ops[0].outputs] == ["h"]
    assert shapes(found)["h"] == (1, 1, 4)


def inner(name: str, *nodes: onnx.NodeProto, inputs: str = "a w") -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    return helper.make_function("mine", name, inputs.split(), ["b"], list(nodes), opsets)


def test_functions_are_expanded_also_within_functions() -> None:
    layer = inner("Layer", node("MatMul", "a w", "t"), node("Relu", "t", "b"))
    twice = inner("Twice", node("mine::Layer", "a w", "t"), node("mine::Layer", "t w", "b"))
    made = model(
        [node("mine::Twice", "x w", "h"), node("mine::Layer", "h w", "y")],
        [value("x", (5, 4))],
        "y",
        [weight("w", 4, 4)],
        functions=[layer, twice],
    )
    cost = count(made)
    assert [op.source for op in cost.graph.ops] == ["MatMul", "Relu"] * 3
    assert cost.total_macs == 3 * 5 * 4 * 4
    assert cost.total_params == 16
    assert cost.known.all()


def test_function_that_calls_itself_is_refused() -> None:
    first = inner("First", node("mine::Second", "a w", "b"))
    second = inner("Second", node("mine::First", "a w", "b"))
    made = model([node("mine::First", "x x", "y")], [value("x", (2, 2))], functions=[first, second])
    with pytest.raises(CorruptModel, match="calls itself"):
        load(made)


def test_functions_that_multiply_without_measure_are_refused() -> None:
    functions = [inner("F0", node("Relu", "a", "b"))]
    for index in range(1, 12):
        calls = [
            node(f"mine::F{index - 1}", f"{'a' if not at else f't{at}'} w", f"t{at + 1}") for at in range(9)
        ]
        functions.append(inner(f"F{index}", *calls, node(f"mine::F{index - 1}", "t9 w", "b")))
    with pytest.raises(CorruptModel, match="operators"):
        load(model([node("mine::F11", "x x", "y")], [value("x", (2, 2))], functions=functions))


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),
        ("/layer1/layer1.0/downsample/downsample.0/Conv", "layer1.0.downsample.0"),
        ("/encoder/layer.0/attention/self/query/MatMul_1", "encoder.layer.0.attention.self.query"),
        ("/Add_3", ""),
        ("model/block_1/conv/Conv2D", "model.block_1.conv"),
        ("Conv_0", ""),
        ("", ""),
        ("//", ""),
    ],
)
def test_scope_is_read_from_a_name(name: str, scope: str) -> None:
    assert scope_from_name(name) == scope
    found = load(model([node("Relu", "x", "y", name=name)], [value("x", (2,))]))
    assert found.ops[0].scope == scope


@pytest.mark.parametrize(
    ("written", "scope"),
    [
        ("['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']", "layer1.0.conv1"),
        ("['', 'relu@1', 'relu_1']", "relu"),
        ("['', 'add']", ""),
        ("[]", ""),
    ],
)
def test_scope_that_the_exporter_wrote_down_comes_first(written: str, scope: str) -> None:
    made = node("Relu", "x", "y", name="/other/Relu")
    made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=written)
    assert load(model([made], [value("x", (2,))])).ops[0].scope == scope


def test_old_files_list_constants_among_the_inputs() -> None:
    made = model(
        [node("MatMul", "x w", "y")], [value("x", (2, 3)), value("w", ("a", "b"))], "y", [weight("w", 3, 4)]
    )
    made.ir_version = 3
    found = load(made)
    assert [found.tensors[each].name for each in found.inputs] == ["x"]
    assert shapes(found)["y"] == (2, 4)
    assert count(made).total_params == 12


@pytest.mark.parametrize("opset", [1, 6, 7, 8, 9, 10, 11, 12, 13])
def test_old_operator_sets_are_read(opset: int) -> None:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node(
            "BatchNormalization",
            "c s t m v",
            "n",
            **({"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}),
        ),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f g h", "y", transB=1, **({"broadcast": 1} if opset < 7 else {})),
    ]
    constants = [weight("w", 4, 3, 3, 3), weight("b", 4), *(weight(each, 4) for each in "stmv")]
    constants += [weight("g", 10, 64), weight("h", 10)]
    cost = count(model(nodes, [value("x", (1, 3, 8, 8))], "y", constants, opset=opset))
    assert cost.known.all(), cost.reasons
    # 64 positions x 4 filters x 27 taps, then 10 x 64; weights and biases, scale and shift.
    assert cost.total_macs == 64 * 4 * 27 + 640
    assert cost.total_params == 4 * 27 + 4 + 8 + 650


def test_shapes_and_axes_were_attributes_once() -> None:
    nodes = [
        node("Unsqueeze", "x", "a", axes=[0]),
        node("Squeeze", "a", "b", axes=[0]),
        node("Slice", "b", "c", starts=[0], ends=[2], axes=[0]),
        node("ReduceSum", "c", "d", axes=[1], keepdims=0),
        node("Split", "d", "e y", axis=0, split=[1, 1]),
    ]
    found = load(model(nodes, [value("x", (4, 3))], "e y", opset=9))
    assert [shapes(found)[each] for each in "abcdey"] == [(1, 4, 3), (4, 3), (2, 3), (2,), (1,), (1,)]


def test_empty_graph_is_read() -> None:
    found = load(model([], [value("x", (2,))], "x"))
    assert (len(found.ops), found.inputs, found.outputs) == (0, (0,), (0,))


def test_tensors_without_numbers_cost_nothing() -> None:
    cost = count(model([node("MatMul", "x w", "y")], [value("x", (0, 3))], "y", [weight("w", 3, 4)]))
    assert cost.known.all()
    assert cost.total_macs == 0
    assert shapes(cost.graph)["y"] == (0, 4)


def test_strings_pass_through() -> None:
    made = node("StringNormalizer", "x", "y")
    found = load(model([made], [value("x", (2,), onnx.TensorProto.STRING)]))
    assert found.tensors[0].dtype.name == "string"


def test_stale_shapes_in_the_file_do_not_win() -> None:
    made = model(
        [node("MatMul", "x w", "h"), node("Relu", "h", "y")],
        [value("x", (2, 3))],
        [value("y", (9, 9))],
        [weight("w", 3, 4)],
    )
    made.graph.value_info.append(value("h", (7, 4)))
    assert (shapes(load(made))["h"], shapes(load(made))["y"]) == ((2, 4), (2, 4))


def test_shapes_in_the_file_help_where_nothing_else_does() -> None:
    made = model([node("mine::Fancy", "x", "h"), node("Relu", "h", "y")], [value("x", (2, 3))])
    assert shapes(load(made))["y"] is None
    made.graph.value_info.append(value("h", (5, 6)))
    assert shapes(load(made))["y"] == (5, 6)


def test_domain_that_the_file_forgot_to_list_is_no_obstacle() -> None:
    made = model(
        [node("mine::Fancy", "x", "h"), node("Relu", "h", "z"), node("Relu", "x", "y")], [value("x", (2, 3))]
    )
    del made.opset_import[1:]
    found = load(made)
    assert (shapes(found)["h"], shapes(found)["z"], shapes(found)["y"]) == (None, None, (2, 3))
    assert not found.notes


def test_model_of_another_library_in_memory_is_read() -> None:
    onnx_ir = pytest.importorskip("onnx_ir")
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 3))], "y", [weight("w", 3, 4)])
    assert shapes(load(onnx_ir.from_proto(made)))["y"] == (2, 4)


def test_operator_that_contradicts_its_inputs_is_noted() -> None:
    found = load(model([node("MatMul", "x w", "y")], [value("x", (2, 3))], "y", [weight("w", 5, 4)]))
    assert shapes(found)["y"] is None
    assert any("MatMul" in note for note in found.notes)


def test_copies_of_a_constant_are_other_names_not_operators() -> None:
    nodes = [node("Identity", "w", "again"), node("MatMul", "x w", "h"), node("MatMul", "h again", "y")]
    cost = count(model(nodes, [value("x", (2, 3))], "y", [weight("w", 3, 3)]))
    assert [op.source for op in cost.graph.ops] == ["MatMul", "MatMul"]
    assert cost.total_params == 9


def test_model_is_not_touched() -> None:
    made = model(
        [node("Relu", "x", "h", name="/a/Relu"), node("MatMul", "h w", "y")],
        [value("x", ("batch", 64))],
        [value("y", ("batch", 64))],
        [weight("w", 64, 64)],
    )
    made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'a', 'relu']")
    before = made.SerializeToString(deterministic=True)
    load(made, bind={"batch": 2})
    assert made.SerializeToString(deterministic=True) == before


def test_bytes_and_message_and_file_give_the_same(tmp_path: Path) -> None:
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 64))], "y", [weight("w", 64, 64)])
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    graphs = [load(made), load(made.SerializeToString()), load(path), load(str(path))]
    assert len({(shapes(each)["y"], count(made).total_macs, roles(each)["w"]) for each in graphs}) == 1
    assert graphs[2].name == "net"
    assert graphs[2].format == "onnx"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(LoadError, match="not an ONNX model"):
        load(object())  # type: ignore[arg-type]


def test_indices_stay_whole_numbers() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n one", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    made = model(nodes, [value("x", (6, 4))], "y", [numbers("zero", [0]), numbers("one", [4])])
    cost = count(made)
    assert [op.source for op in cost.graph.ops] == ["Shape", "Gather", "Concat", "Reshape"]
    assert {each.dtype.name for each in cost.graph.tensors if each.name in "snt"} == {"int64"}
    assert shapes(cost.graph)["y"] == (6, 4)
    assert cost.total_params == 0
