"""Loads one model at many sizes, from closed forms if it has them, and binds its symbolic dimensions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sizeup import formats
from sizeup.errors import LoadError, SizeupError, SymbolicDimension, UnboundDimension
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph
from sizeup.units import toml_key

Sizes: TypeAlias = dict[str, int]
Shapes: TypeAlias = dict[str, tuple[int, ...]]

# Loading a model with symbolic dimensions takes as long as loading it a few times with sizes.
_MIN_LOADS = 4


class ModelLoader:
    """Loads a path, a name, a model, or a model with its inputs; `readings` is the number of loads."""

    def __init__(self, source: Any, readings: int = 1) -> None:
        self._source: Any = source[0] if _has_inputs(source) else source
        self._inputs: Any = source[1] if _has_inputs(source) else None
        self._uses_closed_forms = readings >= _MIN_LOADS
        self._free: dict[tuple[str, ...], SymbolicGraph] = {}
        self._unbound: dict[str, tuple[SymbolicDimension, ...]] = {}
        self.symbolic: set[str] = set()  # keys of the symbolic dimensions seen so far

    @property
    def file(self) -> str | None:
        """The path or name that it loads; None for an object."""
        return os.fspath(self._source) if isinstance(self._source, str | os.PathLike) else None

    @property
    def prefix(self) -> str:
        """The prefix of its error messages."""
        return "" if self.file is None else f"{self.file}: "

    def unbound(self, sizes: Sizes, shapes: Shapes) -> tuple[SymbolicDimension, ...]:
        """The symbolic dimensions of a file that these sizes and shapes leave without a size."""
        if self.file is None or not self.file.lower().endswith((".onnx", ".pt2")):
            return ()
        key = repr((sizes, shapes))
        if key not in self._unbound:
            self._unbound[key] = ()
            try:
                self(sizes, shapes)
            except UnboundDimension as error:
                self._unbound[key] = error.dimensions
            except LoadError:
                pass
        return self._unbound[key]

    def __call__(self, sizes: Sizes, shapes: Shapes) -> Graph:
        """The graph with these sizes and shapes."""
        if not sizes or shapes:
            return self._load(sizes, shapes)
        if self._uses_closed_forms:
            try:
                return self._from_closed_form(sizes)
            # Without closed forms, for any reason, the model is loaded at each size.
            except Exception as refusal:
                return self._fall_back_to_load(sizes, refusal)
        try:
            return self._load(sizes, shapes)
        except LoadError as error:  # some names exist only in closed forms: the height of an image, the batch
            return self._fall_back_to_closed_form(sizes, error)

    def _fall_back_to_load(self, sizes: Sizes, refusal: Exception) -> Graph:
        try:
            return self._load(sizes, {})
        except LoadError as error:
            raise self._better_error(sizes, error, refusal) from error.__cause__

    def _fall_back_to_closed_form(self, sizes: Sizes, error: LoadError) -> Graph:
        try:
            return self._from_closed_form(sizes)
        except Exception as refusal:
            raise self._better_error(sizes, error, refusal) from error.__cause__

    def _better_error(self, sizes: Sizes, error: LoadError, refusal: Exception) -> LoadError:
        """The more specific error: for a TFLite file, closed forms name the op that fixes the batch."""
        is_tflite = self.file is not None and self.file.lower().endswith(".tflite")
        if is_tflite and sizes.keys() == {"batch"} and isinstance(refusal, LoadError):
            return refusal
        return error

    def _from_closed_form(self, sizes: Sizes) -> Graph:
        names = tuple(sorted(sizes))
        if names not in self._free:
            self._free[names] = formats.load_symbolic(self._source, names, inputs=self._inputs)
        return self._free[names].at(**sizes)

    def _load(self, sizes: Sizes, shapes: Shapes) -> Graph:
        try:
            return self._read(sizes, shapes)
        except UnboundDimension as error:
            self.symbolic.update(key for dimension in error.dimensions for key in keys_of(dimension))
            raise

    def _read(self, sizes: Sizes, shapes: Shapes) -> Graph:
        if self._inputs is None or shapes:
            return formats.load(self._source, inputs=shapes or None, bind=sizes or None)
        rest = {name: size for name, size in sizes.items() if name != "batch"}
        inputs = _with_batch(self._inputs, sizes["batch"]) if "batch" in sizes else self._inputs
        return formats.load(self._source, inputs=inputs, bind=rest or None)


def keys_of(dimension: SymbolicDimension) -> tuple[str, str]:
    """The keys that set a dimension in a spec: its position (INPUT.AXIS) and its name."""
    return f"{dimension.input}.{dimension.axis}", dimension.name


def _has_inputs(source: Any) -> bool:
    """Whether a source is a pair of a model and its inputs."""
    return isinstance(source, tuple) and len(source) == 2


def _with_batch(inputs: Any, batch: int) -> Any:
    """Shapes of inputs with another batch size."""
    if isinstance(inputs, Mapping):
        return {name: _with_batch((shape,), batch)[0] for name, shape in inputs.items()}
    if not all(isinstance(shape, tuple) and all(isinstance(n, int) for n in shape) for shape in inputs):
        raise SizeupError("batch cannot be set: not all of its inputs are given as shapes")
    return tuple((batch, *shape[1:]) for shape in inputs)


# A first dimension with such a name is not a batch: some recurrent networks are sequence-first.
_NOT_BATCH = ("seq", "len", "time", "step", "frame", "token")
_COMPUTED = re.compile(r"[*+/%()]|-\s*\d|\d\s*-|\s-|-\s")


def load_resolved(
    loader: ModelLoader, sizes: Sizes, shapes: Shapes, bind: Mapping[str, int]
) -> tuple[Graph, tuple[str, ...]]:
    """The graph at these sizes, and the symbolic dimensions set to 1 because no batch was given.

    A dimension without a size takes the one of its name in `bind`. The batch is the first dimension of the
    inputs, whatever its name. Raises LoadError if `bind` contradicts itself or another size.
    """
    if bind and (sizes or shapes):
        _check(loader, loader.unbound({}, {}), sizes, bind)
    try:
        return loader(sizes, shapes), ()
    except UnboundDimension as error:
        if not (sizes or shapes):
            _check(loader, error.dimensions, sizes, bind)
        return _bound(loader, sizes, shapes, _added(error.dimensions, bind, sizes.get("batch")), error)
    except LoadError as error:
        others = {name: size for name, size in sizes.items() if name != "batch"}
        dimensions = loader.unbound(others, shapes) if "batch" in sizes else ()
        if not _batch_names(dimensions):
            raise
        return _bound(loader, others, shapes, _added(dimensions, bind, sizes["batch"]), error)


def _bound(
    loader: ModelLoader, sizes: Sizes, shapes: Shapes, added: Mapping[str, int | None], error: LoadError
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with additional sizes; None is a batch that was not given."""
    if not added:
        raise _with_advice(loader, error) from error
    defaulted = tuple(name for name, size in added.items() if size is None)
    try:
        return loader({**sizes, **{name: size or 1 for name, size in added.items()}}, shapes), defaulted
    except UnboundDimension as left:
        raise _with_advice(loader, left) from left


