"""Files that hide operators, constants or weights where an amount could miss them: none is a YES."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.dtypes import DTYPES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from formats.onnx.making import (  # noqa: E402 - needs onnx
    FLOAT,
    INT64,
    graph,
    model,
    node,
    numbers,
    value,
    weight,
)

MANY = 1_000_000
X = value("x", (1, 8))


def saved(path: Path, made: Any) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def loads(path: Path) -> bool:
    """Whether ONNX Runtime loads the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception:  # it has no common base class for its errors
        return False
    return True


def checked(path: Path, target: str | None = "rpi5/ort", **limits: Any) -> Any:
    return sizeup.check(path, target, remedies=False, **limits)


def magic() -> Any:
    """An operator that no runtime knows, with 400,000 bytes in an attribute."""
    return model([node("evil::Magic", "x", "y", table=[1.0] * 100_000)], [X], [value("y", (1, 8))])


def test_operator_that_no_runtime_knows_is_no_yes(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", magic())
    assert not loads(path)
    check = checked(path, ram="1 MiB")
    assert check.fits is None
    assert "does not know evil::Magic" in check.limits[0].unknown[0]


REFUSED = {
    "no kernel for the dtype": (
        [node("Conv", "x w", "y")],
        [value("x", (1, 1, 8, 8), onnx.TensorProto.DOUBLE)],
        [weight("w", 1, 1, 3, 3, dtype=np.float64)],
        21,
    ),
    "dtypes that differ": ([node("Add", "x i", "y")], [X, value("i", (1, 8), INT64)], [], 21),
    "no kernel at this opset": ([node("Add", "x x", "y")], [X], [], 6),
    "later than this opset": ([node("Gelu", "x", "y")], [X], [], 13),
    "no such operator": ([node("Rleu", "x", "y")], [X], [], 21),
    "for another processor": (
        [node("com.microsoft::BiasSplitGelu", "x b", "y")],
        [value("x", (1, 4, 8))],
        [weight("b", 8)],
        21,
    ),
    "too many outputs": ([node("Relu", "x", "y z")], [X], [], 21),
    "an attribute that is not defined": ([node("Relu", "x", "y", stride=4)], [X], [], 21),
}


@pytest.mark.parametrize("case", REFUSED)
def test_file_that_the_runtime_refuses_is_a_no(case: str, tmp_path: Path) -> None:
    nodes, inputs, constants, opset = REFUSED[case]
    path = saved(tmp_path / "m.onnx", model(nodes, inputs, "y", constants, opset=opset))
    assert not loads(path)
    check = checked(path)
    assert check.fits is False
    assert "ONNX Runtime" in str(check.unsupported_reason)


def test_declared_dtype_that_the_operator_does_not_compute_is_a_no(tmp_path: Path) -> None:
    made = model([node("Relu", "x", "z"), node("Relu", "z", "y")], [X])
    made.graph.value_info.append(value("z", (1, 8), onnx.TensorProto.INT32))
    path = saved(tmp_path / "m.onnx", made)
    assert not loads(path)
    assert checked(path).fits is False


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_file_that_the_runtime_loads_is_a_yes(dtype: Any, tmp_path: Path) -> None:
    element = FLOAT if dtype is np.float32 else onnx.TensorProto.FLOAT16
    nodes = [node("MatMul", "x w", "a"), node("HardSwish", "a", "b"), node("Softmax", "b", "y")]
    made = model(nodes, [value("x", (1, 8), element)], "y", [weight("w", 8, 8, dtype=dtype)])
    path = saved(tmp_path / "m.onnx", made)
    assert loads(path)
    assert checked(path).fits is True


@pytest.mark.parametrize(("opset", "ir_version"), [(99, 10), (21, 99)])
def test_newer_file_than_the_table_knows_is_undetermined(opset: int, ir_version: int, tmp_path: Path) -> None:
    made = model([node("Relu", "x", "y")], [X], [value("y", (1, 8))], opset=opset)
    made.ir_version = ir_version
    path = saved(tmp_path / "m.onnx", made)
    assert not loads(path)
    assert checked(path).fits is None


@pytest.mark.parametrize(
    "target", ["rpi5/ort", "rpi5/litert", "rpi5/torch-eager", "h100/torch-eager", "jetson-agx-orin/tensorrt"]
)
@pytest.mark.parametrize("limit", ["ram", "latency", "energy"])
def test_no_limit_of_a_target_is_met_with_an_uncounted_operator(target: str, limit: str) -> None:
    graph = with_uncounted_operator()
    most: dict[str, Any] = {"ram": "1 GiB", "latency": "1000 s", "energy": "1000 J"}
    for expected in (False, True):
        check = sizeup.check(graph, target, expected=expected, remedies=False, **{limit: most[limit]})
        assert [each.fits for each in check.limits if each.name == limit] == [None]
        assert check.fits is None


def test_amounts_of_tensors_have_no_upper_bound_with_an_uncounted_operator() -> None:
    graph = with_uncounted_operator()
    assert sizeup.check(graph, macs=10**9).fits is None
    assert sizeup.check(graph, arena=10**9).fits is None
    assert sizeup.check(graph, arena=1).fits is False
    assert sizeup.check(graph, params=0, flash="1 KiB").fits is True
    usage = sizeup.analyze(graph).memory.usage
    assert usage.unmodeled == ("mylib.fancy",)


def with_uncounted_operator() -> sizeup.Graph:
    builder = sizeup.GraphBuilder(name="odd")
    x = builder.input("x", (1, 8), DTYPES["float32"])
    z, y = (builder.tensor(name, (1, 8), DTYPES["float32"]) for name in "zy")
    builder.op("relu", [x], [z])
    builder.op("mylib.fancy", [z], [y], name="fancy")
    builder.outputs.append(y)
    return builder.freeze()


HIDDEN = {
    "floats of a Constant": [
        node("Constant", "", "c", value_floats=[1.0] * MANY),
        node("ReduceSum", "c", "s", keepdims=0),
        node("Add", "x s", "y"),
    ],
    "a table of integers": [
        node("Gather", "table i", "g"),
        node("Cast", "g", "f", to=FLOAT),
        node("Add", "x f", "y"),
    ],
    "a bound": [node("Relu", "x", "r"), node("Clip", "r bound", "y")],
    "a constant that nothing reads": [node("Relu", "x", "y")],
    "a computed constant": [
        node("Expand", "one shape", "e"),
        node("Relu", "e", "r"),
        node("ReduceSum", "x", "s", keepdims=0),
        node("Gather", "r i", "g"),
        node("Add", "g s", "y"),
    ],
    "a branch that never runs": [
        node(
            "If",
            "never",
            "b",
            then_branch=graph(
                [node("ReduceSum", "w", "s", keepdims=0)], outputs="s", constants=[weight("w", MANY)]
            ),
            else_branch=graph([node("Identity", "one", "s2")], outputs="s2"),
        ),
        node("Add", "x b", "y"),
    ],
}


@pytest.mark.parametrize("place", HIDDEN)
def test_content_that_the_runtime_loads_counts_wherever_it_is(place: str, tmp_path: Path) -> None:
    nodes = HIDDEN[place]
    read = {name for each in nodes for name in each.input}
    constants = {
        "table": numbers("table", np.ones(MANY)),
        "bound": weight("bound", MANY),
        "one": weight("one"),
        "shape": numbers("shape", [MANY]),
        "never": numbers("never", False, bool),
    }
    listed = [constants[name] for name in constants if name in read]
    if "nothing" in place:
        listed = [numbers("unused", np.ones(MANY))]
    if "branch" in place:
        listed.append(weight("one"))
    inputs = [X, value("i", (1,), INT64)] if "i" in read else [X]
    made = model(nodes, inputs, "y", listed)
    path = saved(tmp_path / "m.onnx", made)
    assert loads(path)
    assert checked(path, ram="1 MiB").fits is not True
    if "branch" not in place:  # the memory inside control flow is not known
        assert checked(path, ram="64 MiB").fits is True


def test_attributes_count_as_content_that_is_loaded(tmp_path: Path) -> None:
    lists = {"keys_floats": [1.0] * MANY, "values_floats": [1.0] * MANY}
    made = model([node("ai.onnx.ml::LabelEncoder", "x", "y", **lists)], [X])
    made.opset_import[1].version = 3
    path = saved(tmp_path / "m.onnx", made)
    report = sizeup.analyze(path)
    assert report.graph.requirements is not None
    assert report.graph.requirements.other_bytes == 8 * MANY
    tensor = node("evil::Magic", "x", "y", t=weight("t", MANY), small=[1] * 8)
    graph = sizeup.analyze(model([tensor], [X])).graph
    assert graph.requirements is not None
    assert graph.requirements.other_bytes == 4 * MANY


def test_sparse_weights_count_as_the_dense_ones_that_the_runtime_makes(tmp_path: Path) -> None:
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 1024))])
    one = numbers("w", [1.0], np.float32)
    sparse = onnx.SparseTensorProto(values=one, indices=numbers("i", [0]), dims=[1024, 1024])
    made.graph.sparse_initializer.append(sparse)
    path = saved(tmp_path / "m.onnx", made)
    assert loads(path)
    assert checked(path, ram="1 MiB").fits is not True
    assert checked(path, ram="64 MiB").fits is True


