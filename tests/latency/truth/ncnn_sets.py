"""ncnn's own benchmark: dozens of networks on a hundred boards, sent in by many people."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latency.truth.judge import Outcome, joined, plain_sum, with_others
from latency.truth.splits import anchors, every
from latency.truth.tables import Table, Words, read
from latency.truth.transfer import from_neighbors
from sizeup.latency import FitOptions, Work, from_columns, held_out_estimates
from sizeup.latency.work import Codes, Flags, Floats

_LEAST_NETWORKS = 15
_ANCHORS = 10
_FOLDS = 5


class Sections(NamedTuple):
    """Rows of one runtime; a section is one device at one setting, measured once."""

    table: Table
    section: Words
    device: Words


@cache
def sections(folder: Path, runtime: str) -> Sections:
    """Sections with networks enough to fit four coefficients and to judge them."""
    table = read(folder / "ncnn_bench.parquet")
    table = table.where((table.words("runtime") == runtime) & (table.numbers("latency_ms") > 0))
    parts = [table.words(each).tolist() for each in ("device", "threads", "powersave", "gpu_device")]
    seen: dict[tuple[str, ...], int] = {}
    names = []
    for row in zip(*parts, table.words("model").tolist(), strict=True):
        seen[row] = seen.get(row, 0) + 1
        names.append(" | ".join((*row[:-1], f"{seen[row]}")))
    return _large(Sections(table, np.array(names), table.words("device")))


def _large(rows: Sections) -> Sections:
    names, sizes = np.unique(rows.section, return_counts=True)
    return _kept(rows, np.isin(rows.section, names[sizes >= _LEAST_NETWORKS]))


def _kept(rows: Sections, kept: Flags) -> Sections:
    return Sections(rows.table.where(kept), rows.section[kept], rows.device[kept])


def _work(table: Table) -> Work:
    """A network as equal kernels of one class: float, or int8 with wide activations."""
    whole = np.char.endswith(table.words("model"), "_int8")
    operators = table.numbers("n_ops")
    return from_columns(
        np.where(whole, "int8", "float").tolist(),
        len(table),
        np.arange(len(table)),
        macs=table.numbers("macs") / operators,
        read=4 * table.numbers("act_elems") / operators,
        weights=np.where(whole, 1, 4) * table.numbers("params") / operators,
        count=operators,
    )


def unseen_network(folder: Path, runtime: str) -> Outcome:
    """On every section a fifth of the networks is held out in turn, in all their precisions."""
    rows = sections(folder, runtime)
    rows = _large(_kept(rows, ~np.isnan(rows.table.numbers("macs"))))
    models = np.char.replace(rows.table.words("model"), "_int8", "")
    fold = every(models) % _FOLDS
    work, times = _work(rows.table), rows.table.numbers("latency_ms") / 1e3
    estimated, baseline = np.zeros((2, len(times)))
    for section in np.unique(rows.section):
        here = np.flatnonzero(rows.section == section)
        estimated[here] = held_out_estimates(
            work.select(here), times[here], fold[here], FitOptions(by_class=True)
        )
        for each in np.unique(fold[here]):
            out = fold[here] == each
            baseline[here[out]] = plain_sum(work, times, here[~out], here[out])
    return replace(with_others(f"{runtime}, unseen network", estimated, times, fold), baseline=baseline)


def new_device(folder: Path) -> Outcome:
    """Every device held out in turn with all its settings; ten networks are measured on it."""
    rows = sections(folder, "ncnn-cpu")
    names, networks, known, devices = _matrix(rows)
    outcomes = []
    fold: list[Codes] = []
    for index, name in enumerate(names):
        there = np.flatnonzero(~np.isnan(known[index]))
        chosen = there[anchors(name, [networks[i] for i in there.tolist()], _ANCHORS)]
        others = np.setdiff1d(there, chosen)
        estimated = from_neighbors(known[devices != devices[index]], chosen.tolist(), known[index, chosen])
        outcomes.append(
            Outcome("", estimated[others], known[index, others], estimated[others], estimated[others])
        )
        fold.append(np.full(len(others), every(devices)[index]))
    all_of_them = joined("", outcomes)
    name = "ncnn CPU, new device with ten measurements"
    return with_others(name, all_of_them.estimated, all_of_them.measured, np.concatenate(fold))


def _matrix(rows: Sections) -> tuple[list[str], list[str], Floats, Words]:
    """Seconds by section and network, NaN where not measured."""
    names, row = np.unique(rows.section, return_inverse=True)
    networks, column = np.unique(rows.table.words("model"), return_inverse=True)
    known = np.full((len(names), len(networks)), np.nan)
    known[row, column] = rows.table.numbers("latency_ms") / 1e3
    common = (~np.isnan(known)).sum(axis=0) > 50
    devices = np.array([name.split(" | ")[0] for name in names.tolist()])
    enough = (~np.isnan(known[:, common])).sum(axis=1) >= 2 * _ANCHORS
    return names[enough].tolist(), networks[common].tolist(), known[np.ix_(enough, common)], devices[enough]
