"""Fitting rates to measured networks: accuracy, errors and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup.calibration import fit_calibration, network_measurement
from sizeup.calibration.regression import NetworkMeasurement, kernel_measurements
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.latency import Rate, Rates, execution_of, seconds
from sizeup.runtimes import Kernel, Profile

pytest.importorskip("scipy")

FLOAT = dtype("float32")
TRUE = Rates(Rate(2e-11, 4e-11, 3e-6), {}, 1e-5)


def chain(size: int, layers: int, activations: int = 1) -> Graph:
    """Linear layers of one size, each followed by ReLUs."""
    builder = GraphBuilder("chain")
    value = builder.input("x", (8, size), FLOAT)
    for index in range(layers):
        weights = builder.tensor(f"w{index}", (size, size), FLOAT, Constant("parameter"))
        output = builder.tensor(f"linear{index}", (8, size), FLOAT)
        builder.op(
            "matmul", [value, weights], [output], {"contracted": (1,)}, source="MatMul", name=f"linear{index}"
        )
        value = output
        for each in range(activations):
            name = f"relu{index}" + f" {each}" * (each > 0)
            output, value = value, builder.tensor(name, (8, size), FLOAT)
            builder.op("relu", [output], [value], {}, source="Relu", name=name)
    builder.outputs.append(value)
    return builder.freeze()


def measured(number: int, rates: Rates = TRUE, noise: float = 0.0) -> list[NetworkMeasurement]:
    """Networks whose latencies follow known rates, times a random factor."""
    points, random = [], np.random.default_rng(0)
    for index in range(number):
        cost = count(chain(16 << (index % 6), 1 + index % 4, 1 + index % 5))
        taken = float(seconds(rates, execution_of(cost).work)[0]) * float(np.exp(random.normal(0, noise)))
        points.append(network_measurement(f"network {index}", cost, taken, ()))
    return points


def test_rates_are_recovered_and_the_error_is_that_of_networks_left_out() -> None:
    fit = fit_calibration(measured(24))
    assert fit.mape < 0.01
    assert fit.rates.pooled.mac == pytest.approx(TRUE.pooled.mac, rel=0.1)
    assert fit.rates.pooled.launch == pytest.approx(TRUE.pooled.launch, rel=0.1)
    assert (fit.measurements, len(fit.held_out_predictions), fit.held_out) == (24, 24, "network")
    assert fit.precisions == ("fp32",)


def test_a_wild_measurement_shows_in_the_error_and_in_the_range() -> None:
    points = measured(24)
    wild = NetworkMeasurement(points[3].name, "wild", points[3].work, 5 * points[3].seconds)
    fit = fit_calibration([*points[:3], wild, *points[4:]])
    assert max(fit.held_out_predictions, key=lambda each: abs(each.error)).name == "network 3"
    assert fit.interval.high > np.log(4)
    assert fit.mape > 0.02


def test_five_are_the_least_and_four_are_refused() -> None:
    assert fit_calibration(measured(5)).rates.classes == {}
    with pytest.raises(SizeupError, match="4 measurements cannot calibrate a target: at least 5"):
        fit_calibration(measured(4))


def test_rates_by_class_are_chosen_only_if_they_predict_held_out_networks_better() -> None:
    slow = Rates(TRUE.pooled, {"linear": TRUE.pooled, "activation": Rate(0.0, 2e-8, 1e-6)}, TRUE.run)
    by_class = fit_calibration(measured(36, slow, noise=0.02))
    assert by_class.rates.classes["activation"].byte > 20 * by_class.rates.classes["linear"].byte
    assert by_class.mape < 0.05
    assert fit_calibration(measured(36, noise=0.05)).rates.classes == {}
    assert fit_calibration(measured(120, noise=0.05)).rates.classes == {}  # however many there are
    assert fit_calibration(measured(19, slow)).rates.classes == {}  # too few to choose


@pytest.mark.parametrize("taken", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_time_that_no_network_takes_is_refused(taken: float) -> None:
    with pytest.raises(SizeupError, match="s is out of range"):
        network_measurement("network", count(chain(16, 1)), taken, ())


def test_probes_are_in_every_fit_and_never_judged() -> None:
    points = [
        NetworkMeasurement(each.name, each.family, each.work, each.seconds, is_probe=index % 2 == 0)
        for index, each in enumerate(measured(24))
    ]
    fit = fit_calibration(points)
    assert len(fit.held_out_predictions) == 12
    assert {"linear", "activation"} <= set(fit.rates.classes)


def profile(graph: Graph, names: bool = True) -> Profile:
    work = execution_of(count(graph)).work
    taken = seconds(TRUE, work)[0]
    each = [
        Kernel(op.name + "_nchwc" if names else "", op.source.upper(), float(taken) / len(graph.ops))
        for op in graph.ops
    ]
    return Profile(tuple(each), float(taken))


@pytest.mark.parametrize("names", [True, False])
def test_kernels_of_a_profile_are_found_by_name_or_by_their_order(names: bool) -> None:
    graph = chain(64, 6)
    points = kernel_measurements("chain", count(graph), profile(graph, names), ())
    assert len(points) == 12
    assert {each.work.names for each in points} == {("linear",), ("activation",)}
    assert fit_calibration(points).rates.run == 0


def test_a_profile_of_another_model_is_refused() -> None:
    other = Profile((Kernel("conv_1", "Conv", 0.01), Kernel("relu0", "Relu", 0.001)))
    with pytest.raises(SizeupError, match="the profile is not of chain: only 9 % of its time"):
        kernel_measurements("chain", count(chain(64, 2)), other, ())
