"""Measurements on one target: networks as work, their seconds, and the groups to hold out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from latency.truth.tables import Words
from sizeup.errors import TargetError
from sizeup.latency import Rate, Rates, Work, dtype_of, from_columns
from sizeup.latency.work import Floats
from sizeup.targets import BUILT_IN, Catalog, Target

CATALOG = Catalog((BUILT_IN,))


class Measured(NamedTuple):
    """Networks on one target from one table; those of one `group` are held out together."""

    table: str
    target: Target
    work: Work
    seconds: Floats
    group: Words
    threads: int | None = None
    version: str = ""

    def without(self, groups: Collection[str]) -> Measured:
        """Without the networks of some groups."""
        rest = np.flatnonzero(~np.isin(self.group, [*groups]))
        return self._replace(work=self.work.select(rest), seconds=self.seconds[rest], group=self.group[rest])


def target_of(device: str, runtime: str) -> Target | None:
    """The target of a device as spelled in a table; None if it is not in the catalog."""
    try:
        return CATALOG.target(f"{CATALOG.device(device).name}/{runtime}")
    except TargetError:
        return None


def no_faster(rates: Rates, target: Target) -> Rates:
    """Rates at which no MAC is faster than the data sheet allows, at this dtype or a narrower float.

    Small networks may determine only the launch time; large networks would then take almost no time.
    """

    def floored(name: str, rate: Rate) -> Rate:
        dtype = dtype_of(name)
        kinds = ("fp32", "tf32", "fp16", "bf16") if dtype == "fp32" else (dtype,)
        peak = max(target.peak(dtype) or 0.0 for dtype in kinds)
        return replace(rate, mac=max(rate.mac, 1 / peak)) if peak else rate

    classes = {name: floored(name, rate) for name, rate in rates.classes.items()}
    return replace(rates, pooled=floored("*", rates.pooled), classes=classes)


def whole_networks(
    classes: Iterable[str], macs: Floats, moved: Floats, weights: Floats, operators: Floats
) -> Work:
    """Networks with only totals known, as equal kernels, one per operator."""
    count = len(macs)
    return from_columns(
        classes,
        count,
        np.arange(count),
        macs=macs / operators,
        read=moved / operators,
        weights=weights / operators,
        count=operators,
    )
