"""Files written to look cheaper than what ONNX Runtime executes; each one runs, or is refused, there too."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import sizeup
from formats.onnx.making import BOOL, FLOAT, INT64, count, graph, model, node, numbers, roles, value, weight
from sizeup.cli import main
from sizeup.errors import CorruptModel
from sizeup.formats.onnx import load

_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


def run(made: onnx.ModelProto, **inputs: Any) -> list[Any]:
    """The outputs that ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, inputs))


def strict_check(path: Path, made: onnx.ModelProto) -> int:
    """The exit code of a check: 0 fits, 1 does not, 3 undetermined."""
    path.write_bytes(made.SerializeToString())
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path), "--macs", "100", "--strict"])
    return int(ended.value.code or 0)


def with_default_input(ir_version: int = 10) -> onnx.ModelProto:
    made = model(
        [node("MatMul", "x w", "y")], [value("x", (4, 8))], "y", [weight("x", 4, 8), weight("w", 8, 8)]
    )
    made.graph.output[0].CopyFrom(value("y", (4, 8)))
    made.ir_version = ir_version
    if ir_version < 4:
        made.graph.input.append(value("w", (8, 8)))
    return made


def test_product_with_an_input_that_has_a_default_is_counted(tmp_path: Path) -> None:
    made = with_default_input()
    ones = np.ones((4, 8), np.float32)
    made.graph.initializer[1].CopyFrom(numbers("w", np.eye(8), np.float32))
    assert (run(made, x=ones)[0] == ones).all()  # a caller does override it
    cost = count(made)
    assert cost.total_macs == 4 * 8 * 8
    assert cost.total_params == 4 * 8 + 8 * 8
    assert strict_check(tmp_path / "m.onnx", made) == 1


def test_constants_listed_as_inputs_by_the_third_version_stay_constants() -> None:
    assert count(with_default_input(ir_version=3)).total_macs == 0


def test_default_smaller_than_its_input_is_refused() -> None:
    made = with_default_input()
    made.graph.input[0].CopyFrom(value("x", ("rows", 8)))
    made.graph.output[0].CopyFrom(value("y", ("rows", 8)))
    assert run(made, x=np.ones((50, 8), np.float32))[0].shape == (50, 8)
    with pytest.raises(CorruptModel, match="input 'x'"):
        load(made)


def looping(constants: Any = (), body_constants: Any = (), inputs: Any = ()) -> onnx.ModelProto:
    body = graph(
        [node("Identity", "go", "on"), node("MatMul", "state w", "next")],
        [value("i", (), INT64), value("go", (), BOOL), value("state", (4, 4))],
        [value("on", (), BOOL), value("next", (4, 4))],
        body_constants,
        name="body",
    )
    return model(
        [node("Loop", "trips - x", "y", body=body)],
        [value("x", (4, 4)), *inputs],
        [value("y", (4, 4))],
        [numbers("w", 2 * np.eye(4), np.float32), *constants],
    )


def test_trip_count_that_a_caller_can_override_is_unknown(tmp_path: Path) -> None:
    made = looping([numbers("trips", 0)], inputs=[value("trips", (), INT64)])
    x = np.eye(4, dtype=np.float32)
    assert run(made, x=x, trips=np.array(5))[0][0, 0] == 32
    assert count(made).graph.ops[0].bodies[0].runs is None
    assert not count(made).known.any()
    assert strict_check(tmp_path / "m.onnx", made) != 0


def test_trip_count_computed_from_a_default_is_unknown() -> None:
    made = looping([numbers("base", 0), numbers("one", 0)], inputs=[value("base", (), INT64)])
    made.graph.node.insert(0, node("Add", "base one", "trips"))
    assert run(made, x=np.eye(4, dtype=np.float32), base=np.array(3))[0][0, 0] == 8
    assert count(made).graph.ops[-1].bodies[0].runs is None


def test_branch_that_a_caller_can_choose_is_not_left_out() -> None:
    heavy = graph([node("MatMul", "x w", "a")], [], [value("a", (4, 4))], name="heavy")
    light = graph([node("Identity", "x", "b")], [], [value("b", (4, 4))], name="light")
    made = model(
        [node("If", "choice", "y", then_branch=heavy, else_branch=light)],
        [value("x", (4, 4)), value("choice", (), BOOL)],
        [value("y", (4, 4))],
        [numbers("w", 2 * np.eye(4), np.float32), numbers("choice", False, np.bool_)],
    )
    assert run(made, x=np.eye(4, dtype=np.float32), choice=np.array(True))[0][0, 0] == 2
    assert len(count(made).graph.ops[0].bodies) == 2


