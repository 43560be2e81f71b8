"""What is asked of every model: points, each a target, a precision, a batch and shapes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, TypeAlias

from sizeup import dtypes
from sizeup.sweeps.schema import STORED
from sizeup.targets import Target, current

_SEPARATOR = "\0"
# A batch, shapes and bindings, the latter two as JSON.
PointShape: TypeAlias = tuple[int | None, str, str]


@dataclass(frozen=True, slots=True)
class Point:
    """One question: a target by name, a precision, a batch (None: the model's own), and as JSON shapes and
    sizes of symbolic dimensions.
    """

    target: str
    precision: str = STORED
    batch: int | None = None
    shapes: str = ""
    bind: str = ""

    @property
    def asked(self) -> dtypes.DType | None:
        """The number type that is asked for; None for the model's own."""
        return None if self.precision == STORED else dtypes.precision(self.precision)

    @property
    def shape(self) -> PointShape:
        """What a model is loaded for: points that share it share a graph."""
        return self.batch, self.shapes, self.bind


@dataclass(frozen=True)
class PointSet:
    """The points asked of a model, targets by name with their digests, and the version that answers."""

    points: tuple[Point, ...]
    target_hashes: Mapping[str, str]
    version: str

    @cached_property
    def digest(self) -> str:
        """The same for the same questions, in whichever order."""
        lines = sorted(_SEPARATOR.join(self._parts(point)) for point in self.points)
        return _digest(self.version, *lines)

    def key(self, model: str, point: Point) -> str:
        """The name of one row: the same for the same model, point, target's digest and version."""
        return _digest(model, *self._parts(point), self.version)

    def keys(self, model: str) -> list[str]:
        """The names of all rows of a model."""
        return [self.key(model, point) for point in self.points]

    def only(self, points: Iterable[Point]) -> PointSet:
        """The same about fewer points."""
        kept = tuple(points)
        names = {point.target for point in kept}
        return replace(
            self, points=kept, target_hashes={n: h for n, h in self.target_hashes.items() if n in names}
        )

    def _parts(self, point: Point) -> tuple[str, ...]:
        batch = "" if point.batch is None else str(point.batch)
        parts = (self.target_hashes[point.target], point.precision, batch, point.shapes)
        # Keys of points without bindings are those of stores that know no bindings.
        return (*parts, point.bind) if point.bind else parts


def questions(points: Iterable[Point]) -> PointSet:
    """Points, each once, with the digests of their targets as they are known here and now."""
    once = tuple(dict.fromkeys(points))
    names = dict.fromkeys(point.target for point in once)
    catalog = current()
    return PointSet(once, {name: target_hash(catalog.target(name)) for name in names}, version("sizeup"))


def target_hash(target: Target) -> str:
    """A digest of all that an answer about a target rests on, wherever its files lie."""
    fit, reach = current().fit(target), current().reach(target)
    parts = (target.device, target.runtime, *(each for each in (fit, reach) if each is not None))
    return _digest(*(repr(replace(part, file="")) for part in parts))


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Sizes and shapes by name as JSON, the same however they were written; empty where there are none."""
    if not shapes:
        return ""
    plain = {name: _plain(value) for name, value in sorted(shapes.items())}
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def bindings_of(
    point_shape: PointShape,
) -> tuple[dict[str, int], dict[str, tuple[int, ...]], dict[str, int]]:
    """Sizes of dimensions, the batch among them, shapes of inputs, and sizes of symbolic dimensions."""
    batch, text, bind = point_shape
    given: dict[str, Any] = json.loads(text) if text else {}
    sizes = {name: value for name, value in given.items() if isinstance(value, int)}
    if batch is not None:
        sizes["batch"] = batch
    shapes = {name: tuple(value) for name, value in given.items() if not isinstance(value, int)}
    return sizes, shapes, json.loads(bind) if bind else {}


def _plain(value: int | str | Sequence[int]) -> int | list[int]:
    """A size, or a shape: 1x3x224x224 and [1, 3, 224, 224] are the same."""
    if isinstance(value, int):
        return value
    return [int(each) for each in (value.split("x") if isinstance(value, str) else value)]


def _digest(*parts: str) -> str:
    return hashlib.sha256(_SEPARATOR.join(parts).encode()).hexdigest()[:32]
