"""Latency as text: the closed form of each kernel and of the total, as valid Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sizeup.closed_forms.latency import KernelForm, KernelForms, SymbolicEstimate
from sizeup.graph import name_of
from sizeup.latency.estimate import Estimate
from sizeup.latency.interval import PredictionInterval
from sizeup.latency.model import Rates, cold_share, rates_from
from sizeup.latency.prediction import Basis, is_covered, predict_roofline
from sizeup.latency.roofline import cache_of, far_share, fastest_rate
from sizeup.symbolic import Expression, Guard, Ratio, form_text, substitute
from sizeup.targets import Target, current_catalog

Lines = list[tuple[str, str]]  # names and their values, in order
_E = 2.718281828459045
_LARGE = 16  # higher powers of short times underflow a float


@dataclass(frozen=True, slots=True)
class KernelFormula:
    """Kernels with the same closed form."""

    label: str
    kind: str  # the class of the kernels
    ops: tuple[str, ...]  # their main ops
    count: int  # of runs
    share: float  # of the latency at the example
    lines: tuple[tuple[str, str], ...]  # names and values; the last is the seconds of one kernel


@dataclass(frozen=True, slots=True, eq=False)
class LatencyForms:
    """Seconds of one inference as closed forms, lines of Python; the lines of the kernels come first.

    `totals` has `seconds` and, if known, the prediction interval (`low`, `high`). They are valid under the
    guards of the cost and of `origins`, and where the data sheet allows them if `is_limited`: otherwise
    another basis applies.
    """

    target: Target
    basis: Basis
    origin: str
    example: Mapping[str, int]
    origins: Mapping[Guard, str]
    is_limited: bool
    kernels: tuple[KernelFormula, ...]
    totals: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def program(self) -> str:
        """All lines as Python, which sets `seconds`, and `low` and `high` if known."""
        lines = [line for kernel in self.kernels for line in kernel.lines]
        return "".join(f"{name} = {value}\n" for name, value in (*lines, *self.totals))


def latency_forms(estimate: SymbolicEstimate) -> LatencyForms | None:
    """The closed forms around the example that a model was loaded with; None if there are none."""
    example, options = estimate.cost.graph.example, estimate.options
    forms = estimate.forms_at(example)
    if forms is None or options is None:
        return None
    single, named = estimate.estimate_at(example), _Names(frozenset(example))
    prices: _ByFit | _BySheet
    if single.calibration is not None:
        rates = rates_from(single.calibration.rates)
        rates = replace(rates, cold=rates.cold * float(cold_share(single.work, rates.cache)[0]))
        prices = _ByFit(rates, PredictionInterval(**single.calibration.interval), named)
    elif (slowed := _slowed(single, options.target)) is not None:
        prices = _ByFit(*slowed, named)
    else:
        share = float(far_share(single.work, options.target)[0])
        prices = _BySheet(options.target, share, named)
    kernels = tuple(_kernels(forms, single, prices, named))
    totals = [(named("seconds"), prices.total(kernels))]
    if single.low is not None:
        totals += prices.interval(kernels)
    if single.high is None:
        totals = [line for line in totals if line[0] != named("high")]
    is_default = options.basis is None
    calibration = current_catalog().calibration(options.target) if is_default else None
    notes = single.notes
    if single.calibration is None and calibration is not None and is_covered(single.work, calibration)[0]:
        notes += ("the closed forms of the basis calibrated apply instead where the data sheet allows them",)
    return LatencyForms(
        options.target,
        single.basis,
        single.provenance,
        example,
        forms.origins,
        is_default and single.calibration is not None,
        kernels,
        tuple(totals),
        notes,
    )


def _slowed(single: Estimate, target: Target) -> tuple[Rates, PredictionInterval] | None:
    """The data sheet's rates with the measured slowdown, and its interval; None at the bound of the sheet."""
    sheet = predict_roofline(single.work, target)
    if sheet.rates is None or sheet.slowdown is None or not sheet.is_slowed[0]:
        return None
    return sheet.rates, PredictionInterval(math.log(sheet.slowdown.low), math.log(sheet.slowdown.high))


