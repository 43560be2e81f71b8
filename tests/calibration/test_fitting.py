"""Fits to measured networks: what is recovered, what is refused, and how errors are stated."""

from __future__ import annotations

import numpy as np
import pytest

from sizeup.calibration import fitted, point
from sizeup.calibration.fitting import Point, parts
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.latency import Rate, Rates, executed, seconds
from sizeup.runtimes import Kernel, Profile

pytest.importorskip("scipy")

FLOAT = dtype("float32")
TRUE = Rates(Rate(2e-11, 4e-11, 3e-6), {}, 1e-5)


def chain(size: int, layers: int) -> Graph:
    """Linear layers of one size, each with a ReLU of its own."""
    builder = GraphBuilder("chain")
    value = builder.input("x", (8, size), FLOAT)
    for index in range(layers):
        weights = builder.tensor(f"w{index}", (size, size), FLOAT, Constant("parameter"))
        made = builder.tensor(f"linear{index}", (8, size), FLOAT)
        builder.op(
            "matmul", [value, weights], [made], {"contracted": (1,)}, source="MatMul", name=f"linear{index}"
        )
        value = builder.tensor(f"relu{index}", (8, size), FLOAT)
        builder.op("relu", [made], [value], {}, source="Relu", name=f"relu{index}")
    builder.outputs.append(value)
    return builder.freeze()


def measured(number: int) -> list[Point]:
    """Networks whose times follow rates that are known."""
    found = []
    for index in range(number):
        cost = count(chain(16 << (index % 6), 1 + index % 4))
        taken = float(seconds(TRUE, executed(cost).work)[0])
        found.append(point(f"network {index}", cost, taken, ()))
    return found


def test_rates_are_recovered_and_the_error_is_that_of_networks_left_out() -> None:
    found = fitted(measured(24))
    assert found.error < 0.01
    assert found.rates.pooled.mac == pytest.approx(TRUE.pooled.mac, rel=0.1)
    assert found.rates.pooled.launch == pytest.approx(TRUE.pooled.launch, rel=0.1)
    assert (found.measurements, len(found.judged), found.held_out) == (24, 24, "network")
    assert found.precisions == ("fp32",)


def test_a_wild_measurement_shows_in_the_error_and_in_the_range() -> None:
    points = measured(24)
    wild = Point(points[3].name, "wild", points[3].work, 5 * points[3].seconds)
    found = fitted([*points[:3], wild, *points[4:]])
    assert max(found.judged, key=lambda each: abs(each.error)).name == "network 3"
    assert found.band.high > np.log(4)
    assert found.error > 0.02


def test_five_are_the_least_and_four_are_refused() -> None:
    assert fitted(measured(5)).rates.classes == {}
    with pytest.raises(SizeupError, match="4 measurements cannot calibrate a target: at least 5"):
        fitted(measured(4))


@pytest.mark.parametrize("taken", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_time_that_no_network_takes_is_refused(taken: float) -> None:
    with pytest.raises(SizeupError, match="is no time that a network takes"):
        point("network", count(chain(16, 1)), taken, ())


def test_probes_are_in_every_fit_and_never_judged() -> None:
    points = [
        Point(each.name, each.family, each.work, each.seconds, is_probe=index % 2 == 0)
        for index, each in enumerate(measured(24))
    ]
    found = fitted(points)
    assert len(found.judged) == 12
    assert {"linear", "activation"} <= set(found.rates.classes)


def profile(graph: Graph, names: bool = True) -> Profile:
    work = executed(count(graph)).work
    taken = seconds(TRUE, work)[0]
    each = [
        Kernel(op.name + "_nchwc" if names else "", op.source.upper(), float(taken) / len(graph.ops))
        for op in graph.ops
    ]
    return Profile(tuple(each), float(taken))


@pytest.mark.parametrize("names", [True, False])
def test_kernels_of_a_profile_are_found_by_name_or_by_their_order(names: bool) -> None:
    graph = chain(64, 6)
    found = parts("chain", count(graph), profile(graph, names), ())
    assert len(found) == 12
    assert {each.work.names for each in found} == {("linear",), ("activation",)}
    assert fitted(found).rates.run == 0


def test_a_profile_of_another_model_is_refused() -> None:
    other = Profile((Kernel("conv_1", "Conv", 0.01), Kernel("relu0", "Relu", 0.001)))
    with pytest.raises(SizeupError, match="the profile is not of chain: 9 % of its time"):
        parts("chain", count(chain(64, 2)), other, ())
