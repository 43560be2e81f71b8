"""What was measured on one target: networks as work, their seconds, and what is held out together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from latency.truth.tables import Words
from sizeup.errors import TargetError
from sizeup.latency import Rate, Rates, Work, from_columns, type_of
from sizeup.latency.work import Floats
from sizeup.targets import BUILT_IN, Catalog, Target

CATALOG = Catalog((BUILT_IN,))


class Measured(NamedTuple):
    """Networks on one target, by one table; `group` says what is held out together."""

    table: str
    target: Target
    work: Work
    seconds: Floats
    group: Words
    threads: int | None = None
    version: str = ""


def target_of(device: str, runtime: str) -> Target | None:
    """The target of a device as a table spells it; None where none of ours is meant."""
    try:
        return CATALOG.target(f"{CATALOG.device(device).name}/{runtime}")
    except TargetError:
        return None


def no_faster(rates: Rates, target: Target) -> Rates:
    """Rates at which no MAC takes less than the data sheet says, at this number type or a narrower float.

    Where launches are all that can be told from small networks, a fit would have large ones take none.
    """

    def floored(name: str, rate: Rate) -> Rate:
        kind = type_of(name)
        kinds = ("fp32", "tf32", "fp16", "bf16") if kind == "fp32" else (kind,)
        peak = max(target.peak(each) or 0.0 for each in kinds)
        return replace(rate, mac=max(rate.mac, 1 / peak)) if peak else rate

    classes = {name: floored(name, rate) for name, rate in rates.classes.items()}
    return replace(rates, pooled=floored("*", rates.pooled), classes=classes)


def whole_networks(
    kinds: Iterable[str], macs: Floats, moved: Floats, weights: Floats, operators: Floats
) -> Work:
    """Networks of which only totals are known: as many equal kernels as they have operators."""
    count = len(macs)
    return from_columns(
        kinds,
        count,
        np.arange(count),
        macs=macs / operators,
        read=moved / operators,
        weights=weights / operators,
        count=operators,
    )