def _kernels(
    forms: KernelForms, single: Estimate, prices: _ByFit | _BySheet, named: _Names
) -> Iterable[KernelFormula]:
    """The kernels by descending share of the latency; kernels with the same text are grouped."""
    graph, seconds = forms.forms.graph, single.kernels.seconds * single.work.count
    groups: dict[tuple[str, tuple[tuple[str, str], ...], str], list[KernelForm]] = {}
    for form in forms.kernels:
        lines, text = prices.kernel(form)
        if form.count and text != "0":
            groups.setdefault((form.name, _needed(lines, text), text), []).append(form)
    indices = {key: [index for form in same for index in form.indices] for key, same in groups.items()}
    shares = {key: float(seconds[own].sum() / seconds.sum()) for key, own in indices.items()}
    for number, key in enumerate(sorted(groups, key=lambda key: -shares[key]), 1):
        ops = (graph.ops[forms.main[index]] for index in indices[key])
        names = tuple(dict.fromkeys(op.scope or name_of(graph, op) for op in ops))
        label, count = named(f"k{number}"), round(sum(form.count for form in groups[key]))
        yield KernelFormula(label, key[0], names, count, shares[key], (*key[1], (label, key[2])))


def _needed(lines: Lines, text: str) -> tuple[tuple[str, str], ...]:
    """The lines that a text is computed from."""
    needed: Lines = []
    for name, value in reversed(lines):
        if re.search(rf"\b{name}\b", text):
            needed.insert(0, (name, value))
            text += value
    return tuple(needed)


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
    """The lower bound of a data sheet: the longer of arithmetic and memory traffic, plus the launch."""

    target: Target
    far_share: float  # of the weights
    named: _Names

    def kernel(self, form: KernelForm) -> tuple[Lines, str]:
        """Lines, and the seconds of one kernel computed from them."""
        rate, bandwidth = fastest_rate(self.target, form.name), self.target.device.bandwidth
        macs, read, written, weights, *_ = form.quantities
        lines, parts = Lines(), []
        if rate is not None and _is_nonzero(macs):
            lines.append((self.named("macs"), _quotient(macs)))
            parts.append(f"{self.named('macs')} / {_number(rate)}")
        moved = []
        if _is_nonzero(read + written):
            lines.append((self.named("activations"), _quotient(read + written)))
            moved.append(f"max(0, {self.named('activations')} - {cache_of(self.target)})")
        if _is_nonzero(weights) and self.far_share:
            lines.append((self.named("weights"), _quotient(weights)))
            moved.append(f"{_exactly(self.far_share)} * {self.named('weights')}")
        if bandwidth is not None and moved:
            parts.append(f"({_added(moved)}) / {_number(bandwidth)}")
        longer = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts)
        return lines, _added([longer, _nonzero(self.target.overhead_seconds)])

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        return _sum(kernels)

    def interval(self, _: tuple[KernelFormula, ...]) -> Lines:
        return []