def test_initializer_for_an_input_of_a_loop_body_is_refused() -> None:
    made = looping([numbers("trips", 5)], [weight("state", 4, 4)])
    with pytest.raises(Exception, match="that are not also initializers"):
        run(made, x=np.eye(4, dtype=np.float32))
    with pytest.raises(CorruptModel, match="'state' of its body also has an initializer"):
        load(made)


def test_default_that_decides_a_shape_is_used_and_noted() -> None:
    made = model(
        [node("Reshape", "x shape", "h"), node("MatMul", "h w", "y")],
        [value("x", (2, 8)), value("shape", (2,), INT64), value("w", (4, 3))],
        "y",
        [numbers("shape", [4, 4]), weight("w", 4, 3)],
    )
    cost = count(made)
    assert cost.known.all()
    assert (cost.total_macs, cost.total_params) == (4 * 4 * 3, 12)
    assert [note for note in cost.graph.notes if "'shape'" in note and "overridable" in note]


def declared_small(shape_input: bool) -> onnx.ModelProto:
    """x expanded to a size that data decides, which the file declares as 1 x 1."""
    count_nodes = [node("ReduceSum", "ones", "n", keepdims=1), node("Concat", "n n", "s", axis=0)]
    made = model(
        [
            *([] if shape_input else count_nodes),
            node("Expand", "x s", "e"),
            node("MatMul", "e e", "m"),
            node("ReduceSum", "m", "y", keepdims=0),
        ],
        [value("x", (1, 1)), *([value("s", (2,), INT64)] if shape_input else [])],
        [value("y", ())],
        [] if shape_input else [numbers("ones", np.eye(1, 2000).repeat(20)[:2000])],
    )
    made.graph.value_info.extend([value("e", (1, 1)), value("m", (1, 1))])
    return made


@pytest.mark.parametrize("shape_input", [True, False])
def test_shape_that_only_the_file_declares_is_unknown(shape_input: bool, tmp_path: Path) -> None:
    made = declared_small(shape_input)
    inputs: dict[str, Any] = {"x": np.ones((1, 1), np.float32)}
    if shape_input:
        inputs["s"] = np.array([20, 20])
    assert run(made, **inputs)[0] == 20**3  # products, not one
    cost = count(made)
    assert [op.source for op, known in zip(cost.graph.ops, cost.known, strict=True) if not known] == [
        "Expand",
        "MatMul",
        "ReduceSum",
    ]
    assert [note for note in cost.graph.notes if "is declared but cannot be inferred" in note]
    assert strict_check(tmp_path / "m.onnx", made) == 3


def test_shape_that_only_a_branch_declares_is_unknown(tmp_path: Path) -> None:
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes = [node("Expand", "x s", f"{name}_e"), node("MatMul", f"{name}_e {name}_e", f"{name}_m")]
        nodes.append(node("ReduceSum", f"{name}_m", name, keepdims=0))
        branches[name] = graph(nodes, [], [value(name, ())], name=name)
        branches[name].value_info.extend([value(f"{name}_e", (1, 1)), value(f"{name}_m", (1, 1))])
    made = model(
        [node("If", "choice", "y", **branches)],
        [value("x", (1, 1)), value("s", (2,), INT64), value("choice", (), BOOL)],
        [value("y", ())],
    )
    given = {"x": np.ones((1, 1), np.float32), "s": np.array([20, 20]), "choice": np.array(True)}
    assert run(made, **given)[0] == 20**3
    assert not count(made).known.any()
    assert strict_check(tmp_path / "m.onnx", made) == 3


def test_name_of_an_input_dimension_does_not_vouch_for_a_declared_shape() -> None:
    made = declared_small(shape_input=True)
    made.graph.input[0].CopyFrom(value("x", ("batch", 1)))
    made.graph.value_info[0].CopyFrom(value("e", ("batch", 1)))
    assert not count(made, bind={"batch": 1}).known.any()


def declared_role(made: onnx.ModelProto, name: str, kind: str) -> onnx.ModelProto:
    made.graph.value_info.add(name=name).metadata_props.add(key=_KIND, value=kind)
    return made


@pytest.mark.parametrize("kind", ["BUFFER", "CONSTANT_TENSOR"])
@pytest.mark.parametrize("through", ["", "Transpose"])
def test_weight_that_the_file_calls_a_buffer_is_a_parameter(kind: str, through: str) -> None:
    nodes = [node(through, "w", "t")] if through else []
    nodes.append(node("MatMul", "x t" if through else "x w", "y"))
    made = model(nodes, [value("x", (1, 8))], "y", [weight("w", 8, 8)])
    assert count(declared_role(made, "w", kind)).total_params == 64


