"""Modules and programs with free dimensions: which of their dimensions have which name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError
from sizeup.formats.torch.eager import attempt, fake_mode, home_of, unwrapped
from sizeup.formats.torch.exported import Program, Symbol, free_symbols, record_program
from sizeup.formats.torch.inputs import Arguments, leaf_test, named_values, plain_shape, retyped
from sizeup.formats.torch.reader import FIRST_EXAMPLE, Reader
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

Place: TypeAlias = tuple[int | str, int]  # an input, by its number or its name, and one of its axes
# Places by name; names alone, which then have their usual places; or True for all usual ones.
Free: TypeAlias = Mapping[str, Place | Sequence[Place]] | Sequence[str] | bool


def record_free(
    module: torch.nn.Module,
    given: Arguments,
    free: Free,
    mode: FakeTensorMode,
    name: str,
    load: Callable[[Arguments], Graph],
) -> FreeGraph:
    """The graphs of a module whose inputs have free dimensions; `load` reads it at sizes."""
    module = unwrapped(module)
    inputs = FreeInputs(module, given, free)

    def trace(sizes: Mapping[str, Any]) -> Graph:
        return attempt(module, inputs.symbolic(mode, sizes), name, mode, inference=True)

    reader = Reader(tuple(inputs.sizes), mode, trace, lambda sizes: load(inputs.at(sizes)))
    example = {each: max(value, FIRST_EXAMPLE) for each, value in inputs.sizes.items()}
    return FreeGraph(tuple(inputs.sizes), example, reader.read)


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


class FreeInputs:
    """The arguments of a module, and which axes of which of them have which name."""

    def __init__(self, module: torch.nn.Module, given: Arguments, free: Free) -> None:
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


def record_free_program(
    program: Program,
    free: Free,
    *,
    inputs: Any = None,
    bind: Mapping[str, int] | None = None,
    name: str = "",
) -> FreeGraph:
    """The graphs of an exported program whose dimensions of these names are free; `bind` sizes the others."""
    symbols = free_symbols(program)
    chosen = _chosen_symbols(free, symbols, bind or {})
    mode = fake_mode()

    example = {each: max(symbols[symbol].example, FIRST_EXAMPLE) for each, symbol in chosen.items()}

    def load(sizes: Mapping[str, int]) -> Graph:
        by_symbol = {symbol: sizes[each] for each, symbol in chosen.items()}
        return record_program(program, inputs=inputs, bind={**(bind or {}), **by_symbol}, name=name)

    def trace(sizes: Mapping[str, Any]) -> Graph:
        named = {symbol: sizes[each] for each, symbol in chosen.items()}
        by_symbol = {symbol: example[each] for each, symbol in chosen.items()}
        return record_program(
            program, inputs=inputs, bind={**(bind or {}), **by_symbol}, name=name, mode=mode, named=named
        )

    reader = Reader(tuple(chosen), mode, trace, load)
    return FreeGraph(tuple(chosen), example, reader.read)


def _chosen_symbols(free: Free, symbols: Mapping[str, Symbol], bound: Mapping[str, int]) -> dict[str, str]:
    """The program's own symbol behind each name: the name of one, or that at a place."""
    if isinstance(free, bool):
        return {each: each for each in symbols if each not in bound}
    wanted = free if isinstance(free, Mapping) else {each: each for each in free}
    chosen = {}
    for name, place in wanted.items():
        places = place if isinstance(place, list) else [place]
        found = {each for each, symbol in symbols.items() for one in places if one in (each, *symbol.places)}
        if len(found) != 1:
            known = ", ".join(f"{each} at {symbol.places[0]}" for each, symbol in symbols.items()) or "none"
            raise LoadError(f"{name}: not one free dimension of the program; it has: {known}")
        chosen[name] = found.pop()
    return chosen