def _added(
    dimensions: Iterable[SymbolicDimension], bind: Mapping[str, int], batch: int | None
) -> dict[str, int | None]:
    """The sizes by name of those dimensions that `bind` or the batch sets."""
    dimensions = tuple(dimensions)
    sizes: dict[str, int | None] = dict.fromkeys(_batch_names(dimensions), batch)
    for dimension in dimensions:
        for key in keys_of(dimension):
            if key in bind:
                sizes[dimension.name] = bind[key]
    return sizes


def _batch_names(dimensions: Iterable[SymbolicDimension]) -> list[str]:
    """The names of dimensions that are always first, without expressions such as 2*N, which follow from N."""
    axes: dict[str, set[int]] = {}
    ranks: dict[str, int] = {}
    for dimension in dimensions:
        if _is_expression(dimension):
            continue
        axes.setdefault(dimension.name, set()).add(dimension.axis)
        ranks[dimension.name] = max(ranks.get(dimension.name, 0), dimension.rank)
    return [
        name
        for name in axes
        if axes[name] == {0}
        and (ranks[name] > 1 or (name and "batch" in name.lower()))
        and not any(word in name.lower() for word in _NOT_BATCH)
    ]


def _is_expression(dimension: SymbolicDimension) -> bool:
    """Whether a size is computed from others, as in 2*N and N - 1; batch-size is a name."""
    position, name = keys_of(dimension)
    return name != position and _COMPUTED.search(name) is not None


def _check(
    loader: ModelLoader, dimensions: Sequence[SymbolicDimension], sizes: Sizes, bind: Mapping[str, int]
) -> None:
    """Raise LoadError if `bind` and the batch both set a dimension, or if it has different sizes."""
    names = {dimension.name for dimension in dimensions}
    batch_names = {"batch"} if "batch" in names else set(_batch_names(dimensions))
    settings_by_name: dict[str, dict[str, int]] = {}
    for dimension in dimensions:
        keys = [key for key in keys_of(dimension) if key in bind]
        place = f"dimension {dimension.name} ({dimension.input} axis {dimension.axis})"
        if keys and "batch" in sizes and dimension.name in batch_names:
            raise LoadError(f"{loader.prefix}batch and bind both set {place}; give one")
        settings = settings_by_name.setdefault(dimension.name, {})
        settings |= {
            f"{key} = {sizes[key]} in shapes": sizes[key] for key in keys_of(dimension) if key in sizes
        }
        settings |= {f"{key} = {bind[key]} in bind": bind[key] for key in keys}
        if keys and len(set(settings.values())) > 1:
            raise LoadError(f"{loader.prefix}different sizes for {place}: {', '.join(settings)}; give one")


def _with_advice(loader: ModelLoader, error: LoadError) -> LoadError:
    """The error with advice for a spec instead of command-line options."""
    if not isinstance(error, UnboundDimension) or not error.dimensions:
        return error
    dimensions = error.dimensions
    bind = ", ".join(f"{toml_key(name)} = 128" for name in error.names)
    shapes = ", ".join(
        f'{toml_key(dimension.input)} = "1x3x224x224"' for dimension in dimensions if not dimension.name
    )
    advice = [f"bind = {{ {bind} }}"] * bool(bind) + [f"shapes = {{ {shapes} }}"] * bool(shapes)
    text = f"dimensions without a size: {error.axes_text}. Set them in the spec, as in {' and '.join(advice)}"
    return UnboundDimension(f"{loader.prefix}{text}", dimensions)