def test_statistics_that_the_file_calls_buffers_stay_buffers() -> None:
    constants = [weight(name, 3) for name in ("scale", "bias", "mean", "variance")]
    made = model(
        [node("BatchNormalization", "x scale bias mean variance", "y")],
        [value("x", (1, 3, 4, 4))],
        "y",
        constants,
    )
    declared_role(declared_role(made, "mean", "BUFFER"), "variance", "BUFFER")
    assert [name for name, role in roles(load(made)).items() if role == "buffer"] == ["mean", "variance"]


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_integers_converted_to_weights_are_parameters(dtype: Any) -> None:
    nodes = [
        node("Cast", "w", "f", to=FLOAT),
        node("Reshape", "f shape", "r"),
        node("Transpose", "r", "t"),
        node("MatMul", "x t", "y"),
    ]
    constants = [weight("w", 64, dtype=dtype), numbers("shape", [8, 8])]
    cost = count(model(nodes, [value("x", (1, 8))], "y", constants))
    assert (cost.total_params, cost.total_macs) == (64, 64)


def test_integers_that_are_indices_or_shapes_are_no_parameters() -> None:
    nodes = [node("Cast", "i", "j", to=INT64), node("Gather", "w j", "g"), node("MatMul", "x g", "y")]
    made = model(nodes, [value("x", (1, 3))], "y", [weight("w", 8, 4), numbers("i", [0, 2, 1], np.int32)])
    assert count(made).total_params == 32


@pytest.mark.parametrize("columns", [8, 600])
def test_file_name_that_is_not_utf8_is_read(columns: int, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xfe.onnx"
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 600))], "y", [weight("w", 600, columns)])
    try:
        Path(os.fsdecode(name)).write_bytes(made.SerializeToString())
    except OSError:
        pytest.skip("this file system accepts UTF-8 names only")
    assert count(os.fsdecode(name)).total_macs == 600 * columns


def with_function(
    domain: str, name: str, body: str = "Identity", *, overload: str = "", opset: int = 18
) -> onnx.ModelProto:
    """A product of 1 x 8 x 8 multiply-accumulates, and a function of its name that computes nothing."""
    inner = [node(body, "a" if body == "Identity" else "a b", "c")]
    function = helper.make_function(
        domain, name, ["a", "b"], ["c"], inner, [helper.make_opsetid("", opset)], overload=overload
    )
    product = node(f"{domain}::{name}" if domain else name, "x w", "y")
    product.overload = overload
    weights = numbers("w", np.full((8, 8), 2.0), np.float32)
    return model([product], [value("x", (1, 8))], "y", [weights], opset=opset, functions=[function])


# Operators that the runtime defines, at an opset that has them or has them not, and what it does.
REGISTERED = {
    ("", "MatMul", "", 18): "ignores the function",
    ("", "MatMul", "other", 18): "ignores the function",
    ("com.microsoft", "FusedMatMul", "", 18): "ignores the function",
    ("com.microsoft", "FusedMatMul", "other", 18): "ignores the function",
    ("", "RMSNormalization", "", 18): "refuses the file",
    ("", "NoOperator", "", 18): "refuses the file",
    ("ai.onnx.ml", "NoOperator", "", 18): "refuses the file",
    ("com.microsoft.nchwc", "MaxPool", "", 18): "refuses the file",
}


@pytest.mark.parametrize(("function", "does"), REGISTERED.items(), ids=str)
def test_function_that_a_runtime_ignores_or_refuses_is_refused(
    function: tuple[str, str, str, int], does: str
) -> None:
    domain, name, overload, opset = function
    made = with_function(domain, name, overload=overload, opset=opset)
    ones = np.ones((1, 8), np.float32)
    if does == "ignores the function":
        assert (run(made, x=ones)[0] == 16).all()
    else:
        with pytest.raises(Exception, match="INVALID_GRAPH"):
            run(made, x=ones)
    with pytest.raises(CorruptModel, match=f"function '{name}' of domain '{domain}' redefines an operator"):
        load(made)


def test_function_of_an_alias_of_the_standard_domain_is_refused() -> None:
    made = with_function("", "MatMul")
    for each in (made.functions[0], made.graph.node[0]):
        each.domain = "ai.onnx"
    assert (run(made, x=np.ones((1, 8), np.float32))[0] == 16).all()
    with pytest.raises(CorruptModel, match="redefines an operator"):
        load(made)


