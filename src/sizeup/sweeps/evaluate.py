"""One model and all questions about it: load once for each batch and shapes, count once, price many times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from sizeup import units
from sizeup.checks import Needs, Room, Space, room
from sizeup.cost import Bytes, Cost, count, total
from sizeup.dtypes import DType
from sizeup.errors import SizeupError, TargetError
from sizeup.latency import Estimate, Executed, energy, estimate, executed
from sizeup.sweeps.loading import Loading, resolved
from sizeup.sweeps.points import Point, PointSet, PointShape, bindings_of, target_hash
from sizeup.sweeps.schema import ERROR, OK
from sizeup.targets import Target, current
from sizeup.workers import OUT_OF_MEMORY

Row: TypeAlias = dict[str, Any]
_LONGEST_REASON = 500


def evaluate(
    source: Any,
    asked: PointSet,
    file_bytes: int | None = None,
    *,
    is_last: bool = True,
    bound: set[str] | None = None,
) -> Iterator[tuple[Point, Row]]:
    """The answers about a model (whatever `load` takes), one row a point; what keeps a batch or shapes from
    being loaded is told in their rows.

    `file_bytes` is the size of the model's file, where it has one. Where memory runs out and this is not the
    last try, MemoryError leaves it to a process that has loaded nothing before. `bound` receives the names in
    `bind` that the model has a symbolic dimension for.
    """
    by_shape: dict[PointShape, list[Point]] = {}
    for point in asked.points:
        by_shape.setdefault(point.shape, []).append(point)
    load = Loading(source, len(by_shape))
    targets = {name: _same_target(name, digest) for name, digest in asked.target_hashes.items()}
    for shape, points in by_shape.items():
        sizes, shapes, bind = bindings_of(shape)
        try:
            graph, defaulted = resolved(load, sizes, shapes, bind)
            counted = count(graph)
        except (SizeupError, MemoryError) as error:
            if _is_of_memory(error) and not is_last:
                raise MemoryError from error
            yield from ((point, failure(point, *described(error))) for point in points)
            continue
        finally:
            if bound is not None:
                bound |= load.symbolic & bind.keys()
        answers = _Answers(counted, file_bytes, _caveat(defaulted))
        yield from ((point, answers.row(point, targets[point.target])) for point in points)


def failure(point: Point, kind: str, reason: str) -> Row:
    """The row of a point that could not be evaluated."""
    return {**_asked(point), "status": ERROR, "error_kind": kind, "error": reason}


def described(error: BaseException) -> tuple[str, str]:
    """An error in one word and in one line."""
    if _is_of_memory(error):
        return OUT_OF_MEMORY, "takes more memory than it is given"
    text = str(error) if isinstance(error, SizeupError) else f"{type(error).__name__}: {error}"
    return type(error).__name__, " ".join(text.split())[:_LONGEST_REASON]


def _is_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, though whoever called for it may have made that another error."""
    if error is None:
        return False
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or _is_of_memory(error.__cause__)


@cache
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
        "bind": point.bind or None,
    }


def _caveat(defaulted: Sequence[str]) -> str | None:
    return f"no batch given: {', '.join(defaulted)} set to 1"[:_LONGEST_REASON] if defaulted else None


class _Answers:
    """What is known of one graph; each part is computed when the first point asks for it, and kept."""

    def __init__(self, cost: Cost, file_bytes: int | None, caveat: str | None) -> None:
        self.cost, self.graph, self.file_bytes, self.caveat = cost, cost.graph, file_bytes, caveat
        self.counts = _counts(cost)
        self._by_precision: dict[str, tuple[Row, Needs]] = {}
        self._executed: dict[tuple[str, tuple[str, ...] | None], Executed] = {}

    def row(self, point: Point, target: Target) -> Row:
        priced, needs = self._priced(point.precision, point.asked)
        return {
            **_asked(point),
            "caveat": self.caveat,
            "status": OK,
            **self.counts,
            **priced,
            "arena_bytes": _arena_bytes(needs, target),
            **_room(room(needs, target)),
            **self._latency(point, target),
        }

    def _priced(self, name: str, asked: DType | None) -> tuple[Row, Needs]:
        """Bytes and memory at a precision, and what is needed of a target: the same for all of them."""
        if name not in self._by_precision:
            needs = Needs(self.graph, self.cost, asked, self.file_bytes)
            row = {**_bytes(self.cost, self.cost.bytes_at(asked)), **_memory(needs)}
            self._by_precision[name] = row, needs
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


