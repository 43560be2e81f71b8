"""One model at many sizes: closed forms where it has them, otherwise read anew for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sizeup import formats
from sizeup.errors import LoadError, SizeupError, SymbolicDimension, UnboundDimension
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

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
