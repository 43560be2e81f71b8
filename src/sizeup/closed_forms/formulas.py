"""Latency as text: the closed form of every kernel and of the total, for people and Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sizeup.closed_forms.latency import FreeEstimate, KernelForm, KernelForms, LatencyOptions
from sizeup.graph import name_of
from sizeup.latency.estimate import Estimate
from sizeup.latency.interval import Band
from sizeup.latency.model import Rates, rates_from
from sizeup.latency.roofline import nearest_peak, type_of
from sizeup.latency.timed import LEAST_START, Basis, by_sheet, is_covered
from sizeup.symbolic import Expression, Guard, Ratio, form_text, substitute
from sizeup.targets import Target, current

Lines = list[tuple[str, str]]  # names and their values, in order
_E = 2.718281828459045
_LARGE = 16  # powers of short times beyond this one are too small for a float


@dataclass(frozen=True, slots=True)
class KernelFormula:
    """Kernels with the same closed form: their class, the ops that name them, how often they run, their share
    of the latency at the example, and `lines` (a name and its value), the last of which is the seconds of
    one."""

    label: str
    kind: str
    ops: tuple[str, ...]
    count: int
    share: float
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LatencyForms:
    """Seconds of one inference as closed forms; every line is Python, the lines of kernels come first.

    `totals` holds `seconds` and, if known, the prediction interval (`low`, `high`). They are valid under the
    guards of the cost and of `origins`, from `least_seconds` on and below `most_seconds`: a network that
    takes less than its kernels need to start is estimated otherwise.
    """

    target: Target
    basis: Basis
    origin: str
    example: Mapping[str, int]
    origins: Mapping[Guard, str]
    least_seconds: float
    most_seconds: float
    kernels: tuple[KernelFormula, ...]
    totals: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def program(self) -> str:
        """All lines as Python, which sets `seconds`, and `low` and `high` if known."""
        lines = [line for kernel in self.kernels for line in kernel.lines]
        return "".join(f"{name} = {value}\n" for name, value in (*lines, *self.totals))


def latency_forms(estimate: FreeEstimate) -> LatencyForms | None:
    """The closed forms around the example that a model was read with; None if there are none."""
    example, options = estimate.cost.graph.example, estimate.options
    forms = estimate.forms_at(example)
    if forms is None or options is None:
        return None
    single, named = estimate.single(example), _Names(frozenset(example))
    prices: _ByFit | _BySheet
    if single.fit is not None:
        prices = _ByFit(rates_from(single.fit.rates), Band(**single.fit.band), named)
    else:
        prices = _BySheet(options.target, single, named)
    kernels = tuple(_kernels(forms, single, prices, named))
    totals = [(named("seconds"), prices.total(kernels))]
    if single.low is not None:
        totals += prices.interval(kernels)
    if single.high is None:
        totals = [each for each in totals if each[0] != named("high")]
    least, most, notes = _validity(single, sum(each.count for each in forms.kernels), options)
    return LatencyForms(
        options.target,
        single.basis,
        single.origin,
        example,
        forms.origins,
        least,
        most,
        kernels,
        tuple(totals),
        (*single.notes, *notes),
    )


def _validity(single: Estimate, runs: float, options: LatencyOptions) -> tuple[float, float, Iterable[str]]:
    """The seconds from which, and below which, closed forms are valid; and which others are, elsewhere.

    If starting the kernels takes longer, a calibration that was not requested gives way to the data sheet,
    and a multiple of the data sheet to the data sheet itself.
    """
    target, notes = options.target, []
    started = (target.overhead_seconds or 0.0) * runs
    if single.fit is not None:
        return 0.0 if options.basis == "calibrated" else started, math.inf, ()
    fit = current().fit(target) if options.basis is None else None
    if fit is not None and is_covered(single.work, fit)[0]:
        notes.append(
            f"where formulas of the basis calibrated give {started:.4g} seconds or more, they hold instead"
        )
    sheet = by_sheet(single.work, target)
    if sheet.reach is not None and sheet.is_lost[0]:
        return 0.0, LEAST_START * runs / sheet.reach.times, notes
    is_known = target.overhead_seconds is not None or target.device.kind == "microcontroller"
    return 0.0 if is_known or single.low is None else LEAST_START * runs, math.inf, notes


def _kernels(
    forms: KernelForms, single: Estimate, prices: _ByFit | _BySheet, named: _Names
) -> Iterable[KernelFormula]:
    """By falling share of the latency; kernels with the same text are one."""
    graph, seconds = forms.forms.graph, single.kernels.seconds * single.work.count
    alike: dict[tuple[str, tuple[tuple[str, str], ...], str], list[KernelForm]] = {}
    for form in forms.kernels:
        lines, text = prices.kernel(form)
        if form.count and text != "0":
            alike.setdefault((form.name, _needed(lines, text), text), []).append(form)
    places = {key: [place for form in same for place in form.places] for key, same in alike.items()}
    shares = {key: float(seconds[own].sum() / seconds.sum()) for key, own in places.items()}
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
    """Names that differ from those of symbolic dimensions."""

    taken: frozenset[str]

    def __call__(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name


@dataclass(frozen=True, slots=True)
class _BySheet:
    """The data sheet: the longer of arithmetic and traffic, after a launch."""

    target: Target
    single: Estimate
    named: _Names

    def kernel(self, form: KernelForm) -> tuple[Lines, str]:
        """Lines, and the seconds of one kernel computed from them."""
        peak, bandwidth = nearest_peak(self.target, type_of(form.name)), self.target.device.bandwidth
        parts = []
        if peak is not None and _is_there(form.quantities[0]):
            parts.append(f"{self.named('macs')} / {_number(peak[1])}")
        if bandwidth is not None and _is_there(_moved(form)):
            parts.append(f"{self.named('bytes')} / {_number(bandwidth)}")
        longer = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts)
        return _work(form, self.named), _added([longer, _nonzero(self.target.overhead_seconds)])

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        times = float(by_sheet(self.single.work, self.target).times[0])
        return _sum(kernels) if times == 1 else f"{_number(times)} * ({_sum(kernels)})"

    def interval(self, _: tuple[KernelFormula, ...]) -> Lines:
        sides = (("low", self.single.low), ("high", self.single.high))
        return [
            (self.named(name), f"{_number(side / self.single.seconds)} * {self.named('seconds')}")
            for name, side in sides
            if side is not None
        ]


@dataclass(frozen=True, slots=True)
class _ByFit:
    """Fitted rates: a norm of arithmetic and traffic, after a launch."""

    rates: Rates
    band: Band
    named: _Names

    def kernel(self, form: KernelForm) -> tuple[Lines, str]:
        """Lines, and the seconds of one kernel computed from them."""
        rate, lines = self.rates.of(form.name), _work(form, self.named)
        compute = traffic = ""
        if _is_there(form.quantities[0]):
            idle = self._idle(form) if _is_there(form.quantities[6]) else []
            lines += idle
            if rate.mac:
                is_idle = bool(idle) and idle[-1][0] == self.named("idle")
                factors = [_number(rate.mac), self.named("macs"), self.named("idle")]
                compute = " * ".join(factors if is_idle else factors[:2])
        if _is_there(_moved(form)):
            traffic = self._traffic(rate.byte)
        norm = _norm(compute, traffic, self.rates.power) if compute and traffic else compute or traffic
        return lines, _added([norm, _nonzero(rate.launch)])

    def _idle(self, form: KernelForm) -> Lines:
        """How much longer arithmetic takes on products that leave part of the hardware idle."""
        rates, tile, rows, lines = self.rates, self.rates.tile, self.named("rows"), Lines()
        length, columns = map(_divisor, form.quantities[4:6])
        if rates.rows or tile or rates.wave:
            lines.append((rows, _quotient(form.quantities[6])))
        factors = []
        if tile:
            tiled = self.named("tiled")
            lines.append((tiled, f"-(-{rows} // {_number(tile)}) * {_number(tile)}"))
            factors.append(f"{tiled} / {rows}")
            rows = tiled
        sides = ((rates.length, length), (rates.columns, columns), (rates.rows, rows))
        factors += [f"(1 + {_number(half)} / {side})" for half, side in sides if half and side != "0"]
        wave = f"{_number(rates.wave / 2)} / ({columns} * {rows})" if rates.wave else ""
        if factors or wave:
            lines.append((self.named("idle"), _added([" * ".join(factors) or "1", wave])))
        return lines

    def _traffic(self, byte: float) -> str:
        rates, moved = self.rates, self.named("bytes")
        if rates.cache and rates.far:
            return f"({_number(byte)} + {_number(rates.far)} * ({moved} > {_exactly(rates.cache)})) * {moved}"
        return f"{_number(byte)} * {moved}" if byte else ""

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        return _added([_sum(kernels), _nonzero(self.rates.run)])

    def interval(self, kernels: tuple[KernelFormula, ...]) -> Lines:
        """Wider if the calibration has not seen some of the kernels."""
        unseen = tuple(each for each in kernels if not self.rates.knows(each.kind))
        total, low, high = (self.named(each) for each in ("seconds", "low", "high"))
        if not unseen or not self.band.unseen:
            sides = ((low, self.band.low), (high, self.band.high))
            return [(name, f"{_number(_E**side)} * {total}") for name, side in sides]
        share, wider = self.named("unseen"), _number(self.band.unseen)
        return [
            (share, f"({_sum(unseen)}) / ({_sum(kernels)})"),
            (low, f"{total} * {_E}**({_number(self.band.low)} - {wider} * {share})"),
            (high, f"{total} * {_E}**({_number(self.band.high)} + {wider} * {share})"),
        ]


def _work(form: KernelForm, named: _Names) -> Lines:
    quantities = (("macs", form.quantities[0]), ("bytes", _moved(form)))
    return [(named(name), _quotient(each)) for name, each in quantities if _is_there(each)]


def _moved(form: KernelForm) -> Ratio:
    _, read, written, weights, *_ = form.quantities
    return read + written + weights


def _is_there(quantity: Ratio) -> bool:
    return isinstance(quantity.top, Expression) or quantity.top != 0


def _quotient(quantity: Ratio) -> str:
    if isinstance(quantity.bottom, int) and quantity.bottom == 1:
        return form_text(quantity.top)
    bottom = form_text(quantity.bottom)
    return f"({form_text(quantity.top)}) / {bottom if bottom.isalnum() else f'({bottom})'}"


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


def _nonzero(value: float | None) -> str:
    return _number(value) if value else ""


def is_same_at_one(estimate: FreeEstimate, name: str) -> bool:
    """Whether the closed forms at a size of 1, which many models specialize, are those around the example."""
    example = estimate.cost.graph.example
    forms = [estimate.forms_at(each) for each in (example, {**example, name: 1})]
    texts = [None if each is None else _texts(each, {name: 1}) for each in forms]
    return texts[0] is not None and texts[0] == texts[1]


def _texts(forms: KernelForms, sizes: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    """How often kernels run, by class and quantities at some sizes."""
    counts: dict[tuple[str, ...], float] = {}
    for kernel in forms.kernels:
        parts = (Ratio(substitute(q.top, sizes), substitute(q.bottom, sizes)) for q in kernel.quantities)
        key = (kernel.name, *(_quotient(each) for each in parts))
        counts[key] = counts.get(key, 0.0) + kernel.count
    return counts
