"""One model and all questions about it: load once for each batch and shapes, count once, price many times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sizeup import formats
from sizeup.cost import Bytes, Cost, count, total
from sizeup.dtypes import DType
from sizeup.errors import SizeupError, TargetError
from sizeup.graph import Graph
from sizeup.latency import Estimate, Executed, energy, estimate, executed
from sizeup.memory import Usage, as_shipped, usage
from sizeup.memory.overview import refusal_of
from sizeup.sweeps.points import Point, Questions, bindings_of, target_hash
from sizeup.sweeps.schema import ERROR, OK
from sizeup.targets import Target, current

Row: TypeAlias = dict[str, Any]
# Loads the model for a batch and shapes.
Loader: TypeAlias = Callable[[dict[str, int], dict[str, tuple[int, ...]]], Graph]

_FLOPS_PER_MAC = 2
_LONGEST_REASON = 500


def evaluate(load: Loader, asked: Questions) -> Iterator[tuple[Point, Row]]:
    """The answers about a model, one row a point; what keeps a batch or shapes from being loaded is told in
    their rows."""
    by_shape: dict[tuple[int | None, str], list[Point]] = {}
    for point in asked.points:
        by_shape.setdefault(point.shape, []).append(point)
    targets = {name: _same_target(name, digest) for name, digest in asked.target_hashes.items()}
    for shape, points in by_shape.items():
        try:
            counted = count(load(*bindings_of(shape)))
        except SizeupError as error:
            yield from ((point, failure(point, *described(error))) for point in points)
            continue
        answers = _Answers(counted)
        yield from ((point, answers.row(point, targets[point.target])) for point in points)


def failure(point: Point, kind: str, reason: str) -> Row:
    """The row of a point that could not be evaluated."""
    return {**_asked(point), "status": ERROR, "error_kind": kind, "error": reason}


def described(error: BaseException) -> tuple[str, str]:
    """An error in one word and in one line."""
    text = str(error) if isinstance(error, SizeupError) else f"{type(error).__name__}: {error}"
    return type(error).__name__, " ".join(text.split())[:_LONGEST_REASON]


def _same_target(name: str, digest: str) -> Target:
    found = current().target(name)
    if target_hash(found) != digest:
        raise TargetError(f"{name} is described otherwise here than where the sweep was started")
    return found


def _asked(point: Point) -> Row:
    device, _, runtime = point.target.partition("/")
    return {
        "target": point.target,
        "device": device,
        "runtime": runtime,
        "precision": point.precision,
        "batch": point.batch,
        "shapes": point.shapes,
    }


class _Answers:
    """What is known of one graph; each part is computed when the first point asks for it, and kept."""

    def __init__(self, cost: Cost) -> None:
        self.cost, self.graph = cost, cost.graph
        self.counts = _counts(cost)
        self._by_precision: dict[str, Row] = {}
        self._executed: dict[tuple[str, tuple[str, ...] | None], Executed] = {}

    def row(self, point: Point, target: Target) -> Row:
        return {
            **_asked(point),
            "status": OK,
            **self.counts,
            **self._priced(point.precision, point.asked),
            **self._latency(point, target),
            **self._room(target),
        }

    def _priced(self, name: str, asked: DType | None) -> Row:
        """Bytes and memory at a precision: the same for every target."""
        if name not in self._by_precision:
            held = usage(self.graph, precision=asked, as_run=True)
            moved = self.cost.bytes_at(asked)
            self._by_precision[name] = {**_bytes(self.cost, moved), **_memory(self.graph, held, asked)}
        return self._by_precision[name]

    def _latency(self, point: Point, target: Target) -> Row:
        try:
            found = estimate(self.cost, target, point.asked, executed=self._kernels(point, target))
        except TargetError as error:
            reason = str(error)
            return {"latency_missing": reason, "energy_missing": reason}
        return {**_times(found), **_energy(found)}

    def _kernels(self, point: Point, target: Target) -> Executed:
        """What runs depends on what the runtime merges, not on the device."""
        fuses = target.runtime.fuses
        if (point.precision, fuses) not in self._executed:
            self._executed[point.precision, fuses] = executed(self.cost, point.asked, fuses or ())
        return self._executed[point.precision, fuses]

    def _room(self, target: Target) -> Row:
        device = target.device
        return {
            "ram_bytes": device.ram_bytes,
            "flash_bytes": device.flash_bytes,
            "fits_reason": "not looked at",
        }


def _counts(cost: Cost) -> Row:
    ops = len(cost.graph.ops)
    known = ops - len(cost.reasons)
    # Sums over operators none of which is known are sums of nothing: unknown, not zero.
    none_known = bool(ops) and not known
    return {
        "format": cost.graph.format,
        "ops": ops,
        "known_ops": known,
        "macs": _unless_zero(cost.total_macs, none_known),
        "elementwise_ops": _unless_zero(cost.total_elementwise, none_known),
        "params": cost.total_params,
        "counts_missing": _missing(cost),
    }


def _missing(cost: Cost) -> str | None:
    if not cost.reasons:
        return None
    reasons = Counter(cost.reasons.values()).most_common(3)
    return "; ".join(f"{number:,} x {reason}" for reason, number in reasons)[:_LONGEST_REASON]


def _unless_zero(value: int, is_unknown: bool) -> int | None:
    return None if is_unknown and not value else value


def _bytes(cost: Cost, moved: Bytes) -> Row:
    read, written = total(moved.read), total(moved.written)
    none_known = len(cost.reasons) == len(cost.graph.ops) > 0
    is_whole = not cost.reasons and read + written > 0
    return {
        "weight_bytes": moved.weights,
        "read_bytes": _unless_zero(read, none_known),
        "written_bytes": _unless_zero(written, none_known),
        "intensity": _FLOPS_PER_MAC * cost.total_macs / (read + written) if is_whole else None,
    }


def _memory(graph: Graph, held: Usage, asked: DType | None) -> Row:
    peak = None if held.unknown else held.peak_bytes
    if graph.format != "tflite":
        return {"peak_bytes": peak, "memory_missing": held.missing or "only TFLite files have an arena"}
    if asked is not None:
        reason = held.missing or "TFLite Micro's arena is that of the file as it is"
        return {"peak_bytes": peak, "memory_missing": reason}
    shipped = as_shipped(graph)
    return {
        "peak_bytes": peak,
        "arena_bytes": None if shipped is None else shipped.head_bytes,
        "memory_missing": held.missing or refusal_of(graph, shipped),
    }


def _times(found: Estimate) -> Row:
    return {
        "ms": found.ms,
        "low_ms": found.low_ms,
        "high_ms": found.high_ms,
        "level": None if found.low is None else found.level,
        "basis": found.basis,
    }


def _energy(found: Estimate) -> Row:
    spent = energy(found)
    if spent is not None:
        return {"energy_mj": 1e3 * spent.joules}
    if found.low is None:
        return {"energy_missing": "the range of its time is not known"}
    assert found.target is not None
    return {"energy_missing": f"no power of {found.target.device.name} is known"}


def load_of(source: Any) -> Loader:
    """What loads a path, a name, a model, or a model with its inputs, for a batch and shapes."""
    model, own = source if isinstance(source, tuple) and len(source) == 2 else (source, None)

    def load(sizes: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> Graph:
        if own is None or shapes:
            return formats.load(model, inputs=shapes or None, bind=sizes or None)
        bound = dict(sizes)
        inputs = _with_batch(own, bound.pop("batch")) if "batch" in bound else own
        return formats.load(model, inputs=inputs, bind=bound or None)

    return load


def _with_batch(inputs: Any, batch: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of inputs with another first size."""
    if not all(isinstance(shape, tuple) and all(isinstance(n, int) for n in shape) for shape in inputs):
        raise SizeupError("its inputs are not all shapes, so no batch can be asked of it")
    return tuple((batch, *shape[1:]) for shape in inputs)
