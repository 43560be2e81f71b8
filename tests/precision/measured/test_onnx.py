"""ONNX models in ONNX Runtime: the same losses as the module that they were exported from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from formats.onnx.exporting import by_tracing
from precision import digits
from sizeup.errors import LoadError, RunFailed, SizeupError
from sizeup.mixed_precision import Bench, MeasurementOptions, SensitivityTable, Simulation, bench, sensitivity
from sizeup.runtimes.process import Server

SAMPLES = 200


@cache
def exported(name: str) -> onnx.ModelProto:
    _, test = digits.split()
    images = torch.from_numpy(test.images[:2])
    return by_tracing(digits.folded(name), (images,), input_names=["x"], dynamic_axes={"x": {0: "batch"}})


def measured(source: Any, options: MeasurementOptions) -> SensitivityTable:
    train, test = digits.split()
    return sensitivity(
        source,
        test.images[:SAMPLES],
        test.labels[:SAMPLES],
        calibration=train.images[:128],
        options=options,
        cache=False,
    )


@pytest.mark.parametrize(
    ("name", "simulation"),
    [
        ("convolutional", Simulation()),
        ("convolutional", Simulation(symmetric=True)),
        ("convolutional", Simulation(clipping="error")),
        ("residual", Simulation()),
    ],
)
def test_both_runtimes_measure_the_same_losses(name: str, simulation: Simulation) -> None:
    options = MeasurementOptions(simulation, batch=128)  # all of the calibration data at once
    ours, theirs = measured(digits.folded(name), options), measured(exported(name), options)
    assert theirs.baseline.accuracy == ours.baseline.accuracy
    pairs = [(one.losses, other.losses) for one, other in zip(ours.rows, theirs.rows, strict=True)]
    pairs += [(ours.uniform[name], theirs.uniform[name]) for name in ours.uniform]
    for one, other in pairs:
        # A sum whose last bit differs falls on the next number of a grid now and then.
        assert other.sqnr_db == pytest.approx(one.sqnr_db, abs=0.2)
        assert other.kl == pytest.approx(one.kl, rel=0.02, abs=1e-6)
        assert other.accuracy == pytest.approx(one.accuracy, abs=1.1 / SAMPLES)


def test_a_file_that_takes_one_size_of_batch_gets_it(tmp_path: Path) -> None:
    network = digits.trained()
    _, test = digits.split()
    path = tmp_path / "digits.onnx"
    onnx.save(by_tracing(network, (torch.from_numpy(test.images[:16]),)), path)
    free = Bench(network, test.images[:40], cache=False, options=MeasurementOptions(batch=16))
    with bench(path, test.images[:40], cache=False) as fixed:
        chosen = {"features.3": "int4", "hidden": "int8"}
        assert fixed.outputs(chosen).shape == (40, 10)
        np.testing.assert_allclose(fixed.outputs(chosen), free.outputs(chosen), atol=1e-4)


def by_hand(
    inputs: Sequence[tuple[str, int]], nodes: list[Any], constants: dict[str, Any], **options: Any
) -> Any:
    ends = [helper.make_tensor_value_info(name, kind, ["n", 4]) for name, kind in inputs]
    opened = [helper.make_tensor_value_info("y", options.get("made", TensorProto.FLOAT), None)]
    kept = [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "by_hand", ends, opened, kept)
    opset = helper.make_opsetid("", options.get("opset", 13))
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(3, 4)).astype(np.float32)
DATA = RANDOM.normal(size=(50, 4)).astype(np.float32)


def ternary(weight: Any) -> Any:
    """By output channel, the rows of the weight: each number to the nearest of -most, 0 and most."""
    most = np.abs(weight).max(axis=1, keepdims=True)
    return np.sign(weight) * (np.abs(weight) > most / 2) * most


@pytest.mark.parametrize(
    ("nodes", "weight"),
    [
        ([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], WEIGHT),
        ([helper.make_node("Gemm", ["x", "w"], ["y"])], WEIGHT.T),
        ([helper.make_node("MatMul", ["x", "w"], ["y"])], WEIGHT.T),
        (
            [
                helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]),
                helper.make_node("MatMul", ["x", "turned"], ["y"]),
            ],
            WEIGHT,
        ),
    ],
)
def test_every_output_channel_has_its_own_step(nodes: list[Any], weight: Any) -> None:
    model = by_hand([("x", TensorProto.FLOAT)], nodes, {"w": weight})
    options = MeasurementOptions(Simulation(activations="kept"), meaning="values")
    with bench(model, DATA, options=options, cache=False) as opened:
        (layer,) = opened.layers
        np.testing.assert_allclose(opened.outputs({layer.op: "int2"}), DATA @ ternary(WEIGHT).T, atol=1e-5)
        assert opened.measure({layer.op: "int2"}).sqnr_db > 0


def test_constants_with_several_names_are_rounded_under_each() -> None:
    nodes = [
        helper.make_node("Identity", ["w"], ["same"]),
        helper.make_node("MatMul", ["x", "w"], ["one"]),
        helper.make_node("MatMul", ["x", "same"], ["two"]),
        helper.make_node("Sub", ["one", "two"], ["y"]),
    ]
    model = by_hand([("x", TensorProto.FLOAT)], nodes, {"w": WEIGHT.T})
    options = MeasurementOptions(Simulation(activations="kept"), meaning="values")
    difference = DATA @ (ternary(WEIGHT) - WEIGHT).T
    with bench(model, DATA, options=options, cache=False) as opened:
        first, second = opened.layers
        np.testing.assert_allclose(opened.outputs({first.op: "int2"}), difference, atol=1e-5)
        np.testing.assert_allclose(opened.outputs({second.op: "int2"}), -difference, atol=1e-5)
        assert not opened.outputs({first.op: "int2", second.op: "int2"}).any()


def on_grid(values: Any, seen: Any) -> Any:
    """To one of the 16 numbers between the least and the greatest that were seen."""
    low, high = min(seen.min(), 0), max(seen.max(), 0)
    step = (high - low) / 15
    zero = np.rint(-low / step)
    return (np.clip(np.rint(values / step) + zero, 0, 15) - zero) * step


def test_a_sum_is_rounded_once_where_it_leaves_its_rectifier() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["one"]),
        helper.make_node("Add", ["one", "x"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    weight = np.random.default_rng(1).integers(-7, 8, (4, 4)).astype(np.float32)
    weight[0] = 7  # steps of one in every column, so that int4 holds it as it is
    model = by_hand([("x", TensorProto.FLOAT)], nodes, {"w": weight})
    with bench(model, DATA, options=MeasurementOptions(meaning="values"), cache=False) as opened:
        result = opened.outputs({"*": "int4"})
    read = on_grid(DATA, DATA)
    product = on_grid(read @ weight, DATA @ weight)
    expected = on_grid(np.maximum(product + read, 0), np.maximum(DATA @ weight + DATA, 0))
    assert len(np.unique(result)) > 5
    assert np.isclose(result, expected, atol=1e-4).mean() > 0.99
    twice = on_grid(np.maximum(on_grid(product + read, DATA @ weight + DATA), 0), expected)
    assert np.isclose(result, twice, atol=1e-4).mean() < 0.9


def test_inputs_are_known_by_name_in_any_order() -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Add", ["x", "mean"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["y"]),
    ]
    table = RANDOM.normal(size=(9, 4)).astype(np.float32)
    inputs = [("ids", TensorProto.INT64), ("x", TensorProto.FLOAT)]
    model = by_hand(inputs, nodes, {"table": table, "w": WEIGHT.T})
    ids = RANDOM.integers(0, 9, (50, 4))
    data = {"x": DATA.astype(np.float64), "ids": ids}
    options = MeasurementOptions(meaning="values")
    with bench(model, data, options=options, cache=False) as opened:
        assert [layer.kind for layer in opened.layers] == ["gather", "matmul"]
        np.testing.assert_allclose(opened.outputs({}), (DATA + table[ids].mean(1)) @ WEIGHT.T, atol=1e-5)
        result = opened.sensitivity(["bf16", "int8", "int4"])
        assert all(5 < row.sqnr_db < 70 for row in result.rows)
    with pytest.raises(RunFailed, match="the data has the inputs x, z, but the model has ids, x"):
        Bench(model, {"x": DATA, "z": ids}, options=options, cache=False)


def test_models_at_half_precision_are_rounded_too() -> None:
    half = WEIGHT.T.astype(np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = by_hand([("x", TensorProto.FLOAT16)], nodes, {"w": half}, made=TensorProto.FLOAT16)
    with bench(model, DATA, options=MeasurementOptions(meaning="values"), cache=False) as opened:
        (layer,) = opened.layers
        result = [opened.measure({layer.op: name}).sqnr_db for name in ("int8", "int4", "int2")]
        assert 35 < result[0] < 55
        assert result == sorted(result, reverse=True)


def test_what_cannot_be_changed_is_told() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    old = by_hand([("x", TensorProto.FLOAT)], nodes, {"w": WEIGHT.T}, opset=9)
    with pytest.raises(LoadError, match="the model uses opset 9"):
        Bench(old, DATA, cache=False)
    with pytest.raises(SizeupError, match="cannot be read with its weights"):
        Bench(b"no model", DATA, cache=False)


def test_a_runtime_answers_again_after_it_refused_a_model() -> None:
    model = by_hand(
        [("x", TensorProto.FLOAT)], [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": WEIGHT.T}
    )
    server = Server("ort")
    try:
        samples = server.store_samples([[DATA[:2]], [DATA[2:]]])
        with pytest.raises(RunFailed, match="ONNX Runtime cannot run it"):
            server.run(b"no model", samples)
        outputs = server.run(model.SerializeToString(), samples)
        assert [each.shape for (each,) in outputs] == [(2, 3), (48, 3)]
        np.testing.assert_allclose(outputs[1][0], DATA[2:] @ WEIGHT.T, atol=1e-5)
    finally:
        server.close()


def test_a_runtime_that_ended_is_told() -> None:
    server = Server("ort", timeout=0.01)
    try:
        with pytest.raises(RunFailed, match=r"took longer than 0\.01 s"):
            server.run(b"", server.store_samples([[DATA]]))
        with pytest.raises(RunFailed, match="ONNX Runtime"):
            server.run(b"", server.store_samples([[DATA]]))
    finally:
        server.close()
