"""The table of ONNX Runtime's kernels against the installed runtime, which loads one operator at a time."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sizeup.formats.onnx import kernels
from sizeup.graph import OperatorUse

ROOT = Path(__file__).parents[3]
TABLE: dict[str, Any] = json.loads((ROOT / "src/sizeup/formats/onnx/kernels.json").read_text("utf-8"))
IS_THIS_VERSION = onnxruntime.__version__.startswith(TABLE["version"] + ".")
ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint32": TensorProto.UINT32,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
}
LIKE_INPUT = ("RandomNormalLike", "RandomUniformLike")  # unless an attribute says otherwise
UNSUPPORTED = ("NOT_IMPLEMENTED", "Type Error", "No Op registered", "bound to different types")


def load_in_runtime(use: OperatorUse) -> str:
    """What the runtime says of a model of one operator; empty if it loads it."""
    inputs = [helper.make_tensor_value_info(f"x{i}", ELEMENTS[t], None) for i, t in enumerate(use.inputs)]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(use.outputs))]
    for value, dtype in zip(outputs, use.outputs, strict=True):
        if dtype:
            value.type.tensor_type.elem_type = ELEMENTS[dtype]
    node = helper.make_node(
        use.name, [value.name for value in inputs], [value.name for value in outputs], domain=use.domain
    )
    opsets = {"": 18, use.domain: use.opset}
    made = helper.make_model(
        helper.make_graph([node], "graph", inputs, outputs),
        opset_imports=[helper.make_opsetid(*each) for each in opsets.items()],
        ir_version=10,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:
        return str(error)
    return ""


def uses(domain: str) -> Iterator[OperatorUse]:
    """Every operator of a domain in every opset that changed it, with all values of each dtype."""
    for name, definitions in TABLE["operators"][domain].items():
        for since, inputs, outputs, *_ in definitions:
            count = sum(1 for slot in inputs if "*" not in slot) or len(inputs)
            outs = list(outputs[:1])
            for dtype, opset in itertools.product(ELEMENTS, since):
                if "tensor(" in "".join([*inputs, *outs]) or "?" in "".join(inputs):
                    continue
                # Only values that share their type with the first input have this dtype for certain.
                if len({slot.rstrip("*") for slot in inputs}) == 1:
                    is_same = bool(outs) and (
                        outs[0].rstrip("*") == inputs[0].rstrip("*") or name in LIKE_INPUT
                    )
                    yield OperatorUse(
                        domain, name, opset, (dtype,) * count, ((dtype if is_same else ""),) * len(outs)
                    )


@pytest.mark.skipif(not IS_THIS_VERSION, reason="the table is that of another version")
def test_table_is_that_of_the_installed_runtime() -> None:
    spec = importlib.util.spec_from_file_location("onnx_kernels", ROOT / "tools/onnx_kernels.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = tool.table()
    assert {**made, "source": ""} == {**TABLE, "source": ""}
    assert tool.written(made).count("\n") < 1000


@pytest.mark.slow
@pytest.mark.skipif(not IS_THIS_VERSION, reason="the table is that of another version")
@pytest.mark.parametrize("domain", ["", "com.microsoft", "ai.onnx.ml"])
def test_runtime_loads_no_operator_without_a_kernel_and_misses_none_with_one(domain: str) -> None:
    wrong, loaded, refused = [], 0, 0
    for use in uses(domain):
        said, standing = load_in_runtime(use), kernels.standing(use)
        if standing == "runs":
            loaded += not said
            if any(text in said for text in UNSUPPORTED):
                wrong.append((use, said[:200]))
        elif standing == "no kernel":
            refused += 1
            if not said:
                wrong.append((use, "loads"))
    assert not wrong, "\n".join(map(str, wrong))
    assert refused > 20
    if not domain:
        assert loaded > 300
