"""One model at many sizes: closed forms if it has them, else read anew; symbolic dimensions are bound."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sizeup import formats
from sizeup.errors import LoadError, SizeupError, SymbolicDimension, UnboundDimension
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph
from sizeup.units import toml_key

Sizes: TypeAlias = dict[str, int]
Shapes: TypeAlias = dict[str, tuple[int, ...]]
# Loads a model for sizes of dimensions and shapes of inputs, both by name.
Loader: TypeAlias = Callable[[Sizes, Shapes], Graph]

# Reading a model with free dimensions takes as long as reading it a few times with sizes.
_WORTH = 4


class Loading:
    """Loads a path, a name, a model, or a model with its inputs; `readings` says how often that will be."""

    def __init__(self, source: Any, readings: int = 1) -> None:
        self._source: Any = source[0] if _has_inputs(source) else source
        self._own: Any = source[1] if _has_inputs(source) else None
        self._is_worth_it = readings >= _WORTH
        self._free: dict[tuple[str, ...], FreeGraph] = {}
        self._unbound: dict[str, tuple[SymbolicDimension, ...]] = {}
        self.symbolic: set[str] = set()  # keys of the symbolic dimensions seen so far

    @property
    def file(self) -> str | None:
        """The path or name that it loads; None for an object."""
        return os.fspath(self._source) if isinstance(self._source, str | os.PathLike) else None

    @property
    def prefix(self) -> str:
        """What an error message about it begins with."""
        return "" if self.file is None else f"{self.file}: "

    def unbound(self, sizes: Sizes, shapes: Shapes) -> tuple[SymbolicDimension, ...]:
        """The symbolic dimensions of a file that have no size with these sizes and shapes."""
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
            return self._exact(sizes, shapes)
        if self._is_worth_it:
            try:
                return self._bound(sizes)
            # Whatever keeps a model from having closed forms keeps it from no more than that.
            except Exception as refusal:
                return self._one_by_one(sizes, refusal)
        try:
            return self._exact(sizes, shapes)
        except LoadError as error:  # what only closed forms know: the height of an image, the batch of a file
            return self._otherwise(sizes, error)

    def _one_by_one(self, sizes: Sizes, refusal: Exception) -> Graph:
        try:
            return self._exact(sizes, {})
        except LoadError as error:
            raise self._clearer(sizes, error, refusal) from error.__cause__

    def _otherwise(self, sizes: Sizes, error: LoadError) -> Graph:
        try:
            return self._bound(sizes)
        except Exception as refusal:
            raise self._clearer(sizes, error, refusal) from error.__cause__

    def _clearer(self, sizes: Sizes, error: LoadError, refusal: Exception) -> LoadError:
        """Why neither way leads there; of a TFLite file closed forms name the operator that keeps a batch."""
        is_tflite = self.file is not None and self.file.lower().endswith(".tflite")
        if is_tflite and sizes.keys() == {"batch"} and isinstance(refusal, LoadError):
            return refusal
        return error

    def _bound(self, sizes: Sizes) -> Graph:
        names = tuple(sorted(sizes))
        if names not in self._free:
            self._free[names] = formats.load_free(self._source, names, inputs=self._own)
        return self._free[names].at(**sizes)

    def _exact(self, sizes: Sizes, shapes: Shapes) -> Graph:
        try:
            return self._read(sizes, shapes)
        except UnboundDimension as error:
            self.symbolic.update(key for each in error.dimensions for key in keys_of(each))
            raise

    def _read(self, sizes: Sizes, shapes: Shapes) -> Graph:
        if self._own is None or shapes:
            return formats.load(self._source, inputs=shapes or None, bind=sizes or None)
        rest = {name: size for name, size in sizes.items() if name != "batch"}
        inputs = _with_batch(self._own, sizes["batch"]) if "batch" in sizes else self._own
        return formats.load(self._source, inputs=inputs, bind=rest or None)


def keys_of(dimension: SymbolicDimension) -> tuple[str, str]:
    """The keys that set a dimension in a spec: its place and its name."""
    return f"{dimension.input}.{dimension.axis}", dimension.name


def _has_inputs(source: Any) -> bool:
    """Whether a factory made a model and what it runs on."""
    return isinstance(source, tuple) and len(source) == 2


def _with_batch(inputs: Any, batch: int) -> Any:
    """Shapes of inputs with another first size."""
    if isinstance(inputs, Mapping):
        return {name: _with_batch((shape,), batch)[0] for name, shape in inputs.items()}
    if not all(isinstance(shape, tuple) and all(isinstance(n, int) for n in shape) for shape in inputs):
        raise SizeupError("its inputs are not all shapes, so no batch can be asked of it")
    return tuple((batch, *shape[1:]) for shape in inputs)


# In front of a shape these are not a batch: sequences come first in some recurrent networks.
_NOT_BATCH = ("seq", "len", "time", "step", "frame", "token")
_COMPUTED = re.compile(r"[*+/%()]|-\s*\d|\d\s*-|\s-|-\s")


def resolved(
    load: Loading, sizes: Sizes, shapes: Shapes, bind: Mapping[str, int]
) -> tuple[Graph, tuple[str, ...]]:
    """The graph at these sizes, and the symbolic dimensions that were set to 1 because no batch was given.

    A dimension that has no size yet takes that of its name in `bind`. The batch is the dimension in front of
    the inputs, whatever it is called. LoadError if `bind` contradicts itself or another size.
    """
    if bind and (sizes or shapes):
        _check(load, load.unbound({}, {}), sizes, bind)
    try:
        return load(sizes, shapes), ()
    except UnboundDimension as error:
        if not (sizes or shapes):
            _check(load, error.dimensions, sizes, bind)
        return _bound(load, sizes, shapes, _added(error.dimensions, bind, sizes.get("batch")), error)
    except LoadError as error:
        others = {name: size for name, size in sizes.items() if name != "batch"}
        dimensions = load.unbound(others, shapes) if "batch" in sizes else ()
        if not _batch_names(dimensions):
            raise
        return _bound(load, others, shapes, _added(dimensions, bind, sizes["batch"]), error)


def _bound(
    load: Loading, sizes: Sizes, shapes: Shapes, added: Mapping[str, int | None], error: LoadError
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with further sizes; None stands for a batch that was not given."""
    if not added:
        raise _advised(load, error) from error
    defaulted = tuple(name for name, size in added.items() if size is None)
    try:
        return load({**sizes, **{name: size or 1 for name, size in added.items()}}, shapes), defaulted
    except UnboundDimension as left:
        raise _advised(load, left) from left


