"""Every elementwise operator that TFLite Micro runs is executed in strips, and computes the same there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sizeup
from formats.tflite.factory import options, quantized
from rewrite.strip_networks import Network
from sizeup.backends.tflm.kernels import RESOLVED
from sizeup.ops import cost_rule_of, op_kind_of
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytest.importorskip("tflite_micro", reason="runs TFLite Micro")

SHAPE = (1, 24, 24, 32)
OPTIONS = {
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "LEAKY_RELU": "LeakyReluOptions",
}
BINARY = frozenset(
    [
        "ADD",
        "ADD_N",
        "SUB",
        "MUL",
        "DIV",
        "MAXIMUM",
        "MINIMUM",
        "SQUARED_DIFFERENCE",
        "FLOOR_DIV",
        "FLOOR_MOD",
        "PRELU",
    ]
)
COMPARING = frozenset(["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
LOGICAL = frozenset(["LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "SELECT_V2"])


def elementwise() -> list[str]:
    kinds = {name: cost_rule_of(op_kind_of("tflite", name) or "") for name in RESOLVED if name.isupper()}
    return sorted(name for name, rule in kinds.items() if rule is not None and rule.family == "elementwise")


class Typed(Network):
    """A network of floats with values of other types in between."""

    def typed(self, kind: str, shape: tuple[int, ...] = SHAPE) -> int:
        fields = {"quantization": quantized([0.05], [3])} if kind == "INT8" else {}
        return int(self.file.main.tensor(f"typed{len(self.file.main.table.tensors)}", shape, kind, **fields))

    def apply(self, name: str, inputs: list[int], kind: str = "FLOAT32") -> int:
        output = self.typed(kind)
        self.shapes[output] = SHAPE
        self.file.main.op(name, inputs, [output], options(OPTIONS[name]) if name in OPTIONS else None)
        return output

    def constant(self, number: float) -> int:
        values = np.full((1, 1, 1, SHAPE[3]), number, np.float32)
        return int(self.file.main.tensor(f"constant{number}", values.shape, "FLOAT32", values))


def network_of(name: str) -> bytes:
    """A wide tensor through the operator, to a narrow one; positive values, so that logarithms are finite."""
    network = Typed((1, 24, 24, 4), "float32")
    first = network.window(network.input, "conv", 32, activation=0)
    value = network.apply("MAXIMUM", [first, network.constant(0.25)])
    if name in BINARY:
        other = network.constant(0.5) if name == "PRELU" else first if name != "FLOOR_MOD" else value
        value = network.apply(name, [other, value] if name in ("DIV", "FLOOR_DIV") else [value, other])
    elif name in COMPARING | LOGICAL:
        compared = network.apply(
            name if name in COMPARING else "GREATER", [first, network.constant(0.25)], "BOOL"
        )
        if name.startswith("LOGICAL"):
            inputs = [compared] if name == "LOGICAL_NOT" else [compared, compared]
            compared = network.apply(name, inputs, "BOOL")
        value = network.apply("SELECT_V2", [compared, value, network.constant(0.5)])
    elif name == "CAST":
        value = network.apply("CAST", [network.apply("CAST", [value], "INT32")])
    elif name in ("QUANTIZE", "DEQUANTIZE"):
        value = network.apply("DEQUANTIZE", [network.apply("QUANTIZE", [value], "INT8")])
    else:
        value = network.apply(name, [value])
    return network.pack(network.window(value, "conv", 4, stride=2, activation=0))


@pytest.mark.parametrize("name", elementwise())
def test_strips_of_an_elementwise_operator_compute_the_same(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(network_of(name))
    result = sizeup.optimize(source, out, split=True, verify=False)
    assert result.strips is not None
    graph = sizeup.load(source)
    positions = {index for index, op in enumerate(graph.ops) if op.source == name}
    assert any(positions & set(range(each.first_op, each.last_op + 1)) for each in result.strips.segments)
    samples = random_samples(graph, 2, seed=3)
    before, after = (run("tflm", path, samples) for path in (source, out))
    assert is_equal(before, after)
    assert before.outputs
    assert all(np.isfinite(array).all() for output in before.outputs for array in output)
    assert before.arena is not None
    assert after.arena is not None
    assert after.arena.total_bytes < before.arena.total_bytes
