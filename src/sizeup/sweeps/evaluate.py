"""Evaluates one model at all points: loads and counts it once per batch and shapes, then per target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from sizeup import units
from sizeup.backends import backend_of
from sizeup.backends.tflm.needs import TflmNeeds
from sizeup.checks import EXTERNAL_RAM, MemoryFit, MemoryNeed, Needs, fit_memory
from sizeup.cost import Bytes, Cost, count, total
from sizeup.dtypes import DType
from sizeup.errors import SizeupError, TargetError
from sizeup.latency import Estimate, Execution, energy, estimate, execution_of
from sizeup.sweeps.model_loader import ModelLoader, load_resolved
from sizeup.sweeps.points import Point, PointSet, PointShape, bindings_of, target_digest
from sizeup.sweeps.schema import ERROR, OK
from sizeup.targets import Target, current_catalog
from sizeup.workers import OUT_OF_MEMORY

Row: TypeAlias = dict[str, Any]
_LONGEST_REASON = 500


def evaluate(
    source: Any,
    point_set: PointSet,
    file_bytes: int | None = None,
    *,
    is_last: bool = True,
    bound: set[str] | None = None,
) -> Iterator[tuple[Point, Row]]:
    """One row per point of a model (anything that `load` accepts), an error row if it cannot be loaded.

    `file_bytes` is the size of the model's file, if it has one. `bound` receives the names in `bind` that
    match a symbolic dimension of the model. Raises MemoryError if memory runs out and this is not the last
    try, so that a new worker can retry.
    """
    by_shape: dict[PointShape, list[Point]] = {}
    for point in point_set.points:
        by_shape.setdefault(point.shape, []).append(point)
    loader = ModelLoader(source, len(by_shape))
    targets = {name: _checked_target(name, digest) for name, digest in point_set.target_digests.items()}
    for shape, points in by_shape.items():
        sizes, shapes, bind = bindings_of(shape)
        try:
            graph, defaulted = load_resolved(loader, sizes, shapes, bind)
            counted = count(graph)
        except (SizeupError, MemoryError) as error:
            if is_out_of_memory(error) and not is_last:
                raise MemoryError from error
            yield from ((point, failure_row(point, *classify_error(error))) for point in points)
            continue
        finally:
            if bound is not None:
                bound |= loader.symbolic & bind.keys()
        answers = _GraphResults(counted, file_bytes, _caveat(defaulted))
        yield from ((point, answers.row(point, targets[point.target])) for point in points)


def failure_row(point: Point, error_kind: str, reason: str) -> Row:
    """The row of a point that could not be evaluated."""
    return {**point_columns(point), "status": ERROR, "error_kind": error_kind, "error": reason}


def classify_error(error: BaseException) -> tuple[str, str]:
    """The class of an error, and its message in one line."""
    if is_out_of_memory(error):
        return OUT_OF_MEMORY, "exceeds the memory limit"
    text = str(error) if isinstance(error, SizeupError) else f"{type(error).__name__}: {error}"
    return type(error).__name__, " ".join(text.split())[:_LONGEST_REASON]


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, also if a library raised another error for it."""
    if error is None:
        return False
    return (
        isinstance(error, MemoryError) or "allocate memory" in str(error) or is_out_of_memory(error.__cause__)
    )


@cache
def _checked_target(name: str, digest: str) -> Target:
    target = current_catalog().target(name)
    if target_digest(target) != digest:
        raise TargetError(
            f"{name}: its description differs from the one on the machine that started the sweep"
        )
    return target


def point_columns(point: Point) -> Row:
    """The columns of a row that identify its point."""
    device, _, runtime = point.target.rpartition("/")
    serving = point.serving
    return {
        "target": point.target,
        "device": device,
        "runtime": runtime,
        "precision": point.precision,
        "batch": point.batch,
        "shapes": point.shapes,
        "bind": point.bind or None,
        "input_tokens": serving and serving.input,
        "output_tokens": serving and serving.output,
        "concurrency": serving and serving.concurrency,
        "requested_kv": serving and serving.kv,
        "requested_layout": serving and serving.layout,
    }