@pytest.mark.parametrize(
    "domain", ["my", "pkg.onnxscript.torch_lib", "pkg.torch.2.13.0", "com.microsoft", "ai.onnx.contrib"]
)
def test_function_of_a_name_that_no_runtime_defines_is_what_runs(domain: str) -> None:
    name = "MatMul" if domain == "my" else "Mine"
    ones = np.ones((1, 8), np.float32)
    made = with_function(domain, name, "MatMul")
    assert (run(made, x=ones)[0] == 16).all()
    assert count(made).total_macs == 64
    cheap = with_function(domain, name)
    assert (run(cheap, x=ones)[0] == 1).all()
    assert count(cheap).total_macs == 0


def test_two_functions_of_one_name_are_refused() -> None:
    made = with_function("my", "Mine")
    made.functions.append(with_function("my", "Mine", "MatMul").functions[0])
    with pytest.raises(Exception, match="FAIL"):
        run(made, x=np.ones((1, 8), np.float32))
    with pytest.raises(CorruptModel, match="'Mine' of domain 'my' is defined twice"):
        load(made)


def test_constant_defined_twice_is_refused() -> None:
    """Runtimes take the last one of two with the same shape, which another tool may not."""
    for second in (node("Constant", "", "s", value=numbers("", [8, 1])), None):
        nodes = [node("Reshape", "x s", "y")] if second is None else [second, node("Reshape", "x s", "y")]
        extra = [numbers("s", [8, 1])] if second is None else []
        made = model(nodes, [value("x", (1, 8))], "y", [numbers("s", [1, 8]), *extra])
        with pytest.raises(CorruptModel, match="'s' is defined twice"):
            load(made)


@pytest.mark.parametrize(
    "inner",
    [
        [node("Identity", "x", "w"), node("Relu", "w", "s")],
        [node("Constant", "", "w", value=numbers("", np.ones((8, 1)), np.float32)), node("Add", "x w", "s")],
    ],
)
def test_name_of_an_enclosing_block_cannot_be_defined_again(inner: list[onnx.NodeProto]) -> None:
    branch = graph(inner, outputs="s")
    made = model(
        [node("If", "q", "b", then_branch=branch, else_branch=branch), node("MatMul", "b w", "y")],
        [value("q", (), BOOL), value("x", (8, 8))],
        "y",
        [weight("w", 8, 8)],
    )
    with pytest.raises(Exception, match="single static assignment"):
        run(made, q=np.array(True), x=np.ones((8, 8), np.float32))
    with pytest.raises(CorruptModel, match="'w' is defined twice"):
        load(made)


def test_attribute_given_twice_is_refused() -> None:
    conv = node("Conv", "x w", "y", strides=[4, 4])
    conv.attribute.append(helper.make_attribute("strides", [1, 1]))
    made = model([conv], [value("x", (1, 1, 8, 8))], "y", [weight("w", 1, 1, 1, 1)])
    with pytest.raises(Exception, match="appeared multiple times"):
        run(made, x=np.ones((1, 1, 8, 8), np.float32))
    with pytest.raises(CorruptModel, match="has an attribute twice"):
        load(made)


def test_attribute_that_refers_to_no_function_is_refused() -> None:
    conv = node("Conv", "x w", "y")
    conv.attribute.add(name="strides", type=onnx.AttributeProto.INTS, ref_attr_name="other")
    made = model([conv], [value("x", (1, 1, 8, 8))], "y", [weight("w", 1, 1, 1, 1)])
    with pytest.raises(Exception, match="strides"):
        run(made, x=np.ones((1, 1, 8, 8), np.float32))
    with pytest.raises(CorruptModel, match="refers to a function, but is in none"):
        load(made)


def test_external_data_with_two_files_is_refused(tmp_path: Path) -> None:
    tensor = weight("w", 8, 8)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for name in ("small.bin", "large.bin"):
        tensor.external_data.add(key="location", value=name)
        (tmp_path / name).write_bytes(bytes(256))
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 8))], "y", [tensor])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(Exception, match="duplicate 'location'"):
        onnxruntime.InferenceSession(tmp_path / "m.onnx")
    with pytest.raises(CorruptModel, match="given twice"):
        load(tmp_path / "m.onnx")