def test_weights_in_another_file_count_as_flash(tmp_path: Path) -> None:
    tensor = weight("w", 1024, 1024)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(4 << 20))
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 1024))], "y", [tensor])
    path = saved(tmp_path / "m.onnx", made)
    assert loads(path)
    assert checked(path, None, flash="1 MiB").fits is False
    assert checked(path, "stm32f746/tflm").fits is False
    assert checked(path, None, flash="5 MiB").fits is True


def test_tables_in_another_file_count_as_flash(tmp_path: Path) -> None:
    """No parameters: only the upper bound of the model size contains them."""
    table = numbers("table", np.ones(1 << 17))
    (tmp_path / "t.bin").write_bytes(table.raw_data)
    table.ClearField("raw_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="t.bin")
    made = model([node("Gather", "table i", "y")], [value("i", (1,), INT64)], "y", [table])
    path = saved(tmp_path / "m.onnx", made)
    assert loads(path)
    assert checked(path, None, flash="512 KiB").fits is not True
    assert checked(path, None, flash="2 MiB").fits is True


def test_constant_computed_in_two_steps_counts_as_flash(tmp_path: Path) -> None:
    nodes = [node("Expand", "one shape", "e"), node("Relu", "e", "r"), node("Mul", "x r", "y")]
    constants = [weight("one"), numbers("shape", [512, 8])]
    path = saved(tmp_path / "m.onnx", model(nodes, [X], "y", constants))
    assert checked(path, None, flash="8 KiB").fits is not True
    assert checked(path, None, flash="64 KiB").fits is True
