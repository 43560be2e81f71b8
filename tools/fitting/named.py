"""Calibrations on well-known networks, whose kernels sizeup has recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fitting import aihub, esp
from fitting.forms import FormChoice, fit_totals
from fitting.intervals import HeldOut, Pool, held_out, pools_by_runtime
from fitting.measured import CATALOG, Measured, no_faster
from fitting.shipped import Shipped, Source, github, shipped_calibration
from sizeup.latency import (
    FitOptions,
    PredictionInterval,
    Rate,
    Rates,
    Work,
    dtype_of,
    fit_rates,
)
from sizeup.latency.work import Floats

# Arithmetic and traffic overlap; few networks per dtype, so its rates are shrunk more than by default.
_FORM = FitOptions(by_class=True, power=4, shrink=0.3)
# Instructions per MAC of reference kernels, from 6.8 to 27.7 over networks on emulated Cortex-M cores.
_SPREAD = math.log(27.7 / 6.8)


def of_aihub(folder: Path, models: Path) -> list[Shipped]:
    """Architecture families held out, in all precisions."""
    pools, forms = aihub_pools(folder).values(), aihub_forms(folder)
    calibrations = [
        aihub_fit(each, pool, forms[_unit(each.samples)]) for pool in pools for each in pool.targets
    ]
    for calibration in tuple(calibrations):
        device, _, runtime = calibration.target.partition("/")
        if device in aihub.CHIPS:
            note = f"{calibration.note}; measured on a {CATALOG.device(device).title}"
            calibrations.append(replace(calibration, target=f"{aihub.CHIPS[device]}/{runtime}", note=note))
    return calibrations


@cache
def aihub_pools(folder: Path) -> dict[str, Pool]:
    """The targets of each runtime, architecture families held out."""
    forms = aihub_forms(folder)
    return pools_by_runtime(held_out(each, forms[_unit(each)].rates) for each in aihub.measured(folder))


@cache
def aihub_forms(folder: Path) -> dict[str, FormChoice]:
    """The form of each kind of unit: the runtimes of an accelerator use the same compiler."""
    targets: dict[str, list[Measured]] = {}
    for samples in aihub.measured(folder):
        targets.setdefault(_unit(samples), []).append(samples)
    return {unit: FormChoice(members, _FORM, _aihub_rates) for unit, members in targets.items()}


def _unit(samples: Measured) -> str:
    return samples.target.units[0].unit_class


def _aihub_rates(work: Work, measured: Floats, form: FitOptions) -> Rates:
    return rates_by_dtype(work, measured) if form.by_class else fit_totals(work, measured, form)


def rates_by_dtype(work: Work, measured: Floats) -> Rates:
    """Rates of each dtype, shrunk towards those of the dtype with the most networks."""
    first = np.unique(work.network, return_index=True)[1]
    dtype = work.class_index[first]
    most = np.flatnonzero(dtype == np.argmax(np.bincount(dtype)))
    prior = fit_rates(work.select(most), measured[most], FitOptions(by_class=False))
    return fit_rates(work, measured, _FORM, prior)


def aihub_fit(each: HeldOut, pool: Pool, choice: FormChoice) -> Shipped:
    """The calibration of one target."""
    samples = each.samples
    rates = no_faster(choice.rates(samples.work, samples.seconds), samples.target)
    precisions = sorted({dtype_of(name) for name in samples.work.names})
    notes = ["image and text networks at batch 1"]
    if "fp16" in precisions:
        precisions.append("fp32")
        notes.append("fp32 is computed in fp16")
    if "int16" in precisions:
        notes.append("int16 was measured with int8 weights")
    calibration = shipped_calibration(
        samples.target.name,
        precisions,
        aihub.with_fp32(rates),
        each.estimated,
        samples.seconds,
        "architecture families",
        "aihub",
        version=samples.version,
        note="; ".join(notes),
    )
    return replace(calibration, interval=pool.interval(each))


def of_esp(folder: Path, models: Path) -> list[Shipped]:
    """ESP-DL by kernels, families held out; TFLite Micro by MACs, networks held out on chips with two."""
    from fitting.fits import BY_MACS, board_interval  # late: it reads SOURCES below

    interval = board_interval(folder, models)
    notes = {"esp32-p4": f"{BY_MACS}; measured at 360 MHz"}
    micro = [
        replace(each, interval=_wider(interval, each), note=notes.get(each.target.split("/")[0], each.note))
        for each in _micro([*esp.micro(models)])
    ]
    pool = esp_dl_pool(folder)
    return [*(_esp_dl_fit(each, pool) for each in pool.targets), *micro]


@cache
def esp_dl_pool(folder: Path) -> Pool:
    """ESP-DL on two chips, architecture families held out."""
    return Pool(held_out(samples, _esp_dl_rates(samples)) for samples in esp.esp_dl(folder))


def _esp_dl_rates(samples: Measured) -> Callable[[Work, Floats, frozenset[str]], Rates]:
    peak = samples.target.peak("int8")
    assert peak is not None
    return lambda work, measured, _: esp.rates(work, measured, peak)


def _esp_dl_fit(each: HeldOut, pool: Pool) -> Shipped:
    samples = each.samples
    calibration = shipped_calibration(
        samples.target.name,
        ["int8"],
        _esp_dl_rates(samples)(samples.work, samples.seconds, frozenset()),
        each.estimated,
        samples.seconds,
        "architecture families",
        "esp_dl",
        note="image networks of ESP-DL's model zoo, on one core",
    )
    return replace(calibration, interval=pool.interval(each))


def _micro(chips: list[Measured]) -> list[Shipped]:
    """The calibrations of TFLite Micro: the errors are those of all chips with the same runtime."""
    from fitting.fits import BY_MACS, from_others, per_mac

    calibrations = []
    for samples in chips:
        pairs = [
            each for each in chips if each.target.runtime == samples.target.runtime and len(each.seconds) > 1
        ]
        own = shipped_calibration(
            samples.target.name,
            ["int8"],
            Rates(Rate(float(np.median(per_mac(samples))), 0.0, 0.0)),
            np.concatenate([from_others(each) for each in pairs]),
            np.concatenate([each.seconds for each in pairs]),
            "networks on two chips",
            "esp_nn",
            note=BY_MACS,
        )
        calibrations.append(replace(own, measurements=len(samples.seconds)))
    return calibrations


def _wider(interval: PredictionInterval, calibration: Shipped) -> PredictionInterval:
    """The interval of MLPerf Tiny, or the held-out errors of the calibration if these are larger.

    The networks are convolutional; with reference kernels, others take down to a quarter per MAC.
    """
    own = calibration.interval
    low = min(interval.low, own.low, -_SPREAD if calibration.target.endswith("/tflm") else 0.0)
    return replace(interval, low=low, high=max(interval.high, own.high))


SOURCES = (
    Source(
        "aihub.toml",
        {"aihub": github("qualcomm/ai-hub-models", "b61a009", "BSD-3-Clause", "Qualcomm AI Hub, perf.yaml")},
        "About 40 networks per device, recorded by sizeup.",
        of_aihub,
    ),
    Source(
        "esp.toml",
        {
            "esp_nn": github("espressif/esp-nn", "d45b843", "Apache-2.0", "ESP-NN, README.md"),
            "esp_dl": github("espressif/esp-dl", "12c0616", "MIT", "ESP-DL, models/*/README.md"),
        },
        "Networks of ESP-DL by the kernels in their files; one or two in TFLite Micro by their MACs.",
        of_esp,
    ),
)
