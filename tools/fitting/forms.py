"""The form of shipped calibrations, chosen by the rule of `sizeup calibrate --csv`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fitting.measured import Measured
from sizeup.latency import FitOptions, Rates, fit_rates
from sizeup.latency.selection import MAX_NESTED, Fit, choose_form
from sizeup.latency.work import Floats, Work

SIMPLE = FitOptions(by_class=False)
"""Four coefficients: per MAC, byte, kernel and inference."""


class FormChoice:
    """The form that targets of a source share, if they compute on the same kind of unit.

    One target has too few networks to choose: four coefficients and rates by dtype differ by less than the
    noise of 30 networks. The form is chosen again without the families that are held out, except if there are
    more measurements than `MAX_NESTED`.
    """

    def __init__(self, targets: Iterable[Measured], detailed: FitOptions, fit: Fit = fit_rates) -> None:
        self.targets = tuple(targets)
        self.forms = (SIMPLE, detailed)
        self.fit = fit
        self.chosen: dict[frozenset[str], FitOptions] = {}

    def form(self, without: frozenset[str] = frozenset()) -> FitOptions:
        """The chosen form; without the networks of some families if given."""
        if sum(len(each.seconds) for each in self.targets) > MAX_NESTED:
            without = frozenset()
        if without not in self.chosen:
            parts = [each.without(without) for each in self.targets]
            samples = [(part.work, part.seconds, part.group.tolist()) for part in parts if len(part.seconds)]
            self.chosen[without] = choose_form(samples, self.forms, self.fit)
        return self.chosen[without]

    def rates(self, work: Work, measured: Floats, without: frozenset[str] = frozenset()) -> Rates:
        """Rates of the chosen form; `without` are the families that these networks do not contain."""
        return self.fit(work, measured, self.form(without))


def fit_totals(work: Work, measured: Floats, form: FitOptions) -> Rates:
    """Rates of networks of which only totals are known: their classes are dtypes.

    Four coefficients are the rates of each measured dtype, so that its peak limits them.
    """
    if form.by_class and len(work.names) > 1:
        return fit_rates(work, measured, form)
    rates = fit_rates(work, measured, SIMPLE)
    return rates if work.names == ("*",) else replace(rates, classes=dict.fromkeys(work.names, rates.pooled))