def _room(found: Room) -> Row:
    ram, flash = found.ram, found.flash
    return {
        "ram_need_bytes": ram.need_bytes,
        "ram_bytes": ram.limit_bytes,
        "flash_need_bytes": None if flash is None else flash.need_bytes,
        "flash_bytes": None if flash is None else flash.limit_bytes,
        "fits": found.fits,
        "fits_reason": None if found.fits else _why(found),
    }


def _why(found: Room) -> str:
    """Why a model does not fit, or why that cannot be told."""
    if found.refused:
        return found.refused
    wanting = [space for space in found.spaces if space.fits is False]
    if not wanting:
        wanting = [space for space in found.spaces if space.fits is None]
    return "; ".join(", ".join(space.unknown) or _shortage(space) for space in wanting)


def _shortage(space: Space) -> str:
    limit = units.size(space.limit_bytes or 0)
    if space.fits is False:
        return f"{space.words}: at least {units.size(space.least_bytes)} needed, {limit} there"
    most = "an unknown amount" if space.most_bytes is None else units.size(space.most_bytes)
    return f"{space.words}: {units.size(space.least_bytes)} to {most} needed, {limit} there"


def _counts(cost: Cost) -> Row:
    ops = len(cost.graph.ops)
    known = ops - len(cost.reasons)
    # A sum of nothing beside operators that are not known is unknown, not zero.
    is_open = bool(cost.reasons)
    return {
        "format": cost.graph.format,
        "ops": ops,
        "known_ops": known,
        "macs": _unless_zero(cost.total_macs, is_open),
        "elementwise_ops": _unless_zero(cost.total_elementwise, is_open),
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
    is_open = bool(cost.reasons)
    is_whole = not cost.reasons and read + written > 0
    return {
        "weight_bytes": moved.weights,
        "read_bytes": _unless_zero(read, is_open),
        "written_bytes": _unless_zero(written, is_open),
        "intensity": units.FLOPS_PER_MAC * cost.total_macs / (read + written) if is_whole else None,
    }


def _memory(needs: Needs) -> Row:
    """The peak, and TFLite Micro's arena for a file of its own as it is."""
    held = needs.usage
    if needs.graph.format != "tflite":
        no_arena: str | None = "only TFLite files have an arena"
    elif needs.precision is not None:
        no_arena = "TFLite Micro's arena is that of the file as it is"
    else:
        no_arena = needs.refused or (needs.arena.unknown or None if needs.arena is not None else None)
    return {
        "peak_bytes": None if held.unknown else held.peak_bytes,
        "memory_missing": held.missing or no_arena,
    }


def _arena_bytes(needs: Needs, target: Target) -> int | None:
    """The smallest arena that TFLite Micro accepts for the file, on the target's word size."""
    if needs.graph.format != "tflite" or needs.precision is not None or needs.arena is None:
        return None
    return needs.arena.arena_bytes(target.device.word_bits)


_LEAST = "only the least time that it takes is known: low_ms"


def _times(found: Estimate) -> Row:
    if not found.seconds:
        return {"basis": found.basis, "latency_missing": "nothing known of it takes time on this basis"}
    if found.low is None and found.basis == "roofline":
        # A bound is no estimate, and would be the fastest wherever estimates are compared.
        return {"low_ms": found.ms, "basis": found.basis, "latency_missing": _LEAST}
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
