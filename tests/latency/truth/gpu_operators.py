"""NeuSight's operators, timed on graphics cards: rates of timed cards, and estimates for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latency.truth.splits import drawn
from latency.truth.tables import Table, read
from sizeup import targets
from sizeup.latency import (
    FitOptions,
    PredictionInterval,
    Rate,
    Rates,
    fit_rates,
    from_columns,
    held_out_estimates,
    prediction_interval,
)
from sizeup.latency.work import Codes, Flags, Floats, Work

TRAIN = ("train",)  # what NeuSight's own predictor was trained on
PRODUCTS = ("linear", "matmul")
_POWER = 4.0
_TILE = 64 * 64  # results of a product that one multiprocessor computes at once
_WIDTH = 4  # bytes of a float32
_BINARY = ("add", "mul", "div")
_UNARY = ("addu", "mulu", "divu")
_CLASSES = {
    "bmm": "matmul",
    "linear": "linear",
    "ln": "layer_norm",
    "softmax": "softmax",
    **dict.fromkeys(("gelu", "relu", "tanh"), "activation"),
    **dict.fromkeys((*_BINARY, *_UNARY), "elementwise"),
}  # powers are left out: theirs are of any exponent, networks square and cube, which is a product
_SLOT = 75.0  # watts that a slot gives; cards that live on it cannot hold their clock in products


@cache
def operators(folder: Path) -> Table:
    """Every timed operator of a class that networks have."""
    table = read(folder / "neusight_ops.parquet")
    return table.where(np.isin(table.words("op"), list(_CLASSES)))


def like_networks(table: Table) -> Flags:
    """Whether each operator has a shape that is common in networks.

    These are products that fill the tiles of cards and are not small, with a length that is a multiple of 8.
    Most shapes of the table are random, and cards have slower kernels for those.
    """
    product = np.isin(table.words("op"), ["bmm", "linear"])
    rows, length, columns = (np.where(product, table.numbers(each), 1024.0) for each in "MNK")
    tile = np.where(table.words("op") == "linear", 128.0, 64.0)
    filled = _filled(rows, tile) * _filled(columns, tile) >= np.where(tile == 128, 0.95, 0.9)
    macs = table.numbers("B") * rows * length * columns
    usual = (np.minimum(rows, columns) >= 64) & (length >= 32) & (length <= 16_384) & (length % 8 == 0)
    return np.asarray(~product | (filled & usual & (macs > 3e8)), np.bool_)


def _filled(side: Floats, tile: Floats) -> Floats:
    return np.asarray(side / (np.ceil(side / tile) * tile), np.float64)


def work(table: Table) -> Work:
    """Every row as a network of one kernel."""
    names = table.words("op")
    product, linear = np.isin(names, ["bmm", "linear"]), names == "linear"
    batch, rows, length, columns = (np.nan_to_num(table.numbers(each)) for each in "BMNK")
    elements = batch * np.nan_to_num(table.numbers("H"))
    operands = np.where(np.isin(names, _BINARY), 2, 1)
    right = batch * length * columns
    return from_columns(
        [_CLASSES[each] for each in names.tolist()],
        len(table),
        np.arange(len(table)),
        macs=batch * rows * length * columns,
        read=_WIDTH * np.where(product, batch * rows * length + right * ~linear, elements * operands),
        written=_WIDTH * np.where(product, batch * rows * columns, elements),
        weights=_WIDTH * np.where(linear, (length + 1) * columns, 0.0),
        length=np.where(product, length, 0.0),
        columns=np.where(product, columns, 0.0),
        rows=np.where(product, batch * rows, 0.0),
    )


def timed_on(folder: Path, device: str, splits: Collection[str]) -> Table:
    """The operators that were timed on a card, of some of NeuSight's own splits, shaped as in networks."""
    table = operators(folder)
    table = table.where((table.words("device") == device) & np.isin(table.words("split"), list(splits)))
    return table.where(like_networks(table)) if len(table) else table


class Sheet(NamedTuple):
    """Data sheet of a card: peak FLOPs and bytes per second, multiprocessors, watts."""

    peak: float
    bandwidth: float
    cores: float
    watts: float

    @property
    def form(self) -> FitOptions:
        """What a fit to operators that were timed on this card may use.

        A single operator does not separate its launch from the per-inference overhead. In a network the card
        is busy while the next kernel is launched, so both are counted once per inference.
        """
        return FitOptions(by_class=True, power=_POWER, launching=False, wave=_TILE * self.cores)


