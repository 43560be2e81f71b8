"""What latencies leave out: the steps of recurrent operators, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.dtypes import dtype
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder
from sizeup.latency.gaps import dependent_steps
from sizeup.symbolic import Specialization, SymbolicGraph, size

FLOAT = dtype("float32")
NOTE = "incomplete: the time of the dependent steps of gru on a GPU is not modeled"


def recurrent(
    steps: Any,  # an int or a symbolic dimension
    batch: int,
    *,
    format: str = "torch",
    source: str = "aten.gru",
    rows: tuple[int, ...] = (0, 1),
    has_state: bool = True,
) -> Graph:
    """A GRU of 32 features and units; without a step axis if `rows` has one axis."""
    builder = GraphBuilder("recurrent", format)
    shape = (steps, batch, 32) if len(rows) == 2 else (batch, 32)
    x = builder.input("x", shape, FLOAT)
    state = builder.input("state", (1, batch, 32), FLOAT) if has_state else ABSENT
    w, r = (builder.tensor(name, (96, 32), FLOAT, Constant("parameter")) for name in "wr")
    y = builder.tensor("y", shape, FLOAT)
    inputs = [x, w, r, ABSENT, ABSENT, state] if format == "onnx" else [x, state, w, r]
    matrices = (1, 2) if format == "onnx" else (2, 3)
    attrs: dict[str, Any] = {"rows": rows, "matrices": matrices, "units": 32}
    builder.op("gru", inputs, [y], attrs, source=source)
    builder.outputs.append(y)
    return builder.freeze()


@pytest.mark.parametrize(
    ("graph", "has_steps"),
    [
        (recurrent(10_000, 1), True),
        (recurrent(2, 64), True),
        (recurrent(1, 64), False),
        (recurrent(1, 64, has_state=False), True),  # which axis is the batch is not known
        (recurrent(1, 1, has_state=False), False),
        (recurrent(1, 64, format="onnx"), False),
        (recurrent(2, 64, format="onnx"), True),
        (recurrent(1, 64, source="aten.gru_cell", rows=(0,)), False),
        (recurrent(1, 64, rows=(0,)), True),  # packed sequences
        (recurrent(1, 64, format="tflite", rows=(0,)), False),
    ],
)
def test_an_interval_has_no_upper_end_if_steps_wait_for_each_other(graph: Graph, has_steps: bool) -> None:
    card, processor = sizeup.target("rtx-4090/torch-eager"), sizeup.target("i9-10940x/torch-inductor")
    assert dependent_steps(graph, card) == (("gru",) if has_steps else ())
    assert dependent_steps(graph, processor) == ()
    result = sizeup.estimate(graph, card)
    assert result.low is not None
    assert (result.high is None) == has_steps
    assert (NOTE in result.notes) == has_steps
    assert sizeup.check(graph, card, latency=1e-3).fits is (None if has_steps else True)
    assert sizeup.estimate(graph, processor).high is not None
    assert NOTE not in sizeup.estimate(graph, processor).notes


def test_symbolic_steps_leave_all_points_without_an_upper_end() -> None:
    def read(example: Mapping[str, int]) -> Specialization:
        return Specialization(recurrent(size("steps"), 64), example, {})

    estimates = sizeup.estimate(SymbolicGraph(("steps",), {"steps": 10}, read), "rtx-4090/torch-eager")
    times = estimates.at(steps=np.array([2, 10_000]))
    assert (times.low > 0).all()
    assert np.isnan(times.high).all()


def product_and_sigmoid(results: int) -> Graph:
    """A product of 163,840 MACs with 10 results, and a sigmoid of another input."""
    builder, kind = GraphBuilder("sigmoid", "onnx"), dtype("int8")
    x, z = builder.input("x", (1, 16_384), kind), builder.input("z", (1, results), kind)
    w = builder.tensor("w", (10, 16_384), kind, Constant("parameter"))
    y, s = builder.tensor("y", (1, 10), kind), builder.tensor("s", (1, results), kind)
    builder.op("matmul", [x, w], [y], {"contracted": (1,)}, source="MatMul")
    builder.op("sigmoid", [z], [s], source="Sigmoid")
    builder.outputs += [y, s]
    return builder.freeze()


# Seconds of the product: 1.425 ms and 64.03 ms. A result takes at least 1.47 cycles, or 4.34 with the
# reference kernels; one activation of each result of the product may be fused.
@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("stm32f746/tflm-cmsis-nn", 0.02 * 1.425e-3 * 216e6 / 1.474 + 10),
        ("stm32f746/stedgeai", None),
        ("esp32-s3/tflm", 0.02 * 64.03e-3 * 240e6 / 4.335 + 10),
    ],
)
def test_operators_that_count_as_nothing_leave_no_upper_end(name: str, results: float | None) -> None:
    if results is None:  # the same, at the rate of this runtime
        seconds = sizeup.estimate(product_and_sigmoid(10), name).seconds
        results = 0.02 * seconds * 216e6 / 1.474 + 10
    few, many = (sizeup.estimate(product_and_sigmoid(round(each * results)), name) for each in (0.98, 1.02))
    assert few.basis == many.basis == "calibrated"
    assert few.seconds == many.seconds
    assert (few.low, few.high is None, many.high is None) == (many.low, False, True)
    note = "no upper end: operators that the calibration counts as 0 s take a noticeable time"
    assert (note in few.notes, note in many.notes) == (False, True)


@pytest.mark.extras
@pytest.mark.parametrize("model", ["mlperf_resnet8_int8", "te_vww", "te_persondet", "te_mcunetv2_large"])
@pytest.mark.parametrize("runtime", ["tflm", "tflm-cmsis-nn", "tinyengine", "stedgeai"])
def test_networks_like_the_measured_ones_keep_their_upper_end(shared: Path, model: str, runtime: str) -> None:
    assert sizeup.estimate(shared / "models" / f"{model}.tflite", f"stm32f746/{runtime}").high is not None
