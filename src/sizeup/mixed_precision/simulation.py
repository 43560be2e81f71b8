"""Simulated quantization: from dtypes per layer to the roundings of activations and weights.

Tensors have the dtypes of `assign`: a layer reads, stores its weights and writes at its dtype, and other ops
follow their widest input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from sizeup import dtypes
from sizeup.dtypes import DType
from sizeup.errors import RunFailed, SizeupError
from sizeup.formats.simulated_rounding import (
    Array,
    CalibrationStatistics,
    Rounding,
    Roundings,
    TensorStatistics,
    round_values,
)
from sizeup.fusion import kernels
from sizeup.graph import ABSENT, Graph, Op
from sizeup.mixed_precision.assign import assign
from sizeup.ops import cost_rule_of, has_trait

# Fused into one kernel by integer runtimes: only its outputs are rounded.
_FUSED = ("constant", "norm", "bias", "activation", "gelu", "layer_norm")
_RECTIFIERS = ("relu", "relu6", "clamp")
_EXACT_BITS = 32  # floats of this width represent all simulated integers, times their scale
_CLIPPINGS = ("range", "error")


@dataclass(frozen=True, slots=True)
class Simulation:
    """How values are rounded.

    `symmetric`: the grids of activations are symmetric around zero (those of weights always are). `clipping`:
    a grid spans the observed `range`, or minimizes the squared `error`. `activations`: they `follow` the
    layers' dtypes, are `kept` unchanged, or are never narrower than the precision given here (`int8`).
    """

    symmetric: bool = False
    clipping: Clipping = "range"
    activations: str = "follow"

    def __post_init__(self) -> None:
        if self.clipping not in _CLIPPINGS:
            raise SizeupError(f"unknown clipping {self.clipping!r}; known: {', '.join(_CLIPPINGS)}")
        if self.activations not in ("follow", "kept"):
            check_dtype(dtypes.precision(self.activations))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return asdict(self)


class Simulator:
    """Computes the roundings of a graph for any assignment of dtypes, from calibration data."""

    def __init__(
        self, graph: Graph, axis_of: Callable[[int, int], int | None], settings: Simulation | None = None
    ) -> None:
        self._graph, self._axis_of = graph, axis_of
        self._settings = settings or Simulation()
        self._writer = {output: index for index, op in enumerate(graph.ops) for output in op.outputs}
        self._internal = _internal(graph)
        self._observed: CalibrationStatistics | None = None
        self._grids: dict[tuple[int, str], Rounding] = {}
        self._weights: dict[tuple[int, int | None, str], Array] = {}

    @property
    def observed_tensors(self) -> list[int]:
        """The tensors whose ranges must be known before rounding."""
        return [
            identity
            for identity, tensor in enumerate(self._graph.tensors)
            if tensor.data is None
            and tensor.dtype.family == "float"
            and (identity in self._writer or identity in self._graph.inputs)
            and identity not in self._internal
            and not self._is_passed_on(identity)
        ]

    def set_observed(self, observed: CalibrationStatistics) -> None:
        """Sets the ranges and constants from calibration data."""
        self._observed = observed

    def roundings(self, assignment: Mapping[int, DType]) -> Roundings:
        """Returns the roundings for layers at the assigned dtypes."""
        for dtype in assignment.values():
            check_dtype(dtype)
        dtypes_of = [
            self._activation_dtype(tensor.dtype) for tensor in assign(self._graph, assignment).tensors
        ]
        constants: dict[tuple[int, int], Array] = {}
        read: dict[tuple[int, int], Rounding] = {}
        for index, dtype in assignment.items():
            for identity in dict.fromkeys(self._graph.ops[index].inputs):
                if identity == ABSENT or self._graph.tensors[identity].dtype.family != "float":
                    continue
                if self._graph.tensors[identity].data is not None:
                    constants |= self._constant(index, identity, dtype)
                elif not _represents(self._activation_dtype(dtype), dtypes_of[identity]):
                    read[index, identity] = self._activation_rounding(identity, self._activation_dtype(dtype))
        if self._settings.activations == "kept":
            return Roundings(constants=constants)
        # A tensor that no run produced (an optional output) has no range, and no reader.
        ranges = () if self._observed is None else self._observed.values
        written = {
            identity: self._activation_rounding(identity, dtypes_of[identity])
            for identity in self.observed_tensors
            if identity in ranges and dtypes_of[identity] is not self._graph.tensors[identity].dtype
        }
        return Roundings(written, read, constants)

    def _activation_dtype(self, dtype: DType) -> DType:
        """Returns the dtype of an activation for the dtype of its layer."""
        if self._settings.activations in ("follow", "kept"):
            return dtype
        narrowest = dtypes.precision(self._settings.activations)
        return narrowest if dtype.bits < narrowest.bits else dtype

    def _activation_rounding(self, identity: int, dtype: DType) -> Rounding:
        settings, origin = self._settings, self._origin(identity)
        if (origin, dtype.name) in self._grids:
            return self._grids[origin, dtype.name]
        range_ = None if self._observed is None else self._observed.values.get(origin)
        if range_ is None:
            name = self._graph.tensors[origin].name
            raise RunFailed(f"the calibration run has no values of {name!r}")
        rounding = value_rounding(range_, dtype, settings.symmetric, settings.clipping)
        self._grids[origin, dtype.name] = rounding
        return rounding

    def _constant(self, op: int, identity: int, dtype: DType) -> dict[tuple[int, int], Array]:
        """Returns a rounded weight; biases of integer layers and constants at their dtype stay unchanged."""
        tensor = self._graph.tensors[identity]
        if dtype is tensor.dtype or (dtype.family == "int" and len(tensor.shape or ()) < 2):
            return {}
        assert self._observed is not None
        values = self._observed.constants.get(identity)
        if values is None:
            raise RunFailed(f"the values of {tensor.name!r} are unknown")
        key = (identity, self._axis_of(op, identity), dtype.name)
        if key not in self._weights:
            self._weights[key] = rounded_weight(values, dtype, key[1], self._settings.clipping)
        return {(op, identity): self._weights[key]}

    def _is_passed_on(self, identity: int) -> bool:
        index = self._writer.get(identity)
        return index is not None and _passes_on(self._graph, self._graph.ops[index])

    def _origin(self, identity: int) -> int:
        """Returns the tensor whose values these are."""
        while self._is_passed_on(identity):
            identity = self._graph.ops[self._writer[identity]].inputs[0]
        return identity


def _internal(graph: Graph) -> set[int]:
    """Returns tensors internal to a kernel: all except its last output, and sums that a rectifier follows."""
    internal = {
        output
        for kernel in kernels(graph, _FUSED)
        for index in kernel[:-1]
        for output in graph.ops[index].outputs
    }
    readers: dict[int, list[Op]] = {}
    for op in graph.ops:
        for identity in op.inputs:
            readers.setdefault(identity, []).append(op)
    for op in graph.ops:
        rule = cost_rule_of(op.kind)
        is_sum = rule is not None and rule.family == "elementwise" and "activates" in rule.traits
        total = op.outputs[0] if is_sum else ABSENT
        op_kinds = [reader.kind for reader in readers.get(total, ())]
        if len(op_kinds) == 1 and op_kinds[0] in _RECTIFIERS and total not in graph.outputs:
            internal.add(total)
    return internal


def _passes_on(graph: Graph, op: Op) -> bool:
    """Whether an op only passes on values of its first input, which is not a constant."""
    if not op.inputs or op.inputs[0] == ABSENT or graph.tensors[op.inputs[0]].data is not None:
        return False
    if graph.tensors[op.inputs[0]].dtype is not graph.tensors[op.outputs[0]].dtype:
        return False
    rule = cost_rule_of(op.kind)
    if op.kind in ("pool", "global_pool"):
        return "max" in op.source.lower()
    return (rule is not None and rule.views) or has_trait(op.kind, "moves")


def _represents(wide: DType, narrow: DType) -> bool:
    """Whether values of one dtype are values of the other, without rounding."""
    if wide.family == narrow.family:
        return wide is narrow or wide.bits > narrow.bits
    return wide.family == "float" and wide.bits >= _EXACT_BITS


# range: all observed values fit; error: least squared error, large values may be clipped.
Clipping = Literal["range", "error"]
_SHARES = np.linspace(1, 0.1, 46)  # of the range, tried for the least error
_FLOATS = ("float16", "bfloat16")
_BITS = range(2, 17)


def can_be_simulated(dtype: DType) -> bool:
    """Whether values can be rounded to a dtype."""
    integer = dtype.family == "int" and not dtype.name.startswith("u") and dtype.bits in _BITS
    return integer or dtype.name in (*_FLOATS, "float32")


def check_dtype(dtype: DType) -> None:
    """Raises SizeupError if a dtype cannot be simulated."""
    if not can_be_simulated(dtype):
        raise SizeupError(
            f"{dtype} cannot be simulated; choose fp32, fp16, bf16 or an integer of 2 to 16 bits"
        )


def value_rounding(seen: TensorStatistics, dtype: DType, symmetric: bool, clipping: Clipping) -> Rounding:
    """Returns the rounding of an activation from its values on calibration data, with one grid per tensor."""
    if dtype.family == "float":
        return Rounding(dtype)
    if not np.isfinite([seen.low, seen.high]).all():
        raise SizeupError("calibration produced values that are not finite")
    if clipping == "range":
        return _grid(seen.low, seen.high, dtype, symmetric)
    grids = [_grid(share * seen.low, share * seen.high, dtype, symmetric) for share in _SHARES]
    errors = [float(np.square(round_values(seen.sample, grid) - seen.sample).sum()) for grid in grids]
    return grids[int(np.argmin(errors))]


def _grid(low: float, high: float, dtype: DType, symmetric: bool) -> Rounding:
    """Returns a grid that includes zero: padding and rectifiers produce many zeros."""
    low, high = min(low, 0.0), max(high, 0.0)
    limits = Rounding(dtype)
    if symmetric:
        return Rounding(dtype, _step(max(-low, high), limits.high))
    scale = _step(high - low, limits.high - limits.low)
    point = int(np.clip(np.rint(limits.low - low / float(scale)), limits.low, limits.high))
    return Rounding(dtype, scale, point)


def _step(width: float | Array, steps: int) -> Array:
    scale = np.asarray(np.asarray(width, np.float64) / steps, np.float32)
    # Only zeros: any step works. Quotients of a subnormal step are not exact.
    return np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)


def rounded_weight(weight: Array, dtype: DType, axis: int | None, clipping: Clipping) -> Array:
    """Returns a weight rounded to a dtype; integers are symmetric, with one step per output channel."""
    if dtype.family == "float":
        return round_values(weight, Rounding(dtype))
    others = tuple(other for other in range(weight.ndim) if other != axis)
    largest = np.abs(weight).max(axis=others, keepdims=True, initial=0)
    high = Rounding(dtype).high
    best = round_values(weight, Rounding(dtype, _step(largest, high), is_symmetric=True))
    if clipping == "range":
        return best
    error_of_best = np.square(best - weight).sum(axis=others, keepdims=True)
    for share in _SHARES[1:]:
        candidate = round_values(weight, Rounding(dtype, _step(share * largest, high), is_symmetric=True))
        error = np.square(candidate - weight).sum(axis=others, keepdims=True)
        best, error_of_best = (
            np.where(error < error_of_best, candidate, best),
            np.minimum(error, error_of_best),
        )
    return np.asarray(best, np.float32)
