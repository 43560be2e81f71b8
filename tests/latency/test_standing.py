"""The standing of targets, compared with the estimates that they give."""

from __future__ import annotations

import pytest

from networks import _conv
from sizeup.cost import Cost, count
from sizeup.dtypes import dtype, precision
from sizeup.errors import TargetError
from sizeup.graph import GraphBuilder
from sizeup.latency import estimate, standing_of, standings_of
from sizeup.targets import LATENCY_STANDINGS, Standing, best_of, device, devices, target

TARGETS = [
    "rpi5/ncnn",
    "rpi5/ort",
    "rpi-zero-w/ncnn",
    "rtx-3090/torch-eager",
    "stm32f746/tflm-cmsis-nn",
    "rx65n/tflm",
    "nrf52840/tflm-cmsis-nn",
    "rp2350/tflm-cmsis-nn",
    "core-ultra-7-155h/openvino-gpu",
    "galaxy-s25/litert-gpu",
    "snapdragon-x-elite/qnn",
    "apple-a16/coreml",
    "jetson-xavier-nx/tensorrt",
]


def large_network() -> Cost:
    """A convolution that takes much longer than launches and other overhead, so that no basis is refused."""
    builder = GraphBuilder("large", "onnx")
    data = builder.input("x", (1, 2048, 128, 128), dtype("float32"))
    builder.outputs.append(_conv(builder, data, "conv", (2048, 2048, 3, 3), (1, 2048, 128, 128)))
    return count(builder.freeze())


def shown_basis(cost: Cost, name: str, precision_name: str) -> str:
    """The standing that an estimate shows: its basis, and whether it has an interval."""
    result = estimate(cost, target(name), precision(precision_name))
    if result.basis != "roofline":
        return result.basis
    return "data sheet only" if result.low is None else "slowdown"


@pytest.mark.parametrize("name", TARGETS)
def test_an_estimate_at_each_precision_has_the_basis_of_the_standing(name: str) -> None:
    cost = large_network()
    for precision_name, expected in standing_of(target(name)).by_precision.items():
        if expected == "unknown":
            with pytest.raises(
                TargetError, match=r"nor its memory bandwidth|no operator has a known latency"
            ):
                shown_basis(cost, name, precision_name)
        # Instructions are counted for .tflite files alone, see test_instructions.py.
        elif expected != "instructions":
            assert shown_basis(cost, name, precision_name) == expected, precision_name


def test_a_standing_lists_its_precisions_and_runtimes() -> None:
    standing = Standing("a/b", {"fp32": "slowdown", "int8": "calibrated", "int4": "slowdown"}, "", False)
    assert (standing.runtime, standing.best) == ("b", "calibrated")
    assert list(standing.precisions.items()) == [("calibrated", ("int8",)), ("slowdown", ("fp32", "int4"))]
    other = Standing("a/c", {"fp32": "data sheet only"}, "", True)
    assert best_of([other, standing]) == ("calibrated", ("b",))
    assert best_of([]) == ("unknown", ())
    assert Standing("a/d", {}, "", False).best == "unknown"


def test_every_target_has_a_standing() -> None:
    standings = [standing for each in devices() for standing in standings_of(each)]
    assert len(standings) > 1000
    assert {name for each in standings for name in each.by_precision.values()} == set(LATENCY_STANDINGS)
    assert [each.is_default for each in standings_of(device("rpi5"))].count(True) == 1
    assert standing_of(target("rpi5/ncnn")).by_precision["fp32"] == "calibrated"
    assert standing_of(target("nrf52840/tflm-cmsis-nn")).by_precision["int8"] == "instructions"


def test_an_estimate_holds_the_standing_of_its_target() -> None:
    result = estimate(large_network(), target("rpi5/ort"))
    assert result.standing == standing_of(target("rpi5/ort"))
    assert result.standing.verified == device("rpi5").verified


def test_a_lower_bound_states_its_reason() -> None:
    """No slowdown was measured with ncnn on several servers, and none on other processors applies to them."""
    cost, name = large_network(), "xeon-gold-6240/ncnn"
    assert standing_of(target(name)).by_precision["fp32"] == "data sheet only"
    result = estimate(cost, target(name))
    assert result.low is None
    assert "lower bound: the slowdown against the data sheet was not measured" in result.notes
