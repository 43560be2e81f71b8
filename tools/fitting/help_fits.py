"""Calibrations on HELP: three search spaces on graphics cards, Xeons, phones and a Raspberry Pi."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fitting import search_spaces
from fitting.forms import FormChoice
from fitting.measured import Measured, no_faster
from fitting.shipped import Shipped, shipped_calibration
from latency.truth.splits import drawn, every
from sizeup.latency import FitOptions, fit_rates, held_out_estimates, prediction_interval, unseen_spread
from sizeup.latency.work import Codes, Floats

_FOLDS = 5


def _mape(estimated: Floats, measured: Floats) -> str:
    return f"{100 * np.abs(estimated / measured - 1).mean():.1f} %"


def _random_folds(samples: Measured) -> Codes:
    """Random folds; the same network at several batch sizes may be in several."""
    name, count = samples.target.name, len(samples.seconds)
    return np.array([drawn(f"{name} {index}") % _FOLDS for index in range(count)])


_ROUNDED = "measured in whole milliseconds"
_SMALL = "only 32 x 32 images"


def of_help(folder: Path, models: Path) -> list[Shipped]:
    """Search spaces held out in turn; with only one search space, the interval is from similar targets."""
    samples = [*search_spaces.measured(folder)]
    forms = {each.target.name: _help_form(each) for each in samples}
    across = {
        each.target.name: _across(each, forms[each.target.name])
        for each in samples
        if len(np.unique(each.group)) > 1
    }
    return [_help_fit(each, forms[each.target.name], across, samples) for each in samples]


def _help_form(samples: Measured) -> FitOptions:
    """Chosen by networks that are held out: three search spaces at most are too few to choose by."""
    networks = samples._replace(group=np.arange(len(samples.seconds)).astype(np.str_))
    return FormChoice([networks], FitOptions()).form()


def _across(samples: Measured, form: FitOptions) -> Floats:
    return held_out_estimates(samples.work, samples.seconds, every(samples.group), form)


def _help_fit(
    samples: Measured, form: FitOptions, across: dict[str, Floats], others: list[Measured]
) -> Shipped:
    rates = no_faster(fit_rates(samples.work, samples.seconds, form), samples.target)
    near = held_out_estimates(samples.work, samples.seconds, _random_folds(samples), form)
    inside = f"MAPE {_mape(near, samples.seconds)} on held-out networks of the calibrated search spaces"
    spread = unseen_spread(rates, samples.work)
    is_phone = samples.target.runtime.name == "litert"
    notes = ["TFLite from 2021, XNNPACK unknown"] if is_phone else ["PyTorch from 2021"]
    notes += [_ROUNDED] if samples.target.name == "snapdragon-835/litert" else []
    notes += [_SMALL] if "help_ofa" not in samples.group else []
    if samples.target.name in across:
        notes.append(inside)
        estimated, unit, groups = across[samples.target.name], "search spaces", every(samples.group)
    else:
        notes.append("only one search space was measured: the interval is from others on similar devices")
        estimated, unit, groups = near, "networks of the same search space", None
    calibration = shipped_calibration(
        samples.target.name,
        ["fp32"],
        rates,
        estimated,
        samples.seconds,
        unit,
        "help",
        groups=groups,
        unseen=spread,
        note="; ".join(notes),
    )
    return calibration if groups is not None else _with_similar(calibration, samples, across, others)


def _with_similar(
    calibration: Shipped, samples: Measured, across: dict[str, Floats], others: list[Measured]
) -> Shipped:
    """With the interval of targets of the same runtime and unit kind, search spaces held out."""

    def key(item: Measured) -> tuple[str, str]:
        return item.target.runtime.name, item.target.units[0].unit_class

    similar = [item for item in others if key(item) == key(samples) and item.target.name in across]
    estimated = np.concatenate([across[item.target.name] for item in similar])
    measured = np.concatenate([item.seconds for item in similar])
    names = np.concatenate([np.char.add(f"{item.target.name} ", item.group) for item in similar])
    interval = replace(
        prediction_interval(estimated, measured, every(names)), unseen=calibration.interval.unseen
    )
    return replace(calibration, interval=interval, elsewhere=float(np.abs(estimated / measured - 1).mean()))
