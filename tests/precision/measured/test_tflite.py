"""TFLite files in LiteRT: rounded numbers against the same arithmetic by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

import sizeup
from sizeup.errors import RunFailed
from sizeup.mixed_precision import MeasurementOptions, Simulation, bench

pytestmark = pytest.mark.extras

Array: TypeAlias = np.ndarray[Any, Any]


class Layer(NamedTuple):
    """A file of one fully connected layer of 250 numbers to 12, and samples for it."""

    path: Path
    weight: Array
    bias: Array
    samples: Array


@pytest.fixture
def layer(shared: Path) -> Layer:
    path = shared / "boards/generated/fc_f32_1x250_co12.tflite"
    graph = sizeup.load(path)
    constants = [graph.tensors[each].data for each in graph.ops[0].inputs[1:3]]
    weight, bias = (
        np.asarray(each.read()) for each in constants if each is not None and each.read is not None
    )
    samples = np.random.default_rng(0).normal(size=(16, 250)).astype(np.float32)
    return Layer(path, weight, bias, samples)


def on_grid(numbers: Array, low: float, high: float, bits: int) -> Array:
    """Affine integers over a range that holds zero."""
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    scale = (max(high, 0) - min(low, 0)) / (most - least)
    point = round(least - min(low, 0) / scale)
    return np.asarray((np.clip(np.rint(numbers / scale) + point, least, most) - point) * scale)


def symmetric(weight: Array, bits: int) -> Array:
    """Integers without the lowest, a step per row."""
    step = np.abs(weight).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.asarray(np.rint(weight / step) * step)


@pytest.mark.parametrize(("precision", "bits"), [("int8", 8), ("int4", 4)])
def test_a_layer_computes_with_the_rounded_numbers(layer: Layer, precision: str, bits: int) -> None:
    x = layer.samples
    with bench(layer.path, x, cache=False) as opened:
        true = opened.outputs({})
        outputs = opened.outputs({opened.layers[0].op: precision})
    np.testing.assert_allclose(true, x @ layer.weight.T + layer.bias, rtol=1e-3, atol=1e-4)
    inputs = on_grid(x, x.min(), x.max(), bits)
    expected = on_grid(inputs @ symmetric(layer.weight, bits).T + layer.bias, true.min(), true.max(), bits)
    step = (true.max() - true.min()) / (2**bits - 1)
    # What lies halfway between two numbers of a grid may go to either.
    assert np.abs(outputs - expected).max() <= 1.01 * step
    assert (np.abs(outputs - expected) > step / 2).mean() < 0.02
    assert np.abs(outputs - true).mean() > step / 10


def test_halves_are_cast_for_real(layer: Layer) -> None:
    with bench(layer.path, layer.samples, cache=False) as opened:
        outputs = opened.outputs({opened.layers[0].op: "fp16"})
        true = opened.outputs({})
    assert (outputs == outputs.astype(np.float16)).all()
    np.testing.assert_allclose(outputs, true, rtol=0.02, atol=0.02)


def test_weights_alone_leave_activations_as_they_are(layer: Layer) -> None:
    options = MeasurementOptions(Simulation(activations="fp32"))
    with bench(layer.path, layer.samples, options=options, cache=False) as opened:
        outputs = opened.outputs({opened.layers[0].op: "int4"})
    expected = layer.samples @ symmetric(layer.weight, 4).T + layer.bias
    np.testing.assert_allclose(outputs, expected, rtol=1e-3, atol=1e-3)


def test_samples_of_another_shape_are_refused(layer: Layer) -> None:
    with (
        pytest.raises(RunFailed, match=r"samples have the shape .*, but input"),
        bench(layer.path, np.zeros((4, 7))),
    ):
        pass
