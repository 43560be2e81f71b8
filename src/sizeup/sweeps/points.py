"""The points of a sweep: combinations of target, precision, batch and shapes, or of how a model is served."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, TypeAlias

from sizeup import dtypes
from sizeup.sweeps.models import language_models
from sizeup.sweeps.schema import STORED
from sizeup.targets import Target, current_catalog
from sizeup.targets.clusters import Cluster

_SEPARATOR = "\0"
# A batch, shapes and bindings, the latter two as JSON.
PointShape: TypeAlias = tuple[int | None, str, str]


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """How a language model is served: tokens of prompt and answer, sequences at once, cache and layout."""

    input: int
    output: int
    concurrency: int
    kv: str  # stored: as the checkpoint states
    layout: str  # default: the widest tensor parallelism

    @property
    def text(self) -> str:
        """All of it as text, for a digest."""
        return f"{self.input} {self.output} {self.concurrency} {self.kv} {self.layout}"


@dataclass(frozen=True, slots=True)
class Point:
    """A target by name, a precision, a batch (None: the model's own), and shapes and sizes of symbolic
    dimensions as JSON. A point with `serving` is of a language model on a cluster, at a precision of weights.
    """

    target: str
    precision: str = STORED
    batch: int | None = None
    shapes: str = ""
    bind: str = ""
    serving: ServingPoint | None = None

    @property
    def dtype(self) -> dtypes.DType | None:
        """The requested dtype; None for the model's own."""
        return None if self.precision == STORED else dtypes.precision(self.precision)

    @property
    def shape(self) -> PointShape:
        """Batch, shapes and bindings: points with equal ones share a graph."""
        return self.batch, self.shapes, self.bind


@dataclass(frozen=True)
class PointSet:
    """The points of a sweep, the digests of their targets by name, the version of sizeup, and clusters by
    the name of their target.
    """

    points: tuple[Point, ...]
    target_digests: Mapping[str, str]
    version: str
    clusters: Mapping[str, Cluster] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """A digest of the points that does not depend on their order."""
        lines = sorted(_SEPARATOR.join(self._parts(point)) for point in self.points)
        return _digest(self.version, *lines)

    def key(self, model: str, point: Point) -> str:
        """The key of a row: a digest of the model, the point, its target's digest and the version."""
        return _digest(model, *self._parts(point), self.version)

    def keys(self, model: str) -> list[str]:
        """The keys of all rows of a model."""
        return [self.key(model, point) for point in self.points]

    def subset(self, points: Iterable[Point]) -> PointSet:
        """The same with fewer points."""
        subset = tuple(points)
        names = {point.target for point in subset}
        return replace(
            self,
            points=subset,
            target_digests={name: digest for name, digest in self.target_digests.items() if name in names},
            clusters={name: cluster for name, cluster in self.clusters.items() if name in names},
        )

    def _parts(self, point: Point) -> tuple[str, ...]:
        batch = "" if point.batch is None else str(point.batch)
        parts = (self.target_digests[point.target], point.precision, batch, point.shapes)
        if point.serving is not None:
            return (*parts, point.serving.text)
        # Points without bindings have the keys of stores from versions without `bind`.
        return (*parts, point.bind) if point.bind else parts


def point_set_of(points: Iterable[Point], clusters: Mapping[str, Cluster] | None = None) -> PointSet:
    """The set of points, without duplicates, with the current digests of their targets."""
    once = tuple(dict.fromkeys(points))
    clusters = clusters or {}
    catalog = current_catalog()
    digests = {
        name: _digest(*language_models().cluster_parts(name, clusters[name]))
        if name in clusters
        else target_digest(catalog.target(name))
        for name in dict.fromkeys(point.target for point in once)
    }
    return PointSet(once, digests, version("sizeup"), clusters)


def target_digest(target: Target) -> str:
    """A digest of a target's description and calibration, independent of file paths."""
    sources = current_catalog().calibration(target), current_catalog().slowdown(target)
    # Targets without a board have the digests of stores from versions without boards.
    parts = (target.device, target.runtime, *(each for each in (target.board, *sources) if each is not None))
    return _digest(*(repr(replace(part, file="")) for part in parts))


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Sizes and shapes by name as canonical JSON; empty if there are none."""
    if not shapes:
        return ""
    plain = {name: _plain(value) for name, value in sorted(shapes.items())}
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def bindings_of(
    point_shape: PointShape,
) -> tuple[dict[str, int], dict[str, tuple[int, ...]], dict[str, int]]:
    """Sizes of dimensions including the batch, shapes of inputs, and sizes of symbolic dimensions."""
    batch, text, bind = point_shape
    entries: dict[str, Any] = json.loads(text) if text else {}
    sizes = {name: value for name, value in entries.items() if isinstance(value, int)}
    if batch is not None:
        sizes["batch"] = batch
    shapes = {name: tuple(value) for name, value in entries.items() if not isinstance(value, int)}
    return sizes, shapes, json.loads(bind) if bind else {}


def _plain(value: int | str | Sequence[int]) -> int | list[int]:
    """A size, or a shape as a list: 1x3x224x224 and [1, 3, 224, 224] are equal."""
    if isinstance(value, int):
        return value
    return [int(size) for size in (value.split("x") if isinstance(value, str) else value)]


def _digest(*parts: str) -> str:
    return hashlib.sha256(_SEPARATOR.join(parts).encode()).hexdigest()[:32]
