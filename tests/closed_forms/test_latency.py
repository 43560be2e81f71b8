"""Latency over free dimensions: by hand on a target whose every number is known, and in pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import sizeup
from sizeup.closed_forms import latency
from sizeup.closed_forms.formulas import latency_forms
from sizeup.closed_forms.latency import KernelForms
from sizeup.dtypes import dtype
from sizeup.errors import TargetError
from sizeup.graph import Constant, GraphBuilder
from sizeup.symbolic import Assumptions, FreeGraph, Specialization, assuming, size

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
units = [{ name = "unit", peak = { fp32 = "2 MFLOPS", int8 = "8 MOPS" } }]
memories = [{ name = "RAM", role = "ram", size = "1 MiB", bandwidth = "1 MB/s" }]

[[device]]
name = "swift"
title = "A hundred thousand slates"
kind = "npu"
maker = "Nobody"
source = "bench"
runtimes = ["plain"]
units = [{ name = "unit", peak = { fp32 = "200 GFLOPS" } }]
memories = [{ name = "RAM", role = "ram", size = "1 MiB", bandwidth = "100 GB/s" }]

[[reach]]
name = "npu"
times = 3.0
low = 2.0
high = 5.0
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
band = { low = -0.1, high = 0.1 }
rates = { pooled = { mac = 1e-6, byte = 0.0, launch = 0.0 } }

[[fit]]
name = "slate/softly"
precisions = ["fp32"]
measurements = 3
error = 0.1
held_out = "network"
source = "bench"
band = { low = -0.1, high = 0.2, unseen = 1.5 }
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
    made = GraphBuilder("by hand", "made")
    shape = (1, 8, size("rows"), 4)
    x = made.input("x", shape, FLOAT)  # type: ignore[arg-type]  # a free dimension
    w = made.tensor("w", (8, 8, 1, 1), FLOAT, Constant("parameter"))
    s = made.input("s", (1, 8, 1, 4), FLOAT)
    a, b, c = (made.tensor(name, shape, FLOAT) for name in "abc")  # type: ignore[arg-type]  # the same
    d, e = made.tensor("d", shape, FLOAT), made.tensor("e", (1, 8, 1, 1), FLOAT)  # type: ignore[arg-type]
    made.op("conv", [x, w], [a], {"out_channels": 8, "kernel": (1, 1)}, name="conv")
    made.op("relu", [a], [b], name="relu")
    made.op("view", [s], [c], source="aten.expand", name="repeat")
    made.op("add", [b, c], [d], name="sum")
    made.op("max", [d], [e], name="largest")
    made.outputs.append(e)
    return Specialization(made.freeze(), example, {})


@pytest.fixture
def model() -> FreeGraph:
    return FreeGraph(("rows",), {"rows": 10}, _read)


def _sheet(rows: int) -> float:
    """At 1 MMAC/s and 1 MB/s: kernels take their traffic, or 256 MACs a row where that is more."""
    row = 8 * 4 * 4  # bytes
    conv = max(256 * rows, 2 * row * rows + 256)
    added = 2 * row * rows + row  # what is repeated is read once
    return 1e-6 * (conv + added + row * rows + 32)


def test_a_data_sheet_is_evaluated_at_every_point_as_by_hand(model: FreeGraph) -> None:
    found = sizeup.estimate(model, "slate/plain").at(rows=[[1, 2], [7, 1000]])
    expected = np.array([[_sheet(1), _sheet(2)], [_sheet(7), _sheet(1000)]])
    assert found.seconds == pytest.approx(3 * expected, rel=1e-12)
    assert found.low == pytest.approx(2 * expected, rel=1e-12)
    assert found.high == pytest.approx(5 * expected, rel=1e-12)
    assert (found.basis == "roofline").all()
    one = sizeup.estimate(model, "slate/plain").at(rows=7)
    assert (one.seconds, one.basis) == (pytest.approx(3 * _sheet(7), rel=1e-12), "roofline")
    assert one.ms == 1e3 * one.seconds


def test_each_network_has_the_basis_that_it_would_have_alone(model: FreeGraph) -> None:
    # 256 us a row; a start of 1 ms each takes longer than the fit says for all, up to seven rows.
    found = sizeup.estimate(model, "slate/started").at(rows=np.arange(1, 30))
    alone = [sizeup.estimate(model.at(rows=rows), "slate/started") for rows in range(1, 30)]
    assert {"calibrated", "roofline"} == set(found.basis.tolist())
    assert found.basis.tolist() == [each.basis for each in alone]
    for name in ("seconds", "low", "high"):
        assert getattr(found, name).tolist() == pytest.approx([getattr(e, name) for e in alone], rel=1e-12)


@pytest.mark.parametrize("target", ["slate/plain", "slate/started", "slate/softly"])
def test_the_formulas_are_python_and_give_the_estimate(model: FreeGraph, target: str) -> None:
    forms = sizeup.explain(model, target=target).latency
    assert forms is not None
    times = sizeup.estimate(model, target)
    for rows in (8, 9, 33, 64, 1001):
        names: dict[str, float] = {"rows": rows}
        exec(forms.program, names)
        found = times.at(rows=rows)
        assert found.basis == forms.basis
        told = (names["seconds"], names["low"], names["high"])
        assert told == pytest.approx((found.seconds, found.low, found.high), rel=1e-9)
    assert sum(each.share for each in forms.kernels) == pytest.approx(1)


def test_a_name_of_the_formulas_gives_way_to_a_free_dimension(model: FreeGraph) -> None:
    forms = sizeup.explain(model, target="slate/softly").latency
    assert forms is not None
    names = {name for kernel in forms.kernels for name, _ in kernel.lines}
    assert "rows_" in names
    assert "rows" not in names


def test_formulas_tell_from_which_time_on_they_hold(model: FreeGraph) -> None:
    forms = sizeup.explain(model, target="slate/started")
    assert forms.latency is not None
    assert ("holds from", "rows 1") in forms.latency_holds  # another piece, but the same formulas
    assert forms.latency.least_seconds == pytest.approx(2e-3)
    assert any(text.startswith("seconds >= 0.002") for _, text in forms.latency_holds)
    assert "k1 = " in str(forms)


@pytest.mark.parametrize("example", [10, 1000])
def test_formulas_tell_where_starting_the_kernels_takes_longer(example: int) -> None:
    # Three kernels, at least a microsecond each: three times the data sheet is less up to 155 rows.
    graph = FreeGraph(("rows",), {"rows": example}, _read)
    forms = sizeup.explain(graph, target="swift/plain")
    told = forms.latency
    assert told is not None
    assert any(text.startswith("seconds ") for _, text in forms.latency_holds)
    for rows in (9, 100, 155, 156, 500):
        names: dict[str, float] = {"rows": rows}
        exec(told.program, names)
        is_short = 3 * _sheet(rows) * 1e-5 < 3e-6
        assert is_short == (rows < 156)
        assert (told.least_seconds <= names["seconds"] < told.most_seconds) == (is_short == (example == 10))
        if is_short == (example == 10):
            expected = _sheet(rows) * 1e-5 * (1 if is_short else 3)
            assert names["seconds"] == pytest.approx(expected, rel=1e-9)
            assert sizeup.estimate(graph, "swift/plain").at(rows=rows).seconds == pytest.approx(expected)


def test_a_basis_that_was_asked_for_holds_however_short_kernels_are(model: FreeGraph) -> None:
    forms = sizeup.explain(model, target="slate/started", basis="calibrated")
    assert forms.latency is not None
    assert forms.latency.least_seconds == 0
    names: dict[str, float] = {"rows": 3}  # of which the data sheet tells, unless asked
    exec(forms.latency.program, names)
    found = sizeup.estimate(model, "slate/started", basis="calibrated").at(rows=3)
    assert names["seconds"] == pytest.approx(found.seconds, rel=1e-9)


def test_points_at_which_sizes_decide_otherwise_have_kernels_of_their_own(model: FreeGraph) -> None:
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
    model: FreeGraph, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = sizeup.estimate(model, "slate/started").at(rows=[1, 5, 9, 9])
    monkeypatch.setattr(latency, "_MOST_FORMS", most)
    times = sizeup.estimate(model, "slate/started")
    found = times.at(rows=[1, 5, 9, 9])  # the first of them is a piece of its own
    assert times.forms_at({"rows": 9}) is None
    assert latency_forms(times) is None
    assert found.seconds.tolist() == pytest.approx(expected.seconds.tolist(), rel=1e-12)
    assert found.basis.tolist() == expected.basis.tolist()


def test_a_model_without_formulas_of_its_time_says_so(
    model: FreeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "_MOST_FORMS", 0)
    forms = sizeup.explain(model, target="slate/started")
    assert forms.latency is None
    assert "every point is estimated by itself" in " ".join(str(forms).split())


def test_coefficients_and_mixtures_are_estimated_one_by_one(model: FreeGraph) -> None:
    table = sizeup.estimate(model, basis="coefficients").at(rows=[1, 4])
    assert table.seconds.tolist() == pytest.approx([256 / 2e6 * 0.1, 1024 / 2e6 * 0.1])
    assert table.basis.tolist() == ["coefficients"] * 2
    assert np.isnan(table.low).all()
    mixed = sizeup.estimate(model, "slate/plain", precision={"conv": "int8"}).at(rows=4)
    alone = sizeup.estimate(model.at(rows=4), "slate/plain", precision={"conv": "int8"})
    assert mixed.seconds == pytest.approx(alone.seconds, rel=1e-12)


def test_a_precision_without_kernels_is_refused_before_any_point(model: FreeGraph) -> None:
    with pytest.raises(TargetError, match="no kernels for int4"):
        sizeup.estimate(model, "slate/plain", precision="int4")


def test_a_basis_that_is_not_there_is_refused(model: FreeGraph) -> None:
    with pytest.raises(TargetError, match="nothing was measured"):
        sizeup.estimate(model, "slate/plain", basis="calibrated").at(rows=[1, 2])


def test_no_points_take_no_time(model: FreeGraph) -> None:
    found = sizeup.estimate(model, "slate/plain").at(rows=[])
    assert found.seconds.tolist() == found.basis.tolist() == []


def test_operators_that_are_not_known_leave_the_range_open() -> None:
    def read(example: Mapping[str, int]) -> Specialization:
        made = GraphBuilder("unknown", "made")
        x = made.input("x", (size("rows"), 4), FLOAT)  # type: ignore[arg-type]  # a free dimension
        y = made.tensor("y", (size("rows"), 4), FLOAT)  # type: ignore[arg-type]  # the same
        made.op("riddle", [x], [y])
        made.outputs.append(y)
        return Specialization(made.freeze(), example, {})

    graph = FreeGraph(("rows",), {"rows": 10}, read)
    found, alone = (
        sizeup.estimate(graph, "slate/plain").at(rows=3),
        sizeup.estimate(graph.at(rows=3), "slate/plain"),
    )
    assert found.low == pytest.approx(alone.low)
    assert math.isnan(found.high)
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
        return Specialization(piece.graph, example, dict(assumptions.origins))

    graph = FreeGraph(("rows",), {"rows": 30}, read)
    times = sizeup.estimate(graph, "slate/started")
    found = times.at(rows=[1, 2, 20, 21, 300])
    alone = [sizeup.estimate(graph.at(rows=rows), "slate/started").seconds for rows in (1, 2, 20, 21, 300)]
    assert found.seconds.tolist() == pytest.approx(alone, rel=1e-12)
    assert len(graph.specializations) == 2
