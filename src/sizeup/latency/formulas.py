"""Latency as formulas: what every kernel takes, in the free sizes, as people and Python read it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sizeup.graph import Condition, Expression, Ratio, name_of
from sizeup.graph.written import substituted, written
from sizeup.latency.estimate import Estimate
from sizeup.latency.forms import KernelForm, KernelForms
from sizeup.latency.free import FreeEstimate
from sizeup.latency.interval import Band
from sizeup.latency.model import Rates, rates_from
from sizeup.latency.sheet import nearest_peak, type_of
from sizeup.latency.timed import LEAST_START, Basis, by_sheet, is_covered
from sizeup.targets import Target, current

Lines = list[tuple[str, str]]  # names and their values, in order
_E = 2.718281828459045
_LARGE = 16  # powers of short times beyond this one are too small for a float


@dataclass(frozen=True, slots=True)
class KernelFormula:
    """Kernels that are alike: their class, the operators that name them, how often they run, their part of
    the time at the example, and `lines` (a name and its value) of which the last gives the seconds of one."""

    label: str
    kind: str
    ops: tuple[str, ...]
    count: int
    share: float
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LatencyForms:
    """Seconds of one pass as formulas of free sizes; every line is Python, the lines of kernels come first.

    `totals` holds `seconds` and, where it is known, the range (`low`, `high`). They hold where the counts do
    and the conditions of `origins` too, from `least_seconds` on and below `most_seconds`: a network that
    takes less than its kernels need to start is told of otherwise.
    """

    target: Target
    basis: Basis
    origin: str
    example: Mapping[str, int]
    origins: Mapping[Condition, str]
    least_seconds: float
    most_seconds: float
    kernels: tuple[KernelFormula, ...]
    totals: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def program(self) -> str:
        """All lines as Python: with the free sizes set, it sets `seconds`, and `low` and `high` if known."""
        lines = [line for kernel in self.kernels for line in kernel.lines]
        return "".join(f"{name} = {value}\n" for name, value in (*lines, *self.totals))


def latency_forms(estimate: FreeEstimate) -> LatencyForms | None:
    """The formulas around the example that a model was read with; None where it has none there."""
    example, asked = estimate.cost.graph.example, estimate.asked
    forms = estimate.forms_at(example)
    if forms is None or asked is None:
        return None
    single, named = estimate.single(example), _Names(frozenset(example))
    prices: _ByFit | _BySheet
    if single.fit is not None:
        prices = _ByFit(rates_from(single.fit.rates), Band(**single.fit.band), named)
    else:
        prices = _BySheet(asked.target, single, named)
    kernels = tuple(_kernels(forms, single, prices, named))
    totals = [(named("seconds"), prices.total(kernels))]
    if single.low is not None:
        totals += prices.range(kernels)
    if single.high is None:
        totals = [each for each in totals if each[0] != named("high")]
    runs = sum(each.count for each in forms.kernels)
    return LatencyForms(
        asked.target,
        single.basis,
        single.origin,
        example,
        forms.origins,
        *_span(single, runs, asked.basis),
        kernels,
        tuple(totals),
        (*single.notes, *_otherwise(single, runs, asked.basis)),
    )


def _otherwise(single: Estimate, runs: float, basis: Basis | None) -> Iterable[str]:
    """Where measurements would tell, if it is a data sheet because kernels are short at the example."""
    target = single.target
    if target is None or basis is not None or single.basis != "roofline":
        return
    fit = current().fit(target)
    if fit is not None and is_covered(single.work, fit)[0]:
        least = (target.overhead_seconds or 0.0) * runs
        yield f"where formulas of the basis calibrated give {least:.4g} seconds or more, they hold instead"


def _span(single: Estimate, runs: float, basis: Basis | None) -> tuple[float, float]:
    """From which seconds on, and below which, formulas hold.

    Where starting the kernels takes longer, a fit that was not asked for gives way to a data sheet, and a
    multiple of a data sheet to what it says itself.
    """
    target = single.target
    if target is None:
        return 0.0, math.inf
    if single.basis == "calibrated":
        return (0.0 if basis == "calibrated" else (target.overhead_seconds or 0.0) * runs), math.inf
    told = by_sheet(single.work, target)
    if told.reach is not None and told.is_lost[0]:
        return 0.0, LEAST_START * runs / told.reach.times
    is_told = target.overhead_seconds is not None or target.device.kind == "microcontroller"
    return (0.0 if is_told or single.low is None else LEAST_START * runs), math.inf


def _kernels(
    forms: KernelForms, single: Estimate, prices: _ByFit | _BySheet, named: _Names
) -> Iterable[KernelFormula]:
    """Those that take the largest part of the time first; what is written alike is one."""
    graph, taken = forms.forms.graph, single.kernels.seconds * single.work.count
    alike: dict[tuple[str, tuple[tuple[str, str], ...], str], list[KernelForm]] = {}
    for form in forms.kernels:
        seconds = prices.seconds(form)
        if form.count and seconds != "0":
            alike.setdefault((form.name, _needed(prices.lines(form), seconds), seconds), []).append(form)
    places = {key: [place for form in found for place in form.places] for key, found in alike.items()}
    shares = {key: float(taken[own].sum() / taken.sum()) for key, own in places.items()}
    for number, key in enumerate(sorted(alike, key=lambda each: -shares[each]), 1):
        ops = (graph.ops[forms.main[place]] for place in places[key])
        names = tuple(dict.fromkeys(op.scope or name_of(graph, op) for op in ops))
        label, count = named(f"k{number}"), round(sum(each.count for each in alike[key]))
        yield KernelFormula(label, key[0], names, count, shares[key], (*key[1], (label, key[2])))


def _needed(lines: Lines, text: str) -> tuple[tuple[str, str], ...]:
    """The lines that a text is computed from."""
    kept: Lines = []
    for name, value in reversed(lines):
        if re.search(rf"\b{name}\b", text):
            kept.insert(0, (name, value))
            text += value
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names beside those of free dimensions."""

    taken: frozenset[str]

    def __call__(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name


@dataclass(frozen=True, slots=True)
class _BySheet:
    """What a data sheet says: the longer of arithmetic and traffic, after a launch."""

    target: Target
    single: Estimate
    named: _Names

    def lines(self, form: KernelForm) -> Lines:
        return _work(form, self.named)

    def seconds(self, form: KernelForm) -> str:
        peak, bandwidth = nearest_peak(self.target, type_of(form.name)), self.target.device.bandwidth
        parts = []
        if peak is not None and _is_there(form.quantities[0]):
            parts.append(f"{self.named('macs')} / {_number(peak[1])}")
        if bandwidth is not None and _is_there(_moved(form)):
            parts.append(f"{self.named('bytes')} / {_number(bandwidth)}")
        longer = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts)
        launch = self.target.overhead_seconds or 0.0
        return _added([longer, _number(launch) if launch else ""])

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        times = float(by_sheet(self.single.work, self.target).times[0])
        added = _sum(kernels)
        return added if times == 1 else f"{_number(times)} * ({added})"

    def range(self, _: tuple[KernelFormula, ...]) -> Lines:
        told, total = by_sheet(self.single.work, self.target), self.named("seconds")
        sides = (("low", told.low[0]), ("high", told.high[0]))
        return [(self.named(name), f"{_number(side / told.seconds[0])} * {total}") for name, side in sides]


