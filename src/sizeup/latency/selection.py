"""The choice of a regression's form by its errors on held-out families of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from sizeup.latency.model import Rates, seconds
from sizeup.latency.regression import FitOptions, fit_rates
from sizeup.latency.work import Codes, Floats, Work

MIN_NETWORKS = 20
"""Number of measurements from which a form other than the simplest may be chosen."""
MAX_NESTED = 300
"""Number of measurements up to which the choice is repeated without the networks that are held out.

With more, it hardly depends on them.
"""
_FOLDS = 5
_MIN_FOLDS = 3  # two have no meaningful standard error
Fit: TypeAlias = Callable[[Work, Floats, FitOptions], Rates]
Sample: TypeAlias = tuple[Work, Floats, Sequence[str]]
"""Networks measured on one target: their work, seconds and families."""


def choose_form(samples: Sequence[Sample], forms: Sequence[FitOptions], fit: Fit = fit_rates) -> FitOptions:
    """The simplest form that predicts held-out families as well as any, within the noise.

    `forms` are ordered from simple to complex. One replaces a simpler form only if it lowers the mean
    absolute logarithmic error on held-out families by more than the standard error of that difference over
    the folds.
    Several samples are targets that share the form; each has its own rates.
    """
    families = [family for _, _, names in samples for family in names]
    folds = family_folds(families, _FOLDS)
    count = int(folds.max(initial=-1)) + 1
    chosen = forms[0]
    if len(families) < MIN_NETWORKS or count < _MIN_FOLDS or len(forms) < 2:
        return chosen
    errors = _errors_by_fold(samples, folds, chosen, fit)
    for form in forms[1:]:
        challenger = _errors_by_fold(samples, folds, form, fit)
        gain = errors - challenger
        if float(gain.mean()) > float(gain.std(ddof=1)) / math.sqrt(count):
            chosen, errors = form, challenger
    return chosen


def family_folds(families: Sequence[str], most: int) -> Codes:
    """The fold of each network: one fold per family, or several families per fold if there are too many."""
    names = list(dict.fromkeys(families))
    fold_of = {name: index % most for index, name in enumerate(names)}
    return np.array([fold_of[name] for name in families], np.int64)


def _errors_by_fold(samples: Sequence[Sample], folds: Codes, form: FitOptions, fit: Fit) -> Floats:
    """The mean absolute logarithmic error of each fold; each target is fitted to its other folds."""
    errors = np.zeros(len(folds))
    start = 0
    for work, measured, families in samples:
        fold = folds[start : start + len(families)]
        for label in np.unique(fold):
            left_out, rest = np.flatnonzero(fold == label), np.flatnonzero(fold != label)
            estimated = seconds(fit(work.select(rest), measured[rest], form), work.select(left_out))
            errors[start + left_out] = np.abs(np.log(estimated / measured[left_out]))
        start += len(families)
    return np.bincount(folds, errors) / np.bincount(folds)
