"""One answer from three estimators: by hand from a target whose every number is known."""

from __future__ import annotations

import io
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are a separate package
import pytest
from rich.console import Console

import sizeup
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError, TargetError
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.latency import energy, estimate, from_columns, roofline_kernels, throughput, throughput_of
from sizeup.latency.prediction import latencies_of
from sizeup.latency.roofline import fastest_rate
from sizeup.render.console.report import render
from sizeup.targets import target

FLOAT = dtype("float32")
SHAPE = (1, 8, 4, 4)  # 128 numbers, 512 bytes
MACS = 8 * 128
SCHEMA: dict[str, Any] = json.loads((files("sizeup.render.data") / "schema.json").read_text())

TARGETS = """
[sources]
bench = "measured: by hand"

[[runtime]]
name = "plain"
title = "Plain"
units = ["cpu"]
dtypes = ["fp32", "int8"]
fuses = ["activation"]
source = "bench"

[[runtime]]
name = "started"
title = "With launches"
units = ["cpu"]
dtypes = ["fp32"]
overhead = "1 us"
source = "bench"

[[device]]
name = "slate"
title = "Slate"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain", "started"]
units = [{ name = "unit", family = "slates", peak = { fp32 = "2 MFLOPS", int8 = "8 MOPS" } }]
memories = [{ name = "RAM", role = "ram", size = "1 MiB", bandwidth = "1 MB/s" }]
power = { typical = "2 W", source = "bench" }

[[device]]
name = "silent"
title = "Silent"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain"]
units = [{ name = "unit" }]

[[device]]
name = "board"
title = "Board"
kind = "accelerator"
maker = "Nobody"
source = "bench"
runtimes = ["plain"]
units = [{ name = "unit", peak = { fp32 = "2 MFLOPS" } }]
power = { typical = "2 W", source = "bench" }

[[device]]
name = "half-known"
title = "Half known"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain"]
units = [{ name = "unit" }]
memories = [{ name = "RAM", role = "ram", size = "1 MiB", bandwidth = "1 MB/s" }]

[[slowdown]]
name = "slates/started"
compute = 2.0
traffic = 1.0
launch = 20e-6
low = 0.5
high = 1.5
measurements = 9
devices = 2
source = "bench"

[[slowdown]]
name = "slates/plain"
compute = 3.0
traffic = 2.0
launch = 0.0
low = 0.5
high = 2.0
measurements = 40
devices = 4
source = "bench"
"""

FIT = """
[[fit]]
name = "slate/plain"
precisions = ["fp32"]
measurements = 25
error = 0.08
held_out = "network"
version = "1.2"
threads = 2
note = "on a cold day"
source = "measured: by hand"
[fit.band]
low = -0.1
high = 0.2
unseen = 1.0
[fit.rates]
run = 1e-3
pooled = { mac = 1e-6, byte = 1e-7, launch = 1e-5 }
[fit.rates.classes]
conv_1x1 = { mac = 2e-6, byte = 0.0, launch = 3e-5 }

[[fit]]
name = "slate/started"
precisions = ["fp32"]
measurements = 3
error = 0.1
held_out = "network"
source = "measured: by hand"
band = { low = -0.1, high = 0.1 }
rates = { pooled = { mac = 1e-12, byte = 1e-12, launch = 0.0 } }
"""


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "targets"
    folder.mkdir()
    (folder / "slate.toml").write_text(TARGETS, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(folder))
    return folder


@pytest.fixture
def fitted(described: Path) -> Path:
    # A separate folder, because each is read once.
    folder = described.parent / "fits"
    folder.mkdir()
    (folder / "slate.toml").write_text(TARGETS + FIT, "utf-8")
    return folder