@dataclass(frozen=True, slots=True)
class _ByFit:
    """Fitted rates: a norm of arithmetic and memory traffic, plus the launch."""

    rates: Rates
    log_interval: PredictionInterval
    named: _Names

    def kernel(self, form: KernelForm) -> tuple[Lines, str]:
        """Lines, and the seconds of one kernel computed from them."""
        rate, lines = self.rates.of(form.name), _work(form, self.named)
        compute = traffic = ""
        if _is_nonzero(form.quantities[0]):
            idle = self._idle(form) if _is_nonzero(form.quantities[6]) else []
            lines += idle
            if rate.mac:
                is_idle = bool(idle) and idle[-1][0] == self.named("idle")
                factors = [_number(rate.mac), self.named("macs"), self.named("idle")]
                compute = " * ".join(factors if is_idle else factors[:2])
        if _is_nonzero(_moved(form)):
            traffic = self._traffic(rate.byte)
        terms = [self._cold(), self._reread() if _is_nonzero(form.quantities[0]) else ""]
        if any(terms) and _is_nonzero(form.quantities[3]):
            lines.append((self.named("weights"), _quotient(form.quantities[3])))
            traffic = " + ".join(term for term in (traffic, *terms) if term)
        norm = _norm(compute, traffic, self.rates.power) if compute and traffic else compute or traffic
        return lines, _added([norm, _nonzero(rate.launch)])

    def _idle(self, form: KernelForm) -> Lines:
        """The slowdown of matrix products that leave part of the hardware idle."""
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

    def _cold(self) -> str:
        """The time of weights that other kernels displace from the cache."""
        if not self.rates.cold:
            return ""
        is_within = f"({self.named('bytes')} <= {_exactly(self.rates.cache)})"
        return f"{_number(self.rates.cold)} * {self.named('weights')} * {is_within}"

    def _reread(self) -> str:
        """The time of weights that are read again for each row of the result."""
        if not self.rates.reread:
            return ""
        exceeds = f"({self.named('weights')} > {_exactly(self.rates.cache)})"
        return f"{_number(self.rates.reread)} * {self.named('macs')} * {exceeds}"

    def _traffic(self, byte: float) -> str:
        rates, moved = self.rates, self.named("bytes")
        if rates.cache and rates.far:
            return f"({_number(byte)} + {_number(rates.far)} * ({moved} > {_exactly(rates.cache)})) * {moved}"
        return f"{_number(byte)} * {moved}" if byte else ""

    def total(self, kernels: tuple[KernelFormula, ...]) -> str:
        return _added([_sum(kernels), _nonzero(self.rates.run)])

    def interval(self, kernels: tuple[KernelFormula, ...]) -> Lines:
        """The prediction interval, wider if the calibration does not cover some of the kernels."""
        unseen = tuple(kernel for kernel in kernels if not self.rates.covers(kernel.kind))
        total, low, high = (self.named(name) for name in ("seconds", "low", "high"))
        interval = self.log_interval
        slopes = (
            self._slope("min", interval.low_shorter, interval.low_longer),
            self._slope("max", interval.high_longer, interval.high_shorter),
        )
        if not unseen or not interval.unseen:
            sides = zip((low, high), (interval.low, interval.high), slopes, strict=True)
            return [(name, f"{_number(_E**side)} * {total}{slope}") for name, side, slope in sides]
        share, wider = self.named("unseen"), _number(interval.unseen)
        return [
            (share, f"({_sum(unseen)}) / ({_sum(kernels)})"),
            (low, f"{total} * {_E}**({_number(interval.low)} - {wider} * {share}){slopes[0]}"),
            (high, f"{total} * {_E}**({_number(interval.high)} + {wider} * {share}){slopes[1]}"),
        ]

    def _slope(self, side: str, by_ratio: float, by_inverse: float) -> str:
        """The factor of one side at a distance from the typical latency of the calibration."""
        if not self.log_interval.typical:
            return ""
        total, typical = self.named("seconds"), _number(self.log_interval.typical)
        ratios = ((f"{total} / {typical}", by_ratio), (f"{typical} / {total}", by_inverse))
        return "".join(f" * {side}({ratio}, 1)**{_number(slope)}" for ratio, slope in ratios if slope)


def _work(form: KernelForm, named: _Names) -> Lines:
    quantities = (("macs", form.quantities[0]), ("bytes", _moved(form)))
    return [(named(name), _quotient(quantity)) for name, quantity in quantities if _is_nonzero(quantity)]


def _moved(form: KernelForm) -> Ratio:
    _, read, written, weights, *_ = form.quantities
    return read + written + weights


def _is_nonzero(quantity: Ratio) -> bool:
    return isinstance(quantity.numerator, Expression) or quantity.numerator != 0


def _quotient(quantity: Ratio) -> str:
    if isinstance(quantity.denominator, int) and quantity.denominator == 1:
        return form_text(quantity.numerator)
    bottom = form_text(quantity.denominator)
    return f"({form_text(quantity.numerator)}) / {bottom if bottom.isalnum() else f'({bottom})'}"


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
    return _added(k.label if k.count == 1 else f"{k.count} * {k.label}" for k in kernels)


def _added(terms: Iterable[str]) -> str:
    return " + ".join(term for term in terms if term) or "0"


def _exactly(value: float) -> str:
    return _number(value) if float(_number(value)) == value else repr(value)


def _number(value: float) -> str:
    """A number with ten digits; fitted and measured values have fewer."""
    return f"{value:.10g}"


def _nonzero(value: float | None) -> str:
    return _number(value) if value else ""


def is_same_at_one(estimate: SymbolicEstimate, name: str) -> bool:
    """Whether the closed forms at size 1, a special case of many models, are those around the example."""
    example = estimate.cost.graph.example
    forms = [estimate.forms_at(item) for item in (example, {**example, name: 1})]
    texts = [None if item is None else _texts(item, {name: 1}) for item in forms]
    return texts[0] is not None and texts[0] == texts[1]


def _texts(forms: KernelForms, sizes: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    """Runs of the kernels, by class and quantities at some sizes."""
    counts: dict[tuple[str, ...], float] = {}
    for kernel in forms.kernels:
        parts = (
            Ratio(substitute(q.numerator, sizes), substitute(q.denominator, sizes)) for q in kernel.quantities
        )
        key = (kernel.name, *(_quotient(part) for part in parts))
        counts[key] = counts.get(key, 0.0) + kernel.count
    return counts
