"""Data for an HTML page that computes other precisions per layer: a graph of dtypes, and seconds by dtype.

The page reimplements `mixed_precision.assign` on these columns: the dtypes of ops, the conversions between
them, traffic, weights and live memory. That is exact. Seconds come from estimates of the whole model at each
dtype, so an assignment is a sum over ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sizeup.cost import Accesses, Cost, count_with_dtypes
from sizeup.dtypes import DTYPES, PRECISIONS, DType, precision_name
from sizeup.errors import TargetError
from sizeup.graph import Graph, Op, Tensor
from sizeup.latency import Basis, Estimate, class_with_dtype, estimate, execution_of, rates_from
from sizeup.memory import usage
from sizeup.memory.liveness import is_scratch
from sizeup.mixed_precision import Layer, assign, layers
from sizeup.mixed_precision.assign import CONVERSIONS
from sizeup.ops import cost_rule_of
from sizeup.results.rows import NO_TARGET, Totals
from sizeup.targets import Target, current_catalog
from sizeup.units import round_digits

_OFFERED = ("fp32", "bf16", "fp16", "fp8", "int16", "int8", "int4")
# Flags of tensors and of operators, as the page reads them.
_FOLLOWS, _CONSTANT, _PARAMETER, _SMALL, _SCRATCH = 1, 2, 4, 8, 16
_KEEPS, _VIEW, _LAYER = 1, 2, 4


class _ReportLike(Protocol):
    """The attributes of a report that are read."""

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
    def no_latency_reason(self) -> str: ...
    @property
    def totals(self) -> Totals: ...


def what_if(report: _ReportLike) -> dict[str, Any] | None:
    """Returns the columns, or None if there is no layer whose dtype can be chosen."""
    graph = report.graph
    offered = offered_dtypes(graph, report.target)
    model_layers = layers(graph)
    if not model_layers or not offered:
        return None
    codes = _codes(graph, offered)
    memory = usage(graph, precision=report.precision)
    return {
        "types": [
            {"name": precision_name(dtype), "bits": dtype.bits, "family": dtype.family, "dtype": dtype.name}
            for dtype in codes
        ],
        "offered": [codes[dtype] for dtype in offered],
        "layers": [layer.op for layer in model_layers],
        "own": [_own_dtype(graph, graph.ops[layer.op], codes) for layer in model_layers],
        "tensors": _tensors(graph, codes),
        "ops": _ops(graph, {layer.op for layer in model_layers}),
        "reads": _accesses(graph, report.cost.reads),
        "writes": _accesses(graph, report.cost.writes),
        "weights": _weights(graph),
        "wide": codes[DTYPES["int32"]],
        "base": {
            "weights": report.totals.weight_bytes,
            "read": report.totals.read_bytes,
            "written": report.totals.written_bytes,
            "peak": None if memory.unavailable_reason else memory.peak_bytes,
        },
        "missing": memory.unavailable_reason,
        "latency": _seconds_by_dtype(report, model_layers, offered),
    }


def offered_dtypes(graph: Graph, target: Target | None) -> tuple[DType, ...]:
    """Returns the dtypes to choose from: with kernels on the target, and no wider than the widest layer."""
    widths = (
        graph.tensors[identity].dtype.bits
        for layer in layers(graph)
        for identity in graph.ops[layer.op].outputs
        if graph.tensors[identity].follows_precision
    )
    widest = max(widths, default=0)
    names = (name for name in _OFFERED if target is None or name in target.runtime.dtypes)
    return tuple(PRECISIONS[name] for name in names if PRECISIONS[name].bits <= widest)


def _codes(graph: Graph, offered: Sequence[DType]) -> dict[DType, int]:
    dtypes = dict.fromkeys((*offered, DTYPES["int32"], *(tensor.dtype for tensor in graph.tensors)))
    return {dtype: code for code, dtype in enumerate(dtypes)}


def _own_dtype(graph: Graph, op: Op, codes: dict[DType, int]) -> int:
    outputs = (graph.tensors[identity] for identity in op.outputs)
    return next((codes[tensor.dtype] for tensor in outputs if tensor.follows_precision), -1)


def _tensors(graph: Graph, codes: dict[DType, int]) -> dict[str, Any]:
    columns = {
        "elements": [tensor.elements for tensor in graph.tensors],
        "type": [codes[tensor.dtype] for tensor in graph.tensors],
        "flags": [_flags(tensor) for tensor in graph.tensors],
    }
    scales = [0 if tensor.data is None else tensor.data.scale_bytes for tensor in graph.tensors]
    return {**columns, "scales": scales} if any(scales) else columns


def _flags(tensor: Tensor) -> int:
    return (
        _FOLLOWS * tensor.follows_precision
        + _CONSTANT * (tensor.data is not None)
        + _PARAMETER * tensor.is_parameter
        + _SMALL * (len(tensor.shape or ()) <= 1)
        + _SCRATCH * is_scratch(tensor)
    )


def _ops(graph: Graph, layer: set[int]) -> dict[str, Any]:
    """Returns the flags of every op, and the source of constants that are unpacked before the first run."""
    flags = []
    unpacked: dict[str, int] = {}
    for index, op in enumerate(graph.ops):
        rule = cost_rule_of(op.kind)
        converts = op.kind in CONVERSIONS
        keeps = bool(op.bodies) or converts
        views = rule is not None and rule.views
        flags.append(_KEEPS * keeps + _VIEW * views + _LAYER * (index in layer))
        if converts and all(graph.tensors[i].data is not None for i in op.outputs):
            unpacked[str(op.outputs[0])] = op.inputs[0]
    return {
        "flags": flags,
        "unpacked": unpacked,
    }


def _accesses(graph: Graph, accesses: Accesses) -> dict[str, Any]:
    """Returns tensor, elements and runs of every access; an access in a body has minus its bits as tensor."""
    known = {id(tensor): index for index, tensor in enumerate(graph.tensors)}
    tensors = [known.get(id(tensor), -max(tensor.dtype.bits, 1)) for tensor in accesses.tensors]
    return {
        "first": accesses.first.tolist(),
        "tensor": tensors,
        "elements": accesses.elements.tolist(),
        "times": accesses.times.tolist(),
    }


def _weights(graph: Graph) -> dict[str, Any]:
    """Returns which parameters share content, which are stored at another size, and those only in bodies."""
    content: dict[int, int] = {}
    of_tensor = [
        content.setdefault(id(tensor.data), len(content)) if tensor.is_parameter else -1
        for tensor in graph.tensors
    ]
    stored = {
        str(content[id(tensor.data)]): tensor.data.stored_bytes
        for tensor in graph.tensors
        if tensor.is_parameter and tensor.data is not None and tensor.data.stored_bytes is not None
    }
    inner = [tensor for tensor in _inner_tensors(graph) if tensor.is_parameter]
    alone = {id(tensor.data): tensor for tensor in inner if id(tensor.data) not in content}
    return {
        "of_tensor": of_tensor,
        "stored": stored,
        "held": sorted({content[id(tensor.data)] for tensor in inner if id(tensor.data) in content}),
        "fixed": sum(_stored(tensor) for tensor in alone.values()),
    }


def _inner_tensors(graph: Graph) -> list[Tensor]:
    tensors: list[Tensor] = []
    stack = [body.graph for op in graph.ops for body in op.bodies]
    while stack:
        inner = stack.pop()
        tensors += inner.tensors
        stack += [body.graph for op in inner.ops for body in op.bodies]
    return tensors


def _stored(tensor: Tensor) -> int:
    stored_bytes = None if tensor.data is None else tensor.data.stored_bytes
    return ((tensor.elements or 0) * tensor.dtype.bits + 7) // 8 if stored_bytes is None else stored_bytes


def _seconds_by_dtype(
    report: _ReportLike, model_layers: Sequence[Layer], offered: Sequence[DType]
) -> dict[str, Any]:
    """Returns estimates of the unchanged model and at each dtype on one basis, or why there are none."""
    latency = report.latency
    if latency is None or latency.target is None:
        return {"unavailable": NO_TARGET if latency is not None else report.no_latency_reason}
    if latency.basis == "coefficients":
        return {"unavailable": "a coefficient table has no precisions per layer"}
    graphs = {dtype: assign(report.graph, {layer.op: dtype for layer in model_layers}) for dtype in offered}
    costs = {dtype: count_with_dtypes(report.cost, graph) for dtype, graph in graphs.items()}
    try:
        return _on_one_basis(report, latency.target, costs)
    except TargetError as error:
        return {"unavailable": str(error)}


def _on_one_basis(report: _ReportLike, target: Target, costs: dict[DType, Cost]) -> dict[str, Any]:
    """Estimates from the calibration if it covers every dtype, else by roofline: bases are not comparable."""
    assert report.latency is not None
    basis: Basis | None = None if report.latency.basis == "calibrated" else "roofline"
    fuses = target.runtime.fusions or ()
    # The kernels of a graph are the same on every basis, and fusion at every dtype.
    ran = last = execution_of(report.cost, None, fuses, like=report.latency.executed)
    runs = {dtype: (last := execution_of(cost, None, fuses, like=last)) for dtype, cost in costs.items()}

    def estimates_on(on: Basis | None) -> tuple[Estimate, dict[DType, Estimate]]:
        by_dtype = {
            dtype: estimate(cost, target, basis=on, executed=runs[dtype]) for dtype, cost in costs.items()
        }
        return estimate(report.cost, target, basis=on, executed=ran), by_dtype

    own, estimates = estimates_on(basis)
    if {own.basis, *(other.basis for other in estimates.values())} != {own.basis}:
        own, estimates = estimates_on("roofline")
    base = execution_of(report.cost, report.precision, fuses, like=ran)
    return {
        "basis": own.basis,
        "reported_basis": report.latency.basis,
        "target": target.name,
        "merges": "quantize" in (target.runtime.fusions or ()),
        "run": own.overhead_seconds,
        "base": _whole(estimate(report.cost, target, report.precision, basis=own.basis, executed=base)),
        "own": _column(own, report.graph, report.graph),
        "types": {
            precision_name(dtype): _column(estimated, costs[dtype].graph, report.graph)
            for dtype, estimated in estimates.items()
        },
        "conversion": _conversion(own, target),
    }


def _column(estimated: Estimate, graph: Graph, original: Graph) -> dict[str, Any]:
    """Returns the seconds of the original's ops in an estimate, the whole, and its interval as multiples."""
    op_index = {op.outputs[0]: index for index, op in enumerate(original.ops) if op.outputs}
    seconds = [0.0] * len(original.ops)
    for op, op_seconds in zip(graph.ops, estimated.by_op()[0].tolist(), strict=True):
        index = op_index.get(op.outputs[0]) if op.outputs else None
        if index is not None:
            seconds[index] += op_seconds
    return {"ops": [round_digits(value) for value in seconds], **_whole(estimated)}