@pytest.fixture
def measured(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZEUP_TARGETS", str(fitted))


def chain(*, unknown: bool = False) -> Graph:
    """A convolution of 8 to 8 channels, its ReLU, and the sum of its result with the input."""
    builder = GraphBuilder("by hand")
    x = builder.input("x", SHAPE, FLOAT)
    w = builder.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    a, b, c, d = (builder.tensor(name, SHAPE, FLOAT) for name in "abcd")
    builder.op("conv", [x, w], [a], {"out_channels": 8, "kernel": (1, 1)})
    builder.op("relu", [a], [b])
    builder.op("add", [b, x], [c])
    if unknown:
        builder.op("riddle", [c], [d])
    builder.outputs.append(d if unknown else c)
    return builder.freeze()


CONV_BYTES, ADD_BYTES = 512 + 512 + 256, 3 * 512


@pytest.mark.usefixtures("described")
def test_each_kernel_takes_the_longer_of_arithmetic_and_traffic_after_its_launch() -> None:
    work = from_columns(["conv", "add", "tiny"], 1, [0] * 3, macs=[1e6, 0, 10], read=[4e3, 3e6, 10])
    kernels, is_whole, _ = roofline_kernels(work, target("slate/started"))
    assert kernels.compute.tolist() == pytest.approx([1, 0, 1e-5])
    assert kernels.traffic.tolist() == pytest.approx([4e-3, 3, 1e-5])
    assert kernels.seconds.tolist() == pytest.approx([1 + 1e-6, 3 + 1e-6, 1.1e-5], rel=1e-9)
    assert is_whole.all()


@pytest.mark.usefixtures("described")
def test_a_data_sheet_with_the_slowdown_of_such_units() -> None:
    result = estimate(count(chain()), target("slate"))
    # 1 MMAC/s and 1 MB/s by the data sheet.
    conv, add = 3e-6 * MACS + 2e-6 * CONV_BYTES, 2e-6 * ADD_BYTES
    assert result.basis == "roofline"
    expected = (conv + add, 0.5 * (conv + add), 2 * (conv + add))
    assert (result.seconds, result.low, result.high) == pytest.approx(expected)
    assert "with plain on 4 slates devices (40 networks): arithmetic x 3, traffic x 2" in result.provenance
    seconds, bounds = result.by_op()
    assert seconds.tolist() == pytest.approx([conv, 0, add])
    assert bounds == ("compute", None, "traffic")


def with_slowdown(folder: Path, monkeypatch: pytest.MonkeyPatch, compute: float) -> None:
    """A slowdown of arithmetic alone, as measured on processors whose weights stay in the caches."""
    folder = folder.parent / "slowdown"
    folder.mkdir()
    text = TARGETS.replace("compute = 3.0\ntraffic = 2.0", f"compute = {compute}\ntraffic = 0.0")
    (folder / "slate.toml").write_text(text, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(folder))


# 1 MMAC/s and 1 MB/s by the data sheet: traffic takes longer than arithmetic in both kernels.
LEAST = 1e-6 * (CONV_BYTES + ADD_BYTES)


@pytest.mark.parametrize(
    ("compute", "seconds", "low", "high", "reason"),
    [
        (6, 6e-6 * MACS, 3e-6 * MACS, 12e-6 * MACS, ""),
        (3, 3e-6 * MACS, 1.5e-6 * MACS, 6e-6 * MACS, ""),
        (2, LEAST, LEAST, 4e-6 * MACS, "with the slowdown alone it is 2.05 ms, less than the data sheet"),
        (1, LEAST, None, None, "the upper end of its interval, 2.05 ms, is less than the data sheet of"),
    ],
)
def test_a_slowdown_gives_no_latency_below_the_data_sheet(
    described: Path,
    monkeypatch: pytest.MonkeyPatch,
    compute: float,
    seconds: float,
    low: float | None,
    high: float | None,
    reason: str,
) -> None:
    with_slowdown(described, monkeypatch, compute)
    result = estimate(count(chain()), target("slate/plain"))
    assert result.seconds == pytest.approx(seconds)
    assert result.seconds == pytest.approx(result.kernels.seconds.sum())
    assert (result.low, result.high) == pytest.approx((low, high))
    assert result.is_lower_bound == (low is None)
    text = " ".join(result.notes)
    assert reason in text
    assert ("than the data sheet of slate/plain allows" in text) == bool(reason)


def test_networks_beyond_a_slowdown_leave_others_in_the_same_call_unchanged(
    described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_slowdown(described, monkeypatch, 2)
    work = from_columns(["conv"] * 3, 3, [0, 1, 2], macs=[1e6] * 3, weights=[1e5, 3e6, 5e6])
    result = latencies_of(work, target("slate/plain"), None)
    assert result.seconds.tolist() == pytest.approx([2, 3, 5])
    assert result.low.tolist() == pytest.approx([1, 3, math.nan], nan_ok=True)
    assert result.high.tolist() == pytest.approx([4, 4, math.nan], nan_ok=True)


@pytest.mark.usefixtures("described")
def test_a_kernel_starts_before_it_works_and_nothing_is_merged_where_that_is_not_known() -> None:
    result = estimate(count(chain()), target("slate/started"))
    assert result.kernels.launch.tolist() == pytest.approx([20e-6] * 3)  # measured, instead of 1 us
    assert any("the fusions of started are unknown" in note for note in result.notes)
    throughput = throughput_of(result)
    assert throughput is not None
    assert throughput.overhead_share == pytest.approx(3 * 20e-6 / result.seconds)
    assert "with started on 2 slates devices (9 networks)" in result.provenance


@pytest.mark.usefixtures("described")
def test_a_device_without_any_rate_cannot_be_estimated() -> None:
    with pytest.raises(TargetError, match="neither its arithmetic rates nor its memory"):
        estimate(count(chain()), target("silent"))
    report = sizeup.analyze(chain(), target="silent")
    assert report.latency is None
    assert "neither its arithmetic" in report.to_dict()["latency"]["unavailable"]


@pytest.mark.usefixtures("described")
def test_without_measurements_of_its_kind_it_is_the_least_and_has_no_range() -> None:
    result = estimate(count(chain()), target("board"))
    assert result.seconds == pytest.approx(MACS * 1e-6)
    assert (result.low, result.high) == (None, None)
    assert {"bandwidth", "lower"} <= {word for note in result.notes for word in note.split()}
    assert throughput_of(result) is None
    assert energy(result) is None


@pytest.mark.usefixtures("described")
def test_what_a_data_sheet_leaves_out_is_no_multiple_of_what_it_tells() -> None:
    result = estimate(count(chain()), target("half-known"))
    assert result.seconds == pytest.approx((CONV_BYTES + ADD_BYTES) * 1e-6)
    assert (result.low, result.high) == (None, None)
    assert any("the fp32 rate of half-known is unknown" in note for note in result.notes)


@pytest.mark.usefixtures("measured")
def test_measurements_go_before_the_data_sheet() -> None:
    result = estimate(count(chain()), target("slate/plain"))
    conv, add = MACS * 2e-6 + 3e-5, ADD_BYTES * 1e-7 + 1e-5
    seconds = conv + add + 1e-3
    share = add / (conv + add)
    assert result.basis == "calibrated"
    assert result.seconds == pytest.approx(seconds)
    assert result.low == pytest.approx(seconds * math.exp(-0.1 - share))
    assert result.high == pytest.approx(seconds * math.exp(0.2 + share))
    assert "25 measurements, Plain 1.2, 2 threads; MAPE 8.0 %" in result.provenance
    assert any("elementwise" in note for note in result.notes)
    assert any("on a cold day" in note for note in result.notes)
    assert result.by_op()[0].tolist() == pytest.approx([conv, 0, add])


@pytest.mark.usefixtures("measured")
def test_a_fit_to_busy_devices_does_not_speak_for_networks_that_wait_for_launches() -> None:
    cost = count(chain())
    # Three launches of 1 us take longer than the nanoseconds of the calibration.
    result = estimate(cost, target("slate/started"))
    assert result.basis == "roofline"
    # 1,024 MACs and 3,840 bytes at 1 ps each.
    reason = (
        "not calibrated for this network: 4.86 ns is less than the data sheet of slate/started allows with"
        " the launch overhead of started, 1 µs per kernel"
    )
    assert reason in result.notes
    assert estimate(cost, target("slate/started"), basis="calibrated").seconds < 3e-6


def with_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run: float, launch: float, typical: float
) -> None:
    """The calibration of slate/plain with this overhead, from networks that took `typical` seconds."""
    fits = FIT.replace("run = 1e-3", f"run = {run}").replace("unseen = 1.0", f"typical = {typical}")
    fits = fits.replace("launch = 1e-5", f"launch = {launch}").replace("launch = 3e-5", f"launch = {launch}")
    folder = folder.parent / "fit"
    folder.mkdir()
    (folder / "slate.toml").write_text(TARGETS + fits, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(folder))


@pytest.mark.parametrize(
    ("run", "launch", "typical", "basis"),
    [
        (2e-3, 0, 0, "calibrated"),  # of 4.2 ms
        (3e-3, 0, 0, "roofline"),  # of 5.2 ms
        (3e-3, 1e-5, 0, "calibrated"),  # fitted to networks that are short enough to have launches
        (3e-3, 0, 0.01, "calibrated"),  # or that took 10 ms
    ],
)
def test_overhead_of_long_batches_is_not_that_of_a_single_image(
    described: Path, monkeypatch: pytest.MonkeyPatch, run: float, launch: float, typical: float, basis: str
) -> None:
    """Arithmetic and traffic take 2.2 ms."""
    with_fit(described, monkeypatch, run, launch, typical)
    cost, plain = count(chain()), target("slate/plain")
    result = estimate(cost, plain)
    assert result.basis == basis
    note = "not calibrated for this network: 3 ms of 5.2 ms would be an overhead per inference"
    assert any(note in text for text in result.notes) == (basis == "roofline")
    at_once = latencies_of(result.work, plain, None)
    assert at_once.is_calibrated.tolist() == [basis == "calibrated"]
    assert at_once.seconds.tolist() == pytest.approx([result.seconds])
    explicit = estimate(cost, plain, basis="calibrated")
    assert explicit.seconds == pytest.approx(2e-6 * MACS + 1e-7 * ADD_BYTES + run + 2 * launch)


@pytest.mark.parametrize(
    ("name", "basis", "notes"),
    [
        ("rtx-3090/torch-eager", "roofline", "4.93 ms of 4.93 ms would be an overhead per inference"),
        ("galaxy-s24/ort-qnn", "calibrated", ""),  # measured at batch 1
    ],
)
def test_three_kernels_do_not_take_the_overhead_of_a_thousand_images(
    name: str, basis: str, notes: str
) -> None:
    result = sizeup.estimate(chain(), name, precision="fp16")
    assert result.basis == basis
    assert result.seconds < 1e-3
    assert notes in " ".join(result.notes)


@pytest.mark.parametrize(
    ("run", "launch", "typical", "has_upper_end"),
    [
        (0, 0, 0.1, False),
        (2.1e-5, 0, 0.1, False),  # less than 1 %
        (2.4e-5, 0, 0.1, True),
        (0, 1.05e-5, 0.1, False),  # of two kernels
        (0, 1.2e-5, 0.1, True),
        (0, 0, 0.01, True),
        (0, 0, 0, True),
    ],
)
def test_a_short_network_has_no_upper_end_if_no_overhead_was_found(
    described: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: float,
    launch: float,
    typical: float,
    has_upper_end: bool,
) -> None:
    """2.2 ms, of networks that took `typical` seconds."""
    with_fit(described, monkeypatch, run, launch, typical)
    result = estimate(count(chain()), target("slate/plain"), basis="calibrated")
    assert result.seconds == pytest.approx(2e-6 * MACS + 1e-7 * ADD_BYTES + run + 2 * launch)
    assert result.low is not None
    assert (result.high is not None) == has_upper_end
    assert any("almost no overhead" in note for note in result.notes) != has_upper_end


def one_op(kind: str, numbers: int) -> Graph:
    builder = GraphBuilder(kind)
    x, y = builder.input("x", (1, numbers), FLOAT), builder.tensor("y", (1, numbers), FLOAT)
    builder.op(kind, [x], [y], {"axes": (1,)} if kind == "softmax" else {})
    builder.outputs.append(y)
    return builder.freeze()


@pytest.mark.parametrize(
    ("name", "graph", "precision"),
    [
        ("rpi5/ncnn", chain(), None),
        ("i9-10940x/torch-inductor", one_op("softmax", 1000), None),  # 91.2 ns: 1.14e-11 s per byte
        ("a40/vllm", one_op("relu", 1000), "fp16"),
    ],
)
def test_a_tiny_network_on_a_device_without_overhead_is_undetermined(
    name: str, graph: Graph, precision: str | None
) -> None:
    check = sizeup.check(graph, name, precision=precision, latency=1e-4)
    (limit,) = (limit for limit in check.limits if limit.name == "latency")
    assert limit.fits is None
    assert limit.unknown == ("the interval of the latency has no upper end",)


@pytest.mark.parametrize(("numbers", "has_upper_end"), [(1_000_000, False), (1_200_000, True)])
def test_a_network_without_overhead_has_an_upper_end_from_100_microseconds(
    numbers: int, has_upper_end: bool
) -> None:
    """1.14e-11 s for each of 8 bytes per number: 91 us and 109 us."""
    result = sizeup.estimate(one_op("softmax", numbers), "i9-10940x/torch-inductor")
    assert result.seconds == pytest.approx(8 * 1.14e-11 * numbers)
    assert (result.high is not None) == has_upper_end


@pytest.mark.usefixtures("measured")
def test_a_fit_speaks_for_its_number_types_alone() -> None:
    cost = count(chain())
    result = sizeup.estimate(cost, "slate/plain", precision="int8")
    assert result.basis == "roofline"
    assert any("covers only fp32" in note for note in result.notes)
    # 4 MMAC/s at int8, a quarter of the bytes; the bias-free filter too.
    assert result.seconds == pytest.approx(3e-6 * MACS / 4 + 2e-6 * (CONV_BYTES + ADD_BYTES) / 4)
    with pytest.raises(TargetError, match="only fp32 was measured"):
        sizeup.estimate(cost, "slate/plain", precision="int8", basis="calibrated")
    with pytest.raises(TargetError, match="it has no calibration"):
        sizeup.estimate(cost, "board", basis="calibrated")


@pytest.mark.usefixtures("measured")
def test_a_basis_may_be_requested() -> None:
    assert sizeup.estimate(chain(), "slate/plain", basis="roofline").basis == "roofline"
    with pytest.raises(SizeupError, match="unknown basis 'hope'"):
        sizeup.estimate(chain(), "slate/plain", basis="hope")  # type: ignore[call-overload]
    with pytest.raises(TargetError, match="needs a target"):
        sizeup.estimate(chain())


@pytest.mark.usefixtures("described")
def test_a_runtime_without_such_kernels_is_not_estimated() -> None:
    with pytest.raises(TargetError, match="plain has no kernels for fp16; it has fp32, int8"):
        sizeup.estimate(chain(), "slate/plain", precision="fp16")


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("reshape", {"target": "slate"}, "they neither compute nor move data"),
        ("reshape", {"target": "rpi5/ncnn"}, "they neither compute nor move data"),
        ("relu", {"basis": "coefficients"}, "coefficients count only convolutions and matrix products"),
        ("riddle", {"basis": "coefficients"}, "no cost rule for riddle"),
    ],
)
def test_why_no_operator_has_a_latency(kind: str, options: dict[str, Any], reason: str) -> None:
    builder = GraphBuilder(kind)
    x, y = builder.input("x", SHAPE, FLOAT), builder.tensor("y", SHAPE, FLOAT)
    builder.op(kind, [x], [y])
    builder.outputs.append(y)
    with pytest.raises(sizeup.NoLatency, match=rf"\(basis \w+\): {reason}$"):
        sizeup.estimate(builder.freeze(), **options)


