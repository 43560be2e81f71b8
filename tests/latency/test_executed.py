"""Kernels as a runtime runs them: what is merged is not moved, and classes carry the number type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import Constant, Graph, GraphBuilder, Quant
from sizeup.latency import executed, typed, work_of

FLOAT, INT8 = dtype("float32"), dtype("int8")
SHAPE = (1, 8, 4, 4)  # 128 numbers, 512 bytes
SCALE = Quant(np.ones(1), np.zeros(1))


def chain() -> Graph:
    """A convolution of 8 to 8 channels, a ReLU, and the sum of its result with the input."""
    made = GraphBuilder("by hand")
    x = made.input("x", SHAPE, FLOAT)
    w = made.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    a, b, c = (made.tensor(name, SHAPE, FLOAT) for name in "abc")
    made.op("conv", [x, w], [a], {"out_channels": 8, "kernel": (1, 1)})
    made.op("relu", [a], [b])
    made.op("add", [b, x], [c])
    made.outputs.append(c)
    return made.freeze()


def test_without_fusion_every_operator_moves_what_its_rule_says() -> None:
    cost = count(chain())
    alone, found = work_of(cost), executed(cost)
    assert found.kernel.tolist() == found.main.tolist() == [0, 1, 2]
    assert found.work.traffic.tolist() == alone.traffic.tolist() == [512 + 512 + 256, 1024, 1536]
    assert found.work.names == ("conv_1x1", "activation", "elementwise")


def test_what_stays_within_a_kernel_is_not_moved() -> None:
    found = executed(count(chain()), fuses=["activation"])
    assert found.kernel.tolist() == [0, 0, 1]
    assert (found.work.read.tolist(), found.work.written.tolist()) == ([512, 1024], [512, 512])
    assert found.work.weights.tolist() == [256, 0]
    assert found.work.macs.tolist() == [8 * 128, 0]


def test_an_input_that_a_kernel_reads_twice_is_moved_once() -> None:
    made = GraphBuilder("silu")
    x = made.input("x", SHAPE, FLOAT)
    a, b = made.tensor("a", SHAPE, FLOAT), made.tensor("b", SHAPE, FLOAT)
    made.op("sigmoid", [x], [a])
    made.op("mul", [x, a], [b])
    made.outputs.append(b)
    found = executed(count(made.freeze()), fuses=["gelu"])
    assert found.work.traffic.tolist() == [1024]
    assert found.work.names == ("activation",)


def test_kernels_pass_quantised_numbers_on_where_conversions_are_merged() -> None:
    made = GraphBuilder("qdq")
    x = made.tensor("x", SHAPE, INT8, quant=SCALE)
    made.inputs.append(x)
    w = made.tensor("w", (8, 8, 1, 1), INT8, Constant("parameter"), SCALE)
    floats = [made.tensor(name, SHAPE, FLOAT) for name in "abcd"]
    wf = made.tensor("wf", (8, 8, 1, 1), FLOAT, Constant("derived"))
    q = made.tensor("q", SHAPE, INT8, quant=SCALE)
    made.op("dequantize", [x], [floats[0]])
    made.op("dequantize", [w], [wf])
    made.op("conv", [floats[0], wf], [floats[1]], {"out_channels": 8, "kernel": (1, 1)})
    made.op("quantize", [floats[1]], [q])
    made.op("dequantize", [q], [floats[2]])
    made.op("relu", [floats[2]], [floats[3]])
    made.outputs.append(floats[3])
    found = executed(count(made.freeze()), fuses=["quantise"])
    conv = found.kernel[2]
    assert found.work.names[found.work.kind[conv]] == "conv_1x1.int8"
    assert (found.work.read[conv], found.work.weights[conv], found.work.written[conv]) == (128, 64, 128)
    apart = executed(count(made.freeze()))
    assert apart.work.names[apart.work.kind[apart.kernel[2]]] == "conv_1x1"


def test_a_precision_changes_bytes_and_classes() -> None:
    found = executed(count(chain()), precision("int8"))
    assert found.work.names == ("conv_1x1.int8", "activation.int8", "elementwise.int8")
    assert found.work.traffic.tolist() == [128 + 128 + 64, 256, 384]


@pytest.mark.parametrize(
    ("data", "weights", "name"),
    [
        ("float32", None, "conv"),
        ("float16", None, "conv.fp16"),
        ("int8", "int8", "conv.int8"),
        ("uint8", "int8", "conv.int8"),
        ("float32", "int4", "conv.w4"),
        ("float16", "int8", "conv.w8"),
        ("int64", None, "conv"),
    ],
)
def test_classes_carry_their_number_type(data: str, weights: str | None, name: str) -> None:
    assert typed("conv", dtype(data), None if weights is None else dtype(weights)) == name


def test_a_graph_without_operators_has_no_kernels() -> None:
    made = GraphBuilder("nothing")
    made.outputs.append(made.input("x", SHAPE, FLOAT))
    assert len(executed(count(made.freeze())).work) == 0


def test_what_is_made_of_weights_alone_runs_once_for_a_whole_batch() -> None:
    made = GraphBuilder("standardised weights")
    x = made.input("x", SHAPE, FLOAT)
    w = made.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    v, y = made.tensor("v", (8, 8, 1, 1), FLOAT), made.tensor("y", SHAPE, FLOAT)
    made.op("batch_norm", [w], [v])
    made.op("conv", [x, v], [y], {"out_channels": 8, "kernel": (1, 1)})
    made.outputs.append(y)
    work = executed(count(made.freeze())).work
    assert work.names == ("weight_norm", "conv_1x1")
    assert work.weights.tolist() == [256 + 256, 256]
    eight = work.at_batch(8)
    assert eight.traffic.tolist() == [512, 256 + 8 * 1024]
    assert eight.macs.tolist() == [0, 8 * 8 * 128]


def test_a_view_that_repeats_numbers_moves_them_once() -> None:
    made = GraphBuilder("gate")
    x, gate = made.input("x", SHAPE, FLOAT), made.input("gate", (1, 8, 1, 1), FLOAT)
    wide, y = made.tensor("wide", SHAPE, FLOAT), made.tensor("y", SHAPE, FLOAT)
    made.op("view", [gate], [wide], source="aten.expand")
    made.op("mul", [x, wide], [y])
    made.outputs.append(y)
    assert executed(count(made.freeze())).work.read.tolist() == [512 + 32]


def test_products_of_scattered_operands_copy_them_first_unless_a_loop_writes_them_in_order() -> None:
    torch = pytest.importorskip("torch")

    class Mixer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix = torch.nn.LayerNorm(16), torch.nn.Linear(9, 9)

        def forward(self, x: Any) -> Any:
            return self.mix(self.norm(x).transpose(1, 2))

    cost = count(sizeup.load(Mixer(), inputs=((2, 9, 16),)))
    eager, compiled = executed(cost).work, executed(cost, fuses=["loop"]).work
    assert [eager.names[kind] for kind in eager.kind] == ["layer_norm", "linear", "copy_strided"]
    assert eager.traffic[-1] == 2 * 2 * 9 * 16 * 4
    assert [compiled.names[kind] for kind in compiled.kind] == ["layer_norm", "linear"]
