"""Fewer bits: all layers, or only those that a mixture needs narrower, chosen to lose least."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sizeup.checks.case import MEMORY, STORED, TIMED, Case, Remedy, as_options
from sizeup.checks.limits import verdict
from sizeup.checks.measures import Subject
from sizeup.checks.room import Needs
from sizeup.cost import count
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import NoChoice, SizeupError
from sizeup.graph import Graph
from sizeup.memory import best_placement
from sizeup.mixed_precision import assign, layers
from sizeup.mixed_precision.choose import Choice, Search, choose
from sizeup.mixed_precision.figures import WORDS, Budgets
from sizeup.mixed_precision.losses import assumed_losses
from sizeup.mixed_precision.options import Options, options_of

_OFFERED = ("fp32", "fp16", "int8")
# TFLite Micro multiplies by weights of 4 bits, but has no tensors of fewer than 8.
_OFFERED_MICRO = ("fp32", "int8")
_MOST_ROUNDS = 5
_MOST_LAYERS = 400  # beyond that a mixture takes long to find
# The budget of a choice of precisions by the limit that it serves.
_BUDGETS = {
    "ram": "activation_bytes",
    "arena": "activation_bytes",
    "peak": "activation_bytes",
    "flash": "weight_bytes",
    "weights": "weight_bytes",
    "latency": "seconds",
    "energy": "joules",
}
_MOST_NAMED = 4
_QUICK = Search(gap=0.01, seconds=5.0)
_PLAN_SECONDS = 2.0
_UNMEASURED = "what it costs in accuracy is not measured: sizeup precision --data measures it"


def narrowed(case: Case) -> Iterator[Remedy]:
    """The mixture of least loss that fits, or all layers at the narrowest type."""
    if case.subject.needs.is_converted or not case.wants((*MEMORY, *STORED, *TIMED)):
        return
    offered = _offered(case)
    if len(offered) < 2 or not layers(case.subject.graph):
        return
    mixture = _mixture(case, offered)
    if mixture is not None:
        yield mixture
    uniform = _uniform(case, offered[-1])
    if uniform is not None and (mixture is None or mixture.fits is not True):
        yield uniform


def _offered(case: Case) -> list[DType]:
    """Types that the runtime has kernels for, from the widest, none wider than the model is."""
    target, graph = case.subject.target, case.subject.graph
    names = _OFFERED_MICRO if target is None or target.runtime.micro else _OFFERED
    made = [graph.tensors[i] for layer in layers(graph) for i in graph.ops[layer.op].outputs]
    widest = max((each.dtype.bits for each in made if each.follows_precision), default=0)
    known = [name for name in names if target is None or name in target.runtime.dtypes]
    return [each for each in map(precision, known) if each.bits <= widest]


def _uniform(case: Case, narrow: DType) -> Remedy | None:
    needs = case.subject.needs
    subject = replace(case.subject, needs=Needs(needs.graph, needs.cost, narrow, needs.file_bytes))
    name = precision_name(narrow)
    command = [*case.check, f"--precision {name}"]
    return case.tried(f"keep every layer at {name}", command, subject, (_UNMEASURED,))


@dataclass(slots=True)
class _Search:
    """Budgets for the choice of types, tightened by what the real limits then still lack."""

    case: Case
    options: Options
    budgets: Budgets

    def tighten(self, subject: Subject) -> bool:
        """Take from each budget what its limit was exceeded by; whether there was anything to take."""
        tightened = False
        for limit in self.case.judge(subject):
            if limit.fits is True or limit.most is None:
                continue
            upper = limit.most_need if limit.most_need is not None else limit.need
            name = _BUDGETS.get(limit.name)
            if name is None or upper is None:
                continue
            now = getattr(self.budgets, name)
            if now is None:
                continue
            factor = limit.most / upper if name in ("seconds", "joules") else None
            less = now * factor if factor is not None else now - math.ceil(upper - limit.most)
            if less <= 0 or less >= now:
                return False
            self.budgets = replace(self.budgets, **{name: less})
            tightened = True
        return tightened


def _mixture(case: Case, offered: Sequence[DType]) -> Remedy | None:
    graph = case.subject.graph
    if len(layers(graph)) > _MOST_LAYERS:
        return None
    try:
        losses = assumed_losses(graph, offered)
        options = options_of(graph, offered, case.subject.target)
        search = _Search(case, options, _first_budgets(case))
        for _ in range(_MOST_ROUNDS):
            choice = choose(options, options.losses(losses), search.budgets, _QUICK)
            subject = _mixed(case, choice)
            refused = None if subject.room is None else subject.room.refused
            if verdict(case.judge(subject), refused) is True:
                return _told(case, options, choice, search.budgets, offered, subject)
            if not search.tighten(subject):
                return None
    except (NoChoice, SizeupError):
        return None  # no weights to judge by, nothing to choose, or nothing that fits
    return None


def _first_budgets(case: Case) -> Budgets:
    """What the limits leave for tensors and weights once everything else has its share."""
    subject, found = case.subject, dict[str, float]()
    for limit in case.limits:
        name = _BUDGETS.get(limit.name)
        upper = limit.most_need if limit.most_need is not None else limit.need
        if name is None or limit.most is None or upper is None:
            continue
        if name == "activation_bytes":
            height = best_placement(subject.graph, reorder=False, time_limit=_PLAN_SECONDS).packing.height
            left = limit.most - max(upper - height, 0)
        elif name == "weight_bytes":
            left = limit.most - max(upper - subject.needs.weight_bytes, 0)
        else:
            left = limit.most * (limit.expected or upper) / upper
        if left <= 0:
            raise NoChoice(f"nothing is left for {name}")
        found[name] = min(left, found.get(name, math.inf))
    whole = {name: int(left) if name.endswith("bytes") else left for name, left in found.items()}
    return Budgets(**whole)  # type: ignore[arg-type]


def _mixed(case: Case, choice: Choice) -> Subject:
    needs = case.subject.needs
    graph = _as_mapped(needs.graph, choice.chosen)
    return replace(case.subject, needs=Needs(graph, count(graph), None, needs.file_bytes, needs.cost))


def _as_mapped(graph: Graph, chosen: Mapping[int, DType]) -> Graph:
    return replace(assign(graph, chosen), offsets=())


def _told(
    case: Case,
    options: Options,
    choice: Choice,
    budgets: Budgets,
    offered: Sequence[DType],
    subject: Subject,
) -> Remedy | None:
    names = {layer.op: layer.name for layer in options.layers}
    counts = Counter(precision_name(each) for each in choice.chosen.values())
    mix = ", ".join(f"{number:,} layers at {name}" for name, number in counts.most_common())
    narrow = precision_name(offered[-1])
    named = [names[op] for op, dtype in choice.chosen.items() if precision_name(dtype) == narrow]
    listed = ", ".join(named[:_MOST_NAMED])
    rest = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    what = f"keep {mix}; {narrow}: {listed}{rest}"
    limits = [
        f"--{word} {_typed(name, getattr(budgets, name))}"
        for name, word in WORDS.items()
        if getattr(budgets, name) is not None
    ]
    target = "" if case.subject.target is None else f"-d {case.subject.target.name}"
    types = f"--precisions {','.join(map(precision_name, offered))}"
    command = ["sizeup precision", case.origin.typed, target, *limits, types, case.origin.binding]
    command += [*as_options(case.origin.shapes), "-o mixed.json"]
    return case.tried(what, command, subject, (_UNMEASURED,))


def _typed(name: str, value: float) -> str:
    """An amount that the command line reads as precisely this one, or a little less."""
    if name.endswith("bytes"):
        return str(int(value))
    unit = "ns" if name == "seconds" else "nJ"
    return f"{math.floor(value * 1e9)}{unit}"
