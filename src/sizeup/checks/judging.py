"""All limits of one model, held against it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from sizeup.checks.amounts import LAYER_MEASURES
from sizeup.checks.growth import Reference, grown
from sizeup.checks.limits import Large, Limit
from sizeup.checks.measures import MEASURES, judged, rooms
from sizeup.checks.subject import Subject
from sizeup.errors import BudgetError
from sizeup.graph import Graph, name_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a model beside the room of its target; `of` says who asks."""

    limits: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference: Reference | None = None
    of: str = ""
    expected: bool = False  # times are judged by what is expected, not by their range


def judge(subject: Subject, wanted: Wanted) -> tuple[Limit, ...]:
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
