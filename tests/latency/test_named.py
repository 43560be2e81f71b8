"""Calibrations on well-known networks: what was recorded, what is shipped, and what was measured."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="fits need scipy")

import numpy as np

from fitting import aihub, espdl, named, networks
from fitting.intervals import Pool, held_out
from sizeup.dtypes import precision
from sizeup.latency import PredictionInterval, kernels, rates_from
from sizeup.targets import BUILT_IN, Catalog

pytestmark = pytest.mark.extras

CATALOG = Catalog((BUILT_IN,))


@pytest.mark.parametrize("name", ["squeezenet1_1", "resnet18"])
def test_a_network_is_recorded_as_the_table_says(name: str) -> None:
    pytest.importorskip("torch")
    fuses = CATALOG.runtime("qnn").fusions or ()
    rows = networks.rows_of(name, networks.cost_of(networks.NETWORKS[name]), fuses)
    table = networks.recorded()[name]
    columns = (table.macs, table.activations, table.weights, table.runs)
    assert [row[1] for row in rows] == list(table.classes)
    assert [list(row[2:]) for row in rows] == np.stack(columns, axis=1).tolist()


def test_all_named_networks_are_recorded_with_the_published_macs() -> None:
    assert set(networks.recorded()) == set(networks.NETWORKS)
    # torchvision's documentation, in GMACs (it calls them GFLOPS), at 224 x 224.
    for name, giga in {"resnet50": 4.09, "mobilenet_v2": 0.30, "convnext_base": 15.36, "vit": 17.56}.items():
        network = networks.recorded()[name]
        assert (network.macs * network.runs).sum() == pytest.approx(giga * 1e9, rel=0.01)


def test_runtimes_of_one_accelerator_have_the_fusions_that_were_recorded() -> None:
    fusions = {CATALOG.runtime(name).fusions for name in ("qnn", "litert-qnn", "ort-qnn")}
    assert len(fusions) == 1


@pytest.mark.parametrize("target", ["qcs6490/qnn", "qcs6490/ort"])
def test_measurements_give_the_shipped_calibration(shared: Path, target: str) -> None:
    pytest.importorskip("pyarrow", reason="the table of measurements is a Parquet file")
    samples = next(each for each in aihub.measured(shared / "truth") if each.target.name == target)
    choice = named.aihub_forms(shared / "truth")[samples.target.units[0].unit_class]
    alone = held_out(samples, choice.rates)
    fit = named.aihub_fit(alone, Pool([alone]), choice)  # of the pool, only the interval depends
    shipped = CATALOG.calibration(CATALOG.target(target))
    assert shipped is not None
    assert shipped.mape == pytest.approx(fit.error, rel=1e-3)
    assert shipped.measurements == len(samples.seconds)
    assert rates_from(shipped.rates).of("conv.int8").mac == pytest.approx(
        fit.rates.of("conv.int8").mac, rel=1e-3
    )


def test_nine_of_ten_measured_latencies_are_in_the_interval(shared: Path) -> None:
    pytest.importorskip("pyarrow", reason="the table of measurements is a Parquet file")
    inside: list[bool] = []
    for samples in aihub.measured(shared / "truth"):
        shipped = CATALOG.calibration(samples.target)
        if shipped is None:
            continue
        rates = rates_from(shipped.rates)
        estimated = samples.work.totals(kernels(rates, samples.work).seconds) + rates.run
        low, high = PredictionInterval(**shipped.interval).bounds(estimated)
        inside += ((low <= samples.seconds) & (samples.seconds <= high)).tolist()
    assert len(inside) > 1000
    assert np.mean(inside) >= 0.9


# Milliseconds measured by Qualcomm AI Hub on a Galaxy S25 with QNN, from the page of the network.
MEASURED = {("torchvision:resnet50", "fp16"): 1.259, ("torchvision:mobilenet_v2", "int8"): 0.215}


@pytest.mark.parametrize(("source", "dtype"), MEASURED, ids=lambda item: item)
def test_an_estimate_uses_the_kernels_that_were_calibrated(source: str, dtype: str) -> None:
    pytest.importorskip("torch")
    import sizeup

    cost = sizeup.count(source)
    target = CATALOG.target("snapdragon-8-elite/qnn")
    estimate = sizeup.latency.estimate(cost, target, precision(dtype))
    work = networks.work_of_networks([source.partition(":")[2]], [dtype])
    assert estimate.calibration is not None
    rates = rates_from(estimate.calibration.rates)
    recorded = work.totals(kernels(rates, work).seconds)[0] + rates.run
    assert estimate.seconds == pytest.approx(recorded, rel=0.02)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= MEASURED[source, dtype] / 1e3 <= estimate.high


def test_a_float_network_is_estimated_in_fp16() -> None:
    pytest.importorskip("torch")
    import sizeup

    cost = sizeup.count("torchvision:squeezenet1_1")
    target = CATALOG.target("galaxy-s24/litert-qnn")
    as_given = sizeup.latency.estimate(cost, target)
    assert as_given.basis == "calibrated"
    assert as_given.seconds == pytest.approx(
        sizeup.latency.estimate(cost, target, precision("fp16")).seconds, rel=0.01
    )


def test_the_kernels_of_an_espdl_file_are_those_of_the_network() -> None:
    rows = csv.DictReader(espdl.PATH.read_text("utf-8").splitlines())
    name = ("s3", "imagenet_cls_mobilenetv2_s8_v1")
    mobilenet = [row for row in rows if (row["chip"], row["network"]) == name]
    macs = sum(int(row["macs"]) * int(row["count"]) for row in mobilenet)
    parameters = sum(int(row["weights"]) * int(row["count"]) for row in mobilenet)
    # torchvision's documentation, with the norms folded into convolutions.
    assert macs == pytest.approx(0.301e9, rel=0.01)
    assert parameters == pytest.approx(3_504_872, rel=0.01)
    # Its largest filters: the classifier, the last convolution, and those of the last block.
    assert sorted({int(row["weights"]) for row in mobilenet})[-3:] == [
        960 * 320 + 320,
        320 * 1280 + 1280,
        1280 * 1000 + 1000,
    ]


def test_esp_dl_is_within_30_percent_of_families_that_were_left_out(shared: Path) -> None:
    pool = named.esp_dl_pool(shared / "truth")
    names = {each.samples.target.name for each in pool.targets}
    assert names == {"esp32-s3/esp-dl", "esp32-p4/esp-dl"}
    for each in pool.targets:
        assert len(set(each.samples.group.tolist())) >= 8
        assert np.abs(each.estimated / each.samples.seconds - 1).mean() <= 0.3
        shipped = CATALOG.calibration(each.samples.target)
        assert shipped is not None
        assert shipped.measurements == len(each.samples.seconds)
