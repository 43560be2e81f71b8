"""Latency over symbolic dimensions: computed by hand on a simple target, and by specialization."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import sizeup
from sizeup.closed_forms import latency
from sizeup.closed_forms.latency import KernelForms
from sizeup.closed_forms.text import latency_forms
from sizeup.dtypes import dtype
from sizeup.errors import TargetError
from sizeup.graph import Constant, GraphBuilder
from sizeup.symbolic import Assumptions, Specialization, SymbolicGraph, assuming, size

FLOAT = dtype("float32")
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
overhead = "1 ms"
fuses = ["loop"]
source = "bench"

[[runtime]]
name = "softly"
title = "With all that a fit may have"
units = ["cpu"]
dtypes = ["fp32"]
source = "bench"

[[device]]
name = "slate"
title = "Slate"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain", "started", "softly"]
units = [{ name = "unit", family = "slates", peak = { fp32 = "2 MFLOPS", int8 = "8 MOPS" } }]
memories = [{ name = "RAM", role = "ram", size = "1 MiB", bandwidth = "1 MB/s" }]

[[device]]
name = "swift"
title = "A hundred thousand slates"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain"]
units = [{ name = "unit", peak = { fp32 = "200 GFLOPS" } }]
memories = [
  { name = "RAM", role = "ram", size = "1 MiB", bandwidth = "100 GB/s" },
  { name = "L1", role = "cache", size = "100 B" },
]

[[slowdown]]
name = "slates/plain"
compute = 3.0
traffic = 2.0
launch = 1e-4
low = 0.5
high = 2.0
measurements = 40
devices = 4
source = "bench"

[[fit]]
name = "slate/started"
precisions = ["fp32"]
measurements = 3
error = 0.1
held_out = "network"
source = "bench"
band = { low = -0.1, high = 0.1, typical = 0.02, low_longer = 0.3, high_longer = 0.2, high_shorter = 0.1 }
rates = { cache = { bytes = 100, reread = 2e-6 }, pooled = { mac = 5e-6, byte = 0.0, launch = 0.0 } }

[[fit]]
name = "slate/softly"
precisions = ["fp32"]
measurements = 3
error = 0.1
held_out = "network"
source = "bench"
band = { low = -0.1, high = 0.2, unseen = 1.5, typical = 0.5, low_longer = 0.4, low_shorter = 0.2 }
[fit.rates]
run = 1e-3
power = 40
saturation = { length = 3.0, columns = 2.0, rows = 5.0, tile = 8, wave = 64 }
cache = { bytes = 3000, far = 2e-7 }
pooled = { mac = 3e-6, byte = 1e-7, launch = 1e-5 }
[fit.rates.classes]
conv_1x1 = { mac = 2e-6, byte = 1e-6, launch = 3e-5 }
"""


@pytest.fixture(autouse=True)
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slate.toml").write_text(TARGETS, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))


def _read(example: Mapping[str, int]) -> Specialization:
    """A convolution of `rows` x 4 pictures, its ReLU, the sum of a repeated row with it, and the largest."""
    builder = GraphBuilder("by hand", "made")
    shape = (1, 8, size("rows"), 4)
    x = builder.input("x", shape, FLOAT)  # type: ignore[arg-type]  # a symbolic dimension
    w = builder.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    s = builder.input("s", (1, 8, 1, 4), FLOAT)
    a, b, c = (builder.tensor(name, shape, FLOAT) for name in "abc")  # type: ignore[arg-type]  # the same
    d, e = builder.tensor("d", shape, FLOAT), builder.tensor("e", (1, 8, 1, 1), FLOAT)  # type: ignore[arg-type]
    builder.op("conv", [x, w], [a], {"out_channels": 8, "kernel": (1, 1)}, name="conv")
    builder.op("relu", [a], [b], name="relu")
    builder.op("view", [s], [c], source="aten.expand", name="repeat")
    builder.op("add", [b, c], [d], name="sum")
    builder.op("max", [d], [e], name="largest")
    builder.outputs.append(e)
    return Specialization(builder.freeze(), example, {})


@pytest.fixture
def model() -> SymbolicGraph:
    return SymbolicGraph(("rows",), {"rows": 10}, _read)


ROW = 8 * 4 * 4  # bytes


def _slowed(rows: int) -> float:
    """At 1 MMAC/s and 1 MB/s: three times 256 MACs per row, twice the traffic, and 100 us per kernel."""
    traffic = 2 * ROW * rows + 256 + 2 * ROW * rows + ROW + ROW * rows + 32  # what is repeated is read once
    return 1e-6 * (3 * 256 * rows + 2 * traffic) + 3e-4


