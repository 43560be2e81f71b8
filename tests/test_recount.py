"""A graph at other number types is counted by way of what is known of it already, to the same columns."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.cost import Accesses, Cost, count, count_with_dtypes
from sizeup.dtypes import PRECISIONS, dtype
from sizeup.graph import Constant, Graph, GraphBuilder, differ_only_in_dtypes
from sizeup.latency import execution_of
from sizeup.mixed_precision import assign, layers
from sizeup.targets import runtime

FLOAT = dtype("float32")
COLUMNS = [each.name for each in fields(Accesses) if each.name != "tensors"]


def branching() -> Graph:
    """Two convolutions that share their weights, whose results are added, and a choice of numbers."""
    builder = GraphBuilder("branching", "onnx")
    x = builder.input("x", (1, 4, 8, 8), FLOAT)
    shared = Constant("parameter")
    made = []
    for name in ("a", "b"):
        weight = builder.tensor(f"{name}.weight", (4, 4, 3, 3), FLOAT, shared)
        bias = builder.tensor(f"{name}.bias", (4,), FLOAT, Constant("parameter"))
        made.append(builder.tensor(name, (1, 4, 8, 8), FLOAT))
        builder.op("conv", [x, weight, bias], [made[-1]], {"out_channels": 4}, scope=name)
    total = builder.tensor("total", (1, 4, 8, 8), FLOAT)
    builder.op("add", made, [total])
    builder.outputs.append(total)
    return builder.freeze()


def at(graph: Graph, precision: str, *, some: bool = False) -> Graph:
    """The graph with all layers at one type, or with the first of them alone."""
    found = layers(graph)[: 1 if some else None]
    return assign(graph, {each.op: PRECISIONS[precision] for each in found})


def assert_equal(found: Cost, expected: Cost) -> None:
    assert found.graph is expected.graph
    for name in ("macs", "elementwise", "params", "known"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (found.reasons, found.stored_bytes) == (expected.reasons, expected.stored_bytes)
    for name in ("reads", "writes", "parameters"):
        one, other = getattr(found, name), getattr(expected, name)
        assert [id(each) for each in one.tensors] == [id(each) for each in other.tensors]
        for column in COLUMNS:
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column), f"{name}.{column}")


@pytest.mark.parametrize("some", [False, True], ids=["all layers", "one layer"])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "int4"])
def test_other_types_are_counted_to_the_same_columns(precision: str, some: bool) -> None:
    graph = branching()
    typed = at(graph, precision, some=some)
    assert_equal(count_with_dtypes(count(graph), typed), count(typed))


def test_conversions_between_types_are_operators_that_nobody_knew() -> None:
    graph = branching()
    assert differ_only_in_dtypes(graph, at(graph, "int8"))
    mixed = at(graph, "int8", some=True)
    assert not differ_only_in_dtypes(graph, mixed)
    assert len(count_with_dtypes(count(graph), mixed).macs) == len(graph.ops) + 2  # x, and the result of `a`


@pytest.mark.extras
@pytest.mark.parametrize(
    "name",
    [
        "mlperf_kws_fp32.tflite",
        "mlperf_resnet8_int8.tflite",
        "mp_hand_landmark_full.tflite",
        "tflm_mnist_lstm_int8.tflite",
        "tflm_person_detect_vela.tflite",
    ],
)
def test_real_files_at_other_types_are_the_same_both_ways(shared: Path, name: str) -> None:
    pytest.importorskip("ai_edge_litert")
    graph = sizeup.load(shared / "models" / name)
    cost = count(graph)
    merges: Any = runtime("ort").fusions
    ran = execution_of(cost, None, merges)
    for precision in ("fp32", "fp16", "int8", "int4"):
        typed = at(graph, precision)
        known, fresh = count_with_dtypes(cost, typed), count(typed)
        assert_equal(known, fresh)
        ran = execution_of(known, None, merges, like=ran)
        alone = execution_of(fresh, None, merges)
        assert ran.work.names == alone.work.names
        sizes = ("length", "columns", "rows", "count")
        for column in ("class_index", "macs", "read", "written", "weights", *sizes):
            np.testing.assert_array_equal(getattr(ran.work, column), getattr(alone.work, column), column)
        np.testing.assert_array_equal(ran.main_op, alone.main_op)
