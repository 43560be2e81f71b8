"""What was measured on one target: networks as work, their seconds, and what is held out together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from latency.truth.tables import Words
from sizeup.errors import TargetError
from sizeup.latency import Work, from_columns
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
