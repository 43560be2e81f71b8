"""Numbers on the grids of narrower types, against torch's fake quantization and ONNX Runtime's kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from sizeup.dtypes import DTYPES
from sizeup.errors import SizeupError
from sizeup.formats.simulated_rounding import Rounding, TensorStatistics, round_values, sample_stride
from sizeup.formats.torch.simulated_quantization import round_tensor
from sizeup.mixed_precision.simulation import Clipping, check_dtype, rounded_weight, value_rounding

Floats = NDArray[np.float32]
CLIPPINGS: tuple[Clipping, ...] = ("range", "error")
BITS = {"int2": 2, "int4": 4, "int8": 8, "int16": 16}


def numbers(seed: int = 0, low: float = -3, high: float = 7, count: int = 20_000) -> Floats:
    return np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)


def seen(values: Floats) -> TensorStatistics:
    return TensorStatistics(float(values.min()), float(values.max()), values)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", list(BITS))
def test_activations_are_those_of_torch(name: str, symmetric: bool) -> None:
    values = numbers()
    steps = 2 ** BITS[name]
    rounding = value_rounding(seen(values), DTYPES[name], symmetric, "range")
    # The grid by hand: from the minimum to the maximum in 2**bits - 1 steps, or symmetric around zero.
    extent = max(abs(float(values.min())), float(values.max()))
    width = float(values.max()) - float(values.min())
    scale = extent / (steps // 2 - 1) if symmetric else width / (steps - 1)
    point = 0 if symmetric else round(-steps // 2 - float(values.min()) / scale)
    assert rounding.zero_point == point
    assert float(rounding.scale) == pytest.approx(scale, rel=1e-6)
    theirs = torch.fake_quantize_per_tensor_affine(
        torch.from_numpy(values), float(rounding.scale), point, -steps // 2, steps // 2 - 1
    ).numpy()
    # Torch multiplies by the inverse of the step: a number in the middle of two may go the other way.
    differing = round_values(values, rounding) != theirs
    assert np.abs(round_values(values, rounding) - theirs)[differing].max(initial=0) <= 1.01 * float(
        rounding.scale
    )
    assert differing.mean() < 0.002


@pytest.mark.parametrize("name", ["int2", "int4", "int8"])
def test_weights_have_a_step_for_each_channel_as_torch_has(name: str) -> None:
    weight = np.random.default_rng(1).normal(size=(6, 5, 3, 3)).astype(np.float32)
    weight[2] *= 100
    weight[4] = 0
    most = 2 ** (BITS[name] - 1) - 1
    scale = np.abs(weight).max(axis=(1, 2, 3)) / most
    scale[4] = 1
    theirs = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(weight), torch.from_numpy(scale), torch.zeros(6, dtype=torch.int32), 0, -most, most
    )
    rounding = rounded_weight(weight, DTYPES[name], 0, "range")
    np.testing.assert_allclose(rounding, theirs.numpy(), rtol=1e-6)
    assert max(len(np.unique(channel)) for channel in rounding) <= 2 * most + 1


def in_onnx_runtime(values: Floats, scale: float, point: int) -> Floats:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, values.shape) for name in "xy"]
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [scale]),
        helper.make_tensor("z", TensorProto.INT8, [], [point]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rounding: Floats = session.run(None, {"x": values})[0]
    return rounding


@pytest.mark.parametrize("symmetric", [False, True])
def test_at_int8_every_bit_is_that_of_onnx_runtime(symmetric: bool) -> None:
    # Beyond the range that was seen too, and in the middle between two numbers of the grid.
    grid = value_rounding(seen(numbers()), DTYPES["int8"], symmetric, "range")
    middles = (np.arange(-300, 300) + np.float32(0.5)) * np.float32(grid.scale)
    values = np.concatenate([numbers(2, -10, 20), middles.astype(np.float32)])
    rounding = round_values(values, grid)
    assert rounding.tobytes() == in_onnx_runtime(values, float(grid.scale), grid.zero_point).tobytes()
    assert len(np.unique(rounding)) == 256


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int2", "int4", "int8", "int16"])
def test_torch_and_numpy_round_alike(name: str) -> None:
    values = np.concatenate([numbers(3, -8, 9), np.array([0, 1e-7, 7e4, -7e4, 1e38], np.float32)])
    grid = value_rounding(seen(numbers()), DTYPES[name], False, "range")
    assert (
        round_values(values, grid).tobytes() == round_tensor(torch.from_numpy(values), grid).numpy().tobytes()
    )


def test_what_half_precision_cannot_hold_becomes_infinite() -> None:
    rounding = round_values(np.array([65504, 1e6, -1e6], np.float32), Rounding(DTYPES["float16"]))
    assert rounding.tolist() == [65504, np.inf, -np.inf]


def test_zero_stays_zero_on_every_grid() -> None:
    for low, high in ((2.0, 9.0), (-9.0, -2.0), (-1.0, 3.0), (0.0, 0.0)):
        for name in BITS:
            grid = value_rounding(seen(np.array([low, high], np.float32)), DTYPES[name], False, "range")
            assert round_values(np.zeros(1, np.float32), grid).tolist() == [0.0]


def test_cutting_off_makes_the_error_less_and_never_more() -> None:
    values = np.random.default_rng(4).normal(size=20_000).astype(np.float32)
    for name, least_gain in (("int2", 2.0), ("int4", 1.2), ("int8", 1.0)):
        error = {}
        for clipping in CLIPPINGS:
            grid = value_rounding(seen(values), DTYPES[name], False, clipping)
            error[clipping] = float(np.square(round_values(values, grid) - values).sum())
        assert error["error"] * least_gain <= error["range"]
        weight = values.reshape(40, 500)
        wide = rounded_weight(weight, DTYPES[name], 0, "range")
        tight = rounded_weight(weight, DTYPES[name], 0, "error")
        assert (np.square(tight - weight).sum(1) <= np.square(wide - weight).sum(1)).all()


def test_a_sample_falls_on_every_row_and_column() -> None:
    for shape in ((64, 8, 8, 8), (1, 3, 224, 224), (64, 1024), (7,)):
        elements = int(np.prod(shape))
        picked = np.arange(elements)[:: sample_stride(elements)]
        for place in np.unravel_index(picked, shape)[1:]:
            assert len(np.unique(place)) == min(place.max() + 1, len(picked)) == place.max() + 1
        assert len(picked) <= 65536


def test_types_that_cannot_be_simulated_are_refused() -> None:
    for name in ("float8_e4m3fn", "int32", "uint8", "int1"):
        with pytest.raises(SizeupError, match="cannot be simulated"):
            check_dtype(DTYPES[name])
    with pytest.raises(SizeupError, match="not finite"):
        value_rounding(TensorStatistics(0.0, float("inf"), np.zeros(1)), DTYPES["int8"], False, "range")