def _whole(total: Estimate) -> dict[str, Any]:
    return {
        "whole": total.seconds,
        "is_lower_bound": total.is_lower_bound,
        "low": None if total.low is None or not total.seconds else total.low / total.seconds,
        "high": None if total.high is None or not total.seconds else total.high / total.seconds,
    }


def _conversion(estimated: Estimate, target: Target) -> dict[str, Any]:
    """Returns the cost of a conversion by dtype: seconds per byte, per launch, per byte beyond the cache."""
    if estimated.calibration is None:
        slowdown = None if estimated.low is None else current_catalog().slowdown(target)
        bandwidth, launch = target.device.bandwidth, target.overhead_seconds or 0.0
        if slowdown is not None:
            launch = slowdown.launch_seconds
        factor = 1.0 if slowdown is None else slowdown.traffic
        return {"*": {"byte": factor / bandwidth if bandwidth else 0.0, "launch": launch}}
    rates = rates_from(estimated.calibration.rates)
    return {
        precision_name(dtype): {
            "byte": rates.of(class_with_dtype("quantize", dtype)).byte,
            "launch": rates.of(class_with_dtype("quantize", dtype)).launch,
            "cache": rates.cache,
            "far": rates.far,
        }
        for dtype in PRECISIONS.values()
    }