@pytest.mark.parametrize(
    ("name", "kernel", "rate"),
    [
        # 324 multiplications become 64 by Winograd's F(6 x 6, 3 x 3), https://arxiv.org/abs/1509.09308.
        ("rpi5/litert", "conv", 4 * 2.4e9 * 8 * 324 / 64),
        ("rpi5/litert", "conv_1x1", 4 * 2.4e9 * 8),
        ("stm32f746/tflm", "conv", 216e6),
        ("ethos-u55-256", "conv.int8", 256 * 500e6),
    ],
)
def test_processors_with_an_operating_system_may_save_multiplications(
    name: str, kernel: str, rate: float
) -> None:
    assert fastest_rate(target(name), kernel) == pytest.approx(rate)


@pytest.mark.usefixtures("described")
def test_what_is_not_known_leaves_the_upper_end_open() -> None:
    result = sizeup.estimate(chain(unknown=True), "slate")
    assert result.low is not None
    assert result.high is None
    assert any("the time of 1 unknown operator is missing" in note for note in result.notes)


def test_coefficients_need_no_target(tmp_path: Path) -> None:
    result = sizeup.estimate(chain(), basis="coefficients", precision="int8")
    assert result.ms == pytest.approx(28.0 * MACS / 2e6)
    assert (result.low, result.high) == (None, None)
    path = tmp_path / "table.toml"
    path.write_text("conv = { int8 = 7.0 }\n", "utf-8")
    for table in (path, str(path), {"conv": {"int8": 7.0}}):
        assert sizeup.estimate(chain(), coefficients=table, precision="int8").ms == pytest.approx(
            7.0 * MACS / 2e6
        )


