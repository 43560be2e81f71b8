"""From number types by layer to what has to be rounded, value by value, so that a run shows their effect.

The types of all values are those of `assign`: a layer reads, holds its weights and writes at its own type,
and whatever else runs follows the widest type that feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from sizeup import dtypes
from sizeup.dtypes import DType
from sizeup.errors import RunFailed, SizeupError
from sizeup.formats.rounding import Array, Observed, Rounding, Roundings, Seen, rounded
from sizeup.fuse import kernels
from sizeup.graph import ABSENT, Graph, Op
from sizeup.mixed_precision.assign import assign
from sizeup.ops import rule_of

# What integer runtimes compute in one kernel: only what leaves it is rounded.
_FUSED = ("constant", "norm", "bias", "activation", "gelu", "layer_norm")
_JOINING, _RECTIFIERS = ("add", "sub", "mul", "sum_n"), ("relu", "relu6", "clamp")
# They hand on the numbers that they are given, so these are on the grid already.
_MOVING = ("transpose", "split", "slice", "rearrange", "copy", "repeat")
_EXACT_BITS = 32  # floats of this width hold all integers that can be chosen, times their scale
_CLIPPINGS = ("range", "error")


@dataclass(frozen=True, slots=True)
class Simulation:
    """How numbers are rounded.

    `symmetric`: the grids of activations have zero in their middle (those of weights always have).
    `clipping`: a grid spans the `range` that was seen, or what gives the least squared `error`.
    `activations`: they `follow` the layers' types, are `kept` as they are, or never are narrower than a
    precision that is named here (`int8`).
    """

    symmetric: bool = False
    clipping: Clipping = "range"
    activations: str = "follow"

    def __post_init__(self) -> None:
        if self.clipping not in _CLIPPINGS:
            raise SizeupError(f"no clipping is called {self.clipping!r}; there are {', '.join(_CLIPPINGS)}")
        if self.activations not in ("follow", "kept"):
            check_type(dtypes.precision(self.activations))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Simulator:
    """Knows a graph and what calibration brought; tells what to round for any choice of types."""

    def __init__(
        self, graph: Graph, axis_of: Callable[[int, int], int | None], settings: Simulation | None = None
    ) -> None:
        self._graph, self._axis_of = graph, axis_of
        self._settings = settings or Simulation()
        self._maker = {made: index for index, op in enumerate(graph.ops) for made in op.outputs}
        self._inside = _inside(graph)
        self._observed: Observed | None = None
        self._grids: dict[tuple[int, str], Rounding] = {}
        self._weights: dict[tuple[int, int | None, str], Array] = {}

    @property
    def wanted(self) -> list[int]:
        """The values whose ranges must be known before anything can be rounded."""
        return [
            identity
            for identity, tensor in enumerate(self._graph.tensors)
            if tensor.data is None
            and tensor.dtype.family == "float"
            and (identity in self._maker or identity in self._graph.inputs)
            and identity not in self._inside
            and not self._is_moved(identity)
        ]

    def learn(self, observed: Observed) -> None:
        """Take what calibration data brought."""
        self._observed = observed

    def roundings(self, chosen: Mapping[int, DType]) -> Roundings:
        """What to round where layers have the chosen types."""
        for dtype in chosen.values():
            check_type(dtype)
        types = [self._held(each.dtype) for each in assign(self._graph, chosen).tensors]
        constants: dict[tuple[int, int], Array] = {}
        read: dict[tuple[int, int], Rounding] = {}
        for index, dtype in chosen.items():
            for identity in dict.fromkeys(self._graph.ops[index].inputs):
                if identity == ABSENT or self._graph.tensors[identity].dtype.family != "float":
                    continue
                if self._graph.tensors[identity].data is not None:
                    constants |= self._constant(index, identity, dtype)
                elif not _holds(self._held(dtype), types[identity]):
                    read[index, identity] = self._value(identity, self._held(dtype))
        if self._settings.activations == "kept":
            return Roundings(constants=constants)
        # What no run made (an output that is there on request only) has no range, and nobody reads it.
        seen = () if self._observed is None else self._observed.values
        made = {
            identity: self._value(identity, types[identity])
            for identity in self.wanted
            if identity in seen and types[identity] is not self._graph.tensors[identity].dtype
        }
        return Roundings(made, read, constants)

    def _held(self, dtype: DType) -> DType:
        """The type of an activation beside that of its layer."""
        if self._settings.activations in ("follow", "kept"):
            return dtype
        least = dtypes.precision(self._settings.activations)
        return least if dtype.bits < least.bits else dtype

    def _value(self, identity: int, dtype: DType) -> Rounding:
        settings, origin = self._settings, self._origin(identity)
        if (origin, dtype.name) in self._grids:
            return self._grids[origin, dtype.name]
        seen = None if self._observed is None else self._observed.values.get(origin)
        if seen is None:
            name = self._graph.tensors[origin].name
            raise RunFailed(f"{name!r} was never seen while the network ran on the calibration data")
        found = value_rounding(seen, dtype, settings.symmetric, settings.clipping)
        self._grids[origin, dtype.name] = found
        return found

    def _constant(self, op: int, identity: int, dtype: DType) -> dict[tuple[int, int], Array]:
        """A weight at a type; biases beside integers stay as they are, as does what is float32 already."""
        tensor = self._graph.tensors[identity]
        if dtype is tensor.dtype or (dtype.family == "int" and len(tensor.shape or ()) < 2):
            return {}
        assert self._observed is not None
        numbers = self._observed.constants.get(identity)
        if numbers is None:
            raise RunFailed(f"the numbers of {tensor.name!r} are not known")
        key = (identity, self._axis_of(op, identity), dtype.name)
        if key not in self._weights:
            self._weights[key] = rounded_weight(numbers, dtype, key[1], self._settings.clipping)
        return {(op, identity): self._weights[key]}

    def _is_moved(self, identity: int) -> bool:
        index = self._maker.get(identity)
        return index is not None and _moves(self._graph, self._graph.ops[index])

    def _origin(self, identity: int) -> int:
        """The value whose numbers these are."""
        while self._is_moved(identity):
            identity = self._graph.ops[self._maker[identity]].inputs[0]
        return identity


def _inside(graph: Graph) -> set[int]:
    """Values that never leave a kernel: all but the last of each, and sums that a rectifier follows."""
    found = {
        made
        for kernel in kernels(graph, _FUSED)
        for index in kernel[:-1]
        for made in graph.ops[index].outputs
    }
    readers: dict[int, list[Op]] = {}
    for op in graph.ops:
        for identity in op.inputs:
            readers.setdefault(identity, []).append(op)
    for op in graph.ops:
        made = op.outputs[0] if op.kind in _JOINING else ABSENT
        kinds = [each.kind for each in readers.get(made, ())]
        if len(kinds) == 1 and kinds[0] in _RECTIFIERS and made not in graph.outputs:
            found.add(made)
    return found


def _moves(graph: Graph, op: Op) -> bool:
    """Whether an operator only hands on numbers of its first input, which a run makes."""
    if not op.inputs or op.inputs[0] == ABSENT or graph.tensors[op.inputs[0]].data is not None:
        return False
    if graph.tensors[op.inputs[0]].dtype is not graph.tensors[op.outputs[0]].dtype:
        return False
    rule = rule_of(op.kind)
    if op.kind in ("pool", "global_pool"):
        return "max" in op.source.lower()
    return (rule is not None and rule.views) or op.kind in _MOVING


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether numbers of one type are numbers of the other, without rounding."""
    if wide.family == narrow.family:
        return wide is narrow or wide.bits > narrow.bits
    return wide.family == "float" and wide.bits >= _EXACT_BITS