@dataclass(frozen=True, slots=True)
class _ByFit:
    """What rates that were fitted say: a norm of arithmetic and traffic, after a launch."""

    rates: Rates
    band: Band
    named: _Names

    def lines(self, form: KernelForm) -> Lines:
        found = _work(form, self.named)
        length, columns, rows = form.quantities[4:]
        if not _is_there(form.quantities[0]) or not _is_there(rows):
            return found
        rates, tile = self.rates, self.rates.tile
        made = self.named("rows")
        if rates.rows or tile or rates.wave:
            found.append((made, _quotient(rows)))
        factors = []
        if tile:
            found.append((self.named("tiled"), f"-(-{made} // {_number(tile)}) * {_number(tile)}"))
            factors.append(f"{self.named('tiled')} / {made}")
            made = self.named("tiled")
        sides = ((rates.length, _divisor(length)), (rates.columns, _divisor(columns)), (rates.rows, made))
        factors += [f"(1 + {_number(half)} / {side})" for half, side in sides if half and side != "0"]
        wave = f"{_number(rates.wave / 2)} / ({_divisor(columns)} * {made})" if rates.wave else ""
        if factors or wave:
            found.append((self.named("idle"), _added([" * ".join(factors) or "1", wave])))
        return found

    def seconds(self, form: KernelForm) -> str:
        rate, rates = self.rates.of(form.name), self.rates
        compute, traffic = "", ""
        if rate.mac and _is_there(form.quantities[0]):
            idle = [self.named("idle")] * any(name == self.named("idle") for name, _ in self.lines(form))
            compute = " * ".join([_number(rate.mac), self.named("macs"), *idle])
        if _is_there(_moved(form)):
            traffic = self._traffic(rate.byte)
        norm = _norm(compute, traffic, rates.power) if compute and traffic else compute or traffic
        return _added([norm, _number(rate.launch) if rate.launch else ""])

    def _traffic(self, byte: float) -> str:
        rates, moved = self.rates, self.named("bytes")
        if rates.cache and rates.far:
            return f"({_number(byte)} + {_number(rates.far)} * ({moved} > {_exactly(rates.cache)})) * {moved}"
        return f"{_number(byte)} * {moved}" if byte else ""

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        return _added([_sum(kernels), _number(self.rates.run) if self.rates.run else ""])

    def range(self, kernels: tuple[KernelFormula, ...]) -> Lines:
        """Wider where kernels take part of the time that the fit has not met."""
        unseen = tuple(each for each in kernels if not self.rates.knows(each.kind))
        total = self.named("seconds")
        if not unseen or not self.band.unseen:
            sides = (("low", self.band.low), ("high", self.band.high))
            return [(self.named(name), f"{_number(_E**side)} * {total}") for name, side in sides]
        share, wider = self.named("unseen"), _number(self.band.unseen)
        found = [(share, f"({_sum(unseen)}) / ({_sum(kernels)})")]
        signed = (("low", self.band.low, "-"), ("high", self.band.high, "+"))
        found += [
            (self.named(name), f"{total} * {_E}**({_number(side)} {sign} {wider} * {share})")
            for name, side, sign in signed
        ]
        return found