def _least(rows: int) -> float:
    """At 100 GMAC/s and 100 GB/s, with a cache of 100 bytes."""
    conv = max(256 * rows, 2 * ROW * rows - 100 + 256 * (1 - 100 / 256))
    return 1e-11 * (conv + 2 * ROW * rows + ROW - 100 + ROW * rows + 32 - 100)


def test_a_data_sheet_is_evaluated_at_every_point_as_by_hand(model: SymbolicGraph) -> None:
    times = sizeup.estimate(model, "slate/plain").at(rows=[[1, 2], [7, 1000]])
    expected = np.array([[_slowed(1), _slowed(2)], [_slowed(7), _slowed(1000)]])
    assert times.seconds == pytest.approx(expected, rel=1e-12)
    assert times.low == pytest.approx(0.5 * expected, rel=1e-12)
    assert times.high == pytest.approx(2 * expected, rel=1e-12)
    assert (times.basis == "roofline").all()
    one = sizeup.estimate(model, "slate/plain").at(rows=7)
    assert (one.seconds, one.basis) == (pytest.approx(_slowed(7), rel=1e-12), "roofline")
    assert one.ms == 1e3 * one.seconds


def test_each_network_has_the_basis_that_it_would_have_alone(model: SymbolicGraph) -> None:
    # 1,280 us per row: for few rows, launches of 1 ms per kernel take longer than the calibration.
    times = sizeup.estimate(model, "slate/started").at(rows=np.arange(1, 30))
    alone = [sizeup.estimate(model.at(rows=rows), "slate/started") for rows in range(1, 30)]
    assert {"calibrated", "roofline"} == set(times.basis.tolist())
    assert times.basis.tolist() == [each.basis for each in alone]
    for name in ("seconds", "low", "high"):
        expected = [math.nan if (value := getattr(e, name)) is None else value for e in alone]
        assert getattr(times, name).tolist() == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("target", ["slate/plain", "slate/started", "slate/softly"])
def test_the_formulas_are_python_and_give_the_estimate(model: SymbolicGraph, target: str) -> None:
    forms = sizeup.explain(model, target=target).latency
    assert forms is not None
    times = sizeup.estimate(model, target)
    for rows in (8, 9, 33, 64, 1001):
        names: dict[str, float] = {"rows": rows}
        exec(forms.program, names)
        point = times.at(rows=rows)
        assert point.basis == forms.basis
        printed = (names["seconds"], names["low"], names["high"])
        assert printed == pytest.approx((point.seconds, point.low, point.high), rel=1e-9)
    assert sum(each.share for each in forms.kernels) == pytest.approx(1)


def test_a_name_of_the_formulas_gives_way_to_a_free_dimension(model: SymbolicGraph) -> None:
    forms = sizeup.explain(model, target="slate/softly").latency
    assert forms is not None
    names = {name for kernel in forms.kernels for name, _ in kernel.lines}
    assert "rows_" in names
    assert "rows" not in names


def test_formulas_of_a_calibration_are_valid_where_the_data_sheet_allows_them(model: SymbolicGraph) -> None:
    forms = sizeup.explain(model, target="slate/started")
    assert forms.latency is not None
    assert ("valid for", "rows >= 1") in forms.latency_validity  # another piece, but the same formulas
    assert forms.latency.is_limited
    assert any(text.startswith("the data sheet of slate/started") for _, text in forms.latency_validity)
    assert "k1 = " in str(forms)


def test_formulas_of_a_lower_bound_leave_out_what_stays_in_the_cache(model: SymbolicGraph) -> None:
    printed = sizeup.explain(model, target="swift/plain").latency
    assert printed is not None
    assert not printed.is_limited
    for rows in (9, 100, 155):
        names: dict[str, float] = {"rows": rows}
        exec(printed.program, names)
        assert names["seconds"] == pytest.approx(_least(rows), rel=1e-9)
        assert "low" not in names
        point = sizeup.estimate(model, "swift/plain").at(rows=rows)
        assert point.seconds == pytest.approx(_least(rows), rel=1e-12)
        assert np.isnan(point.low)


def test_a_requested_basis_is_used_for_short_kernels(model: SymbolicGraph) -> None:
    forms = sizeup.explain(model, target="slate/started", basis="calibrated")
    assert forms.latency is not None
    assert not forms.latency.is_limited
    names: dict[str, float] = {"rows": 3}  # by default the data sheet is used
    exec(forms.latency.program, names)
    times = sizeup.estimate(model, "slate/started", basis="calibrated").at(rows=3)
    assert names["seconds"] == pytest.approx(times.seconds, rel=1e-9)


