"""bf16 uses the calibration at fp16 if the data sheet has the same peak for both."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sizeup
from sizeup.dtypes import DTYPES
from sizeup.graph import Constant, GraphBuilder
from sizeup.latency import from_columns
from sizeup.latency.prediction import is_covered
from sizeup.targets import Target, current_catalog

TARGETS = ["rtx-3090/torch-eager", "a100-80gb-sxm/vllm", "h100-sxm/vllm"]
BORROWED = "; rates and interval for bf16 are those measured at fp16, which has the same peak"


def network(dtype: str) -> sizeup.Graph:
    """A batch of 4,096 rows through one fully connected layer and an activation."""
    builder, kind = GraphBuilder("network", "torch"), DTYPES[dtype]
    x = builder.input("x", (4096, 8192), kind)
    weight = builder.tensor("w", (8192, 8192), kind, Constant("parameter"))
    y, z = builder.tensor("y", (4096, 8192), kind), builder.tensor("z", (4096, 8192), kind)
    builder.op("matmul", [x, weight], [y], {"contracted": (1,)}, name="product", source="aten.linear")
    builder.op("relu", [y], [z], {}, name="relu")
    builder.outputs.append(z)
    return builder.freeze()


@pytest.mark.parametrize("name", TARGETS)
def test_bf16_has_latency_and_interval_of_fp16(name: str) -> None:
    graph = network("float32")
    half = sizeup.estimate(graph, name, precision="fp16")
    brain = sizeup.estimate(graph, name, precision="bf16")
    stored = sizeup.estimate(network("bfloat16"), name)
    assert half.basis == brain.basis == stored.basis == "calibrated"
    assert brain.seconds == stored.seconds == half.seconds
    assert (brain.low, brain.high) == (half.low, half.high)
    assert brain.provenance == stored.provenance == half.provenance + BORROWED
    assert not any("covers only" in note for note in brain.notes)


def test_the_basis_can_be_requested() -> None:
    explicit = sizeup.estimate(network("float32"), TARGETS[0], precision="bf16", basis="calibrated")
    assert explicit.basis == "calibrated"


def without_equal_peak(target: Target) -> Target:
    """The target with half the peak at bf16."""
    (unit,) = target.device.units
    rates = {**unit.macs_per_second, "bf16": unit.macs_per_second["fp16"] / 2}
    return replace(target, device=replace(target.device, units=(replace(unit, macs_per_second=rates),)))


def test_another_peak_is_not_covered() -> None:
    target = without_equal_peak(sizeup.target(TARGETS[0]))
    estimate = sizeup.estimate(network("float32"), target, precision="bf16")
    assert estimate.basis == "roofline"
    assert f"the calibration of {TARGETS[0]} covers only fp16" in estimate.notes
    with pytest.raises(sizeup.TargetError, match="only fp16 was measured"):
        sizeup.estimate(network("float32"), target, precision="bf16", basis="calibrated")


@pytest.mark.parametrize("column", ["macs", "read"])
@pytest.mark.parametrize(("others", "expected"), [(1, True), (2, False)])
def test_a_calibration_covers_networks_with_99_percent_in_its_precisions(
    column: str, others: int, expected: bool
) -> None:
    """The share of their MACs, or of their bytes if they have no MACs."""
    work = from_columns(["conv.fp16", "conv"], 1, [0, 0], **{column: [100 - others, others]})
    calibration = current_catalog().calibration(sizeup.target(TARGETS[0]))
    assert calibration is not None
    assert is_covered(work, calibration).tolist() == [expected]


def test_only_measured_precisions_are_listed() -> None:
    target = sizeup.target(TARGETS[0])
    calibration = current_catalog().calibration(target)
    assert calibration is not None
    assert (calibration.precisions, calibration.covered_precisions) == (("fp16",), ("fp16", "bf16"))
    listed = {each.name: each for each in current_catalog().calibrations()}
    assert listed[target.name].covered_precisions == ("fp16",)


@pytest.mark.parametrize(
    "name",
    ["rpi5/ncnn", "threadripper-3970x/ncnn", "rtx-3090/ncnn-vulkan"],  # by dtype, and pooled
)
def test_ncnn_has_the_same_latency_at_fp32_and_fp16(name: str) -> None:
    """It computes both in fp16 if the device supports it, and was measured in that way."""
    graph = network("float32")
    single, half = (sizeup.estimate(graph, name, precision=precision) for precision in ("fp32", "fp16"))
    assert single.basis == half.basis == "calibrated"
    assert (half.low, half.seconds, half.high) == pytest.approx((single.low, single.seconds, single.high))
    alike = f"; the latency at fp16 is that measured at fp32: {name.partition('/')[2]} computes both in fp16"
    assert half.provenance.startswith(single.provenance + alike)
    assert sizeup.estimate(graph, name, precision="fp16", basis="calibrated").seconds == half.seconds


def test_other_runtimes_with_fp16_arithmetic_are_not_covered() -> None:
    target, ncnn = sizeup.target("rpi5/litert"), sizeup.target("rpi5/ncnn")
    calibration = current_catalog().calibration(ncnn)
    assert calibration is not None
    assert calibration.covered_precisions == ("fp32", "int8", "fp16")
    measured = replace(calibration, equal_precisions=())
    assert measured.with_equal_precisions(target).covered_precisions == ("fp32", "int8")
