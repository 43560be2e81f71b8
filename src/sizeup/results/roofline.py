"""What operators attain on a target: the points of every roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.latency import Estimate
    from sizeup.latency.work import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Attained:
    """Operators that name kernels with MACs: what these do, move and take; and how many others take time."""

    ops: list[int]
    macs: Floats
    moved: Floats
    seconds: Floats
    others: int  # operators that take time and have no MACs
    others_seconds: float

    @property
    def intensity(self) -> Floats:
        """FLOPs per byte, 2 per MAC."""
        return FLOPS_PER_MAC * self.macs / self.moved

    @property
    def rate(self) -> Floats:
        """MACs a second."""
        return self.macs / self.seconds


def attained(found: Estimate) -> Attained:
    """What the kernels of an estimate attain, one row an operator that names them."""
    work, main, count = found.work, found.executed.main, len(found.executed.kernel)

    def by_op(column: Floats) -> Floats:
        return np.asarray(np.bincount(main, column * work.count, count), np.float64)

    macs, moved, seconds = by_op(work.macs), by_op(work.traffic), by_op(found.kernels.seconds)
    ops = np.flatnonzero((macs > 0) & (moved > 0) & (seconds > 0))
    without = (macs == 0) & (seconds > 0)
    others = int(without.sum()), float(seconds[without].sum())
    return Attained(ops.tolist(), macs[ops], moved[ops], seconds[ops], *others)