def _caveat(defaulted: Sequence[str]) -> str | None:
    return f"no batch given: {', '.join(defaulted)} set to 1"[:_LONGEST_REASON] if defaulted else None


class _GraphResults:
    """The results of one graph, computed on demand and cached."""

    def __init__(self, cost: Cost, file_bytes: int | None, caveat: str | None) -> None:
        self.cost, self.graph, self.file_bytes, self.caveat = cost, cost.graph, file_bytes, caveat
        self.counts = _count_columns(cost)
        self._by_precision: dict[str, tuple[Row, Needs]] = {}
        self._executed: dict[tuple[str, tuple[str, ...] | None], Execution] = {}

    def row(self, point: Point, target: Target) -> Row:
        priced, needs = self._at_precision(point.precision, point.dtype)
        verdict = fit_memory(needs, target)
        return {
            **point_columns(point),
            "caveat": self.caveat,
            "status": OK,
            **self.counts,
            **priced,
            "arena_bytes": _arena_bytes(needs, target),
            **_device_columns(needs, target),
            **_fit_columns(verdict),
            **self._latency(point, target, verdict.ram.is_external),
        }

    def _at_precision(self, name: str, dtype: DType | None) -> tuple[Row, Needs]:
        """Bytes, memory and requirements at a precision; they do not depend on the target."""
        if name not in self._by_precision:
            needs = Needs(self.graph, self.cost, dtype, self.file_bytes)
            row = {**_byte_columns(self.cost, self.cost.bytes_at(dtype)), **_memory_columns(needs)}
            self._by_precision[name] = row, needs
        return self._by_precision[name]

    def _latency(self, point: Point, target: Target, is_external: bool) -> Row:
        try:
            prediction = estimate(self.cost, target, point.dtype, executed=self._kernels(point, target))
        except TargetError as error:
            reason = str(error)
            return {"latency_missing": reason, "energy_missing": reason}
        if is_external:
            least = prediction.ms if prediction.low_ms is None else prediction.low_ms
            missing = {"latency_missing": EXTERNAL_RAM, "energy_missing": EXTERNAL_RAM}
            return {"low_ms": least, "basis": prediction.basis, **missing}
        return {**_latency_columns(prediction), **_energy_columns(prediction)}

    def _kernels(self, point: Point, target: Target) -> Execution:
        """The kernels that run; they depend on the runtime's fusions, not on the device."""
        fuses = target.runtime.fusions
        if (point.precision, fuses) not in self._executed:
            self._executed[point.precision, fuses] = execution_of(self.cost, point.dtype, fuses or ())
        return self._executed[point.precision, fuses]


def _device_columns(needs: Needs, target: Target) -> Row:
    """Memory of PyTorch's caching allocator; empty if it does not manage the target or a size is unknown."""
    memory = (
        None if backend_of(target).usage(needs).unknown_sizes else backend_of(target).device_memory(needs)
    )
    if memory is None:
        return {}
    return {"allocated_bytes": memory.allocated_bytes, "reserved_bytes": memory.reserved_bytes}


def _fit_columns(verdict: MemoryFit) -> Row:
    ram, flash = verdict.ram, verdict.flash
    return {
        "ram_need_bytes": ram.need_bytes if ram.parts else None,
        "ram_bytes": ram.limit_bytes,
        "flash_need_bytes": None if flash is None or not flash.parts else flash.need_bytes,
        "flash_bytes": None if flash is None else flash.limit_bytes,
        "fits": verdict.fits,
        "fits_reason": None if verdict.fits else _fit_reason(verdict),
    }