def _added(
    dimensions: Iterable[SymbolicDimension], bind: Mapping[str, int], batch: int | None
) -> dict[str, int | None]:
    """Sizes by name for those of some dimensions that have one."""
    dimensions = tuple(dimensions)
    found: dict[str, int | None] = dict.fromkeys(_batch_names(dimensions), batch)
    for each in dimensions:
        for key in keys_of(each):
            if key in bind:
                found[each.name] = bind[key]
    return found


def _batch_names(dimensions: Iterable[SymbolicDimension]) -> list[str]:
    """The names of dimensions that are only ever in front; 2*N is not set but follows from N."""
    axes: dict[str, set[int]] = {}
    ranks: dict[str, int] = {}
    for each in dimensions:
        if _is_expression(each):
            continue
        axes.setdefault(each.name, set()).add(each.axis)
        ranks[each.name] = max(ranks.get(each.name, 0), each.rank)
    return [
        name
        for name in axes
        if axes[name] == {0}
        and (ranks[name] > 1 or (name and "batch" in name.lower()))
        and not any(word in name.lower() for word in _NOT_BATCH)
    ]


def _is_expression(dimension: SymbolicDimension) -> bool:
    """Whether a size is computed from others, as in 2*N and N - 1; batch-size is a name."""
    place, name = keys_of(dimension)
    return name != place and _COMPUTED.search(name) is not None


def _check(
    load: Loading, dimensions: Sequence[SymbolicDimension], sizes: Sizes, bind: Mapping[str, int]
) -> None:
    """Refuse a dimension that `bind` and the batch both set, and one that is given different sizes."""
    names = {each.name for each in dimensions}
    batch_names = {"batch"} if "batch" in names else set(_batch_names(dimensions))
    given: dict[str, dict[str, int]] = {}
    for each in dimensions:
        keys = [key for key in keys_of(each) if key in bind]
        where = f"{load.prefix}{{}} dimension {each.name} ({each.input} axis {each.axis}){{}}; give one"
        if keys and "batch" in sizes and each.name in batch_names:
            raise LoadError(where.format("batch and bind both set", ""))
        settings = given.setdefault(each.name, {})
        settings |= {f"{key} = {sizes[key]} in shapes": sizes[key] for key in keys_of(each) if key in sizes}
        settings |= {f"{key} = {bind[key]} in bind": bind[key] for key in keys}
        if keys and len(set(settings.values())) > 1:
            raise LoadError(where.format("different sizes for", f": {', '.join(settings)}"))


def _advised(load: Loading, error: LoadError) -> LoadError:
    """The error with what a spec says, in the place of options that a sweep does not have."""
    if not isinstance(error, UnboundDimension) or not error.dimensions:
        return error
    dimensions = error.dimensions
    bind = ", ".join(f"{toml_key(name)} = 128" for name in error.names)
    whole = ", ".join(f'{toml_key(each.input)} = "1x3x224x224"' for each in dimensions if not each.name)
    advice = [f"bind = {{ {bind} }}"] * bool(bind) + [f"shapes = {{ {whole} }}"] * bool(whole)
    text = f"dimensions without a size: {error.places}. Set them in the spec, as in {' and '.join(advice)}"
    return UnboundDimension(f"{load.prefix}{text}", dimensions)