def test_coefficients_follow_the_types_of_layers() -> None:
    assert sizeup.estimate(chain(), basis="coefficients").ms == pytest.approx(100.0 * MACS / 2e6)
    mixed = sizeup.estimate(chain(), basis="coefficients", precision={"conv": "int4"})
    assert mixed.ms == pytest.approx(17.4 * MACS / 2e6)
    assert not any("fp32 is assumed" in note for note in mixed.notes)
    strange = sizeup.estimate(chain(), basis="coefficients", precision={"conv": "bf16"})
    assert strange.ms == pytest.approx(100.0 * MACS / 2e6)
    assert "no coefficient for bf16: fp32 is assumed" in strange.notes


@pytest.mark.usefixtures("described")
def test_rates_that_are_attained() -> None:
    result = estimate(count(chain()), target("slate"))
    achieved = throughput_of(result)
    assert achieved is not None
    assert achieved.macs == MACS
    assert achieved.bytes == CONV_BYTES + ADD_BYTES
    assert achieved.bandwidth_share == pytest.approx((CONV_BYTES + ADD_BYTES) * 1e-6 / result.seconds)
    assert achieved.compute_share == pytest.approx(MACS * 1e-6 / result.seconds)
    assert achieved.overhead_share is None
    twice = throughput(result.work, 2.0, result.target, 0.5)
    assert (twice.macs_per_second, twice.overhead_share) == (MACS / 2, 0.25)