def _fit_reason(verdict: MemoryFit) -> str:
    """Why a model does not fit, or why that is undetermined."""
    if verdict.unsupported_reason:
        return verdict.unsupported_reason
    spaces = [space for space in verdict.memories if space.fits is False]
    if not spaces:
        spaces = [space for space in verdict.memories if space.fits is None]
    return "; ".join(dict.fromkeys(", ".join(space.unknown) or _shortage(space) for space in spaces))


def _shortage(space: MemoryNeed) -> str:
    limit = units.size(space.limit_bytes or 0)
    if space.fits is False:
        return f"{space.title}: at least {units.size(space.low_bytes)} needed, {limit} available"
    most = "an unknown amount" if space.high_bytes is None else units.size(space.high_bytes)
    return f"{space.title}: {units.size(space.low_bytes)} to {most} needed, {limit} available"


def _count_columns(cost: Cost) -> Row:
    ops = len(cost.graph.ops)
    known = ops - len(cost.reasons)
    # A sum of zero is unknown if the cost of an op is unknown.
    is_incomplete = bool(cost.reasons)
    return {
        "format": cost.graph.format,
        "ops": ops,
        "known_ops": known,
        "macs": _unless_zero(cost.total_macs, is_incomplete),
        "elementwise_ops": _unless_zero(cost.total_elementwise, is_incomplete),
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


def _byte_columns(cost: Cost, moved: Bytes) -> Row:
    read, written = total(moved.read), total(moved.written)
    is_incomplete = bool(cost.reasons)
    is_complete = not cost.reasons and read + written > 0
    return {
        "weight_bytes": moved.weights,
        "read_bytes": _unless_zero(read, is_incomplete),
        "written_bytes": _unless_zero(written, is_incomplete),
        "intensity": units.FLOPS_PER_MAC * cost.total_macs / (read + written) if is_complete else None,
    }


def _memory_columns(needs: Needs) -> Row:
    """Peak activation memory, and why it or TFLite Micro's arena is missing."""
    usage = needs.usage
    if needs.graph.format != "tflite":
        no_arena: str | None = "only TFLite files have an arena"
    elif needs.precision is not None:
        no_arena = "TFLite Micro's arena is known only at the file's own dtypes"
    else:
        arena = needs.part(TflmNeeds).arena()
        no_tail = None if arena is None else arena.tail_unknown_reason
        no_arena = needs.part(TflmNeeds).unsupported_reason() or no_tail or None
    return {
        "peak_bytes": None if usage.unknown_sizes else usage.peak_bytes,
        "memory_missing": usage.unavailable_reason or no_arena,
    }


def _arena_bytes(needs: Needs, target: Target) -> int | None:
    """The smallest arena that TFLite Micro accepts for the file, at the target's word size."""
    is_npu = backend_of(target).compiles_models  # of the compiled file, which a sweep does not make
    if needs.graph.format != "tflite" or needs.precision is not None or is_npu:
        return None
    bounds = needs.part(TflmNeeds).arena_bounds(target)
    return None if bounds is None else bounds[1]


_LOWER_BOUND = "only a lower bound of the latency is known (low_ms)"


def _latency_columns(prediction: Estimate) -> Row:
    if prediction.is_lower_bound:
        # A lower bound is not an estimate: it would win every comparison of latencies.
        return {"low_ms": prediction.ms, "basis": prediction.basis, "latency_missing": _LOWER_BOUND}
    return {
        "ms": prediction.ms,
        "low_ms": prediction.low_ms,
        "high_ms": prediction.high_ms,
        "level": None if prediction.low is None else prediction.level,
        "basis": prediction.basis,
    }


def _energy_columns(prediction: Estimate) -> Row:
    estimated_energy = energy(prediction)
    if estimated_energy is not None:
        return {"energy_mj": 1e3 * estimated_energy.joules}
    if prediction.low is None:
        return {"energy_missing": "the latency has no prediction interval"}
    assert prediction.target is not None
    return {"energy_missing": f"the power of {prediction.target.device.name} is unknown"}
