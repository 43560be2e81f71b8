"""Remedies by lower precision: a mixed-precision assignment, or one precision for all layers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sizeup.backends import Needs, backend_of
from sizeup.checks.limits import verdict
from sizeup.checks.measures import Subject
from sizeup.checks.remedy_case import MEMORY, STORED, TIMED, Case, Remedy, as_options
from sizeup.cost import count
from sizeup.dtypes import DType, precision, precision_name
from sizeup.errors import NoAssignment, SizeupError
from sizeup.memory import best_memory_plan
from sizeup.mixed_precision import assign, layers
from sizeup.mixed_precision.choose import Assignment, Search, find_assignment
from sizeup.mixed_precision.figures import BUDGET_LABELS, Budgets
from sizeup.mixed_precision.losses import weight_rounding_losses
from sizeup.mixed_precision.options import OptionTable, options_of
from sizeup.mixed_precision.recipes import QUANTIZERS
from sizeup.units import plural

_OFFERED = ("fp32", "int8")  # without a target
_MOST_ROUNDS = 5
_MOST_LAYERS = 400  # the search takes too long for more
# The budget of a precision assignment, by the name of the limit.
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
_UNMEASURED = "the loss of accuracy is not measured: sizeup precision --data measures it"


def precision_remedies(case: Case) -> Iterator[Remedy]:
    """The assignment with the lowest loss that fits, or all layers at the lowest precision."""
    if case.subject.needs.is_converted or not case.needs_remedy((*MEMORY, *STORED, *TIMED)):
        return
    offered = _offered(case)
    if len(offered) < 2 or not layers(case.subject.graph):
        return
    mixed = _mixed_remedy(case, offered)
    if mixed is not None:
        yield mixed
    uniform = _uniform_remedy(case, offered[-1])
    if uniform is not None and (mixed is None or mixed.fits is not True):
        yield uniform


def _offered(case: Case) -> list[DType]:
    """The precisions that the runtime supports, from high to low, none higher than the model's own."""
    target, graph = case.subject.target, case.subject.graph
    names = _OFFERED if target is None else backend_of(target).offered_precisions
    outputs = [graph.tensors[i] for layer in layers(graph) for i in graph.ops[layer.op].outputs]
    widest = max((tensor.dtype.bits for tensor in outputs if tensor.follows_precision), default=0)
    supported = [name for name in names if target is None or name in target.runtime.dtypes]
    return [dtype for dtype in map(precision, supported) if dtype.bits <= widest]


def _uniform_remedy(case: Case, dtype: DType) -> Remedy | None:
    needs = case.subject.needs
    subject = replace(case.subject, needs=Needs(needs.graph, needs.cost, dtype, needs.file_bytes))
    name = precision_name(dtype)
    command = [*case.check, f"--precision {name}"]
    notes = [_UNMEASURED, *_conversion_notes(case, name)]
    return case.remedy(f"convert all layers to {name}", command, subject, notes)


def _conversion_notes(case: Case, name: str) -> Iterator[str]:
    """The command that writes a recipe for a quantizer; the remedy's own command converts nothing."""
    if case.subject.graph.format not in QUANTIZERS:
        return
    origin = case.origin
    words = ["sizeup precision", origin.argument, f"--precisions {name}", "--recipe recipe.json"]
    words += [origin.bind_options, *as_options(origin.input_options)]
    yield f"a check converts nothing; a recipe for a quantizer: {' '.join(filter(None, words))}"


@dataclass(slots=True)
class _Search:
    """Budgets of the assignment, tightened until the resulting model fits the limits."""

    case: Case
    budgets: Budgets

    def tighten(self, subject: Subject) -> bool:
        """Reduce each budget by the excess over its limit; returns whether a budget was reduced."""
        tightened = False
        for limit in self.case.limits_of(subject):
            if limit.fits is True or limit.maximum is None:
                continue
            upper = limit.need_high if limit.need_high is not None else limit.need
            name = _BUDGETS.get(limit.name)
            if name is None or upper is None:
                continue
            budget = getattr(self.budgets, name)
            if budget is None:
                continue
            if name in ("seconds", "joules"):
                reduced = budget * limit.maximum / upper
            else:
                reduced = budget - math.ceil(upper - limit.maximum)
            if reduced <= 0 or reduced >= budget:
                return False
            self.budgets = replace(self.budgets, **{name: reduced})
            tightened = True
        return tightened


