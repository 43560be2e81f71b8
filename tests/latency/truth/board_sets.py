"""Microcontrollers: ST's model zoo by network, and MLPerf Tiny by board."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latency.truth.effects import Effect, Expected, expected, likeliest_pulls
from latency.truth.judge import Outcome, folded, with_others
from latency.truth.splits import every
from latency.truth.tables import Table, Words, read
from sizeup.latency import FitOptions, Work, from_columns
from sizeup.latency.work import Codes, Floats
from sizeup.targets import current_catalog

STM32 = {"STM32H747": "STM32H747I-DISCO", "STM32N6": "STM32N6570-DK"}


# Backbones in the names of networks; a network without one is a family of its own.
_BACKBONES = re.compile(r"fd-?mobilenet|mobilenet|resnet|squeezenet|efficientnet|movenet|yolo")


def stm32(folder: Path, board: str, by_family: bool = False) -> Outcome:
    """Every network of the 3.2 zoo held out in turn, or every family; then the form is chosen without it."""
    table = read(folder / "stm32_modelzoo.csv")
    kept = (table.words("device") == STM32[board]) & (table.words("zoo_tag") == "v3.2.0")
    kept &= (np.char.lower(table.words("precision")) == "int8") & ~np.isnan(table.numbers("macs"))
    table = table.where(kept)
    # The costs of some rows are from a file of another input size than the row has.
    stated = [shape.split("x")[0] for shape in table.words("input_shape").tolist()]
    of_file = [shape.split("x")[1] for shape in table.words("in_shape").tolist()]
    table = table.where(np.array([a == b for a, b in zip(stated, of_file, strict=True)]))
    times = table.numbers("latency_ms") / 1e3
    plain, detailed = (_network_totals(table, each) for each in (False, board == "STM32N6"))
    models = [name.lower() for name in table.words("model").tolist()]
    families = [match[0] if (match := _BACKBONES.search(name)) else name for name in models]
    fold = every(families) if by_family else np.arange(len(table))
    label = f"{board}, {'family held out' if by_family else 'leave one out'}"
    form = FitOptions()
    outcome = folded(label, detailed, times, fold, form, families if by_family else None)
    return replace(outcome, baseline=folded(label, plain, times, fold, form).baseline)


# Operators of these networks that the STM32N6 runs on its processor, not on the accelerator: profiles of
# MoveNet show bilinear resizes as software, https://giacomocolosio02.github.io/stm32n6-docs/.
_SOFTWARE = "RESIZE_BILINEAR"


def _network_totals(table: Table, accelerated: bool) -> Work:
    """A network as a few kernels: its matrix products by op kind, and all its traffic.

    On an accelerator, traffic counts again next to operators that run on the processor, and for the share of
    external memory.
    """
    names, network, macs, moved, weights, count = [], [], [], [], [], []
    inside, beyond = (np.nan_to_num(table.numbers(f"{each}_ram_kib")) for each in ("internal", "external"))
    outside = (beyond / np.maximum(inside + beyond, 1)).tolist()
    totals = (table.numbers(each).tolist() for each in ("macs", "act_elems", "weight_bytes", "n_ops"))
    for index, (text, (total, activations, held, operators)) in enumerate(
        zip(table.words("macs_by").tolist(), zip(*totals, strict=True), strict=True)
    ):
        by_kind: dict[str, float] = ast.literal_eval(text) if text else {"CONV_2D": total}
        rows = [
            ("conv", by_kind.get("CONV_2D", 0), 0.0, 0.0, _ONCE),
            ("depthwise", by_kind.get("DEPTHWISE_CONV_2D", 0), 0.0, 0.0, _ONCE),
            ("linear", by_kind.get("FULLY_CONNECTED", 0), 0.0, 0.0, _ONCE),
            ("traffic", 0.0, activations, 0.0, operators),
            ("weights", 0.0, 0.0, held, _ONCE),
        ]
        if accelerated:
            rows.append(("software", 0.0, activations * (_SOFTWARE in by_kind), 0.0, _ONCE))
            rows.append(("outside", 0.0, activations * outside[index], 0.0, _ONCE))
        for name, products, bytes_moved, bytes_held, runs in rows:
            names.append(name)
            network.append(index)
            macs.append(products / runs)
            moved.append(bytes_moved / runs)
            weights.append(bytes_held / runs)
            count.append(runs)
    return from_columns(names, len(table), network, macs=macs, read=moved, weights=weights, count=count)


# Runs of the totals of a network, which have no launch cost.
_ONCE = 1e-6

# Cores that are not called Cortex in the catalog, which has their peak int8 MACs per cycle. Boards with an
# accelerator are entered as their core.
_NAMED = {
    "rxv2": "rxv2",
    "rh850": "rh850-g3kh",
    "d25f": "andes-d25f",
    "d45": "andes-d45",
    "ax45": "andes-ax45mp",
    "nx27v": "andes-nx27v",
    "c906": "xuantie-c906",
    "64gcvb": "spacemit-x60",
}
_CORES = (
    (r"cortex®?-m(0\+|4|7|33|85)", "m"),
    (r"\b(rxv2|rh850|d25f|d45|ax45|nx27v|c906|64gcvb)", ""),
)
_KNOWN_CORES = {"NUCLEO-H7A3ZI": "m7", "NUCLEO-L4R5ZI": "m4", "NUCLEO-U575ZI": "m33", "NRF5340": "m33"}
_ACCELERATED = ("XG24-DK2601B", "NUCLEO-U3C5ZIT6")
_ENGINES = (
    ("hale", "bosch"),
    ("plumerai", "plumerai"),
    ("microtvm cmsis", r"microtvm.cmsis"),
    ("microtvm", "microtvm"),
    ("onnc", "onnc"),
    ("x-cube-ai", r"x-cube-ai|stedge|stmicro"),
    ("tflm", r"tensorflow lite for micro|tflite-micro"),
)


def board_of(device: str) -> str:
    """A canonical name of a board, which results of several years spell differently."""
    name = device.upper().replace("_", "-").replace(" ", "-")
    name = re.sub(r"^MICROTVM-[A-Z-]+/|-\d+MHZ$|-HIGH-FREQ$", "", name)
    name = re.sub(r"^(NUCLEO-[A-Z0-9]+)(-P|-Q)+$", r"\1", name)
    return "NRF5340" if name.startswith("NRF5340") else name


def core_of(processor: str, board: str) -> str:
    """The core by its instruction set; '' if it is unknown."""
    text = processor.lower()
    for pattern, prefix in _CORES:
        match = re.search(pattern, text)
        if match:
            return prefix + match[1]
    return _KNOWN_CORES.get(board, "")


def peak_of(core: str) -> float:
    """The peak int8 MACs per cycle of a core."""
    core_data = current_catalog().core(_NAMED.get(core, f"cortex-{core}"))
    assert core_data is not None, core
    return core_data.macs_per_cycle["int8"]


def engine_of(text: str) -> str:
    """The inference engine of a runtime, a system and an organization."""
    return next(
        (name for name, pattern in _ENGINES if re.search(pattern, text.lower())), text.lower().split()[-1]
    )


class Tiny(NamedTuple):
    """MLPerf Tiny on processors: labels and the logarithm of cycles per MAC."""

    board: Words
    core: Words
    engine: Words
    version: Words
    network: Words
    submission: Words
    peak: Floats
    reuse: Floats  # MACs per weight
    logs: Floats
    seconds: Floats


@cache
def tiny(folder: Path) -> Tiny:
    """All results of boards whose core and clock are known."""
    table = read(folder / "mlperf_tiny.csv")
    table = table.where(~np.isnan(table.numbers("latency_ms")))
    boards = [board_of(each) for each in table.words("device").tolist()]
    cores = np.array([core_of(*each) for each in zip(table.words("cpu").tolist(), boards, strict=True)])
    clock = _clocks(table, boards)
    kept = (cores != "") & ~np.isnan(clock)
    rows = table.where(kept)
    parts = [rows.words(each).tolist() for each in ("runtime", "system", "org")]
    engine = np.array([engine_of(" ".join(each)) for each in zip(*parts, strict=True)])
    round_ = np.where(rows.words("precision") == "fp32", "fp32", rows.words("round"))
    seconds = rows.numbers("latency_ms") / 1e3
    cycles = seconds * clock[kept] * 1e6 / rows.numbers("macs")
    peak = np.array([peak_of(each) for each in cores[kept].tolist()])
    together = _tied(rows.words("system"), rows.words("round"), rows.words("org"))
    board = np.array(boards)[kept]
    version, network = _tied(engine, round_), rows.words("bench")
    reuse = rows.numbers("macs") / rows.numbers("params")
    return Tiny(board, cores[kept], engine, version, network, together, peak, reuse, np.log(cycles), seconds)


def _clocks(table: Table, boards: list[str]) -> Floats:
    """Megahertz; if missing in a row, from the device name or from other rows of the same board."""
    clock = table.numbers("clock_mhz")
    usual: dict[str, float] = {}
    for board, megahertz in zip(boards, clock.tolist(), strict=True):
        if megahertz == megahertz:
            usual[board] = max(megahertz, usual.get(board, 0.0))
    for index, device in enumerate(table.words("device").tolist()):
        named = re.search(r"_(\d+)mhz$", device.lower())
        if named:
            clock[index] = float(named[1])
        elif np.isnan(clock[index]):
            clock[index] = usual.get(boards[index], np.nan)
    return clock


def _tied(*labels: Words) -> Words:
    return np.array([" | ".join(each) for each in zip(*(each.tolist() for each in labels), strict=True)])


# Prior of the pulls: effects three times as wide as the noise of a measurement.
_START = 0.1


def _shared_reasons(rows: Tiny) -> list[Words | Floats]:
    """Effects on the cycles per MAC: core, engine and its version, network, and interactions."""
    wide = np.log(rows.peak / 2)
    # If each weight is used once, loading it is the limit, and wide arithmetic does not help.
    starved = np.where(rows.reuse < 4, wide, 0.0)
    alone = [rows.core, rows.engine, rows.version, rows.network]
    by_network = [_tied(each, rows.network) for each in (rows.engine, rows.version)]
    return [*alone, *by_network, wide, starved]


def _expected(rows: Tiny, reasons: list[Words | Floats], here: Codes, rest: Codes) -> Expected:
    """The prediction of some rows from the rest, with maximum-likelihood pulls of the rest."""
    pulls = likeliest_pulls([Effect(each[rest], _START) for each in reasons], rows.logs[rest])
    known, query = (
        [Effect(each[part], pull) for each, pull in zip(reasons, pulls, strict=True)] for part in (rest, here)
    )
    return expected(known, rows.logs[rest], query)


class TinyOutcomes(NamedTuple):
    """Unseen boards: plain Cortex-M with a known engine on that core, all, and with one measurement."""

    plain: Outcome
    all: Outcome
    anchored: Outcome


@cache
def unseen_boards(folder: Path) -> TinyOutcomes:
    """Each board held out in turn, with all its spellings, clocks and engines."""
    rows = tiny(folder)
    logs, familiar = np.zeros(len(rows.logs)), np.zeros(len(rows.logs), np.bool_)
    for board in np.unique(rows.board):
        here, rest = np.flatnonzero(rows.board == board), np.flatnonzero(rows.board != board)
        logs[here] = np.log(_expected(rows, _shared_reasons(rows), here, rest).closest)
        met = {*zip(rows.core[rest].tolist(), rows.engine[rest].tolist(), strict=True)}
        pairs = zip(rows.core[here].tolist(), rows.engine[here].tolist(), strict=True)
        familiar[here] = [pair in met for pair in pairs]
    fold = every(rows.board)
    estimated = rows.seconds * np.exp(logs - rows.logs)
    plain = familiar & np.isin(rows.core, ["m4", "m7", "m33"]) & ~np.isin(rows.board, _ACCELERATED)
    kept = np.flatnonzero(plain)
    return TinyOutcomes(
        with_others(
            "MLPerf Tiny, Cortex-M without accelerator, known runtime",
            estimated[kept],
            rows.seconds[kept],
            fold[kept],
            True,
        ),
        with_others("MLPerf Tiny, all processors", estimated, rows.seconds, fold),
        _anchored(rows),
    )


# The kind of most matrix products of a network.
_KINDS = {"ad": "dense", "ic": "convolution", "kws": "separable", "vww": "separable", "sww": "separable"}


def _reasons(rows: Tiny) -> list[Words | Floats]:
    """All effects on the cycles per MAC, including those of one board or one submission."""
    kind = np.array([_KINDS[each] for each in rows.network.tolist()])
    precision = np.where(np.char.endswith(rows.version, "fp32"), "fp32", "int8")
    wide = np.log(rows.peak / 2)
    alone = [rows.core, rows.engine, rows.version, precision, rows.network, rows.board, rows.submission]
    by_network = [_tied(each, rows.network) for each in (rows.engine, rows.version, precision)]
    by_kind = [_tied(each, kind) for each in (rows.core, rows.board, rows.submission)]
    by_width = [wide, *(np.where(kind == each, wide, 0.0) for each in ("dense", "separable"))]
    return [*alone, *by_network, *by_kind, *by_width]


def _anchored(rows: Tiny) -> Outcome:
    """Each measurement of a submission in turn predicts the others of it, with pulls of other boards."""
    estimated, measured, folds = [], [], []
    for fold, board in enumerate(np.unique(rows.board)):
        here, rest = np.flatnonzero(rows.board == board), np.flatnonzero(rows.board != board)
        before = _expected(rows, _reasons(rows), here, rest)
        for anchor, row in enumerate(here.tolist()):
            others = np.flatnonzero(rows.submission[here] == rows.submission[row])
            others = others[others != anchor]
            off = before.after(anchor, rows.logs[row]).closest[others] / np.exp(rows.logs[here[others]])
            estimated.append(rows.seconds[here[others]] * off)
            measured.append(rows.seconds[here[others]])
            folds.append(np.full(len(others), fold))
    name = "MLPerf Tiny, one measurement on the device"
    return with_others(name, np.concatenate(estimated), np.concatenate(measured), np.concatenate(folds))
