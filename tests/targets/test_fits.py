"""The shipped calibrations: their properties, and that page, files and measurements agree."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="fits need scipy")

from conftest import ROOT
from fitting import page
from fitting.fits import SOURCES, WORST
from fitting.shipped import calibration_file, shipped_calibration
from sizeup.latency import PredictionInterval, Rate, Rates, rates_from
from sizeup.targets import BUILT_IN, Catalog, Slowdown, TargetCalibration

CATALOG = Catalog((BUILT_IN,))
FITS = CATALOG.calibrations()
SLOWDOWNS = CATALOG.slowdowns()
LICENSE = re.compile(r"MIT|BSD-3-Clause|Apache-2.0")
UNLICENSED = re.compile(r"hwnas|stm32ai-modelzoo", re.IGNORECASE)


def names(each: TargetCalibration | Slowdown) -> str:
    return each.name


def test_there_are_fits_of_every_sort() -> None:
    assert len(FITS) >= 60
    kinds = {CATALOG.device(each.name.split("/")[0]).device_class for each in FITS}
    assert kinds >= {"microcontroller", "single-board computer", "phone", "cpu", "gpu", "computer"}


@pytest.mark.parametrize("fit", FITS, ids=names)
def test_a_fit_says_what_it_rests_on(fit: TargetCalibration) -> None:
    target = CATALOG.target(fit.name)
    assert target.name == fit.name, "it would never be found"
    found = CATALOG.calibration(target, fit.quantity)
    assert found is not None
    assert replace(found, rates=fit.rates, equal_precisions=()) == fit
    classes = found.rates.get("classes", {})
    assert all(classes[name] == rate for name, rate in fit.rates.get("classes", {}).items())
    assert set(fit.precisions) <= set(target.runtime.dtypes)
    assert fit.precisions
    assert LICENSE.search(fit.source)
    assert "https://" in fit.source
    assert not UNLICENSED.search(fit.source)
    assert date.fromisoformat(fit.recorded).year >= 2026
    assert fit.held_out
    # One or two networks are enough only if the error was evaluated on several chips.
    assert fit.measurements >= (1 if fit.held_out == "networks on two chips" else 3)


@pytest.mark.parametrize("fit", FITS, ids=names)
def test_a_fit_has_rates_and_a_range_that_an_estimate_can_take(fit: TargetCalibration) -> None:
    rates, stated = rates_from(fit.rates), PredictionInterval(**fit.interval)
    assert 0 < fit.mape <= WORST
    assert stated.low < 0 < stated.high
    assert stated.unseen >= 0
    every = [rates.pooled, *rates.classes.values()]
    assert all(min(each.mac, each.byte, each.launch) >= 0 for each in every)
    # No MAC is faster than the data sheet allows; runtimes may convert float32 to fp16.
    target = CATALOG.target(fit.name)
    for kind in fit.precisions:
        peak = max(target.peak(each) or 0 for each in {kind, "fp16" if kind == "fp32" else kind})
        name = "conv" if kind == "fp32" else f"conv.{kind}"
        assert not peak or rates.of(name).mac >= 0.999 / peak
        assert peak or rates.of(name).mac > 0


@pytest.mark.parametrize("slowdown", SLOWDOWNS, ids=names)
def test_a_slowdown_is_measured_on_several_devices_with_that_runtime(slowdown: Slowdown) -> None:
    family, _, runtime = slowdown.name.partition("/")
    assert CATALOG.runtime(runtime).name == runtime
    targets = [
        CATALOG.target(f"{device.name}/{runtime}")
        for device in CATALOG.devices()
        if runtime in device.runtimes
    ]
    assert sum(target.family == family for target in targets) >= slowdown.devices >= 2
    assert slowdown.measurements >= 8
    assert slowdown.compute >= 1
    assert slowdown.high / slowdown.low <= 36
    assert LICENSE.search(slowdown.source)
    assert not UNLICENSED.search(slowdown.source)


def test_a_slowdown_applies_to_the_same_units_and_runtime_only() -> None:
    slowdown = CATALOG.slowdown(CATALOG.target("rtx-4080/ncnn-vulkan"))
    assert slowdown is not None
    assert slowdown.name == "nvidia-tensor-cores/ncnn-vulkan"
    # Neither another runtime on these units, nor other units with that runtime.
    assert CATALOG.slowdown(CATALOG.target("rtx-4080/tensorrt")) is None
    assert CATALOG.slowdown(CATALOG.target("rx-6900-xt/ncnn-vulkan")) is None
    # The fastest cores of a phone decide.
    assert CATALOG.target("snapdragon-845/ncnn").family == "arm-out-of-order"


def test_the_page_shows_what_the_files_say() -> None:
    text = (ROOT / "docs" / "calibrations.md").read_text("utf-8")
    stale = "python tools/fit_targets.py --page writes it"
    assert page.block(text, "fits") == page.fits(FITS), stale
    assert page.block(text, "slowdowns") == page.slowdowns(SLOWDOWNS), stale


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in (BUILT_IN / "fits").iterdir()) < 300_000


@pytest.mark.extras
@pytest.mark.parametrize("file", ["tinyengine.toml", "mlperf_tiny.toml", "esp.toml"])
def test_the_same_tables_give_the_same_file(shared: Path, file: str) -> None:
    source = next(each for each in SOURCES if each.file == file)
    calibrations = source.make(shared / "truth", shared / "models")
    kept = [each for each in calibrations if each.worst_error <= WORST]
    assert kept
    assert calibration_file(kept, source.sources, source.head) == (BUILT_IN / "fits" / file).read_text(
        "utf-8"
    )


def test_a_fit_that_is_written_is_read_again(tmp_path: Path) -> None:
    import numpy as np

    estimated, measured = np.array([1.0, 2.2, 2.7, 4.0]), np.array([1.0, 2.0, 3.0, 4.1])
    rates = Rates(Rate(1.23456e-9, 0.0, 2e-6), {"conv.int8": Rate(1e-10, 1 / 3, 0.0)}, 5e-4, 2.0, 16.0)
    calibrations = shipped_calibration(
        "rpi5/ort", ["fp32", "int8"], rates, estimated, measured, "network", "bench", threads=4
    )
    (tmp_path / "own.toml").write_text(
        calibration_file([calibrations], {"bench": "measured: by hand"}, "Mine."), "utf-8"
    )
    catalog = Catalog((tmp_path, BUILT_IN))
    read = catalog.calibration(catalog.target("rpi5/ort"))
    assert read is not None
    assert (read.threads, read.precisions, read.measurements) == (4, ("fp32", "int8"), 4)
    # 0, 10, 10 and 2.44 %: the mean, three of four below 10 % except for rounding, all in order.
    assert read.mape == pytest.approx((0.1 + 0.1 + 0.1 / 4.1) / 4, rel=1e-3)
    assert read.kendall_tau == 1
    again = rates_from(read.rates)
    assert again.pooled == Rate(1.235e-9, 0.0, 2e-6)
    assert again.of("conv.int8").byte == pytest.approx(1 / 3, abs=1e-4)
    assert (again.run, again.power, again.length, again.columns) == (5e-4, 2.0, 16.0, 0.0)
    assert PredictionInterval(**read.interval).low == pytest.approx(math.log(2.0 / 2.2), rel=1e-3)


@pytest.mark.extras
def test_what_we_count_of_a_network_is_what_its_table_tells(shared: Path) -> None:
    """ncnn's calibrations are on totals; the work of an estimate must use the same quantities."""
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow", reason="the tables of measurements are Parquet files")
    import numpy as np

    import sizeup
    from latency.truth.tables import read
    from sizeup.latency import execution_of

    table = read(shared / "truth" / "ncnn_bench.parquet")
    for name in ("resnet18", "mobilenet_v2", "vgg16"):
        row = table.where(table.words("model") == name)
        work = execution_of(
            sizeup.count(f"torchvision:{name}"), fuses=CATALOG.runtime("ncnn").fusions or ()
        ).work
        moved = 4 * (row.numbers("act_elems")[0] + row.numbers("params")[0])
        assert work.totals(work.macs)[0] == pytest.approx(row.numbers("macs")[0], rel=0.06)
        assert work.totals(work.traffic)[0] == pytest.approx(moved, rel=0.06)
        assert work.totals(np.ones(len(work)))[0] == pytest.approx(row.numbers("n_ops")[0], abs=3)
