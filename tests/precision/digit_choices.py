"""Choices of precisions for networks trained on digits, and what they get right on images kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from precision.digits import split, trained
from sizeup.dtypes import DType, precision
from sizeup.mixed_precision import bench
from sizeup.mixed_precision.choose import choose
from sizeup.mixed_precision.figures import Budgets, figures_of
from sizeup.mixed_precision.network import Floats
from sizeup.mixed_precision.options import Options, options_of
from sizeup.mixed_precision.refine import choose_by_measuring, losses_by_layer

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
    """Every budget for the network of a seed: losses from the training images, judgement from the others."""
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
            found = kept.measure(chosen).accuracy
            assert found is not None
            return found

        made = []
        for share in SHARES:
            budgets = Budgets(weight_bytes=int(share * whole))
            exact = choose(options, loss, budgets)
            refined = choose_by_measuring(known, options, budgets, KINDS).choice
            fitting = {
                name: right(uniform(options, kind))
                for name, kind in zip(NAMES, KINDS, strict=True)
                if budgets.kept_by(figures_of(options, uniform(options, kind)))
            }
            made.append(
                Judged(
                    share,
                    right(exact.chosen),
                    right(refined.chosen),
                    fitting,
                    right(greedy(options, loss, budgets)),
                    budgets.kept_by(exact.figures) and budgets.kept_by(refined.figures),
                )
            )
        return tuple(made)


def uniform(options: Options, kind: DType) -> dict[int, DType]:
    """All layers at one type."""
    return {layer.op: kind for layer in options.layers}


def greedy(options: Options, loss: Floats, budgets: Budgets) -> dict[int, DType]:
    """Narrow the layer that loses least for each byte, again and again, until it fits."""
    count = len(KINDS)
    picked = np.arange(0, len(loss), count)
    while not budgets.kept_by(figures_of(options, options.chosen(picked))):
        narrower = [
            (loss[each + 1] - loss[each]) / max(options.weights[each] - options.weights[each + 1], 1e-9)
            if each % count < count - 1
            else np.inf
            for each in picked
        ]
        picked[int(np.argmin(narrower))] += 1
    return options.chosen(picked)