def _work(form: KernelForm, named: _Names) -> Lines:
    found = (("macs", form.quantities[0]), ("bytes", _moved(form)))
    return [(named(name), _quotient(each)) for name, each in found if _is_there(each)]


def _moved(form: KernelForm) -> Ratio:
    _, read, made, weights, *_ = form.quantities
    return read + made + weights


def _is_there(quantity: Ratio) -> bool:
    return isinstance(quantity.top, Expression) or quantity.top != 0


def _quotient(quantity: Ratio) -> str:
    if isinstance(quantity.bottom, int) and quantity.bottom == 1:
        return written(quantity.top)
    bottom = written(quantity.bottom)
    return f"({written(quantity.top)}) / {bottom if bottom.isalnum() else f'({bottom})'}"


def _divisor(quantity: Ratio) -> str:
    text = _quotient(quantity)
    return text if text.isalnum() else f"({text})"


def _norm(left: str, right: str, power: float) -> str:
    if power == 1:
        return f"{left} + {right}"
    if power > _LARGE:
        share = f"min({left}, {right}) / max({left}, {right})"
        return f"max({left}, {right}) * (1 + ({share})**{_number(power)})**(1 / {_number(power)})"
    return f"(({left})**{_number(power)} + ({right})**{_number(power)})**(1 / {_number(power)})"


def _sum(kernels: Iterable[KernelFormula]) -> str:
    return _added([f"{each.count} * {each.label}" if each.count != 1 else each.label for each in kernels])


def _added(terms: Iterable[str]) -> str:
    return " + ".join(each for each in terms if each) or "0"


def _exactly(value: float) -> str:
    return _number(value) if float(_number(value)) == value else repr(value)


def _number(value: float) -> str:
    """A number of ten digits: what is fitted or measured has fewer."""
    return f"{value:.10g}"


def is_same_at_one(estimate: FreeEstimate, name: str) -> bool:
    """Whether the formulas at a size of 1, where many models are read apart, are those around the example."""
    example = estimate.cost.graph.example
    forms = [estimate.forms_at(each) for each in (example, {**example, name: 1})]
    told = [None if each is None else _told(each, {name: 1}) for each in forms]
    return told[0] is not None and told[0] == told[1]


def _told(forms: KernelForms, sizes: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for kernel in forms.kernels:
        parts = (Ratio(substituted(q.top, sizes), substituted(q.bottom, sizes)) for q in kernel.quantities)
        key = (kernel.name, *(_quotient(each) for each in parts))
        found[key] = found.get(key, 0.0) + kernel.count
    return found
