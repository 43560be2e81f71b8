"""Modules with free dimensions: run once on sizes that have names, or point by point where that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError
from sizeup.formats.torch.eager import attempt, home_of, summary, unwrapped
from sizeup.formats.torch.indexing import PlainIndexing
from sizeup.formats.torch.inputs import Arguments, leaf_test, named_values, plain_shape, retyped
from sizeup.formats.torch.symbolic import NamedSizes, any_kernel
from sizeup.graph import Condition, FreeGraph, Graph, Piece, size

Place: TypeAlias = tuple[int | str, int]  # an input, by its number or its name, and one of its axes
# Places by name; names alone, which then have their usual places; or True for all usual ones.
Free: TypeAlias = Mapping[str, Place | Sequence[Place]] | Sequence[str] | bool

# At a size of 1 much is decided otherwise (what is broadcast, what is contiguous): no good example.
_FIRST_EXAMPLE = 2
_LONGEST = 20.0  # CPU seconds, to look for closed forms of one model


def record_free(
    module: torch.nn.Module,
    given: Arguments,
    free: Free,
    mode: FakeTensorMode,
    name: str,
    load: Callable[[Arguments], Graph],
) -> FreeGraph:
    """The graphs of a module whose inputs have free dimensions; `load` reads it at sizes."""
    inputs = FreeInputs(unwrapped(module), given, free)
    example = {each: max(value, _FIRST_EXAMPLE) for each, value in inputs.sizes.items()}
    return FreeGraph(tuple(inputs.sizes), example, _Reader(inputs, mode, name, load).read)


class _Reader:
    """Reads a module around an example: with all its dimensions free, or as many as it can be run with."""

    def __init__(
        self, inputs: FreeInputs, mode: FakeTensorMode, name: str, load: Callable[[Arguments], Graph]
    ) -> None:
        self._inputs, self._mode, self._name, self._load = inputs, mode, name, load
        self._free = tuple(inputs.sizes)  # those that no reading has failed with
        self._reasons: dict[str, str] = {}  # why the others have to have values

    def read(self, example: Mapping[str, int]) -> Piece:
        found = self._closed(example, self._free)
        if isinstance(found, Piece):
            return found
        names = self._free
        self._free = ()
        for each in names:
            one_more = self._closed(example, (*self._free, each))
            if isinstance(one_more, Piece):
                self._free, found = (*self._free, each), one_more
            else:
                self._reasons[each] = one_more
        if not isinstance(found, Piece):
            return self._point(example)
        return replace(found, origins={**found.origins, **self._fixed(example, self._free)})

    def _closed(self, example: Mapping[str, int], names: tuple[str, ...]) -> Piece | str:
        """The piece around an example with these dimensions free, or why there is none."""
        if not names:
            return self._point(example)
        # Of models that decide much by their sizes, expressions grow without end.
        seconds = _LONGEST if names == tuple(example) else _LONGEST / 4
        sizes = self._mode.shape_env = NamedSizes({name: example[name] for name in names}, seconds)
        fixed = self._fixed(example, names)
        try:
            given = self._inputs.symbolic(self._mode, {**example, **sizes.by_name})
            with any_kernel(), _uncached(self._mode), PlainIndexing():
                graph = attempt(self._inputs.module, given, self._name, self._mode, inference=True)
            asked = sizes.conditions()
        # A model's code may take offence at a size without a value in any way it likes.
        except Exception as error:
            return f"{sizes.where} needs a size that has a value: {summary(error)}"
        return Piece(graph, example, {**fixed, **asked})

    def _point(self, example: Mapping[str, int]) -> Piece:
        self._mode.shape_env = ShapeEnv()
        fixed = self._fixed(example, ())
        reason = "; ".join(dict.fromkeys(fixed.values()))
        return Piece(self._load(self._inputs.at(example)), example, fixed, reason)

    def _fixed(self, example: Mapping[str, int], names: tuple[str, ...]) -> dict[Condition, str]:
        others = [name for name in example if name not in names]
        return {Condition("==", size(name) - example[name]): self._reasons.get(name, "") for name in others}


def _placed(free: Free, leaves: list[tuple[str, Any]]) -> Mapping[str, Place | Sequence[Place]]:
    """Names with their places: those given, or the usual ones."""
    if isinstance(free, Mapping):
        return free
    usual = _usual_places(leaves)
    names = list(usual) if isinstance(free, bool) else list(free)
    for name in names:
        if name not in usual:
            known = ", ".join(usual) or "none"
            raise LoadError(f"{name}: say where it is, as (input, axis); names with a usual place: {known}")
    return {name: usual[name] for name in names}


def _usual_places(leaves: list[tuple[str, Any]]) -> dict[str, list[Place]]:
    """Batches come first; pictures end in height and width, and sequences have their length second."""
    found: dict[str, list[Place]] = {}
    for index, (_, value) in enumerate(leaves):
        shape = plain_shape(value)
        axes = {"batch": 0, "height": -2, "width": -1} if len(shape) > 3 else {"batch": 0, "seq": 1}
        for name, axis in axes.items():
            places = found.setdefault(name, [])
            if len(shape) > axis and (not places or shape[axis] == _size_at(leaves, places[0])):
                places.append((index, axis))
    return {name: places for name, places in found.items() if places}


def _size_at(leaves: list[tuple[str, Any]], place: Place) -> int:
    return plain_shape(leaves[int(place[0])][1])[place[1]]


@contextmanager
def _uncached(mode: FakeTensorMode) -> Iterator[None]:
    """Torch's memory of earlier calls asks for more of the sizes than the calls themselves."""
    before = mode.cache_enabled
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = before


