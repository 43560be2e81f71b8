"""Checks all limits of a model: those of its target and budgets, of single layers, and of growth."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import numpy as np

from sizeup import units
from sizeup.backends import EXTERNAL_RAM
from sizeup.checks.limits import LAYER_MEASURES, Contribution, Growth, Limit
from sizeup.checks.measures import MEASURES, Amount, Measure, Subject, check_limit, memory_limits
from sizeup.errors import BudgetError
from sizeup.graph import Graph, name_of
from sizeup.patterns import is_wild

NewPolicy: TypeAlias = Literal["allow", "ask", "deny"]
"""The verdict on the growth of a new model: met, undetermined or exceeded."""


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """Limits on a model in addition to the memories of its target; `source` names the budget."""

    limits: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference: Reference | None = None
    source: str = ""
    expected: bool = False  # compare expected latency and energy, not the prediction interval
    new: NewPolicy = "ask"  # the verdict on the growth of a new model


def evaluate_limits(subject: Subject, spec: LimitSpec) -> tuple[Limit, ...]:
    """All limits, those of the target first."""
    limits = list(memory_limits(subject))
    covered = {limit.name for limit in limits}
    limits += [
        check_limit(MEASURES[name], subject, most, spec.source, spec.expected)
        for name, most in spec.limits.items()
        if name not in covered
    ]
    if reasons := subject.open_sizes:
        limits = [
            limit if limit.name in (*covered, *_WITHOUT_SIZE) else _unbounded(limit, reasons)
            for limit in limits
        ]
    if any(limit.fits is False for limit in limits if limit.name in covered):
        limits = [_without_latency(limit) for limit in limits]
    limits += growth_limits(subject, spec.reference, spec.growth, spec.source, spec.new)
    limits += layer_limits(subject, spec.layers, spec.source)
    return tuple(limits)


_WITHOUT_SIZE = ("params", "weights", "flash")  # amounts that do not depend on the size of inputs


def _unbounded(limit: Limit, reasons: tuple[str, ...]) -> Limit:
    """A limit on an amount without an upper bound."""
    return replace(limit, need_high=None, expected=None, unknown=(*limit.unknown, *reasons))


_TIMED = ("latency", "energy")


def _without_latency(limit: Limit) -> Limit:
    """A limit of a model that does not fit: its latency and energy are not applicable."""
    if limit.name not in _TIMED:
        return limit
    assumption = f"{limit.name} as if the model fit in memory"
    return replace(limit, is_applicable=False, assumptions=(*limit.assumptions, assumption))


_MOST_NEAR = 3
_MOST_NAMED = 5


def layer_limits(subject: Subject, layers: Mapping[str, Mapping[str, float]], of: str) -> tuple[Limit, ...]:
    """One limit per pattern and measure, with the need of the largest layer that the pattern matches."""
    limits, names = list[Limit](), _ops_by_name(subject.graph) if layers else {}
    for pattern, amounts in layers.items():
        ops = _matching_ops(subject.graph, names, pattern, of)
        limits += [_limit(subject, pattern, ops, name, most, of) for name, most in amounts.items()]
    return tuple(limits)


def _ops_by_name(graph: Graph) -> dict[str, list[int]]:
    """The operators by their name, module and op kind."""
    ops: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for name in dict.fromkeys((name_of(graph, op), op.scope, op.kind)):
            ops.setdefault(name, []).append(index)
    ops.pop("", None)
    return ops


def _matching_ops(graph: Graph, names: Mapping[str, list[int]], pattern: str, of: str) -> list[int]:
    """The operators with a name that matches a pattern."""
    matching = set(names.get(pattern, ()))
    if is_wild(pattern):
        matching.update(op for name, ops in names.items() if fnmatchcase(name, pattern) for op in ops)
    matches = sorted(matching)
    if not matches:
        similar = difflib.get_close_matches(pattern, list(names), _MOST_NEAR, 0.4)
        hint = f"; nearest: {', '.join(similar)}" if similar else ""
        raise BudgetError(f"{of}: no layer of {graph.name or 'the model'} matches {pattern!r}{hint}")
    return matches


def _limit(subject: Subject, pattern: str, ops: list[int], name: str, most: float, of: str) -> Limit:
    title = f"{name} of layer {pattern!r}"
    column, reason = _column(subject, name)
    if column is None:
        return Limit(title, LAYER_MEASURES[name], most, None, None, None, of, (reason,))
    amounts = column[ops]
    largest = float(amounts.max())
    unknown = [op for op in ops if op in subject.cost.reasons] if name in ("macs", "latency") else []
    is_memory_unknown = name == "memory" and bool(subject.usage.unknown_sizes)
    reasons = [subject.cost.reasons[op] for op in unknown[:1]]
    reasons += [subject.usage.unavailable_reason] if is_memory_unknown else []
    reasons += _open_latency(subject, ops) if name == "latency" else []
    order = np.argsort(-amounts, kind="stable")[:_MOST_NAMED].tolist()
    contributions = [Contribution(_name_or_kind(subject.graph, ops[i]), float(amounts[i])) for i in order]
    upper = None if reasons else largest
    return Limit(
        title,
        LAYER_MEASURES[name],
        most,
        largest,
        upper,
        None,
        of,
        tuple(reasons),
        largest=tuple(contributions),
    )


def _open_latency(subject: Subject, ops: list[int]) -> list[str]:
    """Why the latencies of operators are lower bounds; empty if they are estimates."""
    estimate = subject.estimate
    if isinstance(estimate, str):
        return []
    if estimate.is_lower_bound:
        return ["only a lower bound of the latency is known"]
    if subject.is_in_external_ram:
        return [EXTERNAL_RAM]
    if estimate.low is not None and estimate.high is None and not subject.cost.reasons:
        return ["the interval of the latency has no upper end"]
    work, main_op = estimate.work, estimate.executed.main_op
    is_free = (estimate.kernels.seconds == 0) & (work.count > 0) & (work.traffic > 0)
    without = sorted({subject.graph.ops[op].kind for op in set(ops) & set(main_op[is_free].tolist())})
    return [f"the time of {', '.join(without)} is not known: it counts as 0 s"] if without else []


def _column(subject: Subject, name: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]] | None, str]:
    if name == "macs":
        return subject.cost.macs.astype(np.float64), ""
    if name == "params":
        return subject.cost.params.astype(np.float64), ""
    if name == "memory":
        return subject.usage.live_bytes.astype(np.float64), ""
    return (subject.op_seconds, "") if not isinstance(subject.estimate, str) else (None, subject.estimate)


def _name_or_kind(graph: Graph, index: int) -> str:
    return name_of(graph, graph.ops[index]) or graph.ops[index].kind


NEW_GROWTH = "growth"
"""The limit that stands for all growth limits of a new model, whose growth is not known."""
GROWING = tuple(name for name, measure in MEASURES.items() if measure.has_growth)


@dataclass(frozen=True, slots=True)
class Reference:
    """The amounts of a model in a baselines file or at a git revision; None for a new model."""

    source: str  # the file or the revision
    amounts: Mapping[str, float] | None = None
    new_reason: str = ""
    is_revision: bool = False
    is_unchanged: bool = False  # the same model with the same settings, which grew by 0 whatever its amounts
    renamed_from: str = ""  # the path there, if it is another one


def measured(subject: Subject, names: Iterable[str] = GROWING) -> dict[str, float]:
    """The amounts to compare later growth with, without measures whose amount is not exact."""
    amounts = {}
    for name in names:
        measure = MEASURES[name]
        now, highest = _bounds(measure.compute(subject))
        if now is not None and now == highest:
            amounts[name] = round(now) if measure.unit in ("count", "bytes") else now
    return amounts


def can_be_known(subject: Subject, names: Iterable[str]) -> set[str]:
    """The measures that exist for a model, which may need a target."""
    return {name for name in names if subject.target is not None or not MEASURES[name].needs_target}


def growth_limits(
    subject: Subject,
    reference: Reference | None,
    allowed: Mapping[str, float],
    of: str,
    new: NewPolicy = "ask",
) -> tuple[Limit, ...]:
    """All growth limits, with growth as a share of the reference; one limit by `new` for a new model."""
    if reference is None or not allowed:
        return ()
    if reference.amounts is not None:
        return tuple(
            _growth_limit(MEASURES[name], subject, reference, most, of) for name, most in allowed.items()
        )
    if new == "allow":
        return ()
    hint = 'new = "allow" in the budget accepts new models' if new == "ask" else 'new = "deny" allows none'
    least = math.inf if new == "deny" else None
    reason = f"{reference.new_reason}; {hint}"
    return (Limit(NEW_GROWTH, "share", min(allowed.values()), least, None, None, of, (reason,)),)


def _growth_limit(measure: Measure, subject: Subject, reference: Reference, most: float, of: str) -> Limit:
    name = f"growth of {measure.name}"
    if reference.is_unchanged and can_be_known(subject, [measure.name]):
        return Limit(name, "share", most, 0.0, 0.0, None, of)
    before = (reference.amounts or {}).get(measure.name)
    amount = measure.compute(subject)
    low, high = _bounds(amount)
    reason = amount.reason
    if before is None:
        missing = f"{reference.source} has no {measure.name} of this model"
        hint = "" if reference.is_revision or reason else "; check --update-baselines adds it"
        return Limit(name, "share", most, None, None, None, of, (reason or f"{missing}{hint}",))
    if low is None:
        return Limit(name, "share", most, None, None, None, of, (reason,))
    growth = Growth(measure.unit, before, low) if low == high else None
    if before == 0 and low > 0:
        reason = f"the baseline is 0, and the amount is now {units.quantity(measure.unit, low)}"
        return Limit(name, "share", most, math.inf, None, None, of, (reason,), growth=growth)
    # The difference first: it is exact, and the quotient then rounds like the share of a budget.
    share = [None if bound is None else (bound - before) / (before or 1) for bound in (low, high)]
    unknown = (reason,) if share[1] is None else ()
    return Limit(name, "share", most, share[0], share[1], None, of, unknown, growth=growth)


def changes(subject: Subject, reference: Reference) -> Iterator[tuple[str, Growth]]:
    """The measures whose amount differs from the reference."""
    before = reference.amounts or {}
    for name, now in measured(subject, before).items():
        if now != before[name]:
            yield name, Growth(MEASURES[name].unit, before[name], now)


def _bounds(amount: Amount) -> tuple[float | None, float | None]:
    """The bounds of an amount, or twice the expected amount: two estimates have the same error."""
    return (amount.least, amount.most) if amount.expected is None else (amount.expected,) * 2