def test_points_at_which_sizes_decide_otherwise_have_kernels_of_their_own(model: SymbolicGraph) -> None:
    times = sizeup.estimate(model, "slate/started")
    times.at(rows=[1, 5, 9])
    one, many = (times.forms_at({"rows": rows}) for rows in (1, 9))
    assert isinstance(one, KernelForms)
    assert isinstance(many, KernelForms)
    assert one is not many
    assert times.forms_at({"rows": 5}) is many
    assert [str(each) for each in many.guards] == ["32*rows >= 33"]  # a row is shown more than once


@pytest.mark.parametrize("most", [0, 1])
def test_points_without_a_closed_form_are_estimated_one_by_one(
    model: SymbolicGraph, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = sizeup.estimate(model, "slate/started").at(rows=[1, 5, 9, 9])
    monkeypatch.setattr(latency, "_MOST_FORMS", most)
    times = sizeup.estimate(model, "slate/started")
    results = times.at(rows=[1, 5, 9, 9])  # the first is a separate specialization
    assert times.forms_at({"rows": 9}) is None
    assert latency_forms(times) is None
    assert results.seconds.tolist() == pytest.approx(expected.seconds.tolist(), rel=1e-12)
    assert results.basis.tolist() == expected.basis.tolist()


def test_a_model_without_formulas_of_its_time_says_so(
    model: SymbolicGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "_MOST_FORMS", 0)
    forms = sizeup.explain(model, target="slate/started")
    assert forms.latency is None
    assert "each point is estimated separately" in " ".join(str(forms).split())


def test_coefficients_and_mixtures_are_estimated_one_by_one(model: SymbolicGraph) -> None:
    table = sizeup.estimate(model, basis="coefficients").at(rows=[1, 4])
    assert table.seconds.tolist() == pytest.approx([256 / 2e6 * 0.1, 1024 / 2e6 * 0.1])
    assert table.basis.tolist() == ["coefficients"] * 2
    assert np.isnan(table.low).all()
    mixed = sizeup.estimate(model, "slate/plain", precision={"conv": "int8"}).at(rows=4)
    alone = sizeup.estimate(model.at(rows=4), "slate/plain", precision={"conv": "int8"})
    assert mixed.seconds == pytest.approx(alone.seconds, rel=1e-12)


def test_a_precision_without_kernels_is_refused_before_any_point(model: SymbolicGraph) -> None:
    with pytest.raises(TargetError, match="no kernels for int4"):
        sizeup.estimate(model, "slate/plain", precision="int4")


def test_a_basis_that_is_not_there_is_refused(model: SymbolicGraph) -> None:
    with pytest.raises(TargetError, match="it has no calibration"):
        sizeup.estimate(model, "slate/plain", basis="calibrated").at(rows=[1, 2])


def test_no_points_take_no_time(model: SymbolicGraph) -> None:
    times = sizeup.estimate(model, "slate/plain").at(rows=[])
    assert times.seconds.tolist() == times.basis.tolist() == []


def test_operators_that_are_not_known_leave_the_range_open() -> None:
    def read(example: Mapping[str, int]) -> Specialization:
        builder = GraphBuilder("unknown", "made")
        x = builder.input("x", (size("rows"), 4), FLOAT)  # type: ignore[arg-type]  # a symbolic dimension
        y, z = (builder.tensor(name, (size("rows"), 4), FLOAT) for name in "yz")  # type: ignore[arg-type]
        builder.op("relu", [x], [y])
        builder.op("riddle", [y], [z])
        builder.outputs.append(z)
        return Specialization(builder.freeze(), example, {})

    graph = SymbolicGraph(("rows",), {"rows": 10}, read)
    times, alone = (
        sizeup.estimate(graph, "slate/plain").at(rows=3),
        sizeup.estimate(graph.at(rows=3), "slate/plain"),
    )
    assert times.low == pytest.approx(alone.low)
    assert math.isnan(times.high)
    assert alone.high is None
    forms = sizeup.explain(graph, target="slate/plain").latency
    assert forms is not None
    assert [name for name, _ in forms.totals] == ["seconds", "low"]


def test_a_decision_of_the_model_and_one_of_the_runtime_are_both_kept() -> None:
    def read(example: Mapping[str, int]) -> Specialization:
        assumptions = Assumptions(example)
        piece = _read(example)
        with assuming(assumptions):
            assert (size("rows") > 20) == (example["rows"] > 20)
        return Specialization(piece.graph, example, dict(assumptions.guard_sources))

    graph = SymbolicGraph(("rows",), {"rows": 30}, read)
    times = sizeup.estimate(graph, "slate/started")
    results = times.at(rows=[1, 2, 20, 21, 300])
    alone = [sizeup.estimate(graph.at(rows=rows), "slate/started").seconds for rows in (1, 2, 20, 21, 300)]
    assert results.seconds.tolist() == pytest.approx(alone, rel=1e-12)
    assert len(graph.specializations) == 2