@pytest.mark.usefixtures("described")
def test_energy_is_power_times_time() -> None:
    result = estimate(count(chain()), target("slate"))
    spent = energy(result)
    assert spent is not None
    assert (spent.joules, spent.low, spent.high) == pytest.approx(
        (2 * result.seconds, 2 * result.low, 2 * result.high)  # type: ignore[operator]
    )
    assert (spent.basis, spent.is_upper_bound) == ("typical power", False)


def test_energy_by_mac_and_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TARGETS.replace(
        'power = { typical = "2 W", source = "bench" }',
        'energy = { pj_per_mac = { fp32 = 4.0 }, pj_per_byte = { RAM = 10.0 }, source = "bench" }',
    )
    (tmp_path / "own.toml").write_text(text, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    spent = energy(estimate(count(chain()), target("slate")))
    assert spent is not None
    assert spent.joules == pytest.approx((4 * MACS + 10 * (CONV_BYTES + ADD_BYTES)) * 1e-12)
    assert spent.basis == "per MAC and byte"


@pytest.mark.usefixtures("measured")
def test_the_report_tells_the_time_everywhere() -> None:
    report = sizeup.analyze(chain(), target="slate/plain")
    assert report.latency is not None
    data: dict[str, Any] = json.loads(json.dumps(report.to_dict()))
    jsonschema.validate(data, SCHEMA)
    assert data["latency"]["ms"] == pytest.approx(report.latency.ms)
    assert data["latency"]["target"] == "slate/plain"
    assert data["latency"]["kernels"] == 2
    assert data["latency"]["flops_per_byte"] == {"fp32": 2.0}  # 2 MFLOPS at 1 MB/s
    assert data["latency"]["energy"]["joules"] == pytest.approx(2 * report.latency.seconds)
    assert [op["bound_by"] for op in data["ops"]] == ["compute", None, "traffic"]
    whole = sum(op["ms"] for op in data["ops"]) + data["latency"]["overhead_ms"]
    assert whole == pytest.approx(report.latency.ms)
    assert sum(row.seconds or 0 for row in report.by_op_kind()) == pytest.approx(
        report.latency.seconds - 1e-3
    )
    assert report.module_tree()[0].seconds == pytest.approx(report.latency.seconds - 1e-3)
    assert "calibrated" in repr(report)
    assert "90 % interval" in report._repr_html_()


@pytest.mark.usefixtures("measured")
def test_a_terminal_says_how_long_how_sure_and_why() -> None:
    console = Console(file=io.StringIO(), width=100)
    render(sizeup.analyze(chain(), target="slate/plain"), console)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("latency", "90 % interval", "calibrated: 25 measurements", "throughput", "energy", "time"):
        assert words in out


def test_without_a_target_there_is_no_time() -> None:
    report = sizeup.analyze(chain())
    data = report.to_dict()
    assert data["latency"] == {"unavailable": "no target device was given"}
    assert data["ops"][0]["ms"] is None
    assert report.by_op_kind()[0].seconds is None


@pytest.mark.usefixtures("measured")
def test_layers_in_types_that_were_not_measured_are_not_priced_by_the_fit() -> None:
    builder = GraphBuilder("two")
    value = builder.input("x", SHAPE, FLOAT)
    for name in "ab":
        w = builder.tensor(name, (8, 8, 1, 1), FLOAT, Constant("parameter"))
        out = builder.tensor(f"{name}.out", SHAPE, FLOAT)
        builder.op("conv", [value, w], [out], {"out_channels": 8, "kernel": (1, 1)}, name=name, scope=name)
        value = out
    builder.outputs.append(value)
    graph = builder.freeze()
    assert sizeup.estimate(graph, "slate/plain").basis == "calibrated"
    assert sizeup.estimate(graph, "slate/plain", precision={"a": "int8"}).basis == "roofline"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("low = -0.1", "low = 0.5", "low is above high"),
        ("high = 0.2", "high = nan", "not a number"),
        ("mac = 1e-6", "mac = -1.0", "not within"),
        ("mac = 1e-6", 'mac = "fast"', "not a number"),
        ("run = 1e-3", "run = 1e-3\npower = 0", "not within"),
        ("run = 1e-3", "run = 1e-3\nspeed = 1", "unknown key 'speed'"),
        ("pooled = {", "pooling = {", "unknown key 'pooling'"),
    ],
)
def test_a_fit_that_makes_no_sense_is_refused(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text((TARGETS + FIT).replace(old, new, 1), "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    with pytest.raises(TargetError, match=message):
        estimate(count(chain()), target("slate/plain"))


@pytest.mark.extras
def test_the_times_of_operators_add_up_where_a_product_copies_its_operands_first() -> None:
    torch = pytest.importorskip("torch")

    class Heads(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            parts = x.reshape(8, 64, 4, 32).transpose(1, 2)
            return parts @ parts.transpose(-1, -2)

    result = sizeup.estimate(Heads(), "h100-sxm/torch-eager", inputs=((8, 64, 128),))
    assert result.by_op()[0].sum() + result.overhead_seconds == pytest.approx(result.seconds)


def test_a_network_too_large_for_a_microcontroller_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TARGETS.replace('kind = "npu"', 'kind = "microcontroller"', 1).replace(
        'size = "1 MiB"', 'size = "512 B"'
    )
    (tmp_path / "own.toml").write_text(text, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    console = Console(file=io.StringIO(), width=100)
    render(sizeup.analyze(chain(), target="slate/plain"), console)
    # Two values of 512 B at the sum at least: its output may replace an input, the planner is not published.
    assert "does not fit on Slate: needs 1.00 KiB RAM, has 512 B" in console.file.getvalue()  # type: ignore[attr-defined]