def _mixed_remedy(case: Case, offered: Sequence[DType]) -> Remedy | None:
    graph = case.subject.graph
    if len(layers(graph)) > _MOST_LAYERS:
        return None
    try:
        losses = weight_rounding_losses(graph, offered)
        options = options_of(graph, offered, case.subject.target)
        search = _Search(case, _first_budgets(case))
        for _ in range(_MOST_ROUNDS):
            choice = find_assignment(options, options.losses(losses), search.budgets, _QUICK)
            subject = _mixed(case, choice)
            refused = None if subject.memory_fit is None else subject.memory_fit.unsupported_reason
            if verdict(case.limits_of(subject), refused) is True:
                return _remedy(case, options, choice, search.budgets, offered, subject)
            if not search.tighten(subject):
                return None
    except (NoAssignment, SizeupError):
        return None  # no weights, nothing to choose, or nothing fits
    return None


def _first_budgets(case: Case) -> Budgets:
    """Budgets for activations, weights, latency and energy: the limits minus all other needs."""
    subject, amounts = case.subject, dict[str, float]()
    for limit in case.limits:
        name = _BUDGETS.get(limit.name)
        upper = limit.need_high if limit.need_high is not None else limit.need
        if name is None or limit.maximum is None or upper is None:
            continue
        if name == "activation_bytes":
            height = best_memory_plan(subject.graph, reorder=False, time_limit=_PLAN_SECONDS).packing.height
            left = limit.maximum - max(upper - height, 0)
        elif name == "weight_bytes":
            left = limit.maximum - max(upper - subject.needs.weight_bytes, 0)
        else:
            left = limit.maximum * (limit.expected or upper) / upper
        if left <= 0:
            raise NoAssignment(f"nothing is left for {name}")
        amounts[name] = min(left, amounts.get(name, math.inf))
    rounded = {name: int(left) if name.endswith("bytes") else left for name, left in amounts.items()}
    return Budgets(**rounded)  # type: ignore[arg-type]


def _mixed(case: Case, choice: Assignment) -> Subject:
    needs = case.subject.needs
    graph = replace(assign(needs.graph, choice.dtypes), offsets=())
    return replace(case.subject, needs=Needs(graph, count(graph), None, needs.file_bytes, needs.cost))


def _remedy(
    case: Case,
    options: OptionTable,
    choice: Assignment,
    budgets: Budgets,
    offered: Sequence[DType],
    subject: Subject,
) -> Remedy | None:
    names = {layer.op: layer.name for layer in options.layers}
    counts = Counter(precision_name(dtype) for dtype in choice.dtypes.values())
    mix = ", ".join(f"{plural(number, 'layer')} at {name}" for name, number in counts.most_common())
    lowest = precision_name(offered[-1])
    lowest_layers = [names[op] for op, dtype in choice.dtypes.items() if precision_name(dtype) == lowest]
    listed = ", ".join(lowest_layers[:_MOST_NAMED])
    rest = f" and {len(lowest_layers) - _MOST_NAMED:,} more" if len(lowest_layers) > _MOST_NAMED else ""
    description = f"store {mix}; {lowest}: {listed}{rest}"
    limits = [
        f"--{word} {_typed(name, getattr(budgets, name))}"
        for name, word in BUDGET_LABELS.items()
        if getattr(budgets, name) is not None
    ]
    target = "" if case.subject.target is None else f"-d {case.subject.target.name}"
    precisions = f"--precisions {','.join(map(precision_name, offered))}"
    command = [
        "sizeup precision",
        case.origin.argument,
        target,
        *limits,
        precisions,
        case.origin.bind_options,
    ]
    command += [*as_options(case.origin.input_options), "-o mixed.json"]
    return case.remedy(description, command, subject, (_UNMEASURED,))


def _typed(name: str, value: float) -> str:
    """An amount as a command-line value, rounded down to whole bytes, ns or nJ."""
    if name.endswith("bytes"):
        return str(int(value))
    unit = "ns" if name == "seconds" else "nJ"
    return f"{math.floor(value * 1e9)}{unit}"