def _branch_on(first: onnx.NodeProto, *constants: onnx.TensorProto, is_equal: bool = True) -> onnx.ModelProto:
    """An If that computes nothing if a value is `k`, or is true, and two products else."""
    cheap = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["o"])], "c", [], [onnx.ValueInfoProto(name="o")]
    )
    heavy = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("MatMul", ["m", "w"], ["o"])],
        "h",
        [],
        [onnx.ValueInfoProto(name="o")],
    )
    decide = (
        helper.make_node("Equal", ["r", "k"], ["c"])
        if is_equal
        else helper.make_node("Cast", ["r"], ["c"], to=9)
    )
    nodes = [
        first,
        decide,
        helper.make_node("Reshape", ["c", "one"], ["d"]),
        helper.make_node("If", ["d"], ["y"], then_branch=cheap, else_branch=heavy),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, (1, 16))],
        [helper.make_tensor_value_info("y", FLOAT, (1, 16))],
        [numbers("w", np.ones((16, 16)), np.float32), numbers("one", [1], np.int64), *constants],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


_DIFFERENT = {
    "a sum that overflows": (
        helper.make_node("ReduceSum", ["v"], ["r"], keepdims=0),
        numbers("v", [2**31 - 1, 1], np.int32),
        numbers("k", -(2**31), np.int32),
    ),
    "a norm of integers": (
        helper.make_node("ReduceL2", ["v"], ["r"], keepdims=0),
        numbers("v", [2**33, 2**33], np.int64),
        numbers("k", 0, np.int64),
    ),
    "a power that overflows": (
        helper.make_node("Pow", ["v", "p"], ["r"]),
        numbers("v", [3], np.int64),
        numbers("p", [40], np.int64),
        numbers("k", [-6289078614652622815], np.int64),
    ),
}


@pytest.mark.parametrize("case", _DIFFERENT)
def test_value_that_runtimes_compute_otherwise_decides_nothing(case: str, tmp_path: Path) -> None:
    made = _branch_on(*_DIFFERENT[case])
    (y,) = run(made, x=np.ones((1, 16), np.float32))
    assert y[0, 0] == 256  # both products ran
    assert strict_check(tmp_path / "model.onnx", made) == 1


@pytest.mark.parametrize(
    "bomb",
    [
        helper.make_node("MaxPool", ["v"], ["r"], kernel_shape=[20001, 20001], pads=[10000] * 4),
        helper.make_node("LpPool", ["v"], ["r"], kernel_shape=[20001, 20001], pads=[10000] * 4),
    ],
    ids=lambda made: made.op_type,
)
def test_constant_is_not_folded_at_any_price(bomb: onnx.NodeProto, tmp_path: Path) -> None:
    made = _branch_on(bomb, numbers("v", np.ones((1, 1, 1, 1)), np.float32), is_equal=False)
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, limit[1]))  # or the machine ends
    try:
        assert strict_check(tmp_path / "model.onnx", made) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limit)


@pytest.mark.parametrize("versions", [(13, 11), (0,), (-1,), (1 << 31,), (1 << 62,), (-1 << 63,)])
def test_operator_sets_that_contradict_each_other_or_do_not_exist_are_refused(
    versions: tuple[int, ...],
) -> None:
    made = model([node("Relu", "x", "y")], [value("x", (1,))], [value("y", (1,))])
    del made.opset_import[:]
    made.opset_import.extend(helper.make_opsetid("", version) for version in versions)
    with pytest.raises(CorruptModel, match=r"operator set .*: versions start at 1"):
        load(made.SerializeToString())


@pytest.mark.parametrize("version", [-1, 1 << 31, 1 << 62, -1 << 63])
def test_a_version_of_the_format_that_does_not_exist_is_refused(version: int) -> None:
    made = model([node("Relu", "x", "y")], [value("x", (1,))], [value("y", (1,))])
    made.ir_version = version
    with pytest.raises(CorruptModel, match=r"IR version .*: versions start at 1"):
        load(made.SerializeToString())


def test_a_file_without_a_version_of_the_format_is_refused_as_by_the_runtime(tmp_path: Path) -> None:
    made = model([node("Relu", "x", "y")], [value("x", (1,))], [value("y", (1,))])
    made.ClearField("ir_version")
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="Missing model IR version"):
        onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    assert sizeup.check(path, "rpi5/ort", remedies=False).fits is False
    assert sizeup.check(path, macs=10).fits is True


@pytest.mark.parametrize("offset", ["1_0", "\u0663", " 16 ", "-0"])
def test_offset_that_the_runtime_does_not_read_is_refused(offset: str, tmp_path: Path) -> None:
    tensor = numbers("w", np.ones((4, 4)), np.float32)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, text in {"location": "w.bin", "offset": offset, "length": "64"}.items():
        tensor.external_data.add(key=key, value=text)
    (tmp_path / "w.bin").write_bytes(bytes(4096))
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 4))], [value("y", (1, 4))], [tensor])
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(CorruptModel, match=r"not a number|valid file"):
        load(tmp_path / "model.onnx")