# range: all that was seen fits; error: the least squared error, large numbers may be cut off.
Clipping = Literal["range", "error"]
_SHARES = np.linspace(1, 0.1, 46)  # of the range, that are tried for the least error
_FLOATS = ("float16", "bfloat16")
_BITS = range(2, 17)


def can_be_simulated(dtype: DType) -> bool:
    """Whether numbers can be rounded to a type."""
    integer = dtype.family == "int" and not dtype.name.startswith("u") and dtype.bits in _BITS
    return integer or dtype.name in (*_FLOATS, "float32")


def check_type(dtype: DType) -> None:
    """Refuse a number type that cannot be simulated."""
    if not can_be_simulated(dtype):
        raise SizeupError(
            f"{dtype} cannot be simulated; what can: fp32, fp16, bf16 and integers of 2 to 16 bits"
        )


def value_rounding(seen: Seen, dtype: DType, symmetric: bool, clipping: Clipping) -> Rounding:
    """How a value is rounded whose numbers were seen on calibration data; one grid for all of it."""
    if dtype.family == "float":
        return Rounding(dtype)
    if not np.isfinite([seen.low, seen.high]).all():
        raise SizeupError("the calibration data brings numbers that are not finite; no grid fits these")
    if clipping == "range":
        return _grid(seen.low, seen.high, dtype, symmetric)
    grids = [_grid(share * seen.low, share * seen.high, dtype, symmetric) for share in _SHARES]
    errors = [float(np.square(rounded(seen.sample, grid) - seen.sample).sum()) for grid in grids]
    return grids[int(np.argmin(errors))]


def _grid(low: float, high: float, dtype: DType, symmetric: bool) -> Rounding:
    """Zero is always on it: borders are padded with it, and rectifiers make many."""
    low, high = min(low, 0.0), max(high, 0.0)
    made = Rounding(dtype)
    if symmetric:
        return Rounding(dtype, _step(max(-low, high), made.high))
    scale = _step(high - low, made.high - made.low)
    point = int(np.clip(np.rint(made.low - low / float(scale)), made.low, made.high))
    return Rounding(dtype, scale, point)


def _step(width: float | Array, steps: int) -> Array:
    scale = np.asarray(np.asarray(width, np.float64) / steps, np.float32)
    # Nothing but zeros: any step will do. A step that is no normal number has no exact quotients.
    return np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)


def rounded_weight(weight: Array, dtype: DType, axis: int | None, clipping: Clipping) -> Array:
    """A weight as a type holds it: integers are symmetric, with a step for each output channel."""
    if dtype.family == "float":
        return rounded(weight, Rounding(dtype))
    others = tuple(place for place in range(weight.ndim) if place != axis)
    most = np.abs(weight).max(axis=others, keepdims=True, initial=0)
    high = Rounding(dtype).high
    best = rounded(weight, Rounding(dtype, _step(most, high), restricted=True))
    if clipping == "range":
        return best
    least = np.square(best - weight).sum(axis=others, keepdims=True)
    for share in _SHARES[1:]:
        tried = rounded(weight, Rounding(dtype, _step(share * most, high), restricted=True))
        error = np.square(tried - weight).sum(axis=others, keepdims=True)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return np.asarray(best, np.float32)
