"""Choices of precisions for networks trained on digits, and what they get right on images kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from precision.digits import split, trained
from sizeup.dtypes import DType, precision
from sizeup.mixed_precision import bench
from sizeup.mixed_precision.choose import find_assignment
from sizeup.mixed_precision.figures import Budgets, figures_of
from sizeup.mixed_precision.options import OptionTable, options_of
from sizeup.mixed_precision.refine import find_measured_assignment, losses_by_layer
from sizeup.mixed_precision.trellis import Floats

NAMES = ("fp32", "fp16", "int8", "int4", "int2")
KINDS = [precision(each) for each in NAMES]
SHARES = (0.3, 0.2, 0.13, 0.1)
"""Budgets, as shares of the flash at float32."""


@dataclass(frozen=True)
class Judged:
    """Shares of test images that are right: the exact choice, that after measuring the best few, every
    uniform precision that fits, and the greedy choice."""

    share: float
    exact: float
    refined: float
    uniform: dict[str, float]
    greedy: float
    fits: bool

    @property
    def error(self) -> float:
        """The standard error of the exact choice's share."""
        _, test = split()
        return float(np.sqrt(self.exact * (1 - self.exact) / len(test.labels)))


@cache
def judged(seed: int) -> tuple[Judged, ...]:
    """Every budget for the network of a seed: losses from the training images, judgment from the others."""
    train, test = split()
    module = trained("convolutional", seed)
    with (
        bench(module, train.images, train.labels, cache=False) as known,
        bench(module, test.images, test.labels, calibration=train.images, cache=False) as kept,
    ):
        options = options_of(known.graph, KINDS)
        loss = options.losses(losses_by_layer(known.sensitivity(NAMES)))
        whole = figures_of(options, uniform(options, KINDS[0])).weight_bytes

        def right(chosen: dict[int, DType]) -> float:
            accuracy = kept.measure(chosen).accuracy
            assert accuracy is not None
            return accuracy

        results = []
        for share in SHARES:
            budgets = Budgets(weight_bytes=int(share * whole))
            exact = find_assignment(options, loss, budgets)
            refined = find_measured_assignment(known, options, budgets, KINDS).assignment
            fitting = {
                name: right(uniform(options, kind))
                for name, kind in zip(NAMES, KINDS, strict=True)
                if budgets.met_by(figures_of(options, uniform(options, kind)))
            }
            results.append(
                Judged(
                    share,
                    right(exact.dtypes),
                    right(refined.dtypes),
                    fitting,
                    right(greedy(options, loss, budgets)),
                    budgets.met_by(exact.figures) and budgets.met_by(refined.figures),
                )
            )
        return tuple(results)


def uniform(options: OptionTable, kind: DType) -> dict[int, DType]:
    """All layers at one type."""
    return {layer.op: kind for layer in options.layers}


def greedy(options: OptionTable, loss: Floats, budgets: Budgets) -> dict[int, DType]:
    """Narrow the layer that loses least for each byte, again and again, until it fits."""
    count = len(KINDS)
    picked = np.arange(0, len(loss), count)
    while not budgets.met_by(figures_of(options, options.assignment_of(picked))):
        narrower = [
            (loss[each + 1] - loss[each]) / max(options.weights[each] - options.weights[each + 1], 1e-9)
            if each % count < count - 1
            else np.inf
            for each in picked
        ]
        picked[int(np.argmin(narrower))] += 1
    return options.assignment_of(picked)
