"""All limits of one model: of its target and budgets, of single layers, and of growth."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from sizeup import units
from sizeup.checks.limits import LAYER_MEASURES, Growth, Large, Limit
from sizeup.checks.measures import MEASURES, Found, Measure, Subject, judged, rooms
from sizeup.errors import BudgetError
from sizeup.graph import Graph, name_of


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """What is asked of a model beside the room of its target; `of` says who asks."""

    limits: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference: Reference | None = None
    of: str = ""
    expected: bool = False  # times are judged by what is expected, not by their range


def judge(subject: Subject, wanted: LimitSpec) -> tuple[Limit, ...]:
    """Every limit, those of the target first."""
    found = list(rooms(subject))
    covered = {each.name for each in found}
    found += [
        judged(MEASURES[name], subject, most, wanted.of, wanted.expected)
        for name, most in wanted.limits.items()
        if name not in covered
    ]
    found += grown(subject, wanted.reference, wanted.growth, wanted.of)
    found += layer_limits(subject, wanted.layers, wanted.of)
    return tuple(found)


_MOST_NEAR = 3
_MOST_NAMED = 5


def layer_limits(subject: Subject, wanted: Mapping[str, Mapping[str, float]], of: str) -> tuple[Limit, ...]:
    """Of every pattern and measure the layer with the most, against what each may have."""
    graph, limits = subject.graph, list[Limit]()
    for pattern, amounts in wanted.items():
        ops = _named(graph, pattern, of)
        limits += [_limit(subject, pattern, ops, name, most, of) for name, most in amounts.items()]
    return tuple(limits)


def _named(graph: Graph, pattern: str, of: str) -> list[int]:
    """The operators that a pattern names: by name, module or kind."""
    found, names = [], dict[str, None]()
    for index, op in enumerate(graph.ops):
        called = (name_of(graph, op), op.scope, op.kind)
        names.update(dict.fromkeys(called))
        if any(name == pattern or fnmatchcase(name, pattern) for name in called if name):
            found.append(index)
    if not found:
        near = difflib.get_close_matches(pattern, [name for name in names if name], _MOST_NEAR, 0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise BudgetError(f"{of}: no layer of {graph.name or 'the model'} is called {pattern!r}{hint}")
    return found


def _limit(subject: Subject, pattern: str, ops: list[int], name: str, most: float, of: str) -> Limit:
    title = f"{name} of layer {pattern!r}"
    column, why = _column(subject, name)
    if column is None:
        return Limit(title, LAYER_MEASURES[name], most, None, None, None, of, (why,))
    amounts = column[ops]
    largest = float(amounts.max())
    unknown = [each for each in ops if each in subject.cost.reasons] if name in ("macs", "latency") else []
    unknown_memory = name == "memory" and bool(subject.usage.unknown)
    reasons = [subject.cost.reasons[each] for each in unknown[:1]]
    reasons += [subject.usage.missing] if unknown_memory else []
    order = np.argsort(-amounts, kind="stable")[:_MOST_NAMED].tolist()
    over = [Large(_called(subject.graph, ops[place]), float(amounts[place])) for place in order]
    upper = None if reasons else largest
    return Limit(
        title, LAYER_MEASURES[name], most, largest, upper, None, of, tuple(reasons), largest=tuple(over)
    )


def _column(subject: Subject, name: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]] | None, str]:
    if name == "macs":
        return subject.cost.macs.astype(np.float64), ""
    if name == "params":
        return subject.cost.params.astype(np.float64), ""
    if name == "memory":
        return subject.usage.live_bytes.astype(np.float64), ""
    return (subject.op_seconds, "") if not isinstance(subject.estimate, str) else (None, subject.estimate)


def _called(graph: Graph, index: int) -> str:
    return name_of(graph, graph.ops[index]) or graph.ops[index].kind


GROWING = tuple(name for name, measure in MEASURES.items() if measure.has_growth)


@dataclass(frozen=True, slots=True)
class Reference:
    """The amounts of a model in a baselines file or at a git revision; `amounts` is None for a new model."""

    source: str  # the file or the revision
    amounts: Mapping[str, float] | None = None
    new_because: str = ""
    is_revision: bool = False


def measured(subject: Subject, names: Iterable[str] = GROWING) -> dict[str, float]:
    """The amounts that a later growth can be compared with; a measure without a definite one is left out."""
    amounts = {}
    for name in names:
        measure = MEASURES[name]
        now, highest = _range(measure.find(subject))
        if now is not None and now == highest:
            amounts[name] = round(now) if measure.unit in ("count", "bytes") else now
    return amounts


def grown(
    subject: Subject, reference: Reference | None, allowed: Mapping[str, float], of: str
) -> tuple[Limit, ...]:
    """Every growth limit, as a share of the reference; none for a new model."""
    if reference is None or reference.amounts is None:
        return ()
    return tuple(_grown(MEASURES[name], subject, reference, most, of) for name, most in allowed.items())


def _grown(measure: Measure, subject: Subject, reference: Reference, most: float, of: str) -> Limit:
    name = f"growth of {measure.name}"
    before = (reference.amounts or {}).get(measure.name)
    amounts = measure.find(subject)
    low, high = _range(amounts)
    why = amounts.why
    if before is None:
        missing = f"{reference.source} has no {measure.name} of this model"
        hint = "" if reference.is_revision or why else "; check --update-baselines adds it"
        return Limit(name, "share", most, None, None, None, of, (why or f"{missing}{hint}",))
    if low is None:
        return Limit(name, "share", most, None, None, None, of, (why,))
    growth = Growth(measure.unit, before, low) if low == high else None
    if before == 0 and low > 0:
        why = f"the baseline has none, and now there are {units.quantity(measure.unit, low)}"
        return Limit(name, "share", most, math.inf, None, None, of, (why,), growth=growth)
    # The difference first: it is exact, and the quotient then rounds as that of a budget does.
    share = [None if each is None else (each - before) / (before or 1) for each in (low, high)]
    unknown = (why,) if share[1] is None else ()
    return Limit(name, "share", most, share[0], share[1], None, of, unknown, growth=growth)


def changes(subject: Subject, reference: Reference) -> Iterator[tuple[str, Growth]]:
    """Every measure whose amount is not that of the reference."""
    before = reference.amounts or {}
    for name, now in measured(subject, before).items():
        if now != before[name]:
            yield name, Growth(MEASURES[name].unit, before[name], now)


def _range(amounts: Found) -> tuple[float | None, float | None]:
    """The least and the most, or twice the expected amount: two estimates are off by the same error."""
    return (amounts.least, amounts.most) if amounts.expected is None else (amounts.expected,) * 2