@cache
def sheets(folder: Path) -> Mapping[str, Sheet]:
    """By device, as NeuSight names them; of what it lists twice the first."""
    table = read(folder / "neusight_devices.csv")
    vector, matrix, bytes_ = (table.numbers(each) for each in ("SingleFLOPs", "SingleFLOPsMM", "Mem_Bw"))
    peak = np.where(np.isnan(matrix), vector, matrix)
    cores = table.numbers("Num_Sm").tolist()
    by_name: dict[str, Sheet] = {}
    for index, name in enumerate(table.words("Device").tolist()):
        sheet = Sheet(1e9 * float(peak[index]), 1e9 * float(bytes_[index]), cores[index], _watts(name))
        by_name.setdefault(name, sheet)
    return by_name


def _watts(name: str) -> float:
    power = targets.device(name).power
    return np.nan if power is None or power.tdp_watts is None else power.tdp_watts


@cache
def timed_rates(folder: Path, device: str, splits: tuple[str, ...]) -> Rates | None:
    """Rates of the classes that were timed on this card, from the first of these splits that has any."""
    for split in splits:
        table = timed_on(folder, device, [split])
        if len(table):
            return fit_rates(work(table), table.numbers("latency_ms") / 1e3, sheets(folder)[device].form)
    return None


def rates_of(folder: Path, device: str, splits: tuple[str, ...] = TRAIN) -> Rates:
    """The rates of a card: timed in these splits of NeuSight's; for other classes scaled from other cards.

    Other cards use the training split, and the scale is the ratio of the data sheets.
    """
    known = {each: timed_rates(folder, each, TRAIN) for each in sheets(folder) if each != device}
    others = {each: rates for each, rates in known.items() if rates is not None and "linear" in rates.classes}
    sheet = sheets(folder)
    alike = {each: r for each, r in others.items() if _on_slot(sheet[each]) == _on_slot(sheet[device])}
    classes = {name: _by_sheet(name, alike, sheet, sheet[device]) for name in set(_CLASSES.values())}
    timed = timed_rates(folder, device, splits)
    classes |= {} if timed is None else timed.classes
    run = 0.0 if timed is None else timed.run
    # Classes that no table has (copies, look-ups, comparisons) have the rate of elementwise kernels.
    return Rates(classes["elementwise"], classes, run, _POWER, wave=sheet[device].form.wave)


def _on_slot(sheet: Sheet) -> bool:
    return sheet.watts <= _SLOT


def _by_sheet(name: str, known: Mapping[str, Rates], sheet: Mapping[str, Sheet], card: Sheet) -> Rate:
    """The rate at the median share of peak and bandwidth of other cards."""
    floats = np.median([rates.of(name).mac * sheet[each].peak for each, rates in known.items()])
    moved = np.median([rates.of(name).byte * sheet[each].bandwidth for each, rates in known.items()])
    return Rate(float(floats) / card.peak, float(moved) / card.bandwidth, 0.0)


@dataclass(frozen=True)
class Fitted:
    """A card's rates from its timed operators, with the interval and MAPE on held-out shapes."""

    rates: Rates
    interval: PredictionInterval
    error: float
    networks: int


def fits(folder: Path) -> dict[str, Fitted]:
    """Every card on which products were timed, float32 in eager PyTorch."""
    calibrations = {}
    for device in sheets(folder):
        table = timed_on(folder, device, ["train", "test"])
        if not len(table) or "linear" not in table.words("op"):
            continue
        form = sheets(folder)[device].form
        calibrations[device] = _fitted(
            work(table), table.numbers("latency_ms") / 1e3, _shape_folds(table), form
        )
    return calibrations


def _shape_folds(table: Table, count: int = 5) -> Codes:
    sides = [table.words(each).tolist() for each in ("op", *"BMNKH")]
    return np.array([drawn(" ".join(each)) % count for each in zip(*sides, strict=True)], np.int64)


def _fitted(kernels: Work, times: Floats, fold: Codes, form: FitOptions) -> Fitted:
    off = held_out_estimates(kernels, times, fold, form)
    rates = fit_rates(kernels, times, form)
    vector = rates.classes.get("elementwise", rates.pooled)
    error = float(100 * np.abs(off / times - 1).mean())
    return Fitted(replace(rates, pooled=vector), prediction_interval(off, times), error, len(times))
