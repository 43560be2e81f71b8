"""Microcontrollers: MLPerf Tiny's networks from model files, and TinyEngine's table of MACs and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fitting.measured import Measured, target_of
from latency.truth.board_sets import board_of, engine_of
from latency.truth.tables import Table, read
from sizeup.api.models import count
from sizeup.latency import Work, execution_of, from_columns, stack
from sizeup.targets import Target

_FILES = {"ad": "ad01", "ic": "resnet8", "kws": "kws", "sww": "strww", "vww": "vww96"}
_ENGINES = {"x-cube-ai": "stedgeai", "microtvm": "microtvm"}
# Results at another clock than the data sheet's, of unreleased versions, or with an accelerator.
_OTHER = re.compile(r"_\d+mhz$|internal|^xg24|U3C5", re.IGNORECASE)


@cache
def work_of_benchmark(models: Path, name: str) -> Work:
    """The kernels of one of MLPerf Tiny's model files, one per operator."""
    return execution_of(count(models / f"{file_of_benchmark(name)}.tflite")).work


def file_of_benchmark(name: str) -> str:
    """The name of the model file of a benchmark of MLPerf Tiny, without its extension."""
    return f"mlperf_{_FILES[name]}_int8"


def benchmark(folder: Path) -> Table:
    """MLPerf Tiny in int8, without results that measure something other than the network's arithmetic."""
    table = read(folder / "mlperf_tiny.csv")
    devices, runtimes = table.words("device").tolist(), table.words("runtime").tolist()
    plain = [not (_OTHER.search(a) or _OTHER.search(b)) for a, b in zip(devices, runtimes, strict=True)]
    # Most channels of vww are zero, and engines skip them since round 1.1.
    is_usable = np.array(plain) & (table.words("bench") != "vww")
    is_usable &= (table.words("precision") == "int8") & (table.numbers("latency_ms") > 0)
    return table.where(is_usable)


class Result(NamedTuple):
    """A result of MLPerf Tiny on a target of the catalog."""

    target: Target
    network: str
    round: str
    seconds: float
    version: str


def results(folder: Path) -> Iterator[Result]:
    """All results on targets of the catalog, of all rounds and versions."""
    table = benchmark(folder)
    words = [table.words(each).tolist() for each in ("device", "runtime", "system", "org", "round", "bench")]
    seconds = (table.numbers("latency_ms") / 1e3).tolist()
    for device, runtime, system, organization, round_, bench, latency in zip(*words, seconds, strict=True):
        engine = _ENGINES.get(engine_of(f"{runtime} {system} {organization}"))
        target = None if engine is None else target_of(device, engine) or target_of(board_of(device), engine)
        if target is not None:
            version = next(iter(re.findall(r"v?(\d+\.\d+)", runtime)), "")
            yield Result(target, bench, round_, latency, version)


def measured(folder: Path, models: Path) -> Iterator[Measured]:
    """The newest result of each network on each target of the catalog."""
    rows: dict[str, dict[str, tuple[str, float, str]]] = {}
    targets: dict[str, Target] = {}
    for target, bench, round_, seconds, version in results(folder):
        targets[target.name] = target
        by_bench = rows.setdefault(target.name, {})
        if bench not in by_bench or by_bench[bench][0] <= round_:
            by_bench[bench] = (round_, seconds, version)
    for name, by_network in sorted(rows.items()):
        networks = sorted(by_network)
        yield Measured(
            "mlperf_tiny",
            targets[name],
            stack([work_of_benchmark(models, each) for each in networks]),
            np.array([by_network[each][1] for each in networks]),
            np.array(networks),
            version=" and ".join(sorted({by_network[each][2] for each in networks} - {""})),
        )


_TABLE = {
    "TFLite-Micro@713b6ed": "tflm",
    "CMSIS-NN@011bf32": "tflm-cmsis-nn",
    "X-CUBE-AI 7.3.0": "stedgeai",
    "TinyEngine@0363956": "tinyengine",
}


def tiny_engine(folder: Path) -> Iterator[Measured]:
    """Four engines on one device; only the MACs of the networks are known."""
    table = read(folder / "small_tables.csv")
    table = table.where(table.words("dataset") == "tinyengine")
    table = table.where(~np.isnan(table.numbers("macs")) & (table.numbers("latency_ms") > 0))
    for tag, runtime in _TABLE.items():
        rows = table.where(table.words("runtime") == tag)
        target = target_of(rows.words("device")[0], runtime)
        assert target is not None
        macs = rows.numbers("macs")
        work = from_columns(["*.int8"] * len(rows), len(rows), np.arange(len(rows)), macs=macs)
        version = re.sub(r".*[@ ]", "", tag)
        seconds = rows.numbers("latency_ms") / 1e3
        yield Measured("tinyengine", target, work, seconds, rows.words("model"), version=version)


def of_any_engine(folder: Path, models: Path) -> Iterator[tuple[Measured, str]]:
    """All results on devices of the catalog, with the runtime's name, '' if it is not in the catalog."""
    table = benchmark(folder)
    texts = [table.words(each).tolist() for each in ("runtime", "system", "org")]
    engines = [_ENGINES.get(engine_of(" ".join(each)), "") for each in zip(*texts, strict=True)]
    boards = [board_of(each) for each in table.words("device").tolist()]
    pairs = np.array([f"{board} | {engine}" for board, engine in zip(boards, engines, strict=True)])
    for pair in np.unique(pairs).tolist():
        rows = table.where(pairs == pair)
        board, engine = pair.split(" | ")
        names = (rows.words("device")[0], board)
        runtimes = (engine, "tflm-cmsis-nn", "tflm")
        both = (target_of(name, runtime) for runtime in runtimes if runtime for name in names)
        target = next((each for each in both if each is not None), None)
        if target is not None:
            work = stack([work_of_benchmark(models, each) for each in rows.words("bench").tolist()])
            seconds = rows.numbers("latency_ms") / 1e3
            yield Measured("mlperf_tiny", target, work, seconds, rows.words("bench")), engine
