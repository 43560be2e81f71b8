"""What a page needs to compute other number types by itself: a graph of widths, and seconds by type.

The page carries out what `precision.assign` does, on these columns: which types operators get, which
conversions lie between them, what is moved, stored and in memory at once. That is exact. Seconds are those
that an estimate of the whole model at each type gives its operators, so a mixture is a sum over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sizeup.cost import Accesses, Cost, recount
from sizeup.dtypes import DTYPES, PRECISIONS, DType, precision_name
from sizeup.errors import TargetError
from sizeup.graph import Graph, Op, Tensor
from sizeup.latency import Basis, Estimate, estimate, executed, rates_from, typed
from sizeup.memory import usage
from sizeup.memory.liveness import is_scratch
from sizeup.mixed_precision import Layer, assign, layers
from sizeup.mixed_precision.assign import CONVERSIONS
from sizeup.ops import rule_of
from sizeup.results.rows import NO_TARGET, Totals
from sizeup.targets import Target, current
from sizeup.units import short

_OFFERED = ("fp32", "bf16", "fp16", "fp8", "int16", "int8", "int4")
# Flags of tensors and of operators, as the page reads them.
_FOLLOWS, _CONSTANT, _PARAMETER, _SMALL, _SCRATCH = 1, 2, 4, 8, 16
_KEEPS, _VIEW, _LAYER = 1, 2, 4


class _Analyzed(Protocol):
    """What is read of a report."""

    @property
    def graph(self) -> Graph: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def precision(self) -> DType | None: ...
    @property
    def target(self) -> Target | None: ...
    @property
    def latency(self) -> Estimate | None: ...
    @property
    def no_latency(self) -> str: ...
    @property
    def totals(self) -> Totals: ...


def what_if(report: _Analyzed) -> dict[str, Any] | None:
    """The columns, or None where there is no layer whose type could be chosen."""
    graph = report.graph
    offered = offered_types(graph, report.target)
    found = layers(graph)
    if not found or not offered:
        return None
    codes = _codes(graph, offered)
    memory = usage(graph, precision=report.precision)
    return {
        "types": [
            {"name": precision_name(each), "bits": each.bits, "family": each.family, "dtype": each.name}
            for each in codes
        ],
        "offered": [codes[each] for each in offered],
        "layers": [each.op for each in found],
        "own": [_own_type(graph, graph.ops[each.op], codes) for each in found],
        "tensors": _tensors(graph, codes),
        "ops": _ops(graph, {each.op for each in found}),
        "reads": _accesses(graph, report.cost.reads),
        "writes": _accesses(graph, report.cost.writes),
        "weights": _weights(graph),
        "wide": codes[DTYPES["int32"]],
        "base": {
            "weights": report.totals.weight_bytes,
            "read": report.totals.read_bytes,
            "written": report.totals.written_bytes,
            "peak": None if memory.missing else memory.peak_bytes,
        },
        "missing": memory.missing,
        "latency": _seconds_by_type(report, found, offered),
    }


def offered_types(graph: Graph, target: Target | None) -> tuple[DType, ...]:
    """The types to choose from: those with kernels on the target, none wider than all layers have already."""
    widths = (
        graph.tensors[identity].dtype.bits
        for layer in layers(graph)
        for identity in graph.ops[layer.op].outputs
        if graph.tensors[identity].follows_precision
    )
    widest = max(widths, default=0)
    names = (each for each in _OFFERED if target is None or each in target.runtime.dtypes)
    return tuple(PRECISIONS[each] for each in names if PRECISIONS[each].bits <= widest)


def _codes(graph: Graph, offered: Sequence[DType]) -> dict[DType, int]:
    kinds = dict.fromkeys((*offered, DTYPES["int32"], *(each.dtype for each in graph.tensors)))
    return {kind: code for code, kind in enumerate(kinds)}


def _own_type(graph: Graph, op: Op, codes: dict[DType, int]) -> int:
    made = (graph.tensors[identity] for identity in op.outputs)
    return next((codes[each.dtype] for each in made if each.follows_precision), -1)


def _tensors(graph: Graph, codes: dict[DType, int]) -> dict[str, Any]:
    return {
        "elements": [each.elements for each in graph.tensors],
        "type": [codes[each.dtype] for each in graph.tensors],
        "flags": [_flags(each) for each in graph.tensors],
    }


def _flags(tensor: Tensor) -> int:
    return (
        _FOLLOWS * tensor.follows_precision
        + _CONSTANT * (tensor.data is not None)
        + _PARAMETER * tensor.is_parameter
        + _SMALL * (len(tensor.shape or ()) <= 1)
        + _SCRATCH * is_scratch(tensor)
    )


def _ops(graph: Graph, layer: set[int]) -> dict[str, Any]:
    """What every operator is, and of constants that are unpacked before the first run, from which."""
    flags = []
    unpacked: dict[str, int] = {}
    for index, op in enumerate(graph.ops):
        rule = rule_of(op.kind)
        converts = op.kind in CONVERSIONS
        keeps = bool(op.bodies) or converts
        views = rule is not None and rule.views
        flags.append(_KEEPS * keeps + _VIEW * views + _LAYER * (index in layer))
        if converts and all(graph.tensors[each].data is not None for each in op.outputs):
            unpacked[str(op.outputs[0])] = op.inputs[0]
    return {
        "flags": flags,
        "unpacked": unpacked,
    }


def _accesses(graph: Graph, accesses: Accesses) -> dict[str, Any]:
    """Of every access its tensor, elements and runs; one of a body is told as minus its bits, which stay."""
    known = {id(tensor): index for index, tensor in enumerate(graph.tensors)}
    places = [known.get(id(each), -max(each.dtype.bits, 1)) for each in accesses.tensors]
    return {
        "first": accesses.first.tolist(),
        "tensor": places,
        "elements": accesses.elements.tolist(),
        "times": accesses.times.tolist(),
    }


def _weights(graph: Graph) -> dict[str, Any]:
    """Which parameters share their content, what of it is stored otherwise, and what bodies hold beside."""
    content: dict[int, int] = {}
    of_tensor = [
        content.setdefault(id(each.data), len(content)) if each.is_parameter else -1 for each in graph.tensors
    ]
    stored = {
        str(content[id(each.data)]): each.data.stored_bytes
        for each in graph.tensors
        if each.is_parameter and each.data is not None and each.data.stored_bytes is not None
    }
    inner = [each for each in _inner_tensors(graph) if each.is_parameter]
    alone = {id(each.data): each for each in inner if id(each.data) not in content}
    return {
        "of_tensor": of_tensor,
        "stored": stored,
        "held": sorted({content[id(each.data)] for each in inner if id(each.data) in content}),
        "fixed": sum(_stored(each) for each in alone.values()),
    }


def _inner_tensors(graph: Graph) -> list[Tensor]:
    found: list[Tensor] = []
    stack = [body.graph for op in graph.ops for body in op.bodies]
    while stack:
        each = stack.pop()
        found += each.tensors
        stack += [body.graph for op in each.ops for body in op.bodies]
    return found


def _stored(tensor: Tensor) -> int:
    kept = None if tensor.data is None else tensor.data.stored_bytes
    return ((tensor.elements or 0) * tensor.dtype.bits + 7) // 8 if kept is None else kept


def _seconds_by_type(report: _Analyzed, found: Sequence[Layer], offered: Sequence[DType]) -> dict[str, Any]:
    """Estimates of the model as it is and at each type, all on one basis; or why there are none."""
    latency = report.latency
    if latency is None or latency.target is None:
        return {"unavailable": NO_TARGET if latency is not None else report.no_latency}
    if latency.basis == "coefficients":
        return {"unavailable": "a table of coefficients knows no types of single layers"}
    graphs = {each: assign(report.graph, {layer.op: each for layer in found}) for each in offered}
    costs = {each: recount(report.cost, graph) for each, graph in graphs.items()}
    try:
        return _on_one_basis(report, latency.target, costs)
    except TargetError as error:
        return {"unavailable": str(error)}


def _on_one_basis(report: _Analyzed, target: Target, costs: dict[DType, Cost]) -> dict[str, Any]:
    """Measurements where they cover every type, else the data sheet: two bases cannot be compared."""
    assert report.latency is not None
    basis: Basis | None = None if report.latency.basis == "calibrated" else "roofline"
    fuses = target.runtime.fuses or ()
    # The kernels of a graph are the same on every basis, and what merges into them at every type.
    ran = last = executed(report.cost, None, fuses, like=report.latency.executed)
    runs = {kind: (last := executed(cost, None, fuses, like=last)) for kind, cost in costs.items()}

    def estimated(on: Basis | None) -> tuple[Estimate, dict[DType, Estimate]]:
        each = {kind: estimate(cost, target, basis=on, executed=runs[kind]) for kind, cost in costs.items()}
        return estimate(report.cost, target, basis=on, executed=ran), each

    own, estimates = estimated(basis)
    if {own.basis, *(each.basis for each in estimates.values())} != {own.basis}:
        own, estimates = estimated("roofline")
    base = executed(report.cost, report.precision, fuses, like=ran)
    return {
        "basis": own.basis,
        "target": target.name,
        "merges": "quantise" in (target.runtime.fuses or ()),
        "run": own.run_seconds,
        "base": _whole(estimate(report.cost, target, report.precision, basis=own.basis, executed=base)),
        "own": _column(own, report.graph, report.graph),
        "types": {
            precision_name(kind): _column(found, costs[kind].graph, report.graph)
            for kind, found in estimates.items()
        },
        "conversion": _conversion(own, target),
    }


def _column(found: Estimate, graph: Graph, original: Graph) -> dict[str, Any]:
    """The seconds of the original's operators in an estimate, of the whole, and its range as multiples."""
    place = {op.outputs[0]: index for index, op in enumerate(original.ops) if op.outputs}
    seconds = [0.0] * len(original.ops)
    for op, taken in zip(graph.ops, found.by_op()[0].tolist(), strict=True):
        index = place.get(op.outputs[0]) if op.outputs else None
        if index is not None:
            seconds[index] += taken
    return {"ops": [short(each) for each in seconds], **_whole(found)}


def _whole(found: Estimate) -> dict[str, Any]:
    return {
        "whole": found.seconds,
        "low": None if found.low is None or not found.seconds else found.low / found.seconds,
        "high": None if found.high is None or not found.seconds else found.high / found.seconds,
    }


def _conversion(found: Estimate, target: Target) -> dict[str, Any]:
    """What a conversion from each type takes: seconds a byte, at a launch, and a byte beyond the cache."""
    if found.fit is None:
        reach = current().reach(target)
        times = 1.0 if reach is None or found.low is None else reach.times
        bandwidth, launch = target.device.bandwidth, target.overhead_seconds or 0.0
        return {"*": {"byte": times / bandwidth if bandwidth else 0.0, "launch": times * launch}}
    rates = rates_from(found.fit.rates)
    return {
        precision_name(kind): {
            "byte": rates.of(typed("quantize", kind)).byte,
            "launch": rates.of(typed("quantize", kind)).launch,
            "cache": rates.cache,
            "far": rates.far,
        }
        for kind in PRECISIONS.values()
    }