class FreeInputs:
    """The arguments of a module, and which axes of which of them have which name."""

    def __init__(self, module: torch.nn.Module, given: Arguments, free: Free) -> None:
        self.module = module
        self._given = given
        self._is_leaf = leaf_test(given)
        self._home = home_of(module)
        leaves = list(named_values(module.forward, given, self._is_leaf))
        self._names: dict[int, dict[int, str]] = {}  # by the place among the leaves, then by axis
        self.sizes: dict[str, int] = {}
        for name, places in _placed(free, leaves).items():
            for place in places if isinstance(places, list) else [places]:
                self._take(name, place, leaves)

    def _take(self, name: str, place: Any, leaves: list[tuple[str, Any]]) -> None:
        if not (isinstance(place, tuple) and len(place) == 2 and type(place[1]) is int):
            raise LoadError(f"{name}: a free dimension is given as (input, axis), not {place!r}")
        wanted, axis = place
        labels = [label for label, _ in leaves]
        if wanted in labels:
            index = labels.index(wanted)
        elif type(wanted) is int and 0 <= wanted < len(leaves):
            index = wanted
        else:
            raise LoadError(f"{name}: the model has no input {wanted!r}; it has {', '.join(labels)}")
        shape = plain_shape(leaves[index][1])
        if not -len(shape) <= axis < len(shape):
            raise LoadError(f"{name}: input {labels[index]} has {len(shape)} axes, so no axis {axis}")
        axis %= len(shape)
        if self.sizes.setdefault(name, shape[axis]) != shape[axis]:
            raise LoadError(
                f"{name} is {self.sizes[name]} at one place and {shape[axis]} at axis {axis} of"
                f" {labels[index]}; one name has one size"
            )
        self._names.setdefault(index, {})[axis] = name

    def at(self, sizes: Mapping[str, int]) -> Arguments:
        """The arguments with these sizes, given in the same way."""

        def resized(value: Any, shape: list[Any]) -> Any:
            if isinstance(value, torch.Tensor):
                return torch.zeros(shape, dtype=value.dtype, device=value.device)
            return retyped(value, tuple(shape))

        return self._replaced(resized, sizes)

    def symbolic(self, mode: FakeTensorMode, sizes: Mapping[str, Any]) -> Arguments:
        """The arguments as tensors without content, whose free dimensions may be torch's symbols."""
        device, dtype = self._home

        def made(value: Any, shape: list[Any]) -> Any:
            kind, place = dtype, device
            if isinstance(value, torch.Tensor):
                kind, place = value.dtype, value.device if device.type != "meta" else device
            elif isinstance(value[1], str):
                kind = getattr(torch, value[1], dtype)
            with mode:
                return torch.empty(shape, dtype=kind, device=place)

        return self._replaced(made, sizes)

    def _replaced(self, made: Callable[[Any, list[Any]], Any], sizes: Mapping[str, Any]) -> Arguments:
        leaves, tree = pytree.tree_flatten(self._given, is_leaf=self._is_leaf)
        place = 0
        for index, value in enumerate(leaves):
            if not (isinstance(value, torch.Tensor) or self._is_leaf(value)):
                continue
            names = self._names.get(place)
            place += 1
            if names:
                shape = list(plain_shape(value))
                for axis, name in names.items():
                    shape[axis] = sizes[name]
                leaves[index] = made(value, shape)
        args, kwargs = pytree.tree_unflatten(leaves, tree)
        return tuple(args), dict(kwargs)
